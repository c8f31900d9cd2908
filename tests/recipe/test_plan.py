"""What a training takes, against counts by hand and against real trainings."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.networks import on_meta
from tests.helpers.tiny import tiny_recipe
from vadd.data import ArrayData, FolderData
from vadd.errors import UserError
from vadd.kinds import kind_of
from vadd.recipe import MODELS, Recipe, build_dataset, load_recipe, recipe_for, recipe_names
from vadd.recipe.counting import Memory, checkpoint_bytes, count_parameters, training_memory
from vadd.recipe.plan import make_plan, measured_rate
from vadd.run.directory import RunDirectory


@pytest.mark.parametrize("model", ["mdlm", "vadd"])
@pytest.mark.parametrize("name", ["checkerboard-paper", "mnist", "openwebtext"])
def test_networks_are_counted_without_being_allocated(name: str, model: str) -> None:
    built = on_meta(load_recipe(name).with_overrides([f"model={model}"]))
    assert all(parameter.is_meta for parameter in built.parameters())
    counted, sizes = count_parameters(built), {key: parameter.numel() for key, parameter in built.named_parameters()}
    assert counted.trained == sum(sizes.values()) == counted.denoiser + counted.recognition
    assert counted.denoiser == sum(size for key, size in sizes.items() if key.startswith("denoiser."))
    assert (counted.recognition == 0) == (model == "mdlm")


@pytest.mark.parametrize("name", recipe_names())
def test_every_preset_tells_the_shape_of_its_examples_without_the_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADD_DATA", str(tmp_path))
    format = load_recipe(name).data.example_kind()
    assert min(format.shape) >= 1
    assert format.vocab_size >= 2


FEWER_BLOCKS = {"mnist": ["network.blocks=1"], "lm1b": ["network.blocks=1"], "text8": ["network.blocks=1"]}


@pytest.mark.parametrize("model", ["vadd", "mdlm"])
@pytest.mark.parametrize("name", ["checkerboard", "copies", "digits", "pydocs", "text8-small", *FEWER_BLOCKS])
def test_every_kind_of_preset_can_be_planned_without_its_data(name: str, model: str) -> None:
    """All data, networks, latents and ways to draw masks that presets have."""
    recipe = load_recipe(name).with_overrides([f"model={model}", "training.batch=8", *FEWER_BLOCKS.get(name, [])])
    plan = make_plan(recipe, rate=1e9)
    assert plan.flops_per_step > 3 * plan.flops_per_sample > 0
    assert plan.memory[0].activations > 0


@pytest.mark.parametrize("model", [name for name in MODELS if name != "edlm"])
def test_every_model_can_be_planned(model: str) -> None:
    plan = make_plan(load_recipe("digits").with_overrides([f"model={model}", "training.batch=8"]), rate=1e9)
    assert plan.flops_per_step > 3 * plan.flops_per_sample > 0


def test_padded_text_and_tables_with_unknown_cells_can_be_planned() -> None:
    text = make_plan(load_recipe("text8-small"), rate=1e9, kind=kind_of((16,), 27, pad=3))
    assert (
        text.flops_per_step == make_plan(load_recipe("text8-small"), rate=1e9, kind=kind_of((16,), 27)).flops_per_step
    )
    table = load_recipe("table").with_overrides(["training.batch=8"])
    assert make_plan(table, rate=1e9, kind=kind_of((3,), 5, unknowns=True)).flops_per_step > 0


@pytest.mark.parametrize("overrides", [("data.vocab_size=7",), ("data.vocab_size=100", "data.name=circles")])
def test_the_shape_of_toys_is_that_of_the_data(overrides: tuple[str, ...]) -> None:
    recipe = tiny_recipe(*overrides)
    data = build_dataset(recipe)
    assert recipe.data.example_kind() == data.kind


def test_the_shape_of_other_data_is_that_of_the_data(tmp_path: Path, codes_file: Path) -> None:
    digits = load_recipe("digits").with_overrides(["data.levels=5"])
    copies = load_recipe("copies").with_overrides(["data.train_size=50", "data.test_size=10"])
    codes = recipe_for(codes_file)
    for recipe in (digits, copies, codes, codes.model_copy(update={"data": ArrayData(path=str(codes_file))})):
        data = build_dataset(recipe)
        assert recipe.data.example_kind() == data.kind
    folder = digits.model_copy(update={"data": FolderData(path=str(tmp_path), size=16, channels=1, levels=9)})
    assert folder.data.example_kind() == kind_of((16, 16, 1), 9)


def test_an_array_that_is_not_there_cannot_be_planned_for(tmp_path: Path) -> None:
    recipe = Recipe(name="mine", data=ArrayData(path=str(tmp_path / "gone.npy"), vocab_size=4))
    with pytest.raises(UserError, match=r"without the data the shape of the examples is unknown: there is no file"):
        make_plan(recipe)


def test_memory_is_sixteen_bytes_per_weight_and_four_for_the_average() -> None:
    model = on_meta(tiny_recipe())
    weights = sum(parameter.numel() for parameter in model.parameters())
    one = training_memory(model, 1000, 1, "one device", "float32")
    assert one.total == 20 * weights + 1000
    half = training_memory(model, 1000, 1, "one device", "bfloat16")
    assert half.total == 20 * weights + 2 * weights + 500
    ddp = training_memory(model, 1000, 4, "DDP", "float32")
    assert ddp == Memory("DDP", "float32", 4 * weights, 4 * weights, 8 * weights, 4 * weights, 0, 0, 1000)


def test_full_sharding_divides_the_state_and_gathers_blocks() -> None:
    recipe = load_recipe("digits")
    model = on_meta(recipe)
    weights = sum(parameter.numel() for parameter in model.parameters())
    blocks = [
        sum(parameter.numel() for parameter in block.parameters())
        for network in (model.denoiser, model.latent.recognizer)
        for block in network.blocks  # type: ignore[union-attr]
    ]
    sharded = training_memory(model, 0, 4, "full sharding", "float32")
    assert (sharded.weights, sharded.moments) == (weights, 2 * weights)
    assert sharded.gathered == 4 * (2 * (weights - sum(blocks)) + 3 * max(blocks))


def test_devices_and_parts_divide_the_activations_but_not_the_arithmetic() -> None:
    one = make_plan(tiny_recipe("training.batch=4096"), rate=1e9)
    two = make_plan(tiny_recipe("training.batch=4096", "training.accumulate=4"), devices=2, rate=1e9)
    assert [memory.layout for memory in one.memory] == ["one device"] * 2
    assert [memory.layout for memory in two.memory] == ["DDP", "DDP", "full sharding", "full sharding"]
    # In parts there is a gradient twice for a moment: what is added, and what it is added to.
    assert two.memory[0].activations == pytest.approx(one.memory[0].activations / 8, rel=0.02)
    assert two.flops_per_step == one.flops_per_step
    assert one.hours is not None
    assert two.hours == pytest.approx(one.hours / 2, rel=1e-12)
    assert one.hours == pytest.approx(one.flops_per_step * 30 / 1e9 / 3600, rel=1e-12)


@pytest.mark.parametrize("model", ["vadd", "mdlm"])
def test_checkpoints_are_as_large_as_planned(vadd_run: Path, mdlm_run: Path, model: str) -> None:
    checkpoint = RunDirectory(vadd_run if model == "vadd" else mdlm_run).checkpoints()[-1]
    on_disk = 0
    for file in checkpoint.glob("*.safetensors"):
        content = file.read_bytes()
        on_disk += len(content) - 8 - int(np.frombuffer(content[:8], "<u8")[0])  # without the header
    assert checkpoint_bytes(on_meta(tiny_recipe(f"model={model}"))) == on_disk


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"devices": 0}, "devices must be at least 1, not 0"),
        ({"devices": 3}, "training.batch=32 must be divisible by 3 processes x training.accumulate=1 = 3"),
        ({"rate": 0.0}, "positive number of FLOP per second"),
        ({"rate": math.nan}, "positive number of FLOP per second"),
        ({"rate": math.inf}, "positive number of FLOP per second"),
    ],
)
def test_impossible_plans_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        make_plan(tiny_recipe(), **settings)


def test_the_rate_of_this_machine_is_a_positive_number() -> None:
    assert 0 < measured_rate(seconds=0.01, size=64) < math.inf
