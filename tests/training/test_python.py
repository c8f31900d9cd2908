"""``vadd.train``: data of every kind, keywords, callbacks, resuming."""

import inspect
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch

import vadd
from tests.helpers.commands import Command
from tests.helpers.tiny import TINY_ARRAY
from vadd.data import ArrayData, CopiesData, DiscreteDataset
from vadd.kinds.arrays import read_integers
from vadd.recipe import Recipe, load_recipe
from vadd.recipe.loading import with_settings
from vadd.run.directory import RunDirectory
from vadd.training.events import Event

SMALL: dict[str, Any] = {
    "network": {"width": 16, "denoiser": {"blocks": 1}, "recognizer": {"blocks": 1}},
    "latent": {"dim": 2, "autoregressive": {"width": 16, "blocks": 1}},
    "steps": 30,
    "batch": 32,
    "warmup_steps": 5,
    "log_every": 5,
    "evaluate_every": 10,
    "checkpoint_every": 10,
    "progress": False,
}
"""Keywords that say what TINY_ARRAY says on the command line."""
SHORT_TEXT: dict[str, Any] = {"steps": 2, "batch": 8, "latent": {"prior": "normal"}, "progress": False}


def stop_at(step: int) -> Callable[[Event], None]:
    def callback(event: Event) -> None:
        if event.step >= step:
            event.stop()

    return callback


@pytest.fixture
def codes(codes_file: Path) -> np.ndarray:
    return read_integers(codes_file)


def test_an_array_in_memory_gives_what_its_file_gives_to_the_command(
    codes: np.ndarray, codes_file: Path, tmp_path: Path, vadd_command: Command
) -> None:
    run = vadd.train(codes, tmp_path / "memory", **SMALL)
    assert vadd_command("train", "--data", codes_file, *TINY_ARRAY, "--out", tmp_path / "file").code == 0
    other = vadd.load(tmp_path / "file")
    assert run.recipe.model_copy(update={"name": "codes", "data": other.recipe.data}) == other.recipe
    ours, theirs = run.model.state_dict(), other.model.state_dict()
    assert all(ours[name].equal(theirs[name]) for name in theirs)


@pytest.mark.parametrize("given", [torch.from_numpy, np.ndarray.tolist], ids=["tensor", "lists"])
def test_tensors_and_lists_are_arrays(
    given: Callable[[np.ndarray], Any], codes: np.ndarray, codes_file: Path, tmp_path: Path
) -> None:
    run = vadd.train(given(codes), tmp_path / "run", **{**SMALL, "steps": 2})
    assert run.data.train.equal(ArrayData(path=str(codes_file)).load().train)


def test_a_recipe_by_name_and_a_path_are_trained_as_by_the_command(codes_file: Path, tmp_path: Path) -> None:
    small = {**SMALL, "data.vocab_size": 8, "train_size": 100, "test_size": 20, "steps": 2}
    small |= {"network": {"width": 16, "denoiser": {"depth": 1}}, "latent": {"dim": 2}}
    assert vadd.train("circles", tmp_path / "circles", "mdlm", **small).recipe.model == "mdlm"
    run = vadd.train(codes_file, tmp_path / "codes", **{**SMALL, "steps": 2})
    assert (run.recipe.name, run.shape) == ("codes", (2, 3))


def test_short_texts_are_learnt_one_a_sequence(tmp_path: Path) -> None:
    texts = ["red", "green", "blue", "violet"] * 5
    run = vadd.train(texts, tmp_path / "run", **SHORT_TEXT)
    assert run.kind.positions == len("violet") + 2
    assert run.kind.pad is not None
    assert sorted(run.texts(torch.cat([run.data.train, run.data.test]))) == sorted(texts)


@pytest.mark.parametrize("library", [pandas, polars])
def test_a_data_frame_is_a_table(tmp_path: Path, library: Any) -> None:
    content = {"letter": ["b", "a", None] * 10, "number": [7, 5, 5] * 10, "flag": [True, False, False] * 10}
    frame = library.DataFrame(content)
    tiny: dict[str, Any] = {"steps": 2, "network": {"width": 16}, "latent": {"prior": "normal"}, "progress": False}
    run = vadd.train(frame, tmp_path / "run", **tiny)
    assert run.table is not None
    assert run.kind.sizes == (3, 2, 2)
    assert len(run.data.train) + len(run.data.test) == 30
    drawn = run.sample_frame(20, {"number": 7})
    assert set(drawn["number"]) == {7}
    assert {*drawn["letter"].dropna()} <= {"a", "b"}
    filled = run.infill_frame(frame)
    assert filled["letter"].isin(["a", "b"]).all()
    assert filled["number"].to_list() == content["number"]
    assert len(run.infill_frame(frame, count=2)) == 2
    with pytest.raises(vadd.UserError, match="trained on other data"):
        vadd.train(library.DataFrame(content | {"number": [1, 2, 3] * 10}), tmp_path / "run", resume=True, **tiny)


