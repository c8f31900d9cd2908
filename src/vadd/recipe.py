"""Recipes: everything that defines a run, typed and validated.

A recipe is a YAML file. Presets lie in ``vadd/recipes``; a recipe may extend another and state only what differs. On
the command line any key can be overridden by its dotted name, ``training.batch=512``.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from vadd.errors import UserError

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
        "padded: one document a sequence, filled up with pads that count like any token",
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
    """Examples that sampling and judging show the network at a time; part of what a seed means."""
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


Network = Annotated[MlpNetwork | ResidualNetwork | UnetNetwork | TransformerNetwork, Field(discriminator="kind")]


class GaussianLatentSpec(Section):
    dim: PositiveInt = 2
    particles: PositiveInt = Field(
        1, description="importance samples in the training bound; 1 is the paper's objective"
    )


class Diffusion(Section):
    schedule: Literal["linear", "cosine", "polynomial"] = "linear"
    power: PositiveFloat = Field(2.0, description="of the polynomial schedule")
    mask_draw: Literal["iid", "stratified", "exact-count"] = "exact-count"
    weighting: Literal["integral", "even"] = Field(
        "integral", description="how masks count in training: by w(t) as in the paper, or all alike"
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
    grid: Literal["uniform", "cosine"] = "uniform"
    latent_policy: Literal["resample", "fixed"] = "resample"


class Recipe(Section):
    name: str
    about: str = ""
    model: Literal["vadd", "mdlm"] = "vadd"
    seed: int = Field(0, ge=0, lt=2**63)
    data: Data
    network: Network = MlpNetwork()
    latent: GaussianLatentSpec = GaussianLatentSpec()
    diffusion: Diffusion = Diffusion()
    training: Training = Training()
    sampling: Sampling = Sampling()

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, width=120)

    def with_overrides(self, overrides: Iterable[str]) -> "Recipe":
        """A copy with dotted keys replaced: ``["training.batch=512", "model=mdlm"]``."""
        content = self.model_dump(mode="json")
        known = dict(flatten(content))
        for override in overrides:
            key, equals, text = override.partition("=")
            if not equals:
                raise UserError(f"{override!r} is not of the form key=value")
            if key not in known:
                raise UserError(f"unknown key {key!r}{suggestion(key, known)}")
            *sections, last = key.split(".")
            target = content
            for section in sections:
                target = target[section]
            target[last] = parse_value(text)
        return validate(content, self.name)


def recipe_names() -> list[str]:
    files = resources.files("vadd").joinpath("recipes").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load_recipe(name_or_path: str) -> Recipe:
    """A preset by name, or a recipe of the user's by path."""
    return validate(_read(name_or_path, ()), name_or_path)


def _read(name_or_path: str, seen: tuple[str, ...]) -> dict[str, Any]:
    if name_or_path in seen:
        raise UserError(f"recipe {name_or_path} extends itself")
    if name_or_path in recipe_names():
        text = resources.files("vadd").joinpath("recipes", f"{name_or_path}.yaml").read_text()
    elif Path(name_or_path).suffix in {".yaml", ".yml"}:
        try:
            text = Path(name_or_path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
            raise UserError(f"cannot read the recipe {name_or_path}: {reason}") from None
    else:
        raise UserError(
            f"unknown recipe {name_or_path!r}{suggestion(name_or_path, recipe_names())}; see `vadd recipes`"
        )
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{name_or_path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UserError(f"{name_or_path} is not a recipe: it should be a mapping of keys to values")
    content.setdefault("name", Path(name_or_path).stem)
    base = content.pop("extends", None)
    if base is None:
        return content
    if Path(str(base)).suffix:  # a file that is extended lies beside the one that extends it
        base = Path(name_or_path).parent / str(base)
    return _merge(_read(str(base), (*seen, name_or_path)), content)


def _merge(base: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        both_sections = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both_sections else value
    return merged


def validate(content: Mapping[str, Any], source: str) -> Recipe:
    switches = {key for key, annotation in _all_fields(Recipe) if annotation is bool}
    for key, value in flatten(content):
        if isinstance(value, bool) and key not in switches:  # pydantic would take true for the number 1
            raise UserError(f"{source}: {key} does not take {str(value).lower()}")
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise UserError(f"{source}: {'; '.join(_explain(e) for e in error.errors())}") from None


def _explain(error: Any) -> str:
    # pydantic puts the tag of a discriminated union into the location; it is not part of the key.
    tags = {"toy", "copies", "array", "digits", "mnist", "cifar10", "folder", "text"}
    tags |= {"mlp", "residual", "unet", "transformer"}
    key = ".".join(str(part) for part in error["loc"] if part not in tags)
    if error["type"] == "extra_forbidden":
        return f"unknown key {key!r}{suggestion(key, (name for name, _ in _all_fields(Recipe)))}"
    return (
        f"{key}: {error['msg'].lower()}, not {error['input']!r}" if error["type"] != "missing" else f"{key} is missing"
    )


def _all_fields(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key a recipe can have, with its type."""
    for name, field in section.model_fields.items():
        annotation = field.annotation
        members = getattr(annotation, "__args__", ()) or (annotation,)
        yield prefix + name, annotation
        for member in members:
            if isinstance(member, type) and issubclass(member, BaseModel):
                yield from _all_fields(member, f"{prefix}{name}.")


def flatten(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values, sections opened."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def differences(old: Recipe, new: Recipe) -> dict[str, tuple[Any, Any]]:
    """Dotted keys in which two recipes differ, with both values."""
    before, after = dict(flatten(old.model_dump(mode="json"))), dict(flatten(new.model_dump(mode="json")))
    keys = [*before, *(key for key in after if key not in before)]
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def parse_value(text: str) -> Any:
    """A value as written on the command line. YAML, except that 1e-3 is a number as everybody expects."""
    try:
        return float(text) if "e" in text.lower() else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text


def suggestion(name: str, known: Iterable[str]) -> str:
    """ ", did you mean ...?" with the nearest of the known names, or nothing."""
    candidates = list(known)
    near = difflib.get_close_matches(name, candidates, n=1, cutoff=0.5)
    near = near or [key for key in candidates if key.rsplit(".", 1)[-1] == name][:1]
    return f", did you mean {near[0]!r}?" if near else ""
