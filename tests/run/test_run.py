"""Run directories: what is never deleted, what is told about damage, and three lines of Python to a sample."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import vadd
from tests.helpers.files import contents
from tests.helpers.tiny import TINY_ARRAY, tiny_recipe, train_in
from vadd.errors import UserError
from vadd.kinds import kind_of
from vadd.recipe import recipe_for
from vadd.run.checkpoint import read_checkpoint
from vadd.run.directory import RunDirectory
from vadd.run.export import export
from vadd.run.run import Run


@pytest.fixture(scope="module")
def run(vadd_run: Path) -> Run:
    return vadd.load(vadd_run)


@pytest.fixture
def copy(vadd_run: Path, tmp_path: Path) -> Path:
    """A run to be damaged."""
    return shutil.copytree(vadd_run, tmp_path / "copy")


def test_three_lines_are_enough(vadd_run: Path) -> None:
    import vadd

    run = vadd.load(str(vadd_run))
    points = run.sample(1000, steps=1)
    assert points.shape == (1000, 2)
    assert points.dtype == torch.int64
    assert 0 <= int(points.min()) <= int(points.max()) < 8


def test_a_run_has_its_model_and_its_recipe(run: Run) -> None:
    assert isinstance(run.model, nn.Module)
    assert not run.model.training
    assert not any(parameter.requires_grad for parameter in run.model.parameters())
    assert run.recipe == tiny_recipe()
    assert run.data.positions == 2


def test_the_weights_are_the_averaged_ones_of_the_newest_checkpoint(vadd_run: Path, run: Run) -> None:
    newest = RunDirectory(vadd_run).checkpoints()[-1]
    state = read_checkpoint(newest)
    assert state.step == 30
    loaded = run.model.state_dict()
    assert loaded.keys() == state.ema.keys()
    assert all(torch.equal(loaded[name], state.ema[name]) for name in loaded)
    assert not all(torch.equal(loaded[name], state.model[name]) for name in loaded)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_same_seed_gives_the_same_samples_and_another_seed_others(run: Run, steps: int) -> None:
    first, again, other = (run.sample(200, steps=steps, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_samples_do_not_depend_on_the_global_generator_nor_disturb_it(run: Run) -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first = run.sample(50)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first, run.sample(50))


def test_grid_and_latent_policy_are_those_of_the_recipe_unless_given(run: Run, copy: Path) -> None:
    recipe = run.recipe.with_overrides(["sampling.grid=cosine", "sampling.latent_policy=fixed"])
    (copy / "recipe.yaml").write_text(recipe.to_yaml())
    other = vadd.load(copy)
    plain, changed = run.sample(500, steps=3), other.sample(500, steps=3)
    assert not torch.equal(plain, changed)
    assert torch.equal(changed, run.sample(500, steps=3, grid="cosine", latent_policy="fixed"))
    assert torch.equal(plain, other.sample(500, steps=3, grid="uniform", latent_policy="resample"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"n": 0}, "at least 1"),
        ({"n": -3}, "at least 1"),
        ({"n": 2, "steps": 0}, "steps must be at least 1, not 0"),
    ],
)
def test_impossible_requests_are_refused(run: Run, arguments: dict[str, int], told: str) -> None:
    with pytest.raises(UserError, match=told):
        run.sample(**arguments)  # type: ignore[arg-type]


def test_runs_on_arrays_give_flat_samples_and_know_the_shape(array_run: Path) -> None:
    run = vadd.load(array_run)
    assert run.sample(7, steps=2).shape == (7, 6)
    assert run.shape == run.data.shape == (2, 3)


@pytest.fixture
def without_its_file(codes_file: Path, tmp_path: Path) -> Path:
    """A run on an array whose .npy was deleted after the training."""
    file = Path(shutil.copy(codes_file, tmp_path / "codes.npy"))
    assert train_in(tmp_path / "run", recipe_for(file).with_overrides(TINY_ARRAY)).finished
    file.unlink()
    return tmp_path / "run"


def test_a_run_opens_without_reading_its_data(vadd_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> None:
        raise UserError("somebody has read the data")

    monkeypatch.setattr("vadd.run.run.build_dataset", read)
    run = vadd.load(vadd_run)
    assert run.sample(3).shape == (3, 2)
    assert run.infill(np.array([[-1, 3]])).shape == (1, 2)
    with pytest.raises(UserError, match="needs the data that the model learned from: somebody has read the data"):
        _ = run.data


def test_only_the_data_set_needs_the_file_of_the_data(without_its_file: Path, array_run: Path, tmp_path: Path) -> None:
    """The same training as that of the run beside it, whose file is still there."""
    run, there = vadd.load(without_its_file), vadd.load(array_run)
    assert run.kind == there.kind == kind_of((2, 3), 4)
    assert run.sample(20, steps=2).equal(there.sample(20, steps=2))
    x = np.array([[[0, -1, 2], [-1, -1, -1]]])
    assert run.infill(x, count=5, steps=2).equal(there.infill(x, count=5, steps=2))
    exported = vadd.load(export(run.directory, tmp_path / "exported").path)
    assert exported.sample(20, steps=2).equal(there.sample(20, steps=2))
    with pytest.raises(UserError, match=r"needs the data that the model learned from: there is no file .*codes\.npy"):
        _ = run.data


def test_a_run_says_what_its_examples_look_like(vadd_run: Path, array_run: Path) -> None:
    about = [json.loads((path / "data.json").read_text()) for path in (vadd_run, array_run)]
    learned = [vadd.load(path).data.fingerprint() for path in (vadd_run, array_run)]
    assert about == [
        {"shape": [2], "vocab_size": 8, "pad": None, "sha256": learned[0]},
        {"shape": [2, 3], "vocab_size": 4, "pad": None, "sha256": learned[1]},
    ]


def test_a_run_without_data_json_is_refused(copy: Path) -> None:
    (copy / "data.json").unlink()
    with pytest.raises(UserError, match=r"data\.json is missing or damaged"):
        vadd.load(copy)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"shape": [2]}', '{"shape": 2, "vocab_size": 8}', "\x00"])
def test_a_damaged_data_file_is_named(copy: Path, content: str) -> None:
    (copy / "data.json").write_text(content)
    with pytest.raises(UserError, match=r"data\.json is missing or damaged"):
        vadd.load(copy)


def test_a_new_directory_gets_the_recipe(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "deep" / "run")
    assert not directory.is_run()
    directory.create(tiny_recipe("seed=5"))
    assert directory.is_run()
    assert directory.recipe() == tiny_recipe("seed=5")
    assert directory.checkpoints() == []


def test_an_empty_directory_may_become_a_run(tmp_path: Path) -> None:
    RunDirectory(tmp_path).create(tiny_recipe())
    assert RunDirectory(tmp_path).is_run()


def test_an_existing_run_is_refused_and_stays_as_it_is(copy: Path) -> None:
    before = contents(copy)
    with pytest.raises(UserError, match="--resume or replace it with --overwrite"):
        RunDirectory(copy).create(tiny_recipe())
    assert contents(copy) == before


def test_an_existing_run_is_replaced_when_asked_to(copy: Path) -> None:
    RunDirectory(copy).create(tiny_recipe("seed=9"), overwrite=True)
    assert RunDirectory(copy).recipe().seed == 9
    assert RunDirectory(copy).checkpoints() == []
    assert contents(copy).keys() == {"recipe.yaml", "training.lock"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_that_is_not_a_run_is_never_deleted(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="exists and is not a run"):
        RunDirectory(tmp_path).create(tiny_recipe(), overwrite=overwrite)
    assert contents(tmp_path) == {"thesis.tex": b"years of work"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_in_the_way_is_never_deleted(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").write_text("work")
    with pytest.raises(UserError, match="exists and is not a run"):
        RunDirectory(tmp_path / "file").create(tiny_recipe(), overwrite=overwrite)
    assert (tmp_path / "file").read_text() == "work"


def test_loading_what_is_not_a_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run: there is no such directory"):
        vadd.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"is not a run: it has no recipe\.yaml"):
        vadd.load(tmp_path)


def test_loading_a_run_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "new").create(tiny_recipe())
    with pytest.raises(UserError, match="has no checkpoint yet"):
        vadd.load(tmp_path / "new")


def test_a_checkpoint_that_was_never_finished_does_not_count(copy: Path) -> None:
    shutil.copytree(copy / "checkpoints/step-00000030", copy / "checkpoints/.step-00000040.partial")
    assert RunDirectory(copy).checkpoints()[-1].name == "step-00000030"
    assert vadd.load(copy).step == 30


def test_loading_a_truncated_checkpoint_names_the_file(copy: Path) -> None:
    for file in copy.rglob("ema.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"step-00000030 is damaged: ema\.safetensors"):
        vadd.load(copy)


def test_loading_a_run_with_a_broken_recipe_names_it(copy: Path) -> None:
    (copy / "recipe.yaml").write_text("data: {kind: toy, name: moons}\n")
    with pytest.raises(UserError, match=r"recipe\.yaml: unknown data\.name"):
        vadd.load(copy)


def test_the_package_offers_what_it_promises_and_nothing_else() -> None:
    assert all(hasattr(vadd, name) for name in vadd.__all__)
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = vadd.lod
