"""From a recipe to objects: the data set, the networks, the model. The only place that knows every name.

There is one registry for each kind of thing that a recipe can name: :data:`DATASETS`, :data:`NETWORKS`,
:data:`MODEL_BUILDERS`, :data:`LATENTS`, :data:`MASK_DRAWS`, :data:`SCHEDULES` and :data:`SAMPLERS`. To add one, write
it in its package, give it a section in :mod:`vadd.recipe`, and enter it here.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn

from vadd.core import (
    Ancestral,
    Autoregressive,
    BlindLatent,
    CodedLatent,
    CosineSchedule,
    EntropyBounded,
    EvenWeights,
    ExactCount,
    FirstHitting,
    FlowPrior,
    GaussianLatent,
    IidTimes,
    LabelledLatent,
    Latent,
    LearnedEnergy,
    Levels,
    LinearSchedule,
    MaskDraw,
    MaskedDiffusion,
    NoLatent,
    Ordered,
    Parallel,
    PartlyExplained,
    PolynomialSchedule,
    Remask,
    Sampler,
    Schedule,
    ScoreEntropy,
    SharedLatent,
    StepTimes,
    StratifiedTimes,
    UniformDiffusion,
)
from vadd.data import (
    DiscreteDataset,
    ExampleFormat,
    load_array,
    load_cifar10,
    load_copies,
    load_dataset,
    load_digits,
    load_image_folder,
    load_mnist,
    load_table,
    load_text,
    load_toy,
    read_array,
)
from vadd.data.image_folder import SUFFIXES as IMAGE_SUFFIXES
from vadd.data.image_folder import look_at
from vadd.data.tables.reading import TABLE_SUFFIXES, header_of, read_table
from vadd.data.text import Tokenizer, pad_value
from vadd.data.text.documents import items_in, text_files
from vadd.errors import UserError
from vadd.networks import (
    CausalTransformer,
    CouplingFlow,
    MlpDenoiser,
    ResidualDenoiser,
    ResidualRecognizer,
    SequenceFlow,
    ShortTransformerDenoiser,
    ShortTransformerRecognizer,
    SiameseMlpRecognizer,
    SiameseUnetRecognizer,
    StateReader,
    TableDenoiser,
    TableRecognizer,
    TransformerDenoiser,
    TransformerRecognizer,
    TransformerSize,
    UnetDenoiser,
    UnetSize,
)
from vadd.progress import Progress, note, silent
from vadd.recipe import (
    ArrayData,
    Diffusion,
    FolderData,
    GivenData,
    LatentSection,
    Network,
    OwnNetwork,
    Recipe,
    Sampling,
    TableData,
    TextData,
    recipe_for_array,
    recipe_for_folder,
    recipe_for_items,
    recipe_for_table,
    recipe_for_text,
    suggestion,
)
from vadd.recipe.own_data import LONGEST_ITEM

# Data


@dataclass(frozen=True)
class DataKind:
    load: Callable[..., DiscreteDataset]
    """Section, seed, and for text tokenizer and progress -> the data set."""
    format: Callable[[Any], ExampleFormat]
    """Section -> what its examples look like; without reading them where the section says enough."""


def _load_text(data: TextData, seed: int, tokenizer: Tokenizer | None, progress: Progress) -> DiscreteDataset:
    settings = data.model_dump(exclude={"kind"})
    settings["path"] = Path(data.path) if data.path else None
    settings["tokenizer"] = tokenizer or data.tokenizer
    settings["tokenizer_path"] = Path(data.tokenizer_path) if data.tokenizer_path else None
    return load_text(**settings, seed=seed, progress=progress)


def _load_given(data: GivenData, seed: int, tokenizer: Tokenizer | None, progress: Progress) -> DiscreteDataset:
    return replace(load_dataset(Path(data.path)), tokenizer=tokenizer)


def _array_format(data: ArrayData) -> ExampleFormat:
    try:
        array, vocab_size = read_array(Path(data.path), data.vocab_size)
    except UserError as error:
        raise UserError(f"only the data can tell the shape of these examples, and {error}") from None
    return ExampleFormat(array.shape[1:], vocab_size)


def _text_format(data: TextData) -> ExampleFormat:
    # For planning only: without the specials that a training may add, and a BPE may come out smaller.
    known = {"gpt2": 50_257, "bert": 30_521, "bytes": 256, "bpe": data.vocabulary}
    if data.corpus == "text8":
        known["characters"] = 27
    if data.tokenizer in known:
        return ExampleFormat((data.length,), known[data.tokenizer])
    return _load_text(data, 0, None, silent).format


def _load_table(data: TableData, seed: int, *_: object) -> DiscreteDataset:
    settings = data.model_dump(exclude={"kind", "path", "schema_path"})
    path, schema = (None if place is None else Path(place) for place in (data.path, data.schema_path))
    return load_table(path, schema_path=schema, **settings, seed=seed)


def _settings(data: Any) -> dict[str, Any]:
    """All keys of a section but those that name its kind and its place."""
    return {name: value for name, value in data if name not in ("kind", "path", "directory", "labels")}


def _directory(data: Any) -> Path | None:
    return Path(data.directory) if data.directory else None


DIGITS = tuple(map(str, range(10)))
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def _with_labels(dataset: DiscreteDataset, data: Any, names: tuple[str, ...]) -> DiscreteDataset:
    """Its labels are shown to models where the section says so."""
    return replace(dataset, label_names=names) if data.labels else dataset


DATASETS: dict[str, DataKind] = {
    "toy": DataKind(
        lambda data, seed, *_: load_toy(**_settings(data), seed=seed),
        lambda data: ExampleFormat((2,), data.vocab_size),
    ),
    "copies": DataKind(
        lambda data, seed, *_: load_copies(**_settings(data), seed=seed),
        lambda data: ExampleFormat((data.positions,), data.vocab_size),
    ),
    "array": DataKind(lambda data, seed, *_: load_array(Path(data.path), **_settings(data), seed=seed), _array_format),
    "given": DataKind(_load_given, lambda data: load_dataset(Path(data.path)).format),
    "digits": DataKind(
        lambda data, seed, *_: _with_labels(load_digits(**_settings(data), seed=seed), data, DIGITS),
        lambda data: ExampleFormat((8, 8, 1), data.levels, labels=DIGITS if data.labels else None),
    ),
    "mnist": DataKind(
        lambda data, *_: _with_labels(load_mnist(_directory(data)), data, DIGITS),
        lambda data: ExampleFormat((32, 32, 1), 2, labels=DIGITS if data.labels else None),
    ),
    "cifar10": DataKind(
        lambda data, *_: _with_labels(load_cifar10(_directory(data), **_settings(data)), data, CIFAR10_CLASSES),
        lambda data: ExampleFormat((32, 32, 3), data.levels, labels=CIFAR10_CLASSES if data.labels else None),
    ),
    "folder": DataKind(
        lambda data, seed, *_: load_image_folder(Path(data.path), **_settings(data), seed=seed),
        lambda data: ExampleFormat((data.size, data.size, data.channels), data.levels),
    ),
    "text": DataKind(_load_text, _text_format),
    "table": DataKind(_load_table, lambda data: _load_table(data, 0).format),
}


def build_dataset(
    recipe: Recipe, *, tokenizer: Tokenizer | None = None, progress: Progress = silent
) -> DiscreteDataset:
    """The data of a recipe; text is read with ``tokenizer`` if one is given, else with the recipe's."""
    return DATASETS[recipe.data.kind].load(recipe.data, recipe.seed, tokenizer, progress)


