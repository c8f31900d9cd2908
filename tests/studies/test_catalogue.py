"""The studies that are not comparisons of samples, and the list of all, shrunk to seconds."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import Command
from tests.helpers.files import write
from tests.helpers.reports import likelihood, run_report
from tests.helpers.text_runs import BOOK, TINY_NETWORK, train_on_text
from vadd.core import Objective
from vadd.evaluation.reports import CorpusReport, RunReport, ScoredCorpus
from vadd.recipe import Recipe
from vadd.recipe.counting import model_on_meta, sampling_flops, training_cost
from vadd.run.run import Run
from vadd.studies import engine
from vadd.studies.engine import reproduce, zero_shot_tables
from vadd.studies.study import OF_THE_PAPER, RATE, Request, made_here, study_named
from vadd.studies.trainings import bound_settings, trainings_of
from vadd.training.loop import Trainer

TINY_IMAGES = (
    "network.width=16",
    "network.denoiser.blocks=1",
    "network.recognizer.blocks=1",
    "latent.dim=4",
    "training.steps=5",
    "training.batch=32",
)
PAPER = study_named("zero-shot").published
CORPORA = PAPER.columns
LITTLE = ("--particles", 2, "--draws", 1, "--limit", 3, "--bound", "1,2")


@pytest.fixture(scope="module")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_on_text(tmp_path_factory.mktemp("text"), BOOK, "data.length=12", "data.tokenizer=bytes")


def test_recognition_with_and_without_the_state(vadd_command: Command, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "numbers.json"
    options = ("--steps", "1", "--samples", 100, "--json", file, *LITTLE)
    result = vadd_command("reproduce", "recognition", *TINY_IMAGES, "--out", out, *options)
    assert result.code == 0, result.err
    assert [report["recipe"] for report in json.loads(file.read_text())] == [
        "digits-per-state",
        "digits-per-state",
    ]
    for part in ("with x_t", "without x_t, one z", "active"):
        assert part in result.out
    assert "vadd reproduce recognition" in (out / "report.html").read_text()
    refused = vadd_command("reproduce", "recognition", "latent.kind=shared", "--out", tmp_path / "other")
    assert refused.code == 2
    assert "contradicts what is compared" in refused.err


def test_speed_stands_beside_the_papers_ratio(vadd_command: Command, tmp_path: Path) -> None:
    file = tmp_path / "speed.json"
    changes = (*TINY_NETWORK, "training.batch=4", "training.accumulate=2")
    options = ("--recipe", "text8-small", "--steps", 4, "--out", tmp_path / "out", "--json", file)
    result = vadd_command("reproduce", "speed", *changes, *options)
    assert result.code == 0, result.err
    speeds = json.loads(file.read_text())
    assert [speed["model"] for speed in speeds] == ["mdlm", "vadd"]
    assert all(speed["steps"] == 4 and speed["steps_per_second"] > 0 for speed in speeds)
    for part in ("MDLM, the paper", "2.77", "1.74", "1.84", "0.66", "training.accumulate=2"):
        assert part in result.out
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == speeds


def test_speeds_are_measured_of_what_fits_both_computed_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed: list[str] = []

    def fitted(recipe: Recipe, data: object, other: Recipe) -> Recipe:
        needed.extend([recipe.model, other.model])
        return recipe.with_overrides(["training.accumulate=2"])

    monkeypatch.setattr(engine, "fitted", fitted)
    changes = (*TINY_NETWORK, "training.batch=4")
    request = Request(out=tmp_path, setting="small", recipe="text8-small", timed_steps=4, overrides=changes, fit=True)
    result = reproduce(study_named("speed"), request)
    assert needed == ["vadd", "mdlm"], "the larger one decides, with the weights of the other beside it"
    assert [each["how_computed"] for each in result.numbers] == [["training.accumulate=2"]] * 2


def corpora(folder: Path, *names: str) -> Path:
    for name in names:
        write(folder / f"{name}_test.txt", "the dog sat on the mat\n" * 5)
    return folder


def test_zero_shot_of_several_runs_side_by_side(vadd_command: Command, tmp_path: Path, text_run: Run) -> None:
    folder, path = corpora(tmp_path / "corpora", *CORPORA), text_run.directory.path
    options = ("--corpora", folder, "--run", path, "--run", path, "--out", tmp_path / "out", *LITTLE)
    result = vadd_command("reproduce", "zero-shot", "--only", "lambada,wikitext", *options)
    assert result.code == 0, result.err
    page = (tmp_path / "out" / "zero-shot" / "report.html").read_text()
    for part in ("lambada_test.txt", "DELBO, K = 2, 1 masks, not a bound", "wikitext validation", "47.3", "35.61"):
        assert part in page
    assert "The paper&#39;s zero-shot perplexities" in page, "another unit: another table"
    assert len(json.loads((tmp_path / "out" / "zero-shot" / "results.json").read_text())) == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--only", "lambada,pubmed"), "there is no copy of pubmed (armanc/scientific_papers on the hub)"),
        (("--only", "novels"), "unknown corpus 'novels'"),
    ],
)
def test_corpora_that_are_not_there_are_named_before_anything_is_trained(
    vadd_command: Command, tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    folder = corpora(tmp_path / "corpora", "lambada")
    refused = vadd_command("reproduce", "zero-shot", "--corpora", folder, "--out", tmp_path / "out", *options)
    assert refused.code == 2
    assert told in refused.err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def zero_shot_report(model: str, **more: Any) -> RunReport:
    found = likelihood(model, 2.0, (32, 4.0))
    judged = found.changed(unit="token")
    corpora: tuple[CorpusReport, ...] = tuple(
        ScoredCorpus(corpus=f"{name}.txt", read_as=name, sequences=9, likelihood=judged) for name in CORPORA
    )
    return run_report(model, zero_shot=corpora, **more)


def test_the_papers_zero_shot_rows_stand_in_the_same_table_only_for_its_own_data() -> None:
    of_the_paper = [zero_shot_report(model, published_recipe="openwebtext") for model in ("mdlm", "vadd")]
    (one,) = zero_shot_tables(of_the_paper, PAPER)
    assert one.columns == ["", *CORPORA]
    rows = {str(row[0]): list(row[1:]) for row in one.rows}
    assert rows["VADD, the paper: DELBO, K = 1000, not a bound"] == [47.30, 69.71, 34.78, 68.00, 40.62, 36.39]
    assert rows["RADD-AO, quoted by the paper"][3:] == [None, None, None]
    assert rows["sequences evaluated"] == [5] * 6
    assert "checkerboard VADD: DELBO, K = 4, 2 masks, not a bound" in rows
    ours, theirs = zero_shot_tables([zero_shot_report("mdlm"), zero_shot_report("vadd")], PAPER)
    assert not any("the paper" in str(row[0]) for row in ours.rows)
    assert len(theirs.rows) == 5


def test_the_list_says_what_was_made_and_at_what_scale(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toys = study_named("toys")
    monkeypatch.chdir(tmp_path)
    listed = vadd_command("reproduce", "--list")
    assert listed.code == 0, listed.err
    for part in ("vadd reproduce toys --scale paper", "Table 1, Figures 1, 5, 6", "; training ", "; evaluation "):
        assert part in listed.out
    assert listed.out.count("made here: no") == len(OF_THE_PAPER)

    assert made_here(toys, Path("runs")) == "no"
    write(tmp_path / "runs" / "toys" / "results.json", "[]")
    assert made_here(toys, Path("runs")) == "runs/toys"


@pytest.mark.parametrize("place", ["paper/text/zero-shot", "text-paper/zero-shot", "text/zero-shot"])
def test_what_was_made_is_found_where_the_commands_put_it(tmp_path: Path, place: str) -> None:
    zero_shot = study_named("zero-shot")
    assert made_here(zero_shot, tmp_path) == "no"
    write(tmp_path / place / "results.json", "[]")
    assert made_here(zero_shot, tmp_path) == str(tmp_path / place)


def test_every_table_and_figure_of_the_paper_has_a_study() -> None:
    found: dict[str, set[int]] = {"Table": set(), "Figure": set()}
    for name in OF_THE_PAPER:
        artefacts = study_named(name).artefacts
        for kind, listed in re.findall(r"(Table|Figure)s? ([^TF]*)", re.sub(r" \(.*?\)", "", artefacts)):
            found[kind] |= {int(number) for number in re.findall(r"\d+", listed.replace("10 to 13", "10 11 12 13"))}
    assert found["Table"] == set(range(1, 10))
    assert found["Figure"] == {1, *range(3, 14)}, "the second one shows the network"


COUNTED = 4
EXAMPLES = 10_000


def test_the_hours_are_those_of_the_arithmetic(tmp_path: Path) -> None:
    study, training, evaluation = study_named("toys"), 0.0, 0.0
    measuring = study.settings["paper"].measuring
    bounds = bound_settings(measuring)
    for recipe, _ in trainings_of(study, Request(out=tmp_path, setting="paper")):
        model = model_on_meta(recipe, recipe.data.example_kind())
        training += training_cost(model, recipe, COUNTED).flops * recipe.training.batch * recipe.training.steps
        latents, in_delbo = (measuring.particles, sum(bounds.delbo_counts)) if recipe.has_latent else (1, 1)
        of_example = sum(measuring.bound_steps) * latents + measuring.draws * in_delbo
        shown = measuring.samples * sum(measuring.steps) + EXAMPLES * of_example
        evaluation += shown * sampling_flops(model)
    assert study.hours == pytest.approx((training / RATE / 3600, evaluation / RATE / 3600), rel=1e-2)


def test_an_interrupted_study_is_not_taken_for_a_finished_one(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("reproduce", "paper", "--only", "speed,zero-shot", "--out", tmp_path / "out", *TINY_NETWORK)

    def interrupted(self: Trainer, step: int) -> Objective:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", interrupted)
        stopped = vadd_command(*words)
    assert stopped.code == 130
    assert "stopped in the study speed; run the same command again to go on" in stopped.err
    assert "zero-shot" not in stopped.err, "nothing else is begun"
    again = vadd_command(*words, "training.batch=4")
    assert "Training speed" in again.out


def test_the_whole_paper_goes_on_where_it_stopped(vadd_command: Command, tmp_path: Path) -> None:
    changes = (*TINY_NETWORK, "training.batch=4")
    words = ("reproduce", "paper", "--only", "zero-shot,speed", "--out", tmp_path / "out", *changes)
    first = vadd_command(*words)
    assert first.code == 2
    assert "zero-shot is skipped: it needs --corpora" in first.err
    assert first.err.splitlines()[-1].startswith("error: not made: zero-shot;")
    assert "Training speed" in first.out
    again = vadd_command(*words)
    assert "speed: made before" in again.err
    assert "Training speed" not in again.out
    with_json = vadd_command(*words, "--json", tmp_path / "all.json")
    assert with_json.code == 2, "what is missing is still missing"
    assert [found["model"] for found in json.loads((tmp_path / "all.json").read_text())["speed"]] == ["mdlm", "vadd"]
    unknown = vadd_command("reproduce", "paper", "--only", "speeds", "--out", tmp_path / "out")
    assert unknown.code == 2
    assert "unknown study 'speeds'" in unknown.err
