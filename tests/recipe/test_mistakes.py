"""What is said about mistakes in recipes and overrides: which key, what is wrong, and what was meant; in one line."""

from pathlib import Path
from typing import Any, get_args

import pytest

from tests.helpers.files import write
from vadd.errors import UserError
from vadd.networks import CustomSettings, Network
from vadd.recipe import flatten, load_recipe, parse_value, validate


def message_of(*overrides: str) -> str:
    with pytest.raises(UserError) as refused:
        load_recipe("checkerboard").with_overrides(overrides)
    return str(refused.value)


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("training.stepz=5", "training.steps"),
        ("steps=5", "training.steps"),
        ("batch=5", "training.batch"),
        ("modle=mdlm", "model"),
        ("data.vocabsize=3", "data.vocab_size"),
        ("denoiser.depth=3", "network.denoiser.depth"),
        ("network.recognizer_depth=3", "network.recognizer.depth"),
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
        "network.denoiser.latent_frequencies=2",
        "latent.flow.components=many",
        "latent.flow.components=2.5",
        "latent.flow.components=null",
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
    assert repr(parse_value(text)) in message


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
        "network.denoiser.latent_frequencies=[1,-1]",
        "latent.dim=0",
        "latent.flow.components=0",
        "latent.flow.components=-5",
        "diffusion.power=0",
        "seed=-1",
    ],
)
def test_a_value_out_of_range_is_refused_by_name(override: str) -> None:
    message = message_of(override)
    assert override.partition("=")[0] in message
    assert "\n" not in message


NETWORKS = [section() for section in get_args(Network) if section is not CustomSettings]


@pytest.mark.parametrize("theirs", NETWORKS, ids=lambda network: network.kind)
@pytest.mark.parametrize("ours", NETWORKS, ids=lambda network: network.kind)
def test_every_key_of_another_kind_of_network_is_said_not_to_go_with_this_one(ours: Network, theirs: Network) -> None:
    """Those of sub-sections too; a sub-section that this kind does not have is named as a whole."""
    known = dict(flatten(ours.model_dump(mode="json")))
    for key, value in flatten(theirs.model_dump(mode="json")):
        *section, name = key.split(".")
        if key in known:
            continue
        content: dict[str, Any] = {"kind": ours.kind, **({section[0]: {name: value}} if section else {name: value})}
        named = key if not section or hasattr(ours, section[0]) else section[0]
        with pytest.raises(UserError) as refused:
            validate({"name": "mine", "data": {"kind": "toy"}, "network": content}, "mine")
        assert str(refused.value) == f"mine: network.{named} does not exist for network.kind={ours.kind}"


def test_a_key_of_other_data_is_said_not_to_go_with_these() -> None:
    with pytest.raises(UserError, match=r"^mine: data\.levels does not exist for data\.kind=toy$"):
        validate({"name": "mine", "data": {"kind": "toy", "levels": 4}}, "mine")


def test_mistakes_inside_a_sub_section_are_told_by_their_dotted_key() -> None:
    assert "network.denoiser.depth must be above 0, not 0" in message_of("network.denoiser.depth=0")
    with pytest.raises(
        UserError, match=r"unknown key 'network\.denoiser\.dept', did you mean 'network\.denoiser\.depth'"
    ):
        validate({"name": "a", "data": {"kind": "toy"}, "network": {"kind": "mlp", "denoiser": {"dept": 3}}}, "a")


def test_a_mixture_without_components_is_refused_in_one_clear_sentence() -> None:
    assert message_of("latent.flow.components=0").endswith("latent.flow.components must be above 0, not 0")
    content = {"name": "a", "data": {"kind": "toy"}, "latent": {"flow": {"component": 3}}}
    with pytest.raises(
        UserError, match=r"unknown key 'latent\.flow\.component', did you mean 'latent\.flow\.components'"
    ):
        validate(content, "a")


def test_where_a_latent_is_read_is_a_matter_of_yes_or_no() -> None:
    network = {"kind": "short-transformer", "denoiser": {"latent_everywhere": "perhaps"}}
    with pytest.raises(UserError, match=r"network\.denoiser\.latent_everywhere.*not 'perhaps'$") as refused:
        validate({"name": "a", "data": {"kind": "toy"}, "network": network}, "a")
    assert "\n" not in str(refused.value)


def test_all_mistakes_are_told_at_once() -> None:
    message = message_of("training.steps=0", "model=gan")
    assert "training.steps" in message
    assert "model" in message


def test_an_override_without_an_equals_sign_is_refused() -> None:
    assert "key=value" in message_of("training.steps")


def test_an_unknown_recipe_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match=r"unknown recipe 'swisroll', did you mean 'swissroll'"):
        load_recipe("swisroll")


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
        ("data: {kind: toy, vocabsize: 3}\n", "did you mean 'data.vocab_size'"),
        ("data: {kind: toy}\ntraning: {steps: 3}\n", "did you mean 'training"),
        ("data: {kind: movie}\n", "movie"),
        ("extends: chekerboard\n", "did you mean 'checkerboard'"),
    ],
)
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UserError) as refused:
        load_recipe(str(write(tmp_path / "broken.yaml", text)))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.yaml"):
        load_recipe(str(tmp_path / "nowhere.yaml"))


@pytest.mark.parametrize(("section", "key"), [("latent", "heard_from"), ("diffusion", "partly_explained")])
def test_deleted_settings_of_version_0_2_0_load_where_they_were_off(section: str, key: str) -> None:
    old: dict[str, Any] = {"name": "mine", "data": {"kind": "toy"}, "latent": {"prior": "informed"}, "diffusion": {}}
    old[section][key] = 0.0
    assert validate(old, "mine").latent.prior == "conditional"
    old[section][key] = 0.5
    with pytest.raises(UserError, match=f"{section}.{key}=0.5 is a setting of version 0.2.0"):
        validate(old, "mine")
