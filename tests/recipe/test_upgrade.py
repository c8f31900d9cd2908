"""Recipes of version 0.1.0: its presets, the recipes of its runs, and every key that has another place today.

The folder ``version-0.1.0`` holds what that version wrote: the presets whose text has changed since, and the complete
recipe of a run for each kind of network.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.exact import properties
from vadd.errors import UserError
from vadd.recipe import differences, flatten, load_recipe, validate
from vadd.recipe.network import ShortTransformerNetwork
from vadd.recipe.upgrade import upgraded

OLD = Path(__file__).with_name("version-0.1.0")
RENAMED = {"digits": "digits-per-state", "text8-small": "text8-per-state"}
REPLACED = {"mnist-small", "cifar10-small", "pydocs"}
"""Have another latent or network today, and nothing else has their settings."""
PRESETS = sorted({file.stem for file in (OLD / "presets").glob("*.yaml")} - REPLACED)
RUNS = sorted((OLD / "runs").glob("*.yaml"))

MOVED = [
    ("data", "toy", "values", "data.vocab_size"),
    ("data", "copies", "values", "data.vocab_size"),
    ("data", "array", "values", "data.vocab_size"),
    ("network", "mlp", "depth", "network.denoiser.depth"),
    ("network", "mlp", "latent_frequencies", "network.denoiser.latent_frequencies"),
    ("network", "mlp", "recognizer_depth", "network.recognizer.depth"),
    ("network", "residual", "blocks", "network.denoiser.blocks"),
    ("network", "residual", "recognizer_blocks", "network.recognizer.blocks"),
    ("network", "transformer", "recognizer_blocks", "network.recognizer.blocks"),
    ("network", "short-transformer", "width", "network.denoiser.width"),
    ("network", "short-transformer", "blocks", "network.denoiser.blocks"),
    ("network", "short-transformer", "recognizer_width", "network.recognizer.width"),
    ("network", "short-transformer", "recognizer_blocks", "network.recognizer.blocks"),
    ("network", "short-transformer", "heard_from", "latent.heard_from"),
]
"""Section, kind and key of version 0.1.0, and where it is today."""
VALUES: dict[str, Any] = {"latent_frequencies": [2.5], "heard_from": 0.4}
"""Of the other keys 6 will do."""


def place_of(old_key: str, content: dict[str, Any]) -> str:
    """Today's dotted key of one of version 0.1.0, for a recipe with these kinds."""
    section, _, name = old_key.partition(".")
    places = {(s, kind, old): new for s, kind, old, new in MOVED}
    kind = content[section].get("kind", "") if isinstance(content[section], dict) else ""
    return places.get((section, kind, name), old_key)


def minimal(section: str, kind: str) -> dict[str, Any]:
    content: dict[str, Any] = {"name": "old", "data": {"kind": "digits"}}
    content[section] = {"kind": kind} | ({"path": "codes.npy"} if kind == "array" else {})
    return content


@pytest.mark.parametrize("name", PRESETS)
def test_the_presets_are_the_same_but_for_the_steps_of_sampling(name: str) -> None:
    """Those that extend another one extend today's. The paper's latent has had recipes of its own since others had
    better ones.
    """
    old, today = load_recipe(str(OLD / "presets" / f"{name}.yaml")), load_recipe(RENAMED.get(name, name))
    apart = {key for key in differences(old, today) if not key.startswith("latent.flow.")}
    assert apart <= ({"sampling.steps", "about", "name"} if name in RENAMED else {"sampling.steps"})


@pytest.mark.parametrize("file", RUNS, ids=lambda file: file.stem)
def test_the_recipe_of_a_run_means_the_same_key_by_key(file: Path) -> None:
    content = yaml.safe_load(file.read_text())
    found = dict(flatten(load_recipe(str(file)).model_dump(mode="json")))
    expected = {place_of(key, content): value for key, value in flatten(content)}
    assert {key: found[key] for key in expected} == expected
    defaults: dict[str, Any] = {}
    for section in ("data", "network"):
        smallest = validate(minimal(section, content[section]["kind"]), "new")
        defaults |= dict(flatten(smallest.model_dump(mode="json")))
    added = found.keys() - expected.keys()
    assert {key: found[key] for key in added} == {key: defaults[key] for key in added}, "what is new has its default"


def test_a_latent_of_an_old_run_is_read_where_something_is_masked() -> None:
    network = load_recipe(str(OLD / "runs" / "short-transformer.yaml")).network
    assert isinstance(network, ShortTransformerNetwork)
    assert network.denoiser.latent_everywhere is False


