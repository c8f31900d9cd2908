"""From a recipe to objects: the data set, the networks, the model. The only place that knows every name."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from vadd.core import (
    CosineSchedule,
    EvenWeights,
    ExactCount,
    GaussianLatent,
    IidTimes,
    LinearSchedule,
    MaskDraw,
    MaskedDiffusion,
    PartlyExplained,
    PolynomialSchedule,
    Schedule,
    StratifiedTimes,
)
from vadd.data import (
    DiscreteDataset,
    load_array,
    load_cifar10,
    load_copies,
    load_digits,
    load_image_folder,
    load_mnist,
    load_text,
    load_toy,
    read_array,
)
from vadd.data.download import Tell, silent
from vadd.data.text import Tokenizer, pad_value
from vadd.data.text.documents import text_files
from vadd.errors import UserError
from vadd.networks import (
    TRANSFORMER_SIZES,
    MlpDenoiser,
    ResidualDenoiser,
    ResidualRecognizer,
    ShortTransformerDenoiser,
    ShortTransformerRecognizer,
    SiameseMlpRecognizer,
    SiameseUnetRecognizer,
    TransformerDenoiser,
    TransformerRecognizer,
    UnetDenoiser,
)
from vadd.recipe import (
    ArrayData,
    Cifar10Data,
    CopiesData,
    Diffusion,
    DigitsData,
    FolderData,
    GaussianLatentSpec,
    MlpNetwork,
    MnistData,
    Network,
    Recipe,
    ResidualNetwork,
    ShortTransformerNetwork,
    TextData,
    ToyData,
    Training,
    TransformerNetwork,
    UnetNetwork,
    load_recipe,
)


def build_dataset(recipe: Recipe, *, tokenizer: Tokenizer | None = None, tell: Tell = silent) -> DiscreteDataset:
    """The data of a recipe; text is read with ``tokenizer`` if one is given, else with the recipe's."""
    data, seed = recipe.data, recipe.seed
    settings = data.model_dump(exclude={"kind", "path", "directory"})
    match data:
        case ToyData():
            return load_toy(**settings, seed=seed)
        case CopiesData():
            return load_copies(**settings, seed=seed)
        case ArrayData():
            return load_array(Path(data.path), **settings, seed=seed)
        case DigitsData():
            return load_digits(**settings, seed=seed)
        case MnistData():
            return load_mnist(Path(data.directory) if data.directory else None)
        case Cifar10Data():
            return load_cifar10(Path(data.directory) if data.directory else None, **settings)
        case FolderData():
            return load_image_folder(Path(data.path), **settings, seed=seed)
        case TextData():
            settings["tokenizer"] = tokenizer or data.tokenizer
            settings["tokenizer_path"] = Path(data.tokenizer_path) if data.tokenizer_path else None
            return load_text(path=Path(data.path) if data.path else None, **settings, seed=seed, tell=tell)


def build_schedule(diffusion: Diffusion) -> Schedule:
    if diffusion.schedule == "linear":
        return LinearSchedule()
    return CosineSchedule() if diffusion.schedule == "cosine" else PolynomialSchedule(diffusion.power)


def heard_from(network: Network) -> float:
    """The share of masked positions from which on the denoiser listens to the latent."""
    return network.heard_from if isinstance(network, ShortTransformerNetwork) else 0.0


def build_mask_draw(diffusion: Diffusion, *, latent: bool = False, heard_from: float = 0.0) -> MaskDraw:
    draws: dict[str, MaskDraw] = {"iid": IidTimes(), "stratified": StratifiedTimes(), "exact-count": ExactCount()}
    draw = draws[diffusion.mask_draw]
    powers = {"root": 0.5, "even": 0.0}
    if diffusion.weighting != "integral":
        draw = EvenWeights(draw, powers[diffusion.weighting])
    if not latent or not diffusion.partly_explained:
        return draw
    return PartlyExplained(draw, diffusion.partly_explained, heard_from)


def known_pad(recipe: Recipe, tokenizer: Tokenizer | None) -> int | None:
    """The value that fills up the examples of a recipe, without reading them."""
    padded = isinstance(recipe.data, TextData) and recipe.data.wrap == "padded"
    return pad_value(tokenizer) if padded and tokenizer is not None else None


def build_model(recipe: Recipe, shape: Sequence[int], values: int, pad: int | None = None) -> MaskedDiffusion:
    """The untrained model for examples of ``shape``, initialised from the recipe's seed without touching the global
    generator. The value ``pad`` it will not score.
    """
    latent_dim = latent_size(recipe.latent, shape) if recipe.model == "vadd" else None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        denoiser = build_denoiser(recipe.network, shape, values, latent_dim)
        schedule = build_schedule(recipe.diffusion)
        if latent_dim is None:
            return MaskedDiffusion(denoiser, schedule, pad=pad)
        recognizer = build_recognizer(recipe.network, shape, values, latent_dim)
        latent = GaussianLatent(recognizer, latent_dim, recipe.latent.particles)
        return MaskedDiffusion(denoiser, schedule, latent, pad)


def latent_size(latent: GaussianLatentSpec, shape: Sequence[int]) -> int:
    return latent.dim * (math.prod(shape) if latent.per == "position" else 1)


def build_denoiser(network: Network, shape: Sequence[int], values: int, latent_dim: int | None) -> nn.Module:
    settings = network.model_dump(exclude={"kind", "recognizer_depth", "recognizer_width", "recognizer_blocks"})
    match network:
        case MlpNetwork():
            return MlpDenoiser(math.prod(shape), values, latent_dim=latent_dim, **settings)
        case ResidualNetwork():
            return ResidualDenoiser(math.prod(shape), values, latent_dim=latent_dim, **settings)
        case UnetNetwork():
            return UnetDenoiser(*image_shape(shape), values, latent_dim=latent_dim, **settings)
        case TransformerNetwork():
            settings = transformer_settings(network)
            return TransformerDenoiser(math.prod(shape), values, latent_dim=latent_dim, **settings)
        case ShortTransformerNetwork():
            return ShortTransformerDenoiser(math.prod(shape), values, latent_dim=latent_dim, **settings)


