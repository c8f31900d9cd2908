"""Section ``training``: steps, optimiser, precision, and what is written on the way."""

from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from vadd.settings import Decay, Fraction, Section


class Training(Section):
    steps: PositiveInt = 10_000
    batch: PositiveInt = Field(256, description="examples per step, over all processes")
    accumulate: PositiveInt = Field(1, description="parts in which a process works off its share, to save memory")
    start_from: str | None = Field(
        None,
        description="begin as this model without a latent: a run, an export, or a .safetensors file of the MDLM code",
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
    kl_warmup: Fraction = Field(0.2, description="share of the steps over which the KL weight rises from 0 to 1")
    kl_power: PositiveFloat = Field(
        1.0, description="it rises as this power of the step: 1 as in the paper; larger leaves the latent more time"
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
