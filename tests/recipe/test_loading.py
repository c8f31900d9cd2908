"""Recipes: presets, the paper's own settings, overrides, files of the user's, and what is said about mistakes."""

from pathlib import Path
from typing import Any

import pytest

from vadd.errors import UserError
from vadd.recipe import Recipe, differences, flatten, load_recipe, parse_value, recipe_names

PAPER_RECIPES = ("checkerboard-paper", "swissroll-paper", "circles-paper")


def value_of(recipe: Recipe, key: str) -> Any:
    return dict(flatten(recipe.model_dump(mode="json")))[key]


def message_of(*overrides: str) -> str:
    with pytest.raises(UserError) as refused:
        load_recipe("checkerboard").with_overrides(overrides)
    return str(refused.value)


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("name", recipe_names())
def test_every_preset_is_valid_and_says_what_it_is(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.about


def test_the_presets_that_others_rely_on_are_there() -> None:
    assert {"checkerboard", "swissroll", "circles", *PAPER_RECIPES} <= set(recipe_names())


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
        "network.depth": 4,
        "network.recognizer_depth": 4,
        "network.time_features": 1024,
        "network.latent_frequencies": [],
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
        ("network.latent_frequencies=[1, 2.5, 1e1]", [1.0, 2.5, 10.0]),
        ("network.latent_frequencies=[]", []),
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


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("training.stepz=5", "training.steps"),
        ("steps=5", "training.steps"),
        ("batch=5", "training.batch"),
        ("modle=mdlm", "model"),
        ("data.value=3", "data.vocab_size"),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest_one(override: str, meant: str) -> None:
    message = message_of(override)
    assert f"unknown key {override.partition('=')[0]!r}" in message
    assert f"did you mean {meant!r}" in message


@pytest.mark.parametrize(
    "override",
    [
        "training.steps=many",
        "training.steps=1.5",
        "training.steps=null",
        "training.learning_rate=fast",
        "network.latent_frequencies=2",
        "model=gan",
        "diffusion.schedule=quadratic",
        "data.name=moons",
        "seed=[1]",
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(override: str) -> None:
    key, _, text = override.partition("=")
    message = message_of(override)
    assert key in message
    assert "\n" not in message
    assert f"not {parse_value(text)!r}" in message


@pytest.mark.parametrize(
    "override",
    [
        "training.steps=0",
        "training.batch=-1",
        "training.learning_rate=0",
        "training.learning_rate=nan",
        "training.ema=1",
        "training.kl_warmup=1.5",
        "training.clip=0",
        "training.weight_decay=-0.1",
        "training.betas=[0.9]",
        "training.betas=[0.9,1.1]",
        "data.vocab_size=1",
        "network.time_features=3",
        "network.latent_frequencies=[1,-1]",
        "latent.dim=0",
        "diffusion.power=0",
        "seed=-1",
    ],
)
def test_a_value_out_of_range_is_refused_by_name(override: str) -> None:
    message = message_of(override)
    assert override.partition("=")[0] in message
    assert "\n" not in message


def test_all_mistakes_are_told_at_once() -> None:
    message = message_of("training.steps=0", "model=gan")
    assert "training.steps" in message
    assert "model" in message


def test_an_override_without_an_equals_sign_is_refused() -> None:
    assert "key=value" in message_of("training.steps")


def test_an_unknown_recipe_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"unknown recipe 'swisroll', did you mean 'swissroll'"):
        load_recipe("swisroll")


def test_a_recipe_of_ones_own_takes_its_name_from_its_file(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path / "mine.yaml", "data: {kind: toy, name: circles, values: 7}\nseed: 3\n"))
    assert (recipe.name, recipe.seed, recipe.model) == ("mine", 3, "vadd")
    assert value_of(recipe, "data.vocab_size") == 7


def test_a_recipe_that_extends_another_states_only_what_differs(tmp_path: Path) -> None:
    middle = write(tmp_path / "middle.yaml", "extends: circles\ntraining: {batch: 64}\n")
    recipe = load_recipe(write(tmp_path / "mine.yaml", f"extends: {middle}\ntraining: {{steps: 11}}\nmodel: mdlm\n"))
    assert differences(load_recipe("circles"), recipe) == {
        "name": ("circles", "mine"),
        "model": ("vadd", "mdlm"),
        "training.batch": (value_of(load_recipe("circles"), "training.batch"), 64),
        "training.steps": (value_of(load_recipe("circles"), "training.steps"), 11),
    }


def test_recipes_that_extend_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    first, second = str(tmp_path / "first.yaml"), str(tmp_path / "second.yaml")
    write(tmp_path / "first.yaml", f"extends: {second}\n")
    write(tmp_path / "second.yaml", f"extends: {first}\n")
    with pytest.raises(UserError, match="extends itself"):
        load_recipe(first)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("data: {kind: toy\n", "not valid YAML"),
        ("- a\n- b\n", "mapping"),
        ("", "mapping"),
        ("seed: 1\n", "data is missing"),
        ("data: {kind: array}\n", "data.path is missing"),
        ("data: {kind: toy, valeus: 3}\n", "did you mean 'data.vocab_size'"),
        ("data: {kind: toy}\ntraning: {steps: 3}\n", "did you mean 'training"),
        ("data: {kind: movie}\n", "movie"),
        ("extends: chekerboard\n", "did you mean 'checkerboard'"),
    ],
)
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UserError) as refused:
        load_recipe(write(tmp_path / "broken.yaml", text))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.yaml"):
        load_recipe(str(tmp_path / "nowhere.yaml"))


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_written_and_read_again_is_the_same(tmp_path: Path, name: str) -> None:
    recipe = load_recipe(name).with_overrides(["training.learning_rate=1e-5", "training.clip=0.5", "about='a: #b'"])
    again = load_recipe(write(tmp_path / "again.yaml", recipe.to_yaml()))
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
