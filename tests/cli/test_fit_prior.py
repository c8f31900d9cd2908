"""``vadd fit-prior``, ``--prior`` and ``--start-from`` from the command line."""

import re
import shutil
from pathlib import Path

import pytest

from tests.helpers.commands import Command
from tests.helpers.runs import newest
from vadd.run.checkpoint import write_checkpoint
from vadd.run.directory import RunDirectory


@pytest.fixture
def copy(vadd_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(vadd_run, tmp_path / "copy"))


@pytest.fixture
def far_from_normal(copy: Path) -> Path:
    """The same with a recognition model that writes around (3, 3): any fit comes nearer to it than N(0, I)."""
    state = newest(copy)
    state.ema["latent.recognizer.readout.2.bias"][:2] += 3  # the means; log standard deviations follow
    write_checkpoint(RunDirectory(copy).checkpoints()[-1], state)
    return copy


def test_a_fit_is_told_with_its_kl_and_used_by_sample_eval_and_export(
    vadd_command: Command, far_from_normal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = far_from_normal
    monkeypatch.setattr("vadd.cli.measure.out_console.width", 200)  # no cell is broken into lines
    done = vadd_command("fit-prior", copy, "--steps", 20)
    assert (done.code, done.err) == (0, "")
    assert "nats to N(0, I)" in done.out
    assert "It is worse than N(0, I)" not in done.out
    fitted, trained = (tmp_path / f"{name}.csv" for name in ("fitted", "trained"))
    assert vadd_command("sample", copy, "-n", 50, "--out", fitted).code == 0
    assert vadd_command("sample", copy, "-n", 50, "--prior", "trained", "--out", trained).code == 0
    assert fitted.read_text() != trained.read_text()
    measured = vadd_command("eval", copy, "--bound", "1,2", "--particles", 2, "--limit", 10)
    assert "one z, flow prior" in " ".join(measured.out.split())
    assert vadd_command("export", copy, tmp_path / "exported").code == 0
    again = tmp_path / "again.csv"
    assert vadd_command("sample", tmp_path / "exported", "-n", 50, "--out", again).code == 0
    assert again.read_text() == fitted.read_text()


def test_a_recipe_that_asks_for_a_prior_gets_it_when_the_training_has_ended(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vadd.progress.FIRST_LINE", 0.0)
    monkeypatch.setattr("vadd.progress.LINE_EVERY", 0.0)
    tiny = ["network.width=16", "data.train_size=200", "data.test_size=50", "data.vocab_size=8", "training.steps=3"]
    small = ["latent.flow.steps=3", "latent.flow.width=8", "latent.flow.components=4"]
    flow = ["latent.prior=conditional", *small, "training.batch=16"]
    done = vadd_command("train", "checkerboard", *tiny, *flow, "--out", tmp_path / "run")
    assert done.code == 0
    assert "flow prior: KL" in done.out
    assert "conditional prior: KL" in done.out
    assert re.search(r"; about \d+ s, then \d+ s for the prior\n", done.err)
    assert re.search(r"^fitting the flow prior: 2 of 3, \d+ s left$", done.err, re.MULTILINE)
    completed = vadd_command("infill", tmp_path / "run", "--array", _unfinished(tmp_path), "-n", 2)
    assert completed.code == 0
    assert all(line.startswith("3 ") for line in completed.out.splitlines())


def _unfinished(place: Path) -> Path:
    import numpy as np

    np.save(place / "unfinished.npy", np.array([[3, -1]]))
    return place / "unfinished.npy"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fit-prior", "{mdlm}"), "has no latent"),
        (("fit-prior", "{vadd}", "--steps", 0), "steps must be at least 1, not 0"),
        (("fit-prior", "nosuch"), "nosuch"),
        (("sample", "{vadd}", "--prior", "flow"), "has no flow prior; fit one with: vadd fit-prior"),
        (("sample", "{vadd}", "--prior", "conditional"), "has no conditional prior"),
        (("sample", "{vadd}", "--prior", "floe"), "'floe' is not one of 'fitted', 'trained', 'flow', 'conditional'"),
        (("sample", "{vadd}", "--candidates", 3), "--candidates is for --where"),
        (("eval", "{vadd}", "--latent-policy", "frozen"), "'frozen' is not one of 'resample', 'fixed'"),
        (("train", "checkerboard", "--freeze"), "--freeze is for --start-from"),
        (("train", "checkerboard", "model=mdlm", "--start-from", "{vadd}"), "was trained on examples"),
        (("train", "checkerboard", "--start-from", "{mdlm}"), "was trained on examples"),
        (("train", "checkerboard", "--start-from", "nosuch.safetensors"), "there is no file nosuch.safetensors"),
    ],
    ids=str,
)
def test_bad_input_is_one_line_and_exit_code_2(
    vadd_command: Command,
    vadd_run: Path,
    mdlm_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[object, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"{vadd}": vadd_run, "{mdlm}": mdlm_run}
    done = vadd_command(*(places.get(str(word), word) for word in words))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err
