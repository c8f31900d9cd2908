"""Every model from the command line: trained, sampled, judged; what a model does not have is refused in one line."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.commands import Command
from tests.helpers.model_runs import ModelRuns
from tests.helpers.tiny import SHORT_TRAINING, TINY, tiny_recipe, train_in
from vadd.recipe import EVERY_MODEL, MODELS, load_recipe
from vadd.run.loading import load

TINY_TOY = ("data.vocab_size=8", "data.train_size=500", "data.test_size=200")
TINY_CAUSAL = ("network.heads=2", "network.denoiser.width=8", "network.denoiser.blocks=1")


@pytest.fixture(scope="module")
def ar_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "ar"
    recipe = load_recipe("checkerboard").with_overrides(["model=ar", *TINY_TOY, *TINY_CAUSAL, *SHORT_TRAINING])
    assert train_in(path, recipe).finished
    return path


OWN_SAMPLERS = {"genmd4", "sedd", "udlm", "vadd-uniform"}
OTHERS = ("md4", "genmd4", "radd", "d3pm", "sedd", "udlm", "vadd-uniform")


@pytest.mark.parametrize("model", OTHERS)
def test_a_valid_bound_of_every_model_and_no_sampler_that_it_does_not_have(
    vadd_command: Command, model_runs: ModelRuns, tmp_path: Path, model: str
) -> None:
    run, report = model_runs[model], tmp_path / "report.json"
    assert vadd_command("eval", run, "--bound", 2, "--limit", 20, "--particles", 4, "--json", report).code == 0
    assert json.loads(report.read_text())["bounds"][0]["valid"]
    if model in OWN_SAMPLERS:
        refused = vadd_command("sample", run, "--sampler", "confidence")
        assert refused.code == 2
        assert "does not have the sampler 'confidence'" in refused.err


def test_candidates_are_weighed_by_an_autoregressive_run(
    vadd_command: Command, ar_run: Path, mdlm_run: Path, vadd_run: Path, tmp_path: Path
) -> None:
    for run in (mdlm_run, vadd_run):
        done = vadd_command("sample", run, "-n", 5, "--steps", 2, "--energy", ar_run, "--energy-candidates", 3)
        assert done.code == 0
        assert "not exact" in done.out + done.err
    bound = ("--bound", 1, "--limit", 20, "--particles", 4)
    report = tmp_path / "report.json"
    done = vadd_command("eval", mdlm_run, "--steps", 1, "--samples", 50, *bound, "--energy", ar_run, "--json", report)
    assert done.code == 0
    found = json.loads(report.read_text())
    assert found["model"] == "edlm"
    assert not found["bounds"][0]["valid"]
    assert "of the proposal" in found["bounds"][0]["convention"]
    np.save(tmp_path / "begun.npy", np.array([[5, -1]]))
    filled = ("infill", mdlm_run, "--array", tmp_path / "begun.npy", "--energy", ar_run, "-n", 2)
    assert vadd_command(*filled).code == 0


def test_energies_that_do_not_fit_are_refused(
    vadd_command: Command, ar_run: Path, mdlm_run: Path, array_run: Path, tmp_path: Path
) -> None:
    lines = {
        ("sample", array_run, "--energy", ar_run): "examples of shape",
        ("sample", mdlm_run, "--energy", mdlm_run): "trained with model=ar",
        ("sample", ar_run, "--energy", ar_run): "--energy needs a masked model",
        ("sample", mdlm_run, "--energy", tmp_path / "none"): "none",
        ("sample", mdlm_run, "--energy", ar_run, "--energy-candidates", 0): "at least 1",
        ("sample", mdlm_run, "--energy-candidates", 4): "--energy-candidates is for --energy",
        ("train", "checkerboard", "model=edlm", "--out", tmp_path / "new"): "--start-from RUN",
        (
            "train",
            "checkerboard",
            *TINY,
            "model=edlm",
            "--start-from",
            ar_run,
            "--out",
            tmp_path / "new",
        ): "is ar; a training starts from MDLM or from its own model",
    }
    for command, line in lines.items():
        done = vadd_command(*command)
        assert (done.code, done.err.count("\n")) == (2, 1), command
        assert line in done.err


def test_an_energy_is_learnt_for_a_finished_run(vadd_command: Command, mdlm_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert vadd_command("train", "checkerboard", *TINY, "model=edlm", "--start-from", mdlm_run, "--out", run).code == 0
    trained, base = load(run).model, load(mdlm_run).model
    ours, theirs = (dict(model.named_parameters()) for model in (trained, base))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)  # the proposal is left as it was
    assert vadd_command("sample", run, "-n", 4, "--steps", 2).code == 0
    same = load(run).sample(50, steps=2, sampler="proposal")
    assert torch.equal(same, load(mdlm_run).sample(50, steps=2))
    plan = vadd_command("plan", "checkerboard", *TINY, "model=edlm", f"training.start_from={mdlm_run}")
    assert plan.code == 0


def test_euler_is_for_scores_only(vadd_command: Command, mdlm_run: Path) -> None:
    done = vadd_command("sample", mdlm_run, "--sampler", "euler")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "this model does not have the sampler 'euler'" in done.err


MISFITS = {
    "noise": (("diffusion.noise=uniform",), "needs model=udlm or model=vadd-uniform"),
    "masks": (("model=udlm", "diffusion.mask_draw=iid"), "diffusion.mask_draw=levels or steps"),
    "blind": (("model=udlm", "network.time_features=0"), "time_features above 0"),
    "counts": (("model=genmd4", "diffusion.mask_draw=exact-count"), "diffusion.mask_draw=iid or stratified"),
    "weights": (("model=genmd4", "diffusion.weighting=even"), "diffusion.weighting=integral"),
    "auxiliary": (("model=d3pm", "diffusion.auxiliary=-1"), "diffusion.auxiliary"),
}


@pytest.mark.parametrize(("changes", "line"), MISFITS.values(), ids=MISFITS)
def test_settings_that_do_not_go_together_are_refused(
    vadd_command: Command, tmp_path: Path, changes: tuple[str, ...], line: str
) -> None:
    done = vadd_command("train", "checkerboard", *changes, "--out", tmp_path / "new")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert line in done.err
    assert not (tmp_path / "new").exists()


def test_the_zoo_lists_every_model(vadd_command: Command, tmp_path: Path) -> None:
    done = vadd_command("zoo", "--json", tmp_path / "zoo.json")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines() if line and line[0] != " "][:-1] == list(EVERY_MODEL)
    assert [each["model"] for each in json.loads((tmp_path / "zoo.json").read_text())] == list(EVERY_MODEL)
    assert "vadd reproduce baselines --data digits --models mdlm,vadd,ddpm" in vadd_command("zoo", "ddpm").out
    one = vadd_command("zoo", "md4")
    assert "diffusion.schedule: cosine" in one.out
    for name in EVERY_MODEL:
        shown = vadd_command("zoo", name)
        assert (shown.code, shown.err) == (0, "")
        assert "None" not in shown.out
    assert "training.start_from: RUN" in vadd_command("zoo", "edlm").out
    wrong = vadd_command("zoo", "sed")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "did you mean 'sedd'" in wrong.err


def test_every_model_has_an_entry() -> None:
    assert len({facts.label for facts in MODELS.values()}) == len(MODELS)


def test_a_model_brings_its_settings_and_what_is_said_wins() -> None:
    recipe = load_recipe("checkerboard")
    assert recipe.with_overrides(["model=ar"]).network.kind == "short-transformer"
    text = load_recipe("text8").with_overrides(["model=ar"])
    assert text.network == load_recipe("text8").network  # which can read from left to right
    own = recipe.with_overrides(["network.denoiser.blocks=1", "model=ar"])
    assert own.network.values_of("denoiser")["blocks"] == 1
    assert recipe.with_overrides(["model=ar", "model=ar"]).model == "ar"


def test_an_autoregressive_run_takes_a_step_for_each_position(vadd_command: Command, ar_run: Path) -> None:
    done = vadd_command("eval", ar_run, "--samples", 100)
    assert done.code == 0
    assert " AR " in done.out
    bounded = vadd_command("eval", ar_run, "--bound", 2, "--limit", 50)
    assert bounded.code == 0
    assert "T = 2" in bounded.out
    assert vadd_command("sample", ar_run, "-n", 3).code == 0


def test_an_autoregressive_run_goes_on_from_a_beginning(vadd_command: Command, ar_run: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "begun.npy", np.array([[5, -1], [-1, -1]]))
    out = tmp_path / "filled.npy"
    assert vadd_command("infill", ar_run, "--array", tmp_path / "begun.npy", "-n", 3, "--out", out).code == 0
    filled = np.load(out)
    assert filled.shape == (2, 3, 2)
    assert (filled[0, :, 0] == 5).all()
    assert filled.min() >= 0
    assert torch.equal(load(ar_run).infill(np.array([[5, -1]])), load(ar_run).infill(np.array([[5, -1]])))


REFUSED = {
    "a sampler": (("sample", "--sampler", "parallel"), "this model does not have the sampler 'parallel'"),
    "steps": (("sample", "--steps", "7"), "2 steps, not 7"),
    "a bound": (("eval", "--bound", "1"), "2 steps, not 1"),
    "a latent": (("latent", "--encode", "0"), "no latent"),
    "a prior": (("fit-prior",), "no latent"),
    "a policy, sample": (("sample", "--latent-policy", "fixed"), "has no latent; leave --latent-policy out"),
    "a policy, eval": (("eval", "--latent-policy", "resample"), "has no latent; leave --latent-policy out"),
}


@pytest.mark.parametrize(("what", "line"), REFUSED.values(), ids=REFUSED)
def test_what_a_model_does_not_have_is_refused(
    vadd_command: Command, ar_run: Path, what: tuple[str, ...], line: str
) -> None:
    done = vadd_command(what[0], ar_run, *what[1:])
    assert done.code == 2
    assert line in done.err
    assert done.err.count("\n") == 1


def test_gaps_before_what_is_known_are_refused(vadd_command: Command, ar_run: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "gap.npy", np.array([[-1, 3]]))
    done = vadd_command("infill", ar_run, "--array", tmp_path / "gap.npy")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "to the left of known ones" in done.err


def test_a_network_that_cannot_read_in_order_is_refused(vadd_command: Command, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: checkerboard\nmodel: ar\n")
    done = vadd_command("train", mine, "--out", tmp_path / "new")
    assert done.code == 2
    assert "model=ar needs network.kind=transformer or short-transformer, not mlp" in done.err
    assert not (tmp_path / "new").exists()


def test_models_stand_side_by_side_at_the_steps_that_they_have(
    vadd_command: Command, ar_run: Path, mdlm_run: Path, tmp_path: Path
) -> None:
    assert tiny_recipe().name == load(ar_run).recipe.name
    options = ("--steps", "1,4", "--bound", "1,4", "--samples", 100, "--limit", 20, "--out", tmp_path / "report")
    done = vadd_command("compare", mdlm_run, ar_run, *options)
    assert done.code == 0
    assert (tmp_path / "report" / "report.html").is_file()
    tables = (tmp_path / "report" / "tables.md").read_text()
    assert "| checkerboard MDLM | 1 |" in tables
    assert "| checkerboard AR | 2 |" in tables
