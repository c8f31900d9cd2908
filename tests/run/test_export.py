"""Exported models: the same samples without the run and its data, and nothing that is damaged is taken."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml

import vadd
from tests.helpers.files import contents
from tests.helpers.tiny import tiny_recipe, train_in
from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings, evaluate
from vadd.kinds import kind_of
from vadd.kinds.text.tokenizers import CharacterTokenizer
from vadd.recipe import load_recipe
from vadd.run.checkpoint import read_weights
from vadd.run.directory import CheckpointName, RunDirectory
from vadd.run.export import READ_FROM_HUB, export, read_exported, without_paths


@pytest.fixture
def exported(vadd_run: Path, tmp_path: Path) -> Path:
    return export(RunDirectory(vadd_run), tmp_path / "model").path


def test_the_same_seed_gives_the_same_samples(vadd_run: Path, exported: Path) -> None:
    run, other = vadd.load(vadd_run), vadd.load(exported)
    for steps in (1, 3):
        assert torch.equal(run.sample(300, steps=steps, seed=7), other.sample(300, steps=steps, seed=7))
    assert torch.equal(run.trajectory(4, steps=5, seed=2), other.trajectory(4, steps=5, seed=2))


def test_an_evaluation_gives_the_same_numbers(vadd_run: Path, exported: Path) -> None:
    bounds = BoundSettings(Particles(4), steps=(1, 2), delbo_draws=2, limit=50)
    reports = [evaluate(vadd.load(path), (1, 2), 200, bounds=bounds).report.to_json() for path in (vadd_run, exported)]
    assert [report.pop("run") for report in reports] == [str(vadd_run), str(exported)]
    assert [report.pop("training_seconds") is None for report in reports] == [False, True], "metrics are not exported"
    assert reports[0] == reports[1]


def test_the_folder_holds_what_it_should_and_no_more(vadd_run: Path, exported: Path) -> None:
    assert set(contents(exported)) == {"model.safetensors", "recipe.yaml", "config.json", "README.md"}
    config = json.loads((exported / "config.json").read_text())
    assert (config["library"], config["format"], config["vadd"]) == ("vadd", 1, vadd.__version__)
    assert (config["shape"], config["values"], config["step"], config["model"]) == ([2], 8, 30, "vadd")
    assert load_recipe(str(exported / "recipe.yaml")) == tiny_recipe()
    averaged = read_weights(RunDirectory(vadd_run).checkpoint(30))
    kept = read_exported(exported).weights
    assert kept.keys() == averaged.keys()
    assert all(torch.equal(kept[name], averaged[name]) for name in kept)


def test_the_chosen_checkpoint_is_exported(vadd_run: Path, tmp_path: Path) -> None:
    directory = RunDirectory(vadd_run)
    assert [saved.step for saved in directory.saved_steps()] == [20, 30]
    assert export(directory, tmp_path / "first", checkpoint=20).step == 20
    best = directory.best()
    assert best is not None
    assert export(directory, tmp_path / "best", checkpoint="best").step == best.step
    with pytest.raises(UserError, match="has no checkpoint 7"):
        export(directory, tmp_path / "none", checkpoint=7)
    assert not (tmp_path / "none").exists()


def test_an_exported_model_has_one_checkpoint(exported: Path) -> None:
    assert vadd.load(exported, checkpoint=30).recipe == tiny_recipe()
    others: list[CheckpointName] = ["best", 10]
    for other in others:
        with pytest.raises(UserError, match="weights of step 30 only"):
            vadd.load(exported, checkpoint=other)


@pytest.fixture
def without_data(array_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model of an array, in a place where the array is not."""
    out = export(RunDirectory(array_run), tmp_path / "codes").path
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return out


def test_sampling_needs_no_data_and_evaluation_says_that_it_does(without_data: Path, array_run: Path) -> None:
    run = vadd.load(without_data)
    assert torch.equal(run.sample(20, steps=2), vadd.load(array_run).sample(20, steps=2))
    assert run.kind == kind_of((2, 3), 4)
    with pytest.raises(UserError, match=r"needs the data that the model learned from: there is no file codes\.npy"):
        evaluate(run, (1,), 100)


def test_the_data_are_used_where_they_are(without_data: Path, array_run: Path, codes_file: Path) -> None:
    shutil.copy(codes_file, "codes.npy")
    found, expected = (evaluate(vadd.load(path), (1,), 100).report for path in (without_data, array_run))
    assert found.results == expected.results


def test_other_data_under_the_same_name_are_refused(without_data: Path) -> None:
    np.save("codes.npy", np.zeros((10, 7), dtype=np.int64))
    with pytest.raises(UserError, match=r"not what the model learned from: .* \(7,\) and 4 values, not \(2, 3\) and 4"):
        _ = vadd.load(without_data).data


def test_paths_of_the_machine_are_not_published(without_data: Path, codes_file: Path) -> None:
    text = "".join(content.decode("latin-1") for content in contents(without_data).values())
    assert str(codes_file.parent) not in text
    mnist = load_recipe("mnist").with_overrides(["data.directory=/home/somebody/mnist"])
    assert without_paths(mnist) == load_recipe("mnist")


