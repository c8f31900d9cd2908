"""Sections of a recipe: how masks are drawn and weighted, how a model is trained, how it is sampled."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from vadd import core
from vadd.settings import Decay, Fraction, Section

MaskDrawName = Literal["iid", "stratified", "exact-count", "steps", "levels"]
WEIGHT_POWERS = {"integral": 1.0, "root": 0.5, "even": 0.0}


class Diffusion(Section):
    noise: Literal["mask", "uniform"] = "mask"
    """What takes the place of a value: the mask, or any of the values."""
    schedule: Literal["linear", "cosine", "polynomial"] = "linear"
    power: PositiveFloat = 2.0
    """Of the polynomial schedule."""
    mask_draw: MaskDrawName | None = None
    """The first three draw the integral over t; steps: the states of few-step samplers; levels: those of one with many
    steps, as D3PM; by default steps for a shared latent, else exact-count.
    """
    steps: dict[PositiveInt, PositiveFloat] = Field({1: 0.3, 2: 0.2, 4: 0.15, 8: 0.15, 16: 0.1, 32: 0.1}, min_length=1)
    """For mask_draw=steps: numbers of steps, and how often each is trained for."""
    levels: PositiveInt = 1000
    """For mask_draw=levels: how many."""
    auxiliary: float = Field(0.01, ge=0)
    """For mask_draw=levels: weight of D3PM's cross-entropy of x0 beside the bound."""
    weighting: Literal["integral", "root", "even"] = "integral"
    """How masks count in training: by w(t) as in the paper, by its root, or all alike; of no meaning for
    mask_draw=steps and levels, which train on a bound as it is.
    """

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
    batch: PositiveInt = 256
    """Examples per step, over all processes."""
    accumulate: PositiveInt = 1
    """Parts in which a process works off its share, to save memory."""
    start_from: str | None = None
    """Begin as this model, MDLM or the same: a run, an export, or .safetensors of the MDLM, RADD or SMDM code."""
    freeze: bool = False
    """Leave the weights that training starts from as they are."""
    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: PositiveFloat = 3e-4
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    weight_decay: float = Field(0.0, ge=0)
    learning_rate_schedule: Literal["cosine", "constant"] = "cosine"
    warmup_steps: int = Field(0, ge=0)
    """Linear warm-up of the learning rate."""
    clip: PositiveFloat | None = None
    """Largest norm of the gradient."""
    ema: float = Field(0.999, ge=0, lt=1)
    """Decay of the averaged weights that sampling uses; 0: no averaging."""
    label_dropout: Fraction = 0.1
    """With data.labels: share of the examples that drop their label, so that it can be left out."""
    kl_weight: float = Field(1.0, gt=0, le=1)
    """Of the KL in the end; below 1 z carries more, and the learned prior must follow."""
    kl_warmup: Fraction = 0.2
    """Share of the steps over which the KL weight rises from 0."""
    kl_power: PositiveFloat = 1.0
    """It rises as this power of the step: 1 as in the paper; larger leaves the latent more time."""
    remedies: bool = False
    """Where z collapses, start the KL warm-up again towards a smaller weight, at most twice; recipes for own data
    do."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the networks' arithmetic; weights, logits and losses are float32 always."""
    compile: bool = False
    """Compile the networks with torch.compile."""
    sharding: Literal["none", "full"] = "none"
    """full: divide weights and optimiser among the processes (FSDP)."""
    nonfinite_patience: PositiveInt = 10
    """Steps in a row whose loss or gradient may be infinite or NaN; they are skipped."""
    log_every: PositiveInt = 50
    evaluate_every: PositiveInt = 500
    checkpoint_every: PositiveInt = 1000
    checkpoint_minutes: PositiveFloat = 10.0
    """Save also when this long has passed."""
    keep_checkpoints: PositiveInt = 2
    """The newest ones, besides the best."""
    trackers: tuple[Literal["tensorboard", "wandb"], ...] = ("tensorboard",)
    """Where metrics go besides metrics.jsonl; TensorBoard if it is installed."""


MOST_STEPS = 1 << 24
"""The plan of a sample takes 16 bytes for each step: 268 MB."""
MOST_CANDIDATES = 1 << 20

OwnDistribution = Literal["ancestral", "parallel", "first-hitting", "left-to-right"]
LookingAhead = Literal["confidence", "margin", "entropy", "entropy-bounded"]
SamplerName = Literal[OwnDistribution, LookingAhead, "remask", "remask-rescaled", "euler", "proposal"]
SAMPLERS: Mapping[str, core.Sampler] = core.MaskedDiffusion.samplers
"""Those of masked models, with their default settings."""


class Sampling(Section):
    steps: int = Field(1, ge=1, le=MOST_STEPS)
    """The number of sampling steps; first-hitting takes one for each position."""
    sampler: SamplerName = "ancestral"
    """The first four draw from the model's own distribution."""
    grid: Literal["uniform", "cosine"] = "uniform"
    latent_policy: Literal["resample", "fixed"] = "resample"
    """resample: a new z at each step, as in the paper; fixed: one z for all steps."""
    temperature: float = Field(1.0, ge=0)
    """Of the values given z. Below 1 samples vary less, 0 takes the likeliest values. Samples are then not exact, and
    bounds hold for the distribution that is drawn from.
    """
    compile: bool = False
    """Compile the denoiser with torch.compile, for a few sizes."""
    candidates: int = Field(32, ge=1, le=MOST_CANDIDATES)
    """For completions with one z: the latents drawn for each. One is kept, by the likelihood of the known values."""