def test_a_data_set_comes_back_whole_with_its_run(tmp_path: Path) -> None:
    data = CopiesData(positions=3, vocab_size=3, noise=0.1, train_size=60, test_size=20).load(seed=0)
    vadd.train(data, tmp_path / "run", **{**SMALL, "steps": 2})
    moved = shutil.move(tmp_path / "run", tmp_path / "moved")
    again = vadd.load(moved).data
    assert again.train.equal(data.train)
    assert again.test.equal(data.test)
    assert data.distribution is not None
    assert again.distribution is not None
    np.testing.assert_array_equal(again.distribution(), data.distribution())


def test_what_was_in_memory_can_be_moved_and_resumed_without_it(codes: np.ndarray, tmp_path: Path) -> None:
    vadd.train(codes, tmp_path / "whole", **SMALL)
    stopped = vadd.train(codes, tmp_path / "run", on_step=stop_at(12), **SMALL)
    assert stopped.step == 12
    moved = shutil.move(tmp_path / "run", tmp_path / "moved")
    resumed = vadd.train(out=moved, resume=True, progress=False)
    assert resumed.step == 30
    ours, theirs = resumed.model.state_dict(), vadd.load(tmp_path / "whole").model.state_dict()
    assert all(ours[name].equal(theirs[name]) for name in theirs)


def test_callbacks_are_told_every_step_evaluation_and_checkpoint(codes: np.ndarray, tmp_path: Path) -> None:
    steps: list[tuple[int, float]] = []
    judged: list[tuple[int, float, tuple[int, ...]]] = []
    saved: list[tuple[int, bool]] = []
    run = vadd.train(
        codes,
        tmp_path / "run",
        on_step=lambda event: steps.append((event.step, event.loss)),
        on_evaluation=lambda event: judged.append((event.step, event.loss, event.sample(3, steps=1).shape)),
        on_checkpoint=lambda event: saved.append((event.step, event.path.is_dir())),
        **SMALL,
    )
    assert [step for step, _ in steps] == list(range(1, 31))
    lines = list(run.directory.metrics())
    first = np.mean([loss for _, loss in steps[:5]])
    assert first == pytest.approx(next(line["loss"] for line in lines if line["split"] == "train"))
    logged = {line["step"]: line["loss"] for line in lines if line["split"] == "test"}
    assert {step: loss for step, loss, _ in judged} == logged
    assert all(shape == (3, 6) for _, _, shape in judged)
    assert {10, 20, 30} <= {step for step, _ in saved}
    assert all(there for _, there in saved)


def test_callbacks_change_nothing_that_is_learnt(codes: np.ndarray, tmp_path: Path) -> None:
    plain = vadd.train(codes, tmp_path / "plain", **SMALL)
    watched = vadd.train(codes, tmp_path / "watched", on_evaluation=lambda event: event.sample(2, steps=2), **SMALL)
    ours, theirs = plain.model.state_dict(), watched.model.state_dict()
    assert all(ours[name].equal(theirs[name]) for name in theirs)


@pytest.mark.parametrize(("callback", "last"), [("on_step", 3), ("on_evaluation", 10), ("on_checkpoint", 10)])
def test_any_callback_may_stop(callback: str, last: int, codes: np.ndarray, tmp_path: Path) -> None:
    told: dict[str, Any] = {callback: stop_at(last)}
    run = vadd.train(codes, tmp_path / "run", **told, **SMALL)
    assert run.step == last
    assert [path.name for path in run.directory.checkpoints()] == [f"step-{last:08d}"]


def test_what_a_callback_raises_reaches_its_author(codes: np.ndarray, tmp_path: Path) -> None:
    def fail(event: Event) -> None:
        if event.step == 12:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        vadd.train(codes, tmp_path / "run", on_step=fail, **SMALL)
    assert vadd.load(tmp_path / "run").step == 10
    assert vadd.train(codes, tmp_path / "run", resume=True, progress=False).step == 30