def test_the_runs_have_every_key_that_moved() -> None:
    seen = set()
    for content in (yaml.safe_load(file.read_text()) for file in RUNS):
        for section in ("data", "network"):
            seen |= {(section, content[section]["kind"], key) for key in content[section]}
    assert {(section, kind, key) for section, kind, key, _ in MOVED} <= seen


@pytest.mark.parametrize(("section", "kind", "old", "new"), MOVED, ids=str)
def test_every_key_goes_to_its_new_place_and_changes_nothing_else(section: str, kind: str, old: str, new: str) -> None:
    content, value = minimal(section, kind), VALUES.get(old, 6)
    plain = validate(content, "old")
    content[section][old] = value
    changed = differences(plain, validate(content, "old"))
    assert set(changed) == {new}
    assert changed[new][1] == value


@pytest.mark.parametrize(("section", "kind", "old", "new"), MOVED, ids=str)
def test_what_an_old_file_states_wins_over_what_it_extends(
    tmp_path: Path, section: str, kind: str, old: str, new: str
) -> None:
    """Whether that is old or new itself, and though only that tells the kind."""
    value, name = VALUES.get(old, 6), new.rpartition(".")[2]
    base, fields = minimal(section, kind), new.split(".")
    target = base
    for field in fields[:-1]:
        target = target.setdefault(field, {})
    target[name] = {"latent_frequencies": [1.0], "heard_from": 0.1}.get(name, 3)
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(base))
    (tmp_path / "old.yaml").write_text(yaml.safe_dump({"extends": "new.yaml", section: {old: value}}))
    mine: dict[str, Any] = {"extends": "old.yaml"}
    target = mine
    for field in fields[:-1]:
        target = target.setdefault(field, {})
    target[name] = {"latent_frequencies": [4.0], "heard_from": 0.9}.get(name, 5)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(mine))

    def found(file: str) -> Any:
        return dict(flatten(load_recipe(str(tmp_path / file)).model_dump(mode="json")))[new]

    assert found("old.yaml") == value
    assert found("mine.yaml") == target[name]


keys = st.sampled_from(
    sorted(
        {old for _, _, old, _ in MOVED} | {"vocab_size", "heads", "denoiser", "recognizer", "heard_from", "nonsense"}
    )
)
values = st.one_of(
    st.none(), st.integers(0, 9), st.text(max_size=3), st.dictionaries(keys, st.integers(0, 9), max_size=2)
)
kinds = st.sampled_from(sorted({kind for _, kind, _, _ in MOVED} | {"unet", "nonsense"}))
sections = st.one_of(values, st.builds(lambda kind, rest: {"kind": kind} | rest, kinds, st.dictionaries(keys, values)))
contents = st.dictionaries(st.sampled_from(["data", "network", "latent", "name", "training"]), sections)


@given(content=contents)
@properties
def test_upgrading_twice_is_upgrading_once_and_leaves_the_original_alone(content: dict[str, Any]) -> None:
    """Whatever somebody wrote into the file."""
    before = deepcopy(content)
    once = upgraded(content)
    assert upgraded(once) == once
    assert content == before


@given(content=contents)
@properties
def test_nothing_that_somebody_wrote_is_lost(content: dict[str, Any]) -> None:
    """Every value is still there, under its own key or its new one; unless an old and a new key name the same place."""
    new, kept = dict(flatten(upgraded(content))), dict(flatten(content))
    stated = [place_of(key, content) for key in kept]
    for key, value in kept.items():
        if stated.count(place_of(key, content)) == 1:
            assert value in (new.get(place_of(key, content)), new.get(key))


@pytest.mark.parametrize("name", ["checkerboard", "digits", "mnist", "text8", "text8-small"])
def test_recipes_of_today_stay_as_they_are(name: str) -> None:
    content = load_recipe(name).model_dump(mode="json")
    assert upgraded(content) == content


def test_a_section_that_is_none_is_refused_like_any_mistake() -> None:
    for network in ({"kind": "mlp", "depth": 3, "denoiser": 5}, {"kind": "short-transformer", "heard_from": 0.5}, 7):
        with pytest.raises(UserError, match=r"^mine: ") as refused:
            validate({"name": "mine", "data": {"kind": "toy"}, "latent": 5, "network": network}, "mine")
        assert "\n" not in str(refused.value)
