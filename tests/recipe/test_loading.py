"""Recipes: presets, the paper's own settings, overrides, and files of the user's."""

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.files import write
from vadd.recipe import Recipe, differences, flatten, load_recipe, parse_value, recipe_names
from vadd.recipe.recipe import may_change_on_resume, same_learning

PAPER_RECIPES = ("checkerboard-paper", "swissroll-paper", "circles-paper")


def value_of(recipe: Recipe, key: str) -> Any:
    return dict(flatten(recipe.model_dump(mode="json")))[key]


@pytest.mark.parametrize("name", recipe_names())
def test_every_preset_is_valid_and_says_what_it_is(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.about


@pytest.mark.parametrize("name", PAPER_RECIPES)
def test_the_paper_recipes_hold_the_values_of_the_appendix(name: str) -> None:
    """Appendix "Two-dimensional toy examples". [512] * 5 + [V] channels are four hidden layers and a head."""
    epochs, points, batch, annealing_epochs = 500, 100_000, 256, 100
    appendix = {
        "data.kind": "toy",
        "data.name": name.removesuffix("-paper"),
        "data.train_size": points,
        "data.vocab_size": 100,
        "latent.dim": 2,
        "latent.particles": 1,
        "network.width": 512,
        "network.denoiser.depth": 4,
        "network.recognizer.depth": 4,
        "network.time_features": 1024,
        "network.denoiser.latent_frequencies": [],
        "network.smoothness": 0.0,
        "training.optimizer": "adam",
        "training.betas": [0.9, 0.999],
        "training.weight_decay": 0.0,
        "training.learning_rate": 3e-4,
        "training.learning_rate_schedule": "cosine",
        "training.warmup_steps": 0,
        "training.kl_warmup": annealing_epochs / epochs,
        "training.batch": batch,
        "training.steps": epochs * points // batch,
        "training.ema": 0.0,
        "training.clip": None,
        "diffusion.schedule": "linear",
    }
    recipe = load_recipe(name)
    assert {key: value_of(recipe, key) for key in appendix} == appendix


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("training.batch=512", 512),
        ("training.steps=2e3", 2000),
        ("training.learning_rate=1e-3", 1e-3),
        ("training.learning_rate=2E-4", 2e-4),
        ("training.learning_rate=0.5", 0.5),
        ("training.ema=0", 0.0),
        ("network.denoiser.latent_frequencies=[1, 2.5, 1e1]", [1.0, 2.5, 10.0]),
        ("network.denoiser.latent_frequencies=[]", []),
        ("training.betas=[0.8,0.95]", [0.8, 0.95]),
        ("training.clip=1", 1.0),
        ("training.clip=null", None),
        ("model=mdlm", "mdlm"),
        ("diffusion.mask_draw=exact-count", "exact-count"),
        ("data.name=circles", "circles"),
        ("about=a = b", "a = b"),
        ("seed=7", 7),
    ],
)
def test_an_override_sets_its_key_and_nothing_else(override: str, value: object) -> None:
    before = load_recipe("checkerboard").with_overrides(["training.clip=3", "diffusion.mask_draw=iid"])
    after = before.with_overrides([override])
    key = override.partition("=")[0]
    assert value_of(after, key) == value
    assert set(differences(before, after)) == {key}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("1e-3", 1e-3), ("True", True), ("false", False), ("none", "none"), ("null", None), ("[1,", "[1,")],
)
def test_values_are_read_as_everybody_expects(text: str, value: object) -> None:
    read = parse_value(text)
    assert read == value
    assert type(read) is type(value)


def test_later_overrides_win() -> None:
    assert load_recipe("checkerboard").with_overrides(["seed=1", "seed=2"]).seed == 2


def test_a_recipe_of_ones_own_takes_its_name_from_its_file(tmp_path: Path) -> None:
    recipe = load_recipe(
        str(write(tmp_path / "mine.yaml", "data: {kind: toy, name: circles, vocab_size: 7}\nseed: 3\n"))
    )
    assert (recipe.name, recipe.seed, recipe.model) == ("mine", 3, "vadd")
    assert value_of(recipe, "data.vocab_size") == 7


def test_a_recipe_that_extends_another_states_only_what_differs(tmp_path: Path) -> None:
    middle = write(tmp_path / "middle.yaml", "extends: circles\ntraining: {batch: 64}\n")
    recipe = load_recipe(
        str(write(tmp_path / "mine.yaml", f"extends: {middle}\ntraining: {{steps: 11}}\nmodel: mdlm\n"))
    )
    assert differences(load_recipe("circles"), recipe) == {
        "name": ("circles", "mine"),
        "model": ("vadd", "mdlm"),
        "training.batch": (value_of(load_recipe("circles"), "training.batch"), 64),
        "training.steps": (value_of(load_recipe("circles"), "training.steps"), 11),
    }


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_written_and_read_again_is_the_same(tmp_path: Path, name: str) -> None:
    recipe = load_recipe(name).with_overrides(["training.learning_rate=1e-5", "training.clip=0.5", "about='a: #b'"])
    again = load_recipe(str(write(tmp_path / "again.yaml", recipe.to_yaml())))
    assert again == recipe
    assert differences(recipe, again) == {}


def test_differences_give_both_values_also_of_keys_that_only_one_has() -> None:
    toy = load_recipe("checkerboard")
    array = toy.model_validate({**toy.model_dump(), "data": {"kind": "array", "path": "x.npy", "vocab_size": 100}})
    found = differences(toy, array)
    assert found["data.kind"] == ("toy", "array")
    assert found["data.path"] == (None, "x.npy")
    assert found["data.train_size"] == (100_000, None)
    assert "data.vocab_size" not in found


def test_what_learns_the_same_may_change_on_resume_and_the_length_too() -> None:
    keys = set(dict(flatten(load_recipe("checkerboard").model_dump(mode="json"))))
    assert {key for key in keys if may_change_on_resume(key)} == {key for key in keys if same_learning(key)} | {
        "training.steps"
    }
    assert {key for key in keys if key.startswith("sampling.")} <= {key for key in keys if same_learning(key)}
    learning = ("seed", "model", "data.vocab_size", "network.width", "latent.dim", "training.batch", "training.ema")
    assert not any(same_learning(key) for key in learning)