def build_recognizer(network: Network, shape: Sequence[int], values: int, latent_dim: int) -> nn.Module:
    settings = network.model_dump(
        exclude={"kind", "depth", "recognizer_depth", "recognizer_blocks", "latent_frequencies"}
    )
    match network:
        case MlpNetwork():
            settings["depth"] = network.recognizer_depth
            return SiameseMlpRecognizer(math.prod(shape), values, latent_dim=latent_dim, **settings)
        case ResidualNetwork():
            settings["blocks"] = network.recognizer_blocks
            return ResidualRecognizer(math.prod(shape), values, latent_dim=latent_dim, **settings)
        case UnetNetwork():
            return SiameseUnetRecognizer(*image_shape(shape), values, latent_dim=latent_dim, **settings)
        case TransformerNetwork():
            settings = transformer_settings(network)
            settings["blocks"] = network.recognizer_blocks or settings["blocks"]
            return TransformerRecognizer(math.prod(shape), values, latent_dim=latent_dim, **settings)
        case ShortTransformerNetwork():
            settings = network.model_dump(exclude={"kind", "width", "blocks"})
            return ShortTransformerRecognizer(math.prod(shape), values, latent_dim=latent_dim, **settings)


def transformer_settings(network: TransformerNetwork) -> dict[str, Any]:
    """Those of its size, except where the recipe states its own."""
    stated = network.model_dump(exclude={"kind", "size", "recognizer_blocks"}, exclude_none=True)
    return TRANSFORMER_SIZES[network.size] | stated


def image_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise UserError(f"a UNet is for images; these examples have the shape {tuple(shape)}")
    height, width, channels = shape
    return height, width, channels


def example_shape(recipe: Recipe) -> tuple[tuple[int, ...], int]:
    """The shape of one example and V, as the recipe tells them; arrays and characters must be there to be asked."""
    data = recipe.data
    match data:
        case ToyData():
            return (2,), data.values
        case CopiesData():
            return (data.positions,), data.values
        case DigitsData():
            return (8, 8, 1), data.levels
        case MnistData():
            return (32, 32, 1), 2
        case Cifar10Data():
            return (32, 32, 3), data.levels
        case FolderData():
            return (data.size, data.size, data.channels), data.levels
        case ArrayData():
            try:
                array, values = read_array(Path(data.path), data.values)
            except UserError as error:
                raise UserError(f"only the data can tell the shape of these examples, and {error}") from None
            return array.shape[1:], values
        case TextData():
            known = {"gpt2": 50_257, "bert": 30_521, "bytes": 256, "bpe": data.vocabulary}
            if data.corpus == "text8":
                known["characters"] = 27
            if data.tokenizer in known:
                return (data.length,), known[data.tokenizer]
            return (data.length,), build_dataset(recipe).values


def recipe_for_array(path: Path, values: int | None = None) -> Recipe:
    """A recipe for somebody's own array: network, latent and length chosen by its shape, for minutes on a laptop."""
    array, known = read_array(path, values)
    examples, positions = len(array), int(np.prod(array.shape[1:]))
    width = 256 if positions * known <= 2_000 else 512
    latent = GaussianLatentSpec(dim=min(64, max(2, math.ceil(math.sqrt(positions)))), particles=4)
    batch = min(256, max(1, examples // 4))
    # The head and the tables dominate for long examples: 6 FLOP per weight and example, four particles, some 3 *
    # 10^13 FLOP in all.
    weights = width * (2 * positions * known + 10 * width)
    affordable = int(3e13 / (6 * weights * batch * latent.particles))
    five_hundred_epochs = 500 * math.ceil(examples / batch)
    steps = max(200, min(10_000, affordable, five_hundred_epochs))
    return Recipe(
        name=path.stem,
        about=f"{examples} examples of {positions} values in 0..{known - 1}",
        data=ArrayData(path=str(path.resolve()), values=known),
        network=MlpNetwork(
            width=width, depth=4, recognizer_depth=2, latent_frequencies=(1, 2, 4) if latent.dim <= 4 else ()
        ),
        latent=latent,
        training=Training(steps=steps, batch=batch, learning_rate=1e-3, warmup_steps=min(200, steps // 10)),
    )


def recipe_for_text(path: Path) -> Recipe:
    """A recipe for somebody's own text: its characters, for minutes on a laptop."""
    size = sum(file.stat().st_size for file in text_files(path))
    like = load_recipe("pydocs")
    return Recipe(
        name=path.resolve().stem,
        about=f"text, {size:,} bytes",
        # Of a short text the tenth that is held out should still make some sequences.
        data=TextData(path=str(path.resolve()), length=max(8, min(64, size // 40))),
        network=like.network,
        latent=like.latent,
        diffusion=like.diffusion,
        training=like.training,
    )


def recipe_for_folder(path: Path) -> Recipe:
    """A recipe for somebody's own images: 32 x 32 in colour with 8 values per channel, for minutes on a laptop."""
    return Recipe(
        name=path.resolve().name,
        about="images of a folder",
        data=FolderData(path=str(path.resolve()), levels=8),
        network=ResidualNetwork(width=512),
        latent=GaussianLatentSpec(dim=32),
        training=Training(steps=2000, batch=64, learning_rate=1e-3, warmup_steps=100, clip=1.0),
    )
