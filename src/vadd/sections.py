"""The sections of a recipe: what can be said of data, networks, latent, diffusion, training and sampling."""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

Fraction = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ToyData(Section):
    """One of the two-dimensional distributions of the paper."""

    kind: Literal["toy"] = "toy"
    name: Literal["checkerboard", "swissroll", "circles"] = "checkerboard"
    values: int = Field(100, ge=2)
    train_size: PositiveInt = 100_000
    test_size: PositiveInt = 10_000


class CopiesData(Section):
    """Noisy copies of one hidden symbol; the entropy is known exactly."""

    kind: Literal["copies"] = "copies"
    positions: int = Field(6, ge=1, le=8)
    values: int = Field(4, ge=2, le=8)
    noise: Fraction = 0.1
    train_size: PositiveInt = 100_000
    test_size: PositiveInt = 10_000


class ArrayData(Section):
    """Any integer array in an .npy file, examples along the first axis."""

    kind: Literal["array"] = "array"
    path: str
    values: int | None = Field(None, ge=2, description="V; by default one more than the largest value in the file")
    test_fraction: float = Field(0.1, gt=0, lt=1)


class DigitsData(Section):
    """scikit-learn's handwritten digits, 8 x 8, part of that package."""

    kind: Literal["digits"] = "digits"
    levels: int = Field(2, ge=2, le=17)


class MnistData(Section):
    """MNIST binarised at one half and padded to 32 x 32."""

    kind: Literal["mnist"] = "mnist"
    directory: str | None = Field(
        None, description="where the four idx files lie; by default where `vadd data mnist` puts them"
    )


class Cifar10Data(Section):
    kind: Literal["cifar10"] = "cifar10"
    directory: str | None = Field(
        None, description="where the binary batches lie; by default where `vadd data cifar10` puts them"
    )
    levels: int = Field(256, ge=2, le=256, description="values per channel")


class FolderData(Section):
    """A folder of images, cropped to squares and resized."""

    kind: Literal["folder"] = "folder"
    path: str
    size: int = Field(32, ge=1, le=1024)
    channels: Literal[1, 3] = 3
    levels: int = Field(256, ge=2, le=256, description="values per channel")
    test_fraction: float = Field(0.1, gt=0, lt=1)


class TextData(Section):
    """Text in sequences of ``length`` tokens."""

    kind: Literal["text"] = "text"
    corpus: Literal[
        "files", "pydocs", "text8", "lm1b", "openwebtext", "lambada", "wikitext", "ag_news", "pubmed", "arxiv"
    ] = Field("files", description="files: your own text; pydocs: the documentation that every Python carries")
    path: str | None = Field(
        None,
        description="a text file, .jsonl, .csv, or a folder of .txt; for a named corpus a local copy of it, else it is "
        "fetched",
    )
    documents: Literal["file", "line", "paragraph"] | None = Field(
        None,
        description="what a document is in plain text; by default a file, in local copies of named corpora a line. A "
        "single file as one document is split by position",
    )
    field: str | None = Field(
        None, description="the key in .jsonl or column in .csv that holds the text; by default 'text'"
    )
    tokenizer: Literal["characters", "bytes", "bpe", "gpt2", "bert", "file"] = Field(
        "characters", description="characters and bpe are learnt from the text; file: any tokenizer.json"
    )
    tokenizer_path: str | None = Field(
        None, description="where the files of gpt2, bert or file lie; by default gpt2 and bert come from the hub"
    )
    vocabulary: PositiveInt = Field(4096, description="entries of the bpe")
    length: PositiveInt = 128
    wrap: Literal["packed", "wrapped", "padded"] = Field(
        "packed",
        description="packed: documents in a row, EOS after each; wrapped: the same, each sequence between BOS and EOS; "
        "padded: one document a sequence, filled up with pads, which are masked and seen but not scored",
    )
    test_fraction: float = Field(
        0.1, gt=0, lt=1, description="of the documents; the published corpora have splits of their own"
    )


Data = Annotated[
    ToyData | CopiesData | ArrayData | DigitsData | MnistData | Cifar10Data | FolderData | TextData,
    Field(discriminator="kind"),
]


class MlpNetwork(Section):
    """The networks of the paper's toy experiments."""

    rows_at_once: ClassVar[int] = 8192
    """Examples that judging shows the network at a time; part of what the seed of a bound means."""
    kind: Literal["mlp"] = "mlp"
    width: PositiveInt = 256
    depth: PositiveInt = 4
    recognizer_depth: PositiveInt = 4
    time_features: int = Field(
        0, ge=0, multiple_of=2, description="sinusoids of t shown to the networks; 0: they do not see t"
    )
    latent_frequencies: tuple[PositiveFloat, ...] = ()
    smoothness: float = Field(
        0.0, ge=0, description="> 0 starts neighbouring values alike, with about so many periods over the range"
    )


