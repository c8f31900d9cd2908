"""What somebody's own data get without being asked: sizes that fit them, and two cores."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import vadd
from tests.helpers.commands import Command
from tests.helpers.tiny import SHORT_TRAINING
from vadd.data import ArrayData, TableData, TextData
from vadd.data.image_folder import Look, look_at
from vadd.data.text.documents import items_in
from vadd.errors import UserError
from vadd.kinds import kind_of
from vadd.networks.tables import TableSettings
from vadd.recipe import Recipe, build_dataset, recipe_for
from vadd.recipe.counting import checkpoint_bytes, count_parameters, model_on_meta
from vadd.recipe.own_data import recipe_for_examples, recipe_for_folder

LARGE_CHECKPOINT = 100_000_000


def recipe_of(examples: int, shape: tuple[int, ...], vocab_size: int) -> Recipe:
    array = np.broadcast_to(np.zeros(shape, dtype=np.uint16), (examples, *shape))
    return recipe_for_examples(ArrayData(path="mine.npy"), "mine", array, vocab_size)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 100_000), st.integers(1, 3000), st.integers(2, 60_000))
def test_checkpoints_of_arrays_stay_small_unless_the_data_need_more(examples: int, positions: int, values: int) -> None:
    """Weights for the marginal of every position alone, in both of its tables, are what nothing can do without."""
    recipe = recipe_of(examples, (positions,), values)
    size = checkpoint_bytes(model_on_meta(recipe, kind_of((positions,), values)))
    needed = 16 * 2 * positions * values
    assert size <= max(LARGE_CHECKPOINT, 2 * needed)
    assert 1 <= recipe.training.batch <= examples


@pytest.mark.parametrize("change", ["latent.codes=3", "latent.kind=per-state"])
def test_another_latent_takes_the_place_of_the_shared_one_and_its_prior(change: str, codes_file: Path) -> None:
    recipe = recipe_for(codes_file)
    assert (recipe.latent.kind, recipe.latent.prior) == ("shared", "autoregressive")
    changed = recipe.with_overrides([change])
    assert (changed.latent.kind, changed.latent.prior) == ("per-state", "normal")
    with pytest.raises(UserError, match=r"needs latent\.(prior=normal|kind=shared)"):
        recipe.with_overrides([change, "latent.prior=autoregressive"])


def test_many_values_at_few_positions_share_their_numbers() -> None:
    recipe = recipe_of(2000, (4,), 50_000)
    model = model_on_meta(recipe, kind_of((4,), 50_000))
    assert recipe.network.kind == "residual"
    assert recipe.network.value_embedding is not None
    assert count_parameters(model).trained < 6_300_000
    assert checkpoint_bytes(model) < LARGE_CHECKPOINT


@pytest.mark.parametrize(("side", "channels", "levels"), [(16, 1, 8), (32, 3, 8), (32, 1, 2), (1, 1, 2)])
def test_checkpoints_of_images_stay_small(side: int, channels: int, levels: int) -> None:
    recipe = recipe_for_folder(Path("pictures"), Look(side, channels, levels, count=500))  # type: ignore[arg-type]
    assert checkpoint_bytes(model_on_meta(recipe, kind_of((side, side, channels), levels))) < LARGE_CHECKPOINT


def test_what_a_short_training_of_a_small_array_takes_is_a_fixed_amount_of_arithmetic() -> None:
    """Six FLOP for a weight and a row; the time itself depends on the machine."""
    recipe = recipe_of(5000, (8,), 7)
    weights = count_parameters(model_on_meta(recipe, kind_of((8,), 7))).trained
    training = recipe.training
    assert 6 * weights * training.steps * training.batch < 1e13


def pictures(folder: Path, *shape: int, values: int = 256, count: int = 12) -> Path:
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, values, (count, *shape)) * (255 // (values - 1))
    for number, image in enumerate(pixels.astype(np.uint8)):
        Image.fromarray(image).save(folder / f"{number}.png")
    return folder


@pytest.mark.parametrize(
    ("shape", "values", "found"),
    [
        ((16, 16), 256, Look(16, 1, 8)),
        ((16, 16), 2, Look(16, 1, 2)),
        ((40, 60), 2, Look(32, 1, 8)),
        ((20, 9, 3), 256, Look(9, 3, 8)),
        ((64, 64, 3), 256, Look(32, 3, 8)),
    ],
)
def test_small_images_stay_small_and_grey_ones_grey(
    shape: tuple[int, ...], values: int, found: Look, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = pictures(tmp_path / "mine", *shape, values=values)
    assert look_at(folder) == found
    data = build_dataset(recipe_for(folder))
    assert data.kind == kind_of((found.side, found.side, found.channels), found.levels)
    told = capsys.readouterr().err
    assert f"{found.side} x {found.side} in {'grey' if found.channels == 1 else 'colour'}" in told
    assert "data.size, data.channels and data.levels change that" in told


def test_grey_pictures_in_three_channels_are_grey(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    Image.new("RGB", (10, 12), (7, 7, 7)).save(tmp_path / "mine" / "a.png")
    assert look_at(tmp_path / "mine") == Look(10, 1, 8)


NAMES = "\n".join(["emma", "olivia", "ava", "isabella", "sophia"] * 8) + "\n"
SENTENCES = "\n".join(f"The {colour} bird sings at {hour} in the morning." for colour in "abcd" for hour in range(9))
WRAPPED = "\n".join(
    ["It was a long day and nobody had the patience to wait for the evening that", "was to come. so they went"] * 20
)
PARAGRAPHS = "\n\n".join(["A paragraph of its own."] * 30)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (NAMES, (40, 8)),
        (SENTENCES, (36, 37)),
        ("ACGT\n" * 30, (30, 4)),
        (WRAPPED, None),
        (PARAGRAPHS, None),
        ("one\ntwo\n", None),
        ("x" * 200 + "\n" + NAMES, None),
        ("a short note, " * 50, None),
    ],
    ids=["names", "sentences", "codes", "wrapped", "paragraphs", "two lines", "a long line", "one line"],
)
def test_one_item_a_line_is_told_from_running_text(text: str, found: tuple[int, int] | None, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(text)
    assert items_in(file, longest=126) == found


def test_items_are_read_one_a_sequence_which_is_said_with_how_to_change_it(
    tmp_path: Path, vadd_command: Command
) -> None:
    file = tmp_path / "names.txt"
    file.write_text(NAMES)
    done = vadd_command(
        "train", "--data", file, "--out", tmp_path / "run", *SHORT_TRAINING, "training.steps=2", "latent.prior=normal"
    )
    assert done.code == 0
    assert "40 lines, read as one item each" in done.err
    run = vadd.load(tmp_path / "run")
    assert sorted(run.texts(run.data.train) + run.texts(run.data.test)) == sorted(NAMES.split())
    changes = done.err.split("as a running text with ")[1].splitlines()[0].split()
    running = recipe_for(file).with_overrides(changes)
    assert isinstance(running.data, TextData)
    assert build_dataset(running.with_overrides(["data.length=16"])).pad is None


@pytest.mark.parametrize(("shape", "values"), [((13,), 2), ((9, 9), 9), ((128,), 512)])
def test_arrays_longer_than_a_few_positions_have_a_share_of_z_for_each(shape: tuple[int, ...], values: int) -> None:
    """Large enough to tell the values apart, with at least one component for each."""
    recipe = recipe_of(5000, shape, values)
    assert (recipe.network.kind, recipe.latent.per) == ("short-transformer", "position")
    assert recipe.latent.autoregressive.pairs
    assert recipe.network.values_of("denoiser")["pairs"]
    assert 2**recipe.latent.dim >= min(values, 256)
    assert recipe.latent.autoregressive.components >= min(values, 256)
    assert recipe_of(5000, (12,), values).network.kind == "residual"


def test_a_table_gets_bins_by_its_rows_and_loses_what_numbers_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.csv"
    for rows, bins in ((60, 50), (12_000, 120), (50_000, 200)):
        file.write_text("\n".join(["id,x", *(f"{row},{row % 7}" for row in range(rows))]))
        recipe = recipe_for(file)
        data = recipe.data
        assert isinstance(data, TableData)
        assert (data.skip, data.bins, data.draw) == (("id",), bins, "tails")
        assert isinstance(recipe.network, TableSettings)
        assert recipe.network.rank_functions > 0
        assert "id: another integer in every row, which names it: left out" in capsys.readouterr().err
    assert TableData().bins == 50, "of recipes of earlier runs"
    assert TableData().draw == "values"
