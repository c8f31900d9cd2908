"""The trained models that are part of the package: small, as their tool makes them, and with the numbers they state."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tools.make_pretrained import CONDITIONAL, EXAMPLES, MODELS, MOST_BYTES, NOT_SHIPPED, RESULTS, TEXTS, recipe_of

import vadd
from tests.helpers.commands import Command
from tests.helpers.fixtures import official_data
from vadd.errors import UserError
from vadd.recipe import load_recipe
from vadd.run.directory import shipped_models
from vadd.run.export import without_paths

SHIPPED = shipped_models()


def test_they_are_small_and_made_by_the_tool(tmp_path: Path) -> None:
    assert SHIPPED.keys() == {f"{name}-pretrained" for name in MODELS if name not in NOT_SHIPPED}
    files = [file for folder in SHIPPED.values() for file in folder.rglob("*")]
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES
    for folder in SHIPPED.values():
        if folder.name not in TEXTS or find_spec(TEXTS[folder.name][0]):
            assert load_recipe(str(folder / "recipe.yaml")) == without_paths(recipe_of(folder.name, tmp_path))
        for file in folder.glob("*.safetensors"):
            assert {tensor.dtype for tensor in load_file(file).values()} <= {torch.float16, torch.bool}
        assert (folder / "prior-conditional.safetensors").exists() == (folder.name in CONDITIONAL)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_numbers_of_the_card_are_those_of_the_weights(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound at T = 1 of the same examples with the same seed, to a thousandth; the card states it."""
    run, folder = vadd.load(name), SHIPPED[name]
    of_text = folder.name in TEXTS
    if of_text:
        pytest.importorskip(TEXTS[folder.name][0], reason="its data are in that package")
        recipe_of(folder.name, tmp_path)
        monkeypatch.chdir(tmp_path)  # where the data are now
    if name.startswith("mnist"):
        monkeypatch.setenv("VADD_DATA", str(official_data("mnist").parent))
    stated = json.loads((folder / RESULTS).read_text())["bounds"][0]
    found = run.bound(1, limit=EXAMPLES).bounds[1]
    # Pads of texts are not scored.
    assert (stated["steps"], found.valid) == (1, not of_text)
    assert found.nats == pytest.approx(stated["nats"], rel=1e-3)
    card = (folder / "README.md").read_text()
    # Of texts in bits per character.
    assert (f"{stated['bpd']:.4f}" if of_text else f"{stated['nats']:.4f} ± {stated['stderr']:.4f}") in card


def test_they_are_opened_by_name_like_any_model(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = vadd.load("mnist-pretrained")
    assert all(parameter.dtype == torch.float32 for parameter in run.model.parameters())
    done = vadd_command("sample", "mnist-pretrained", "-n", 9, "--steps", 1, "--seed", 3, "--out", "digits.npy")
    assert done.code == 0
    assert np.array_equal(np.load("digits.npy").reshape(9, -1), run.sample(9, steps=1, seed=3).numpy())
    known = run.sample(2, steps=1)
    known[:, 512:] = -1
    assert torch.equal(run.infill(known, candidates=4)[:, :512], known[:, :512]), "the upper half stays"
    frame = vadd.load("fair-pretrained").sample_frame(5, steps=1)
    assert len(frame) == 5
    assert "affairs" in frame.columns


def test_loading_one_imports_only_what_it_uses() -> None:
    """That takes longer than reading the weights."""
    unused = "accelerate pandas psutil rich scipy sklearn sympy tokenizers torch._dynamo torch._inductor "
    unused += "torch.utils.flop_counter transformers vadd.evaluation vadd.terminal vadd.training"
    script = f"""
import sys, torch
before = set(sys.modules)
import vadd
vadd.load("mnist-pretrained")
found = set({unused.split()!r}) & set(sys.modules) - before
assert not found, found
"""
    subprocess.run([sys.executable, "-c", script], timeout=120, check=True)


def test_what_is_here_goes_before_the_package(vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mnist-pretrained").symlink_to(vadd_run)
    assert vadd.load("mnist-pretrained").recipe.name == "checkerboard"


def test_the_zoo_lists_them(vadd_command: Command, tmp_path: Path) -> None:
    done = vadd_command("zoo", "--pretrained", "--json", tmp_path / "zoo.json")
    assert done.code == 0
    assert all(name in done.out for name in SHIPPED)
    assert [each["name"] for each in json.loads((tmp_path / "zoo.json").read_text())] == list(SHIPPED)
    refused = vadd_command("zoo", "vadd", "--pretrained")
    assert (refused.code, refused.err.count("\n")) == (2, 1)


def test_a_name_that_is_not_there_is_one_line(vadd_command: Command) -> None:
    done = vadd_command("sample", "mnst-pretrained", "-n", 2)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "did you mean 'mnist-pretrained'" in done.err
    assert "vadd zoo --pretrained" in done.err
    with pytest.raises(UserError, match="cats-pretrained is not among them"):
        vadd.load("cats-pretrained")


def test_weights_in_half_precision_are_an_option_of_exports(
    vadd_command: Command, vadd_run: Path, tmp_path: Path
) -> None:
    for name, options in (("whole", ()), ("half", ("--half",))):
        assert vadd_command("export", vadd_run, tmp_path / name, *options).code == 0
    whole, half = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "half"))
    assert all(torch.equal(whole[name].half(), half[name]) for name in whole)
    loaded = vadd.load(tmp_path / "half").model.state_dict()
    assert all(torch.equal(loaded[name], half[name].float()) for name in half)