class ResidualNetwork(Section):
    """Residual perceptrons over whole images, for CPUs."""

    rows_at_once: ClassVar[int] = 8192
    kind: Literal["residual"] = "residual"
    width: PositiveInt = 768
    blocks: PositiveInt = 3
    recognizer_blocks: PositiveInt = 2
    dropout: Fraction = 0.0


class UnetNetwork(Section):
    """The single-resolution UNets of the paper's image experiments."""

    rows_at_once: ClassVar[int] = 64
    kind: Literal["unet"] = "unet"
    embedding: PositiveInt = Field(64, description="planes of every block")
    blocks: PositiveInt = Field(8, description="on the way down, and as many on the way up")
    groups: PositiveInt = 16
    heads: PositiveInt = 1
    pixel_embedding: PositiveInt = 32
    dropout: Fraction = 0.1
    checkpointing: bool = Field(False, description="recompute activations in the backward pass, to save memory")


class TransformerNetwork(Section):
    """The diffusion transformers of the paper's text experiments, which are of the size small."""

    rows_at_once: ClassVar[int] = 8
    kind: Literal["transformer"] = "transformer"
    size: Literal["tiny", "small", "medium"] = "small"
    width: PositiveInt | None = Field(None, description="instead of the size's")
    blocks: PositiveInt | None = Field(None, description="instead of the size's")
    heads: PositiveInt | None = Field(None, description="instead of the size's")
    recognizer_blocks: PositiveInt | None = Field(None, description="by default as many as the denoiser's")
    condition: PositiveInt = Field(128, description="width of the vector that carries the latent into the blocks")
    dropout: Fraction = 0.1
    convolution: int = Field(0, ge=0, description="odd width of a convolution beside each attention; 0: none")
    checkpointing: bool = Field(False, description="recompute activations in the backward pass, to save memory")


class ShortTransformerNetwork(Section):
    """Small transformers for CPUs, whose latent is divided among the positions: latent.per is position."""

    rows_at_once: ClassVar[int] = 64
    kind: Literal["short-transformer"] = "short-transformer"
    width: PositiveInt = 128
    blocks: PositiveInt = 3
    heads: PositiveInt = 4
    convolution: int = Field(7, ge=0, description="odd width of a convolution beside each attention; 0: none")
    dropout: Fraction = 0.0
    heard_from: Fraction = Field(
        0.0,
        description="the share of positions that must be masked for the latent to be heard; below it the model is MDLM",
    )
    recognizer_width: PositiveInt = 64
    recognizer_blocks: PositiveInt = 1


Network = Annotated[
    MlpNetwork | ResidualNetwork | UnetNetwork | TransformerNetwork | ShortTransformerNetwork,
    Field(discriminator="kind"),
]


class GaussianLatentSpec(Section):
    dim: PositiveInt = 2
    per: Literal["example", "position"] = Field(
        "example", description="whether z has dim numbers in all, as in the paper, or for each position"
    )
    particles: PositiveInt = Field(
        1, description="importance samples in the training bound; 1 is the paper's objective"
    )


class Diffusion(Section):
    schedule: Literal["linear", "cosine", "polynomial"] = "linear"
    power: PositiveFloat = Field(2.0, description="of the polynomial schedule")
    mask_draw: Literal["iid", "stratified", "exact-count"] = "exact-count"
    weighting: Literal["integral", "root", "even"] = Field(
        "integral", description="how masks count in training: by w(t) as in the paper, by its root, or all alike"
    )
    partly_explained: Fraction = Field(
        0.0,
        description="share of the training examples of which a random part of the masked values is to be explained, "
        "as in a step of the sampler, and not all; models without a latent ignore it",
    )


class Training(Section):
    steps: PositiveInt = 10_000
    batch: PositiveInt = Field(256, description="examples per step, over all processes")
    accumulate: PositiveInt = Field(1, description="parts in which a process works off its share, to save memory")
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


MAY_CHANGE_ON_RESUME = frozenset(
    f"training.{key}"
    for key in (
        "steps",
        "accumulate",
        "compile",
        "sharding",
        "nonfinite_patience",
        "log_every",
        "evaluate_every",
        "checkpoint_every",
        "checkpoint_minutes",
        "keep_checkpoints",
        "trackers",
    )
)
"""What a resumed run may do otherwise than before: its length, where it runs, and what it writes. With another length
the learning rate and the KL weight follow the schedules of that length from the resumed step on.
"""


class Sampling(Section):
    sampler: Literal[
        "ancestral",
        "parallel",
        "first-hitting",
        "confidence",
        "margin",
        "entropy",
        "entropy-bounded",
        "remask",
        "remask-rescaled",
    ] = Field("ancestral", description="the first three draw from the model's own distribution and have bounds")
    grid: Literal["uniform", "cosine"] = "uniform"
    latent_policy: Literal["resample", "fixed"] = "resample"
