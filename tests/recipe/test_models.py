"""What a model brings to a recipe, and how large the networks of the paper's text experiments are with each."""

import pytest

from tests.helpers.networks import on_meta, weights_of
from vadd.recipe import MODELS, load_recipe

PAPER_TEXT = {
    # GPT-2's vocabulary: with the time in the place of a latent of 256 numbers.
    ("openwebtext", "sedd"): 169_626_449,
    ("openwebtext", "d3pm"): 169_626_449,
    ("lm1b", "sedd"): 139_292_217,
    ("lm1b", "d3pm"): 139_292_217,
}


@pytest.mark.parametrize(("recipe", "model"), PAPER_TEXT)
def test_networks_that_see_the_time_have_as_many_weights_as_sedd_s(recipe: str, model: str) -> None:
    built = on_meta(load_recipe(recipe).with_overrides([f"model={model}"]))
    assert weights_of(built) == PAPER_TEXT[recipe, model]


@pytest.mark.parametrize("recipe", ["openwebtext", "lm1b"])
def test_an_autoregressive_transformer_has_as_many_weights_as_mdlm_s(recipe: str) -> None:
    """The same blocks; the token that stands for nothing takes the mask's place."""
    ar, mdlm = (on_meta(load_recipe(recipe).with_overrides([f"model={model}"])) for model in ("ar", "mdlm"))
    assert weights_of(ar) == weights_of(mdlm)


@pytest.mark.parametrize("recipe", ["checkerboard", "digits", "mnist-small", "text8-small", "mnist", "openwebtext"])
@pytest.mark.parametrize("model", [name for name in MODELS if name != "edlm"])
def test_every_model_goes_with_every_recipe(recipe: str, model: str) -> None:
    changed = load_recipe(recipe).with_overrides([f"model={model}"])
    assert changed.model == model
    facts = MODELS[changed.model]
    if facts.sees_time is not None and changed.network.time_key is not None:
        assert changed.network.sees_time == facts.sees_time
    assert changed.diffusion.noise == facts.settings.get("diffusion", {}).get("noise", "mask")


def test_what_is_said_beside_the_model_wins() -> None:
    changed = load_recipe("digits").with_overrides(["diffusion.schedule=polynomial", "model=md4"])
    assert changed.diffusion.schedule == "polynomial"
    assert changed.diffusion.mask_draw == "stratified"
