"""What a training takes, against counts by hand and against real trainings."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import tiny_recipe
from vadd.build import build_dataset, build_mask_draw, build_model, example_format, recipe_for
from vadd.core import MaskedBatch, MaskedDiffusion
from vadd.data import ExampleFormat
from vadd.errors import UserError
from vadd.planning.counting import model_on_meta, sampling_flops, training_cost
from vadd.planning.plan import Memory, checkpoint_bytes, count_parameters, make_plan, measured_rate, training_memory
from vadd.recipe import ArrayData, FolderData, Recipe, load_recipe, recipe_names
from vadd.runs.layout import RunDirectory


def on_meta(recipe: Recipe) -> MaskedDiffusion:
    return model_on_meta(recipe, example_format(recipe))


@pytest.mark.parametrize(
    ("name", "mdlm", "vadd"), [("mnist", 2_245_730, 2_328_162), ("cifar10", 31_561_248, 31_889_952)]
)
def test_the_papers_networks_have_the_papers_sizes_and_are_not_allocated(name: str, mdlm: int, vadd: int) -> None:
    for model, denoiser in (("mdlm", mdlm), ("vadd", vadd)):
        built = on_meta(load_recipe(name).with_overrides([f"model={model}"]))
        assert all(parameter.is_meta for parameter in built.parameters())
        counted = count_parameters(built)
        assert counted.denoiser == denoiser
        assert counted.trained == counted.denoiser + counted.recognition
        assert (counted.recognition == 0) == (model == "mdlm")


@pytest.mark.parametrize("name", recipe_names())
def test_every_preset_tells_the_shape_of_its_examples_without_the_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADD_DATA", str(tmp_path))
    format = example_format(load_recipe(name))
    assert min(format.shape) >= 1
    assert format.vocab_size >= 2


@pytest.mark.parametrize("overrides", [("data.vocab_size=7",), ("data.vocab_size=100", "data.name=circles")])
def test_the_shape_of_toys_is_that_of_the_data(overrides: tuple[str, ...]) -> None:
    recipe = tiny_recipe(*overrides)
    data = build_dataset(recipe)
    assert example_format(recipe) == data.format


def test_the_shape_of_other_data_is_that_of_the_data(tmp_path: Path, codes_file: Path) -> None:
    digits = load_recipe("digits").with_overrides(["data.levels=5"])
    copies = load_recipe("copies").with_overrides(["data.train_size=50", "data.test_size=10"])
    codes = recipe_for(codes_file)
    for recipe in (digits, copies, codes, codes.model_copy(update={"data": ArrayData(path=str(codes_file))})):
        data = build_dataset(recipe)
        assert example_format(recipe) == data.format
    folder = digits.model_copy(update={"data": FolderData(path=str(tmp_path), size=16, channels=1, levels=9)})
    assert example_format(folder) == ExampleFormat((16, 16, 1), 9)


def test_an_array_that_is_not_there_cannot_be_planned_for(tmp_path: Path) -> None:
    recipe = Recipe(name="mine", data=ArrayData(path=str(tmp_path / "gone.npy"), vocab_size=4))
    with pytest.raises(UserError, match=r"only the data can tell the shape of these examples, and there is no file"):
        make_plan(recipe)


def test_the_flops_of_a_perceptron_are_those_counted_by_hand() -> None:
    """N = 2 positions, V = 100 values, width W, D hidden layers; the token tables are looked up, not multiplied.

    A linear layer a -> b costs 2ab forward, 2ab for the gradient of its weights and 2ab for that of its input.
    """
    width, depth, values, batch = 24, 3, 100, 32
    plain = ["data.vocab_size=100", "network.denoiser.latent_frequencies=[]"]
    plain += [f"network.width={width}", f"network.denoiser.depth={depth}"]
    mdlm = tiny_recipe("model=mdlm", *plain)
    layers = depth * width * width + width * 2 * values
    assert training_cost(on_meta(mdlm), mdlm).flops == 6 * layers
    assert sampling_flops(on_meta(mdlm)) == 2 * layers
    assert make_plan(mdlm, rate=1e9).flops_per_step == 6 * layers * batch

    # The recognition model reads x0 and xt with the same layers, then averages; its token tables are looked up too.
    # With K particles the denoiser is evaluated K times; the gradient of z is needed, that of its noise is not.
    dim, particles, twin_depth = 3, 4, 2
    vadd = tiny_recipe(
        *plain, f"latent.dim={dim}", f"latent.particles={particles}", f"network.recognizer.depth={twin_depth}"
    )
    recognition = 2 * (twin_depth * width**2 + width**2) + width**2 + width * 2 * dim
    assert training_cost(on_meta(vadd), vadd).flops == 6 * (recognition + particles * (layers + dim * width))
    assert sampling_flops(on_meta(vadd)) == 2 * (layers + dim * width)


def test_the_flops_of_a_convolution_are_those_counted_by_hand() -> None:
    """Sampling with the smallest UNet on the smallest images: every 3x3 convolution is 18 FLOPs per pair of planes."""
    planes, side, values, inputs = 4, 8, 2, 6
    recipe = load_recipe("digits").with_overrides(["model=mdlm"])
    network = {"kind": "unet", "embedding": planes, "blocks": 1, "groups": 2, "pixel_embedding": inputs}
    recipe = Recipe.model_validate({**recipe.model_dump(mode="json"), "network": network})
    pixels, hidden = side * side, 4 * planes
    block = 18 * planes * planes * 2 * pixels + 2 * hidden * planes
    wide = 18 * 2 * planes * planes * pixels + 18 * planes * planes * pixels + 2 * 2 * planes * planes * pixels
    wide += 2 * hidden * planes
    attention = 2 * planes * 3 * planes * pixels + 2 * planes * planes * pixels + 2 * 2 * pixels * pixels * planes
    ends = 18 * inputs * planes * pixels + 18 * planes * values * pixels
    time = 2 * planes * hidden + 2 * hidden * hidden
    assert sampling_flops(on_meta(recipe)) == 3 * block + 2 * wide + attention + ends + time


def test_the_flops_of_a_transformer_are_those_counted_by_hand() -> None:
    """Sampling with N positions and width W: linear layers, attention over N, and what adapts the norms."""
    width, blocks, condition, dim = 16, 2, 6, 3
    network = {"kind": "transformer", "width": width, "blocks": blocks, "heads": 2, "condition": condition}
    mdlm = tiny_recipe("model=mdlm", f"latent.dim={dim}").model_dump(mode="json") | {"network": network}
    recipe = Recipe.model_validate(mdlm)
    positions, values = example_format(recipe).positions, example_format(recipe).vocab_size
    attention = 2 * width * 4 * width + 2 * 2 * positions * width
    perceptron = 2 * 2 * width * 4 * width
    plain = positions * (blocks * (attention + perceptron) + 2 * width * values)
    assert sampling_flops(on_meta(recipe)) == plain
    # Two norms a block with shift, scale and gate and the last one without a gate, once for all positions.
    adapted = 2 * condition * width * (2 * blocks * 3 + 2) + 2 * (dim * condition + condition * condition)
    assert sampling_flops(on_meta(recipe.with_overrides(["model=vadd"]))) == plain + adapted


@pytest.mark.parametrize("recipe", ["digits", "copies", "unet"])
def test_what_the_backward_pass_remembers_is_what_autograd_really_saves(recipe: str) -> None:
    chosen = load_recipe("digits" if recipe == "unet" else recipe).with_overrides(["training.batch=8"])
    if recipe == "unet":
        network = {"kind": "unet", "embedding": 8, "blocks": 1, "groups": 2, "pixel_embedding": 6}
        chosen = Recipe.model_validate({**chosen.model_dump(mode="json"), "network": network})
    model = build_model(chosen, example_format(chosen))
    generator = torch.Generator().manual_seed(0)
    masking = build_mask_draw(chosen)(8, model.positions, model.schedule, generator)
    batch = MaskedBatch.of(torch.zeros(8, model.positions, dtype=torch.int64), masking, model.mask_value)
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    given = {tensor.untyped_storage().data_ptr() for tensor in (batch.x0, batch.xt)}
    saved: dict[int, torch.UntypedStorage] = {}

    def save(tensor: torch.Tensor) -> torch.Tensor:
        saved.setdefault(tensor.untyped_storage().data_ptr(), tensor.untyped_storage())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        model(batch, 1.0, generator)
    really = sum(storage.nbytes() for pointer, storage in saved.items() if pointer not in own | given) / 8
    # The indices of masked positions are real on both sides, but counted on one only.
    assert training_cost(on_meta(chosen), chosen).remembered == pytest.approx(really, rel=0.05)


def test_checkpointing_remembers_less_and_computes_more() -> None:
    network = {"kind": "unet", "embedding": 8, "blocks": 1, "groups": 2, "pixel_embedding": 6}
    content = load_recipe("digits").with_overrides(["training.batch=4", "model=mdlm"]).model_dump(mode="json")
    plain, checked = (
        Recipe.model_validate({**content, "network": {**network, "checkpointing": on}}) for on in (False, True)
    )
    before, after = (training_cost(on_meta(recipe), recipe) for recipe in (plain, checked))
    assert 0 < after.remembered < before.remembered / 2
    assert before.flops < after.flops < before.flops * 4 / 3 + 1


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
    one = make_plan(tiny_recipe(), rate=1e9)
    two = make_plan(tiny_recipe("training.accumulate=4"), devices=2, rate=1e9)
    assert [memory.layout for memory in one.memory] == ["one device"] * 2
    assert [memory.layout for memory in two.memory] == ["DDP", "DDP", "full sharding", "full sharding"]
    assert two.memory[0].activations == round(one.memory[0].activations / 8)
    assert two.flops_per_step == one.flops_per_step
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
        ({"devices": 3}, "training.batch=32 must be divisible by 3 devices x training.accumulate=1 = 3"),
        ({"rate": 0.0}, "positive number of FLOP per second"),
        ({"rate": math.nan}, "positive number of FLOP per second"),
        ({"rate": math.inf}, "positive number of FLOP per second"),
    ],
)
def test_impossible_plans_are_refused(settings: dict[str, int], told: str) -> None:
    with pytest.raises(UserError, match=told):
        make_plan(tiny_recipe(), **settings)


def test_the_rate_of_this_machine_is_a_positive_number() -> None:
    assert 0 < measured_rate(seconds=0.01, size=64) < math.inf
