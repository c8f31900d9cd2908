"""Sections of a recipe: how masks are drawn and weighted, how a model is trained, how it is sampled."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from vadd import core
from vadd.settings import Decay, Fraction, Section

MaskDrawName = Literal["iid", "stratified", "exact-count", "steps", "levels"]
WEIGHT_POWERS = {"integral": 1.0, "root": 0.5, "even": 0.0}


class Diffusion(Section):
    noise: Literal["mask", "uniform"] = Field(
        "mask", description="what takes the place of a value: the mask, or any of the values"
    )
    schedule: Literal["linear", "cosine", "polynomial"] = "linear"
    power: PositiveFloat = Field(2.0, description="of the polynomial schedule")
    mask_draw: MaskDrawName | None = Field(
        None,
        description="the first three draw the integral over t; steps: the states of few-step samplers; levels: those "
        "of one with many steps, as D3PM; by default steps for a shared latent, else exact-count",
    )
    steps: dict[PositiveInt, PositiveFloat] = Field(
        {1: 0.3, 2: 0.2, 4: 0.15, 8: 0.15, 16: 0.1, 32: 0.1},
        description="for mask_draw=steps: numbers of steps, and how often each is trained for",
        min_length=1,
    )
    levels: PositiveInt = Field(1000, description="for mask_draw=levels: how many")
    auxiliary: float = Field(
        0.01, ge=0, description="for mask_draw=levels: weight of D3PM's cross-entropy of x0 beside the bound"
    )
    weighting: Literal["integral", "root", "even"] = Field(
        "integral",
        description="how masks count in training: by w(t) as in the paper, by its root, or all alike; of no meaning "
        "for mask_draw=steps and levels, which train on a bound as it is",
    )

    def build_schedule(self) -> core.Schedule:
        if self.schedule == "polynomial":
            return core.PolynomialSchedule(self.power)
        return core.LinearSchedule() if self.schedule == "linear" else core.CosineSchedule()

    def build_mask_draw(self, name: MaskDrawName) -> core.MaskDraw:
        """How training draws masks, and what they weigh."""
        if name == "steps":
            return core.StepTimes(tuple(self.steps.items()))
        if name == "levels":
            return core.Levels(self.levels, self.auxiliary)
        times: dict[str, type[core.MaskDraw]] = {"iid": core.IidTimes, "stratified": core.StratifiedTimes}
        draw = times.get(name, core.ExactCount)()
        return draw if self.weighting == "integral" else core.EvenWeights(draw, WEIGHT_POWERS[self.weighting])


class Training(Section):
    steps: PositiveInt = 10_000
    batch: PositiveInt = Field(256, description="examples per step, over all processes")
    accumulate: PositiveInt = Field(1, description="parts in which a process works off its share, to save memory")
    start_from: str | None = Field(
        None,
        description="begin as this model, MDLM or the same: a run, an export, or a .safetensors file of the MDLM or "
        "RADD code",
    )
    freeze: bool = Field(False, description="leave the weights that training starts from as they are")
    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: PositiveFloat = 3e-4
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    weight_decay: float = Field(0.0, ge=0)
    learning_rate_schedule: Literal["cosine", "constant"] = "cosine"
    warmup_steps: int = Field(0, ge=0, description="linear warm-up of the learning rate")
    clip: PositiveFloat | None = Field(None, description="largest norm of the gradient")
    ema: float = Field(
        0.999, ge=0, lt=1, description="decay of the averaged weights that sampling uses; 0: no averaging"
    )
    label_dropout: Fraction = Field(
        0.1, description="with data.labels: share of the examples that drop their label, so that it can be left out"
    )
    kl_weight: float = Field(
        1.0, gt=0, le=1, description="of the KL in the end; below 1 z carries more, and the learned prior must follow"
    )
    kl_warmup: Fraction = Field(0.2, description="share of the steps over which the KL weight rises from 0")
    kl_power: PositiveFloat = Field(
        1.0, description="it rises as this power of the step: 1 as in the paper; larger leaves the latent more time"
    )
    remedies: bool = Field(
        False,
        description="where z collapses, start the KL warm-up again towards a smaller weight, at most twice; recipes "
        "for own data do",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        "float32", description="of the networks' arithmetic; weights, logits and losses are float32 always"
    )
    compile: bool = Field(False, description="compile the networks with torch.compile")
    sharding: Literal["none", "full"] = Field(
        "none", description="full: divide weights and optimiser among the processes (FSDP)"
    )
    nonfinite_patience: PositiveInt = Field(
        10, description="steps in a row whose loss or gradient may be infinite or NaN; they are skipped"
    )
    log_every: PositiveInt = 50
    evaluate_every: PositiveInt = 500
    checkpoint_every: PositiveInt = 1000
    checkpoint_minutes: PositiveFloat = Field(10.0, description="save also when this long has passed")
    keep_checkpoints: PositiveInt = Field(2, description="the newest ones, besides the best")
    trackers: tuple[Literal["tensorboard", "wandb"], ...] = Field(
        ("tensorboard",), description="where metrics go besides metrics.jsonl; TensorBoard if it is installed"
    )


MOST_STEPS = 1 << 24
"""The plan of a sample takes 16 bytes for each step: 268 MB."""
MOST_CANDIDATES = 1 << 20

SamplerName = Literal[
    "ancestral",
    "parallel",
    "first-hitting",
    "left-to-right",
    "confidence",
    "margin",
    "entropy",
    "entropy-bounded",
    "remask",
    "remask-rescaled",
    "euler",
    "proposal",
]
SAMPLERS: Mapping[str, core.Sampler] = core.MaskedDiffusion.samplers
"""Those of masked models, with their default settings."""


class Sampling(Section):
    steps: int = Field(1, ge=1, le=MOST_STEPS, description="sampling steps; first-hitting takes one for each position")
    sampler: SamplerName = Field("ancestral", description="the first four draw from the model's own distribution")
    grid: Literal["uniform", "cosine"] = "uniform"
    latent_policy: Literal["resample", "fixed"] = Field(
        "resample", description="a new z at each step, as in the paper, or one z for all steps"
    )
    temperature: float = Field(
        1.0,
        ge=0,
        description="of the values given z: below 1 sharpens, 0 takes the likeliest; samples are then not exact, and "
        "bounds are those of what is drawn",
    )
    compile: bool = Field(False, description="compile the denoiser with torch.compile, for a few sizes")
    candidates: int = Field(
        32,
        ge=1,
        le=MOST_CANDIDATES,
        description="for completions with one z: latents drawn for each, of which one is kept by the likelihood of "
        "what is known",
    )
