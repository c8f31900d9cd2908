"""From a recipe to objects: the data set, the networks, the model. The only place that knows every name."""

import math
from pathlib import Path

import numpy as np
import torch

from vadd.core import (
    CosineSchedule,
    ExactCount,
    GaussianLatent,
    IidTimes,
    LinearSchedule,
    MaskDraw,
    MaskedDiffusion,
    PolynomialSchedule,
    Schedule,
    StratifiedTimes,
)
from vadd.data import DiscreteDataset, load_array, load_copies, load_toy, read_array
from vadd.networks import MlpDenoiser, SiameseMlpRecognizer
from vadd.recipe import ArrayData, CopiesData, Diffusion, GaussianLatentSpec, MlpNetwork, Recipe, ToyData, Training


def build_dataset(recipe: Recipe) -> DiscreteDataset:
    data = recipe.data
    if isinstance(data, ToyData):
        return load_toy(**data.model_dump(exclude={"kind"}), seed=recipe.seed)
    if isinstance(data, CopiesData):
        return load_copies(**data.model_dump(exclude={"kind"}), seed=recipe.seed)
    return load_array(Path(data.path), values=data.values, test_fraction=data.test_fraction, seed=recipe.seed)


def build_schedule(diffusion: Diffusion) -> Schedule:
    if diffusion.schedule == "linear":
        return LinearSchedule()
    return CosineSchedule() if diffusion.schedule == "cosine" else PolynomialSchedule(diffusion.power)


def build_mask_draw(diffusion: Diffusion) -> MaskDraw:
    draws: dict[str, MaskDraw] = {"iid": IidTimes(), "stratified": StratifiedTimes(), "exact-count": ExactCount()}
    return draws[diffusion.mask_draw]


def build_model(recipe: Recipe, positions: int, values: int) -> MaskedDiffusion:
    """The untrained model, initialised from the recipe's seed without touching the global generator."""
    network, with_latent = recipe.network, recipe.model == "vadd"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        denoiser = MlpDenoiser(
            positions,
            values,
            width=network.width,
            depth=network.depth,
            latent_dim=recipe.latent.dim if with_latent else None,
            latent_frequencies=network.latent_frequencies,
            time_features=network.time_features,
            smoothness=network.smoothness,
        )
        schedule = build_schedule(recipe.diffusion)
        if not with_latent:
            return MaskedDiffusion(denoiser, schedule)
        recognizer = SiameseMlpRecognizer(
            positions,
            values,
            latent_dim=recipe.latent.dim,
            width=network.width,
            depth=network.recognizer_depth,
            time_features=network.time_features,
            smoothness=network.smoothness,
        )
        return MaskedDiffusion(
            denoiser, schedule, GaussianLatent(recognizer, recipe.latent.dim, recipe.latent.particles)
        )


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