BAD: dict[str, tuple[Callable[[np.ndarray], Any], dict[str, Any], str]] = {
    "a wrong keyword": (lambda codes: codes, {"stepz": 3}, "unknown keyword 'stepz', did you mean 'steps'"),
    "a wrong callback": (lambda codes: codes, {"on_stp": print}, "did you mean 'on_step'"),
    "a wrong key": (lambda codes: codes, {"latent": {"dimm": 3}}, "unknown key 'latent.dimm', did you mean"),
    "a wrong value": (lambda codes: codes, {"steps": "many"}, "training.steps takes a whole number, not 'many'"),
    "no such model": (lambda codes: codes, {"model": "gan"}, "model: choose from vadd, mdlm"),
    "fractions": (lambda codes: codes / 2, {}, "float64 values; integers are needed"),
    "negative values": (lambda codes: codes - 1, {}, "the array holds the value -1, outside 0.."),
    "one axis": (lambda codes: codes[:, 0, 0], {}, "the array has shape (300,)"),
    "ragged rows": (lambda codes: [[1, 2], [3]], {}, "rows of different lengths"),
    "no data": (lambda codes: None, {}, "vadd.train needs data"),
    "no such recipe": (lambda codes: "checkerbord", {}, "did you mean 'checkerboard'"),
    "something else": (lambda codes: {1: 2}, {}, "takes arrays and tensors of integers"),
    "a text among numbers": (lambda codes: ["a", None], {}, "holds NoneType too"),
    "blank texts": (lambda codes: ["a", " "], {}, "at least 2 are needed"),
    "an empty frame": (lambda codes: pandas.DataFrame(), {}, "the DataFrame has no rows"),
    "nothing known": (lambda codes: pandas.DataFrame({"a": [None, None]}), {}, "'a' holds nothing but missing values"),
    "names": (lambda codes: pandas.DataFrame({"a": [f"n{n}" for n in range(30)]}), {}, "it names the rows"),
    "both": (lambda codes: codes, {"resume": True, "overwrite": True}, "exclude each other"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_mistake_gets_one_line_and_leaves_nothing(case: str, codes: np.ndarray, tmp_path: Path) -> None:
    data, keywords, said = BAD[case]
    with pytest.raises(vadd.UserError) as refused:
        vadd.train(data(codes), tmp_path / "run", **keywords)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_data_sets_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    zeros = torch.zeros(4, 2, dtype=torch.int64)
    for wrong, said in {
        "train": (zeros + 3, "the train part holds the value 3, outside 0..2"),
        "test": (zeros[:, :1], "the test part has the shape (4, 1)"),
        "vocab_size": (1, "at least 2 values"),
    }.items():
        parts: dict[str, Any] = {"train": zeros, "test": zeros, "vocab_size": 3, wrong: said[0]}
        with pytest.raises(vadd.UserError, match=said[1].replace("(", r"\(").replace(")", r"\)")):
            vadd.train(DiscreteDataset(name="wrong", shape=(2,), **parts), tmp_path / "run")


def test_a_run_is_never_replaced_unasked_nor_resumed_with_other_data(codes: np.ndarray, tmp_path: Path) -> None:
    short = {**SMALL, "steps": 2}
    vadd.train(codes, tmp_path / "run", **short)
    with pytest.raises(vadd.UserError, match="holds a run already: continue it"):
        vadd.train(codes, tmp_path / "run", **short)
    with pytest.raises(vadd.UserError, match="trained on other data"):
        vadd.train(codes[1:], tmp_path / "run", resume=True)
    with pytest.raises(vadd.UserError, match=r"network.width is 16 there, 17 here"):
        vadd.train(codes, tmp_path / "run", resume=True, width=17)
    assert vadd.train(codes[1:], tmp_path / "run", overwrite=True, **short).step == 2
    assert len(np.load(RunDirectory(tmp_path / "run").examples(".npy"))) == len(codes) - 1


def test_bare_names_are_the_trainings_first_and_sections_of_another_kind_replace() -> None:
    recipe = load_recipe("checkerboard")
    changed = with_settings(recipe, {"steps": np.int64(7), "dim": 3, "training.batch": 9, "betas": (0.8, 0.9)})
    assert (changed.training.steps, changed.latent.dim, changed.training.batch) == (7, 3, 9)
    assert changed.training.betas == (0.8, 0.9)
    assert changed.sampling == recipe.sampling
    other = with_settings(recipe, {"network": {"kind": "residual", "width": 24}})
    assert other.network.kind == "residual"


def test_every_keyword_of_the_command_has_one_in_python() -> None:
    assert {"data", "out", "model", "resume", "overwrite"} <= set(inspect.signature(vadd.train).parameters)
    assert {"start_from", "freeze"} <= set(type(load_recipe("digits").training).model_fields)
    assert isinstance(with_settings(load_recipe("digits"), {"start_from": Path("run")}), Recipe)
