"""``vadd train`` and ``vadd recipes``: presets, one's own arrays, resuming, replacing."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import vadd
from tests.helpers.commands import Command
from tests.helpers.tiny import SHORT_TRAINING, SMALL_NETWORK, TINY, TINY_ARRAY, tiny_recipe
from vadd.cli.train import overfitted
from vadd.recipe import load_recipe, recipe_names
from vadd.run.directory import RunDirectory, SavedStep
from vadd.run.lock import RunLock


def test_recipes_are_listed_with_what_they_are(vadd_command: Command) -> None:
    shown = vadd_command("recipes")
    assert shown.code == 0
    assert [line.split()[0] for line in shown.out.splitlines()] == recipe_names()
    assert all(load_recipe(name).about in shown.out for name in recipe_names())


def test_a_recipe_that_is_shown_can_be_saved_and_used(vadd_command: Command, tmp_path: Path) -> None:
    shown = vadd_command("recipes", "circles-paper")
    (tmp_path / "mine.yaml").write_text(shown.out)
    assert load_recipe(str(tmp_path / "mine.yaml")) == load_recipe("circles-paper")


def test_a_training_leaves_a_run_and_says_what_to_do_with_it(vadd_command: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = vadd_command("train", "checkerboard", *TINY, "model=mdlm", "seed=1", "--out", out)
    assert done.code == 0
    assert f"{out}: done, 30 steps" in done.out
    assert f"vadd sample {out}" in done.out
    assert "30/30 steps" in done.err
    assert vadd.load(out).recipe == tiny_recipe("model=mdlm", "seed=1")


def test_a_model_that_completes_is_trained_and_completes(vadd_command: Command, tmp_path: Path) -> None:
    """All places hold the same value, of which one is given: attention by places alone, rounds, and what is given."""
    rows = np.random.default_rng(0).integers(3, size=(200, 1)).repeat(16, axis=1)
    known = np.zeros(rows.shape, np.uint8)
    known[:, 5] = 1
    gaps = np.where(known[:4] == 1, rows[:4], -1)
    arrays: dict[str, np.ndarray] = {"rows": rows, "known": known, "gaps": gaps}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    network = ["network.pairs_alone=true", "network.denoiser.rounds=4", "network.denoiser.learnt_rounds=2"]
    network += ["network.denoiser.width=16", "network.denoiser.blocks=1", "network.activation=relu"]
    out, data = tmp_path / "run", ["--data", tmp_path / "rows.npy", f"data.known={tmp_path / 'known.npy'}"]
    done = vadd_command("train", *data, "model=mdlm", *network, "training.steps=150", "--out", out)
    assert done.code == 0
    assert f"Try: vadd infill {out} --array unfinished.npy" in done.out
    options = ["-n", 1, "--steps", 1, "--sampler", "confidence", "--temperature", 0, "--out", tmp_path / "filled.npy"]
    assert vadd_command("infill", out, "--array", tmp_path / "gaps.npy", *options).code == 0
    assert np.array_equal(np.load(tmp_path / "filled.npy").reshape(4, 16), rows[:4])


def test_a_held_out_objective_that_rises_again_is_mentioned() -> None:
    def saved(*losses: float | None) -> list[SavedStep]:
        return [SavedStep(Path(), 100 * number, loss) for number, loss in enumerate(losses)]

    assert all(overfitted(saved(*losses)) is None for losses in [(), (None,), (4.0,), (4.0, None), (4.2, 4.0, 4.03)])
    said = overfitted(saved(4.2, 4.0, 4.1)) or ""
    assert "least at step 100, 4.000 nats per position, now 4.100" in said
    assert "--checkpoint best" in said


def test_without_out_the_run_is_named_after_recipe_and_model(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert vadd_command("train", "circles", *TINY, "training.steps=2").code == 0
    assert RunDirectory(tmp_path / "runs/circles-vadd").is_run()


def test_a_recipe_file_of_ones_own_can_be_trained(vadd_command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("extends: swissroll\nseed: 3\n")
    done = vadd_command("train", tmp_path / "mine.yaml", *TINY, "training.steps=2", "--out", tmp_path / "run")
    assert done.code == 0
    recipe = vadd.load(tmp_path / "run").recipe
    assert (recipe.name, recipe.seed) == ("mine", 3)


@pytest.mark.parametrize("shape", [(200, 2), (200, 6), (60, 2, 3)])
def test_any_array_can_be_learned_without_a_recipe(
    vadd_command: Command, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).integers(0, 5, shape, dtype=np.int16))
    run = tmp_path / "run"
    assert vadd_command("train", "--data", tmp_path / "mine.npy", "--out", run, *TINY_ARRAY).code == 0
    assert vadd.load(run).recipe.name == "mine"
    assert vadd_command("sample", run, "-n", 7, "--steps", 2, "--out", tmp_path / "drawn.npy").code == 0
    drawn = np.load(tmp_path / "drawn.npy")
    assert drawn.shape == (7, *shape[1:])
    assert 0 <= drawn.min() <= drawn.max() < 5
    assert vadd_command("eval", run, "--steps", 1, "--json", tmp_path / "numbers.json").code == 0
    result = json.loads((tmp_path / "numbers.json").read_text())["results"][0]
    assert result.keys() == {"steps", "pair_jsd", "pair_jsd_floor"}


def test_a_preset_can_be_trained_on_ones_own_array(vadd_command: Command, codes_file: Path, tmp_path: Path) -> None:
    done = vadd_command(
        "train",
        "checkerboard",
        *SMALL_NETWORK,
        *SHORT_TRAINING,
        "data.vocab_size=9",
        "--data",
        codes_file,
        "--out",
        tmp_path / "run",
    )
    assert done.code == 0
    run = vadd.load(tmp_path / "run")
    assert (run.data.positions, run.data.vocab_size, run.recipe.name) == (6, 9, "checkerboard")


def test_a_finished_run_can_be_trained_longer(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(vadd_run, tmp_path / "run")
    done = vadd_command("train", "--out", copy, "--resume", "training.steps=40", "training.keep_checkpoints=1")
    assert done.code == 0
    assert "40 steps" in done.out
    directory = RunDirectory(copy)
    assert directory.recipe() == tiny_recipe("training.steps=40", "training.keep_checkpoints=1")
    assert [path.name for path in directory.checkpoints()] == ["step-00000040"]
    steps = [record["step"] for record in directory.metrics() if record["split"] == "train"]
    assert steps == list(range(5, 45, 5))


def test_resuming_takes_the_recipe_again_if_it_is_the_same(
    vadd_command: Command, vadd_run: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(vadd_run, tmp_path / "run")
    assert vadd_command("train", "checkerboard", *TINY, "--out", copy, "--resume").code == 0
    refused = vadd_command("train", "checkerboard", *TINY, "training.batch=33", "--out", copy, "--resume")
    assert refused.code == 2
    assert "training.batch is 32 there, 33 here" in refused.err


def test_a_run_is_replaced_when_asked_to(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(vadd_run, tmp_path / "run")
    done = vadd_command("train", "checkerboard", *TINY, "training.steps=2", "--out", copy, "--overwrite")
    assert done.code == 0
    assert [path.name for path in RunDirectory(copy).checkpoints()] == ["step-00000002"]
    assert {record["step"] for record in RunDirectory(copy).metrics()} == {2}


def test_another_length_is_told_and_another_recipe_is_refused_with_the_differences(
    vadd_command: Command, vadd_run: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(vadd_run, tmp_path / "run")
    before = (copy / "recipe.yaml").read_text()
    refused = vadd_command("train", "--out", copy, "--resume", "training.weight_decay=0.5", "network.width=17")
    assert refused.code == 2
    assert "training.weight_decay is 0.0 there, 0.5 here" in refused.err
    assert "network.width is 16 there, 17 here" in refused.err
    assert (copy / "recipe.yaml").read_text() == before
    longer = vadd_command("train", "--out", copy, "--resume", "training.steps=32", "training.log_every=2")
    assert longer.code == 0
    assert "warning: training.steps was 30 and is 32: from step 30 on" in longer.err
    assert RunDirectory(copy).recipe().training.steps == 32


def test_a_run_in_which_a_training_runs_is_neither_resumed_nor_replaced(
    vadd_command: Command, vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vadd.run.lock.PAUSE", 0.0)
    copy = shutil.copytree(vadd_run, tmp_path / "run")
    before = {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()}
    with RunLock(copy):
        for how in (("--resume", "training.steps=40"), ("checkerboard", *TINY, "--overwrite")):
            refused = vadd_command("train", "--out", copy, *how)
            assert refused.code == 2
            assert refused.err == f"error: another training is running in {copy}\n"
    assert {file: file.read_bytes() for file in copy.rglob("*") if file.is_file()} == before
    assert vadd_command("train", "--out", copy, "--resume").code == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("training.accumulate=5", "training.batch=32 must be divisible by 1 processes x training.accumulate=5 = 5"),
        ("training.trackers=[wandb]", "pip install wandb"),
        ("training.trackers=[mlflow]", "training.trackers"),
        ("training.sharding=half", "training.sharding"),
        ("training.precision=float8", "training.precision"),
        ("training.compile=maybe", "training.compile"),
        ("training.checkpoint_minutes=0", "training.checkpoint_minutes"),
        ("training.nonfinite_patience=0", "training.nonfinite_patience"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_a_directory_is_made(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, told: str
) -> None:
    monkeypatch.setattr("vadd.training.metrics.find_spec", lambda name: None)
    refused = vadd_command("train", "checkerboard", *TINY, change, "--out", tmp_path / "run")
    assert refused.code == 2
    assert told in refused.err
    assert refused.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_collapsed_latent_is_noticed_and_one_step_is_not_suggested(
    codes_file: Path, tmp_path: Path, vadd_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a latent has collapsed is a threshold of variances: here none is large enough."""
    monkeypatch.setattr("vadd.core.health.ACTIVE_VARIANCE", 1e9)
    done = vadd_command("train", "--data", codes_file, "--out", tmp_path / "run", *TINY_ARRAY)
    assert done.code == 0
    assert "posterior collapse at step 10" in done.err
    assert "training.kl_weight=0.3" in done.err
    assert "--steps 32" in done.out
    monkeypatch.undo()
    healthy = vadd_command("train", "--data", codes_file, "--out", tmp_path / "other", *TINY_ARRAY)
    assert "collapse" not in healthy.err
    assert "--steps 1" in healthy.out