def example_format(recipe: Recipe, tokenizer: Tokenizer | None = None) -> ExampleFormat:
    """What the examples of a recipe look like. The recipe says it, except for arrays and alphabets: there the data must
    be read. For text with a ``tokenizer`` at hand nothing else is needed.
    """
    if tokenizer is None or not isinstance(recipe.data, TextData):
        return DATASETS[recipe.data.kind].format(recipe.data)
    pad = pad_value(tokenizer) if recipe.data.wrap == "padded" else None
    return ExampleFormat((recipe.data.length,), tokenizer.vocab_size, pad)


def kind_of_data(path: Path) -> type[ArrayData] | type[FolderData] | type[TextData] | type[TableData]:
    """What somebody's own data are: a folder is one of images, unless it holds .txt files and no images; a .csv is a
    table, unless it has a column called text.
    """
    if path.is_dir():
        found = {file.suffix.lower() for file in path.rglob("*")}
        return TextData if ".txt" in found and not found & IMAGE_SUFFIXES else FolderData
    if path.suffix.lower() in TABLE_SUFFIXES and "text" not in header_of(path):
        return TableData
    return ArrayData if path.suffix in (".npy", ".npz") else TextData


def recipe_for(path: Path, *, as_text: bool = False) -> Recipe:
    """A recipe for somebody's own data, for minutes on a laptop; ``as_text`` where a .csv is known to hold text."""
    kind = TextData if as_text else kind_of_data(path)
    if kind is ArrayData:
        array, vocab_size = read_array(path)
        return recipe_for_array(path, len(array), array.shape[1:], vocab_size)
    if kind is TextData:
        return _recipe_for_text(path)
    if kind is TableData:
        table = read_table(path)
        return recipe_for_table(path, table.rows, len(table.columns))
    found = look_at(path)
    note(
        f"{path}: {found.side} x {found.side} pixels in {'grey' if found.channels == 1 else 'colour'}, {found.levels} "
        "values per channel; data.size, data.channels and data.levels change that"
    )
    return recipe_for_folder(path, found.side, found.channels, found.levels)


