"""Recipes for somebody's own data: network, latent and length chosen by what the data are, for minutes on a laptop."""

import math
from collections.abc import Sequence
from pathlib import Path

from vadd.recipe.data import ArrayData, Data, FolderData, TableData, TextData
from vadd.recipe.latent import LatentSection
from vadd.recipe.loading import load_recipe
from vadd.recipe.network import MlpDenoiserSection, MlpNetwork, MlpRecognizerSection, ResidualNetwork
from vadd.recipe.recipe import Recipe, name_from
from vadd.recipe.training import Training

LONGEST_ITEM = 126
"""Characters; texts that are no longer are learnt one a sequence."""


def recipe_for_array(path: Path, examples: int, shape: Sequence[int], vocab_size: int) -> Recipe:
    """For ``examples`` examples of ``shape`` in the file ``path``."""
    data = ArrayData(path=str(path.resolve()), vocab_size=vocab_size)
    return recipe_for_examples(data, path.stem, examples, shape, vocab_size)


def recipe_for_examples(data: Data, name: str, examples: int, shape: Sequence[int], vocab_size: int) -> Recipe:
    """The same, wherever the data lie."""
    positions = math.prod(shape)
    width = 256 if positions * vocab_size <= 2_000 else 512
    latent = LatentSection(dim=min(64, max(2, math.ceil(math.sqrt(positions)))), particles=4)
    batch = min(256, max(1, examples // 4))
    # The head and the tables dominate for long examples: 6 FLOP per weight and example, four particles, some 3 *
    # 10^13 FLOP in all.
    weights = width * (2 * positions * vocab_size + 10 * width)
    affordable = int(3e13 / (6 * weights * batch * latent.particles))
    five_hundred_epochs = 500 * math.ceil(examples / batch)
    steps = max(200, min(10_000, affordable, five_hundred_epochs))
    return Recipe(
        name=name_from(name),
        about=f"{examples} examples of {positions} values in 0..{vocab_size - 1}",
        data=data,
        network=MlpNetwork(
            width=width,
            denoiser=MlpDenoiserSection(depth=4, latent_frequencies=(1, 2, 4) if latent.dim <= 4 else ()),
            recognizer=MlpRecognizerSection(depth=2),
        ),
        latent=latent,
        training=Training(steps=steps, batch=batch, learning_rate=1e-3, warmup_steps=min(200, steps // 10)),
    )


def recipe_for_text(path: Path, size: int) -> Recipe:
    """For ``size`` bytes of text, read as characters."""
    like = load_recipe("pydocs")
    return like.model_copy(
        update={
            "name": name_from(path.resolve().stem),
            "about": f"text, {size:,} bytes",
            # Of a short text the tenth that is held out should still make some sequences.
            "data": TextData(path=str(path.resolve()), length=max(8, min(64, size // 40))),
        }
    )


def recipe_for_items(path: Path, count: int, longest: int) -> Recipe:
    """For ``count`` texts, the ``longest`` of so many characters: short ones are learnt one a sequence, filled up."""
    size = path.stat().st_size
    like = recipe_for_text(path, size)
    if longest > LONGEST_ITEM:
        return like
    return like.model_copy(
        update={
            "about": f"{count:,} texts of at most {longest} characters, one a sequence",
            # Two more, for where a text begins and ends.
            "data": TextData(path=str(path.resolve()), length=longest + 2, wrap="padded"),
        }
    )


def recipe_for_folder(path: Path) -> Recipe:
    """For images: 32 x 32 in colour with 8 values per channel."""
    return Recipe(
        name=name_from(path.resolve().name),
        about="images of a folder",
        data=FolderData(path=str(path.resolve()), levels=8),
        network=ResidualNetwork(width=512),
        latent=LatentSection(dim=32),
        training=Training(steps=2000, batch=64, learning_rate=1e-3, warmup_steps=100, clip=1.0),
    )


def recipe_for_table(path: Path, rows: int, columns: int) -> Recipe:
    """For ``rows`` rows of ``columns`` columns: the recipe ``table``, wider and longer the more there is to learn."""
    like = load_recipe("table")
    width = 128 if rows < 1_000 else 256 if rows < 50_000 else 384
    batch = min(like.training.batch, max(1, rows // 4))
    # A small table is learnt by heart if it is read too often.
    steps = max(200, min(like.training.steps, 200 * math.ceil(rows / batch)))
    return like.model_copy(
        update={
            "name": path.resolve().stem,
            "about": f"a table of {rows:,} rows and {columns} columns",
            "data": TableData(path=str(path.resolve())),
            "network": like.network.model_copy(update={"width": width}),
            "training": like.training.model_copy(update={"batch": batch, "steps": steps}),
        }
    )
