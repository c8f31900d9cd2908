"""What a training step costs, against counts by hand and against what autograd really does."""

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.exact import seeded
from tests.helpers.networks import on_meta, small_recipe
from tests.helpers.tiny import tiny_recipe
from vadd.core import GaussianLatent, LinearSchedule, MaskedBatch
from vadd.core.host import Places
from vadd.recipe import Recipe, build_model, load_recipe
from vadd.recipe.counting import count_parameters, sampling_flops, training_cost
from vadd.recipe.plan import make_plan


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
    positions, values = recipe.data.example_kind().positions, recipe.data.example_kind().vocab_size
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
    model = build_model(chosen, chosen.data.example_kind())
    generator = torch.Generator().manual_seed(0)
    masking = chosen.build_mask_draw()(8, model.positions, model.schedule, generator)
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


def test_a_block_in_three_rounds_computes_as_much_as_three_blocks_of_fewer_weights() -> None:
    changes = ("network.denoiser.rounds=3", "network.denoiser.blocks=3")
    rounds, blocks = (small_recipe("short-transformer", "model=mdlm", change) for change in changes)
    assert training_cost(on_meta(rounds), rounds).flops == training_cost(on_meta(blocks), blocks).flops
    assert count_parameters(on_meta(rounds)).denoiser < count_parameters(on_meta(blocks)).denoiser


def test_checkpointing_remembers_less_and_computes_more() -> None:
    network = {"kind": "unet", "embedding": 8, "blocks": 1, "groups": 2, "pixel_embedding": 6}
    content = load_recipe("digits").with_overrides(["training.batch=4", "model=mdlm"]).model_dump(mode="json")
    plain, checked = (
        Recipe.model_validate({**content, "network": {**network, "checkpointing": on}}) for on in (False, True)
    )
    before, after = (training_cost(on_meta(recipe), recipe) for recipe in (plain, checked))
    assert 0 < after.remembered < before.remembered / 2
    assert before.flops < after.flops < before.flops * 4 / 3 + 1


def counted(recipe: Recipe) -> tuple[Tensor, list[int]]:
    """Of how many positions of each example the denoiser is asked for logits while the cost is counted, (B,), and how
    many examples the recogniser is shown.
    """
    model = on_meta(recipe)
    asked: list[Places] = []
    shown: list[int] = []
    assert isinstance(model.denoiser, nn.Module)
    model.denoiser.register_forward_pre_hook(lambda _, inputs: asked.append(inputs[3]))
    if isinstance(model.latent, GaussianLatent):
        model.latent.recognizer.register_forward_pre_hook(lambda _, inputs: shown.append(len(inputs[0])))
    training_cost(model, recipe)
    (where,) = asked
    return where.mask.sum(dim=1), shown


def test_logits_are_counted_for_all_masked_positions() -> None:
    recipe = load_recipe("text8-per-state").with_overrides(["training.batch=256"])
    positions, shown = counted(recipe)
    drawn = recipe.build_mask_draw()(256, 64, LinearSchedule(), seeded(0))
    assert positions.tolist() == drawn.masked.sum(dim=1).tolist()
    assert float(positions.float().mean()) == 32.5
    assert shown == [256]


def test_without_a_latent_all_masked_positions_are_counted() -> None:
    positions, shown = counted(load_recipe("text8-per-state").with_overrides(["training.batch=256", "model=mdlm"]))
    assert float(positions.float().mean()) == 32.5
    assert shown == []