def _recipe_for_text(path: Path) -> Recipe:
    """Of a text with one item a line each item is a sequence."""
    files = text_files(path)
    items = items_in(path, LONGEST_ITEM) if path.is_file() else None
    if items is None:
        return recipe_for_text(path, sum(file.stat().st_size for file in files))
    count, longest = items
    running = "data.documents=file data.wrap=packed data.length=64"
    note(f"{path}: {count:,} lines, read as one item each; as a running text with {running}")
    return recipe_for_items(path, count, longest, documents="line")


# Networks


@dataclass(frozen=True)
class NetworkKind:
    denoiser: Callable[..., nn.Module]
    """Shape of an example, vocabulary size, ``latent_dim`` and the section's settings -> the network."""
    recognizer: Callable[..., nn.Module]
    rows_at_once: int
    """Examples that judging shows the network at a time; part of what the seed of a bound means."""
    causal: Callable[..., nn.Module] | None = None
    """The same as the denoiser for one that reads from left to right, where there is one."""
    takes_sizes: bool = False
    """Whether it is told how many values each position has, ``sizes``."""


def _of_sequences(network: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A network over N positions, whatever their shape was."""

    def build(shape: Sequence[int], vocab_size: int, *, latent_dim: int | None, **settings: Any) -> nn.Module:
        return network(math.prod(shape), vocab_size, latent_dim=latent_dim, **settings)

    return build


def _sized(network: Callable[..., nn.Module], size: type[Any], *others: str) -> Callable[..., nn.Module]:
    """A network whose settings, but for the ``others``, are those of a ``size``."""

    def build(first: Any, vocab_size: int, *, latent_dim: int | None, **settings: Any) -> nn.Module:
        own = {name: settings.pop(name) for name in others}
        return network(first, vocab_size, size(**settings), latent_dim=latent_dim, **own)

    return build


def _causal(*left_out: str, short: bool = False) -> Callable[..., nn.Module]:
    """A transformer of the denoiser's size, without the settings that are about latent and time."""

    def build(shape: Sequence[int], vocab_size: int, **settings: Any) -> nn.Module:
        size = TransformerSize(**{name: value for name, value in settings.items() if name not in left_out})
        return CausalTransformer(math.prod(shape), vocab_size, size, short=short)

    return build


NETWORKS: dict[str, NetworkKind] = {
    "mlp": NetworkKind(_of_sequences(MlpDenoiser), _of_sequences(SiameseMlpRecognizer), rows_at_once=8192),
    "residual": NetworkKind(_of_sequences(ResidualDenoiser), _of_sequences(ResidualRecognizer), rows_at_once=8192),
    "unet": NetworkKind(_sized(UnetDenoiser, UnetSize), _sized(SiameseUnetRecognizer, UnetSize), rows_at_once=64),
    "transformer": NetworkKind(
        _of_sequences(_sized(TransformerDenoiser, TransformerSize, "condition", "time_features")),
        _of_sequences(_sized(TransformerRecognizer, TransformerSize, "condition")),
        rows_at_once=8,
        causal=_causal("condition", "time_features"),
    ),
    "short-transformer": NetworkKind(
        _of_sequences(_sized(ShortTransformerDenoiser, TransformerSize, "latent_everywhere", "time_features")),
        _of_sequences(_sized(ShortTransformerRecognizer, TransformerSize)),
        rows_at_once=64,
        causal=_causal("latent_everywhere", "time_features", short=True),
    ),
    "table": NetworkKind(
        _of_sequences(TableDenoiser), _of_sequences(TableRecognizer), rows_at_once=8192, takes_sizes=True
    ),
}


def _given_elsewhere(*_: Any, denoiser: str, recognizer: str | None, **__: Any) -> nn.Module:
    named = denoiser if recognizer is None else f"{denoiser} and {recognizer}"
    asked = "denoiser=..." if recognizer is None else "denoiser=..., recognizer=..."
    raise UserError(f"this model has networks of somebody's own, {named}: open it in Python, vadd.load(PATH, {asked})")


NETWORKS["own"] = NetworkKind(_given_elsewhere, _given_elsewhere, rows_at_once=256)


@dataclass(frozen=True)
class OwnNetworks:
    """Modules that somebody gave instead of a section ``network``; they stay as they are, a model has copies."""

    denoiser: nn.Module
    recognizer: nn.Module | None = None

    def section(self) -> OwnNetwork:
        named = None if self.recognizer is None else type(self.recognizer).__qualname__
        return OwnNetwork(denoiser=type(self.denoiser).__qualname__, recognizer=named)

    def copies(self) -> tuple[nn.Module, nn.Module | None]:
        """Together, so that what the two share they go on sharing; in train mode, whatever theirs is."""
        denoiser, recognizer = copy.deepcopy((self.denoiser, self.recognizer))
        return denoiser.train(), None if recognizer is None else recognizer.train()


def rows_at_once(network: Network) -> int:
    """Examples that judging shows a network at a time."""
    return NETWORKS[network.kind].rows_at_once


def build_denoiser(network: Network, format: ExampleFormat, latent_dim: int | None) -> nn.Module:
    settings = network.denoiser_settings() | _sizes(network, format)
    return NETWORKS[network.kind].denoiser(format.shape, format.vocab_size, latent_dim=latent_dim, **settings)


def build_recognizer(network: Network, format: ExampleFormat, latent_dim: int) -> nn.Module:
    settings = network.recognizer_settings() | _sizes(network, format)
    return NETWORKS[network.kind].recognizer(format.shape, format.vocab_size, latent_dim=latent_dim, **settings)


def _sizes(network: Network, format: ExampleFormat) -> dict[str, Any]:
    return {"sizes": format.sizes} if NETWORKS[network.kind].takes_sizes else {}


# Models

KERNELS: dict[str, type[MaskedDiffusion]] = {"mask": MaskedDiffusion, "uniform": UniformDiffusion}
"""What noise does to a value."""


def build_model(recipe: Recipe, format: ExampleFormat, own: OwnNetworks | None = None) -> MaskedDiffusion:
    """The untrained model for examples of this ``format``, initialised from the recipe's seed without touching the
    global generator. It does not score the pad of the format. Networks of one's ``own`` come as they are.
    """
    if own is not None:
        return _of_own_networks(recipe, format, own)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        _check_sizes(recipe, format)
        return MODEL_BUILDERS[recipe.model](recipe, format)


def _check_sizes(recipe: Recipe, format: ExampleFormat) -> None:
    """Only models that mask know positions of different sizes: other noise would show values that are not there."""
    masks = MODEL_BUILDERS[recipe.model] in (_with_latent, _without_latent) and recipe.diffusion.noise == "mask"
    if (format.sizes is not None or format.unknowns) and not masks:
        raise UserError(f"model={recipe.model} does not go with tables, whose columns have different numbers of values")
    if format.labels is not None and not masks:
        raise UserError(f"model={recipe.model} does not go with data.labels=true")


def _about(format: ExampleFormat) -> dict[str, Any]:
    """What a model must know of its examples beside their shape."""
    return {"pad": format.pad, "sizes": format.sizes, "unknowns": format.unknowns}


def _with_latent(recipe: Recipe, format: ExampleFormat) -> MaskedDiffusion:
    section, shape = recipe.latent, format.shape
    # First the denoiser, then the recognition model: the order is part of what a seed means.
    denoiser = build_denoiser(recipe.network, format, section.width(shape) + len(format.labels or ()))
    dim = section.size(shape)
    recognizer = build_recognizer(recipe.network, format, dim) if dim else None
    latent = build_latent(recipe, format, recognizer)
    latent = _labelled(latent, recipe, format)
    return KERNELS[recipe.diffusion.noise](denoiser, build_schedule(recipe.diffusion), latent, **_about(format))


def _labelled(latent: Latent, recipe: Recipe, format: ExampleFormat) -> Latent:
    """With the labels of the format beside it, where there are any."""
    if format.labels is None:
        return latent
    return LabelledLatent(len(format.labels), latent, recipe.training.label_dropout)


def _of_own_networks(recipe: Recipe, format: ExampleFormat, own: OwnNetworks) -> MaskedDiffusion:
    denoiser, recognizer = own.copies()
    latent = build_latent(recipe, format, recognizer) if recipe.has_latent else None
    return KERNELS[recipe.diffusion.noise](denoiser, build_schedule(recipe.diffusion), latent, **_about(format))


def _without_latent(recipe: Recipe, format: ExampleFormat) -> MaskedDiffusion:
    denoiser = build_denoiser(recipe.network, format, len(format.labels) if format.labels else None)
    latent = _labelled(NoLatent(), recipe, format)
    return KERNELS[recipe.diffusion.noise](denoiser, build_schedule(recipe.diffusion), latent, **_about(format))


def _scores(recipe: Recipe, format: ExampleFormat) -> MaskedDiffusion:
    denoiser = build_denoiser(recipe.network, format, None)
    if isinstance(denoiser, ResidualDenoiser):
        denoiser.differences_only = False
    return ScoreEntropy(denoiser, build_schedule(recipe.diffusion), pad=format.pad)


def _energy(recipe: Recipe, format: ExampleFormat) -> MaskedDiffusion:
    """The energy is a network like the recognition model: it reads x0 and xt, and writes one number."""
    denoiser = build_denoiser(recipe.network, format, None)
    numbers = format.positions if recipe.network.kind == "short-transformer" else 1
    energy = build_recognizer(recipe.network, format, numbers)
    return LearnedEnergy(denoiser, build_schedule(recipe.diffusion), energy, format.pad)


def _autoregressive(recipe: Recipe, format: ExampleFormat) -> MaskedDiffusion:
    build = NETWORKS[recipe.network.kind].causal
    if build is None:
        raise UserError(f"network.kind={recipe.network.kind} has no form that reads from left to right")
    network = build(format.shape, format.vocab_size, **recipe.network.denoiser_settings())
    return Autoregressive(network, build_schedule(recipe.diffusion), pad=format.pad)


MODEL_BUILDERS: dict[str, Callable[[Recipe, ExampleFormat], MaskedDiffusion]] = {
    "vadd": _with_latent,
    "mdlm": _without_latent,
    "md4": _without_latent,
    "radd": _without_latent,
    "d3pm": _without_latent,
    "sedd": _scores,
    "edlm": _energy,
    "udlm": _without_latent,
    "vadd-uniform": _with_latent,
    "ar": _autoregressive,
}


# Latents

LATENTS: dict[str, Callable[[LatentSection, nn.Module, int, int], Latent]] = {
    "per-state": lambda section, recognizer, dim, vocab_size: GaussianLatent(
        recognizer, dim, section.particles, heard_from=section.heard_from
    ),
    "blind": lambda section, recognizer, dim, vocab_size: BlindLatent(recognizer, dim, vocab_size, section.particles),
    "shared": lambda section, recognizer, dim, vocab_size: SharedLatent(recognizer, dim, vocab_size),
}


def build_latent(recipe: Recipe, format: ExampleFormat, recognizer: nn.Module | None) -> Latent:
    """What the section ``latent`` describes; a latent of codes alone has no recognition model."""
    section = recipe.latent
    latent: Latent = NoLatent()
    if recognizer is not None:
        latent = LATENTS[section.kind](section, recognizer, section.size(format.shape), format.vocab_size)
    return CodedLatent(section.codes, latent) if section.codes else latent


def build_prior(recipe: Recipe, format: ExampleFormat, *, informed: bool) -> FlowPrior:
    """An untrained flow over z; ``informed`` gives it a reader of states, a network like the recognition model."""
    section, settings, dim = recipe.latent, recipe.latent.flow, recipe.latent.size(format.shape)
    if informed and isinstance(recipe.network, OwnNetwork):
        raise UserError(
            "an informed prior reads states by a network of the recipe, which is not for networks of one's own"
        )
    size = {"transforms": settings.transforms, "width": settings.width}

    def reader(numbers: int, share: int | None = None) -> StateReader | None:
        """It writes two contexts' worth of ``numbers``, as a recognition model writes means and log-stds."""
        if not informed:
            return None
        return StateReader(build_recognizer(recipe.network, format, numbers), share)

    if section.per == "position":
        sequence_flow = SequenceFlow(dim // section.dim, section.dim, context=2 * section.dim * informed, **size)
        return FlowPrior(sequence_flow, reader(dim, section.dim))
    half = -(-settings.context // 2)
    flow = CouplingFlow(dim, context=2 * half * informed, components=settings.components, **size)
    return FlowPrior(flow, reader(half))


# Diffusion

SCHEDULES: dict[str, Callable[[Diffusion], Schedule]] = {
    "linear": lambda diffusion: LinearSchedule(),
    "cosine": lambda diffusion: CosineSchedule(),
    "polynomial": lambda diffusion: PolynomialSchedule(diffusion.power),
}

MASK_DRAWS: dict[str, Callable[[Diffusion], MaskDraw]] = {
    "iid": lambda diffusion: IidTimes(),
    "stratified": lambda diffusion: StratifiedTimes(),
    "exact-count": lambda diffusion: ExactCount(),
    "steps": lambda diffusion: StepTimes(tuple(diffusion.steps.items())),
    "levels": lambda diffusion: Levels(diffusion.levels, diffusion.auxiliary),
}

WEIGHT_POWERS = {"integral": 1.0, "root": 0.5, "even": 0.0}


def build_schedule(diffusion: Diffusion) -> Schedule:
    return SCHEDULES[diffusion.schedule](diffusion)


def build_mask_draw(recipe: Recipe) -> MaskDraw:
    """How training draws masks, and what they weigh."""
    diffusion = recipe.diffusion
    draw = MASK_DRAWS[diffusion.mask_draw](diffusion)
    if diffusion.weighting != "integral":
        draw = EvenWeights(draw, WEIGHT_POWERS[diffusion.weighting])
    if recipe.has_latent and diffusion.partly_explained:
        draw = PartlyExplained(draw, diffusion.partly_explained, recipe.latent.heard_from)
    return draw


# Samplers

SAMPLERS: dict[str, Sampler] = {
    "ancestral": Ancestral(),
    "parallel": Parallel(),
    "first-hitting": FirstHitting(),
    "confidence": Ordered("confidence"),
    "margin": Ordered("margin"),
    "entropy": Ordered("entropy"),
    "entropy-bounded": EntropyBounded(),
    "remask": Remask("capped"),
    "remask-rescaled": Remask("rescaled"),
}
"""Those of masked models, by the names that users know, with their default settings."""

SAMPLER_NAMES: tuple[str, ...] = get_args(Sampling.model_fields["sampler"].annotation)
"""Of all models."""


def sampler_named(name: str, model: MaskedDiffusion) -> Sampler:
    """Of those that the ``model`` has."""
    own = SAMPLERS if model.samplers is None else model.samplers
    if name not in own:
        what = "this model does not have the sampler" if name in SAMPLER_NAMES else "unknown sampler"
        raise UserError(f"{what} {name!r}{suggestion(name, own)}; choose from {', '.join(own)}")
    return own[name]