def test_a_tokenizer_is_carried_along(vadd_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(vadd_run, tmp_path / "run")
    CharacterTokenizer("abcdefgh").save(run / "tokenizer")
    out = export(RunDirectory(run), tmp_path / "model").path
    assert contents(out / "tokenizer") == contents(run / "tokenizer")
    carried = vadd.load(out).tokenizer
    assert carried is not None
    assert carried.text(np.array([7, 0, 3]), padded=False) == "had"


@pytest.mark.parametrize("kind", ["full", "file", "run"])
def test_nothing_is_overwritten(vadd_run: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "full":
        out.mkdir()
        (out / "thesis.tex").write_text("years of work")
    elif kind == "file":
        out.write_text("years of work")
    else:
        shutil.copytree(vadd_run, out)
    before = contents(tmp_path)
    with pytest.raises(UserError, match="nothing is overwritten"):
        export(RunDirectory(vadd_run), out)
    assert contents(tmp_path) == before


def test_an_empty_folder_may_be_filled(vadd_run: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert export(RunDirectory(vadd_run), tmp_path / "out").step == 30


def test_a_failure_leaves_nothing_behind(vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vadd.run.export.model_card", full)
    with pytest.raises(UserError, match=r"^cannot write .*/out: No space left on device$"):
        export(RunDirectory(vadd_run), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def altered(change: Callable[[bytearray], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = bytearray((path / "model.safetensors").read_bytes())
        change(content)
        (path / "model.safetensors").write_bytes(content)

    return damage


def flip_last(content: bytearray) -> None:
    content[-1] ^= 1


def config_with(**changes: object) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps(config | changes))

    return damage


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (altered(flip_last), "model.safetensors is missing, truncated or altered"),
        (altered(lambda content: content.pop()), "model.safetensors is missing, truncated or altered"),
        (lambda path: (path / "model.safetensors").unlink(), "model.safetensors is missing, truncated or altered"),
        (lambda path: (path / "recipe.yaml").unlink(), "cannot read the recipe"),
        (lambda path: (path / "config.json").write_text("{"), "not a model exported by vadd"),
        (lambda path: (path / "config.json").write_text('{"model_type": "bert"}'), "not a model exported by vadd"),
        (config_with(shape=[]), "not a model exported by vadd"),
        (config_with(values="many"), "not a model exported by vadd"),
        (config_with(values=9), "do not fit the recipe"),
        (config_with(format=2, vadd="9.0"), r"newer version, vadd 9\.0"),
    ],
)
def test_damaged_and_foreign_folders_are_refused(exported: Path, damage: Callable[[Path], None], told: str) -> None:
    damage(exported)
    with pytest.raises(UserError, match=told):
        vadd.load(exported)


class FakeHub:
    """Gives one model for the name ``owner/name``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def snapshot_download(self, repo_id: str, allow_patterns: list[str]) -> str:
        self.asked.append((repo_id, tuple(allow_patterns)))
        if repo_id != "owner/name":
            raise OSError(f"404: {repo_id}\nlong story")
        return str(self.folder)


@pytest.fixture
def hub(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub(exported)
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=fake.snapshot_download))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return fake


def test_a_name_is_looked_for_on_the_hub(hub: FakeHub, vadd_run: Path) -> None:
    samples = vadd.load("owner/name").sample(50, seed=3)
    assert torch.equal(samples, vadd.load(vadd_run).sample(50, seed=3))
    assert hub.asked == [("owner/name", READ_FROM_HUB)]
    assert all(pattern.endswith((".safetensors", ".json", ".yaml")) for pattern in READ_FROM_HUB)


def test_what_the_hub_says_is_one_line(hub: FakeHub) -> None:
    with pytest.raises(
        UserError, match=r"no directory owner/other, and the Hugging Face Hub did not give it: 404: o"
    ) as e:
        vadd.load("owner/other")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    "path", ["owner", "owner/name/more", "./owner/na me", "../place/owner", "/owner/name", "runs/a"]
)
def test_what_is_a_path_is_not_looked_for_on_the_hub(hub: FakeHub, path: str) -> None:
    Path("runs").mkdir()
    with pytest.raises(UserError, match="is not a run: there is no such directory"):
        vadd.load(path)
    assert hub.asked == []


def test_a_folder_here_goes_before_the_hub(hub: FakeHub, vadd_run: Path) -> None:
    shutil.copytree(vadd_run, "owner/name")
    assert vadd.load("owner/name").directory.path == Path("owner/name")
    assert hub.asked == []


def test_the_card_has_the_front_matter_of_the_hub(exported: Path) -> None:
    _, front, card = (exported / "README.md").read_text().split("---\n", 2)
    entries = yaml.safe_load(front)
    assert entries["library_name"] == "vadd"
    assert {"vadd", "masked-diffusion", "toy"} <= set(entries["tags"])
    assert "license" not in entries
    assert "# license: yours to choose" in front
    assert "import vadd" in card
    assert ".sample(16, steps=4)" in card


@pytest.mark.parametrize("model", ["vadd", "mdlm"])
def test_the_card_tells_what_was_measured_and_calls_it_by_its_name(
    vadd_run: Path, mdlm_run: Path, tmp_path: Path, model: str
) -> None:
    run = vadd_run if model == "vadd" else mdlm_run
    card = (export(RunDirectory(run), tmp_path / "model").path / "README.md").read_text()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    test = [line for line in lines if line["split"] == "test"][-1]
    assert f"| held-out objective, nats per position | {test['loss']:.4f} |" in card
    assert ("**not** a bound of the likelihood" in card) == (model == "vadd")
    assert ("| latent |" in card) == (model == "vadd")
    assert ("estimate of the ELBO" in card) == (model == "mdlm")


def test_the_card_of_a_shared_latent_says_what_its_objective_bounds(tmp_path: Path) -> None:
    recipe = tiny_recipe("latent.kind=shared", "latent.particles=1", "diffusion.mask_draw=steps")
    train_in(tmp_path / "run", recipe)
    export(RunDirectory(tmp_path / "run"), tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "under the sampler with one z and many steps" in card
    assert "DELBO" not in card
