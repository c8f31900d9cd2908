"""``vadd reproduce text``, shrunk to seconds, with a tiny judge and without, and its tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import Command
from tests.helpers.judges import save_judge
from tests.helpers.reports import likelihood, run_report
from tests.helpers.text_runs import BOOK, TINY_NETWORK
from vadd.evaluation import RunReport
from vadd.evaluation.reports import JudgeReport, RealText, StepResult, TextMetrics
from vadd.recipe import load_recipe
from vadd.recipe.loading import how_computed, published_recipe, unlike
from vadd.report.notes import NOTES
from vadd.report.table import Table
from vadd.studies.study import study_named
from vadd.studies.tables import character_tables, ratio_tables, text_likelihood_tables, time_tables
from vadd.studies.trainings import bound_settings

PAPER = study_named("text").published
ABLATION = {1: "22.56", 10: "22.33", 50: "22.36", 100: "22.27", 1000: "22.21"}
TINY = (
    *TINY_NETWORK,
    "latent.dim=3",
    "data.corpus=files",
    "data.length=12",
    "training.steps=10",
    "training.batch=8",
    "training.evaluate_every=3",
    "training.log_every=3",
)


LITTLE = ("--particles", 2, "--draws", 1, "--limit", 3, "--bound", "1,2")


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.txt"
    path.write_text(BOOK)
    return path


def test_text_from_nothing_to_the_report(vadd_command: Command, tmp_path: Path, book: Path) -> None:
    out, file, judge = tmp_path / "out", tmp_path / "numbers.json", save_judge(tmp_path / "tiny-judge")
    options = (
        "--recipe",
        "text8-per-state",
        "--data",
        book,
        "--steps",
        "1,4",
        "--samples",
        5,
        "--judge",
        judge,
        *LITTLE,
    )
    result = vadd_command("reproduce", "text", *TINY, "--out", out, "--json", file, "--float32", *options)
    assert result.code == 0, result.err
    reports = json.loads(file.read_text())
    assert reports == json.loads((out / "results.json").read_text())
    assert [report["model"] for report in reports] == ["mdlm", "vadd", "vadd", "mdlm", "vadd"]
    assert [report.get("draws") for report in reports] == [None, None, None, "float32", "float32"]
    assert [report.get("latent_policy") for report in reports] == [None, "resample", "fixed", None, "resample"]
    assert [[found["steps"] for found in report["results"]] for report in reports] == [[1, 4]] * 5
    assert all(found["gen_ppl"] > 1 for report in reports for found in [*report["results"], report["real_text"]])
    assert all(report["judge"]["name"] == "tiny-judge" for report in reports)
    assert all(report["training_seconds"] > 0 for report in reports)
    assert [report["training_steps"] for report in reports] == [11, 10, 10, 11, 10], "MDLM is given the same time"
    bounds = [[bound["steps"] for bound in report["bounds"]] for report in reports if "bounds" in report]
    assert bounds == [[1, 2], [1, 2], [1, 2]], "bounds are about exact draws"
    assert "VADD, float32 draws / MDLM" in result.out
    one_step = [report["results"][0]["gen_ppl"] for report in reports]
    assert one_step[1] == one_step[2], "in one step there is one latent either way"
    assert reports[0]["elbo"]["valid"] is True
    assert reports[1]["delbo"]["valid"] is False
    assert {figure.stem for figure in (out / "figures").iterdir()} >= {"texts", "bounds", "training"}
    page = (out / "report.html").read_text()
    for part in (
        "VADD / MDLM",
        "Samples side by side",
        "Time of training",
        "DELBO, not a likelihood bound",
        "real text",
    ):
        assert part in page
    assert f"--judge {judge}" in page, "the command as it was typed, so that the report can be made again"
    assert "VADD, one z / MDLM" in result.out
    assert "The paper's perplexities: openwebtext" in result.out
    assert "…" not in result.out, "every number is whole at eighty columns"


def test_lm1b_of_sentences_from_nothing_to_the_report(vadd_command: Command, tmp_path: Path) -> None:
    sentences = tmp_path / "sentences.txt"
    sentences.write_text(BOOK)
    changes = [change for change in TINY if not change.startswith("data.corpus")]
    options = ("--data", sentences, "--steps", "2", "--samples", 3, "--bound", "1", *LITTLE[:-2])
    result = vadd_command("reproduce", "lm1b", *changes, "data.tokenizer=bytes", "--out", tmp_path / "out", *options)
    assert result.code == 0, result.err
    assert "pads not scored" in " ".join(result.out.split())
    for part in ("The paper's perplexities: lm1b", "27.70", "20.53", "not to be compared with ours"):
        assert part in " ".join(result.out.split()), "the paper's rows are there, apart from ours"
    assert "vadd reproduce lm1b " in (tmp_path / "out" / "report.html").read_text()


def test_without_a_judge_it_is_said_how_to_give_one(vadd_command: Command, tmp_path: Path, book: Path) -> None:
    options = ("--recipe", "pydocs", "--data", book, "--steps", "2", "--samples", 3, *LITTLE)
    changes = (*TINY, "latent.flow.steps=5", "latent.flow.transforms=2")
    result = vadd_command("reproduce", "text", *changes, "--out", tmp_path / "out", *options)
    assert result.code == 0, result.err
    assert "add --judge" in result.err
    assert "entropy" in result.out
    assert "gen. PPL" not in result.out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--recipe", "checkerboard"), "is not one for text"),
        (("--recipe", "pydocs", "--judge", "none.gguf"), "there is no judge none.gguf"),
        (("--recipe", "pydoc"), "did you mean 'pydocs'"),
        (("--recipe", "pydocs", "model=mdlm"), "model=mdlm contradicts what is compared"),
        (("--recipe", "pydocs", "sampling.latent_policy=fixed"), "contradicts what is compared"),
        (("--recipe", "pydocs", "training.stps=3"), "did you mean 'training.steps'"),
        (("--recipe", "pydocs", "--data", "none.txt"), "there is no file none.txt"),
    ],
)
def test_bad_input_costs_one_line_and_no_training(
    vadd_command: Command, tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    result = vadd_command("reproduce", "text", "--out", tmp_path / "out", *options)
    assert result.code == 2
    assert told in result.err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def metrics(perplexity: float | None, bits: float | None = None) -> TextMetrics:
    statistics = TextMetrics(sample_entropy=2.0, distinct_1=0.5, distinct_2=0.5, distinct_3=0.5)
    return statistics.changed(gen_ppl=perplexity, judge_bits=bits, judged_tokens=10)


def report(model: str, *perplexities: float | None, recipe: str = "book", **more: Any) -> RunReport:
    found = tuple(StepResult(steps=16 * 2**n, metrics=metrics(value)) for n, value in enumerate(perplexities))
    made = {
        "judge": JudgeReport(name="small", convention="corpus: ...", first_token="...", max_length=1024),
        "results": found,
        "real_text": RealText(texts=7, metrics=metrics(20.0, 1.25)),
        "likelihood": likelihood(model, 2.0, (1, 4.0), (2, 3.0)),
        "training_seconds": 61.4,
    }
    return run_report(model, recipe, **{**made, **more})


def test_the_ratio_stands_below_the_perplexities() -> None:
    (table,) = ratio_tables([report("mdlm", 300.0, None), report("vadd", 150.0, 90.0)], PAPER)
    assert [list(row) for row in table.rows] == [
        ["MDLM", "300.0", None],
        ["VADD", "150.0", "90.0"],
        ["VADD / MDLM", "0.500", None],
        ["real text", "20.0", "20.0"],
    ]
    assert "do not compare with these" in table.note


@pytest.mark.parametrize(
    ("recipe", "judge", "beside"),
    [
        ("openwebtext", "openai-community/gpt2-large", True),
        ("openwebtext", "gpt2", False),
        ("pydocs", "gpt2-large", False),
    ],
)
def test_the_papers_generative_perplexities_stand_only_beside_what_was_measured_alike(
    recipe: str, judge: str, beside: bool
) -> None:
    more = {
        "judge": JudgeReport(name=judge, convention="corpus: ...", first_token="...", max_length=1024),
        "published_recipe": recipe,
    }
    reports = [report(model, 300.0, 200.0, recipe="mine", **more) for model in ("mdlm", "vadd")]
    (table,) = ratio_tables(reports, PAPER)
    rows = {row[0]: list(row[1:]) for row in table.rows}
    assert rows.get("MDLM, the paper, float64 draws, 256 samples") == ([330.39, 191.96] if beside else None)
    assert rows.get("VADD, the paper, float64 draws, 256 samples") == ([194.08, 124.23] if beside else None)
    assert ("do not compare" in table.note.replace("It compares", "")) is not beside


def test_every_number_of_bits_stands_under_its_own_name() -> None:
    reports = [report("mdlm"), report("vadd")]
    table, _ = text_likelihood_tables(reports, PAPER)
    assert [list(row) for row in table.rows] == [
        ["MDLM", "4.000", "step bound, T = 1, a bound", None, None, 5],
        ["MDLM", "3.000", "step bound, T = 2, a bound", None, None, 5],
        ["MDLM", "2.000", "ELBO, a bound", None, 2, 5],
        ["VADD", "4.000", "step bound, T = 1, a bound", None, None, 5],
        ["VADD", "3.000", "step bound, T = 2, a bound", None, None, 5],
        ["VADD", "2.000", "DELBO, not a likelihood bound", 4, 2, 5],
    ]
    assert [list(row) for row in time_tables(reports, PAPER)[0].rows] == [["MDLM", 500, 61], ["VADD", 500, 61]]


@pytest.mark.parametrize(
    ("corpus", "rows"),
    [
        ("lm1b", {("MDLM, the paper", "27.70", None), ("VADD, the paper", "20.53", 1000)}),
        (
            "openwebtext",
            {("MDLM, the paper", "23.07", None), *(("VADD, the paper", p, k) for k, p in ABLATION.items())},
        ),
    ],
)
def test_perplexities_of_a_corpus_of_the_paper_stand_beside_its_rows(
    corpus: str, rows: set[tuple[object, ...]]
) -> None:
    """Whatever the recipe is called."""
    reports = [report(model, recipe="mine", published_recipe=corpus) for model in ("mdlm", "vadd")]
    study = study_named("text" if corpus == "openwebtext" else "lm1b")
    (table,) = text_likelihood_tables(reports, study.published)  # none apart where the tokens are the same
    assert table.columns == ["", "iterations", "perplexity", "which is", "K", "masks", "sequences"]
    found = {(row[0], row[2], row[4]) for row in table.rows}
    assert rows <= found
    assert ("VADD", "4.00", 4) in found
    assert "the paper's K = 1000" in table.note


def test_bits_per_character_compare_as_perplexities() -> None:
    """Half a bit less is a perplexity 2^-0.5 times as large."""
    found = {"mdlm": (3.0, None), "vadd": (2.5, 2.0)}
    reports = [
        report(
            model,
            results=tuple(StepResult(steps=steps, metrics=metrics(9.0, value)) for steps, value in enumerate(bits, 1)),
        )
        for model, bits in found.items()
    ]
    assert [list(row) for row in character_tables(reports, PAPER)[0].rows] == [
        ["MDLM", "3.000", None],
        ["VADD", "2.500", "2.000"],
        ["VADD / MDLM, perplexity", "0.707", None],
        ["real text", "1.250", "1.250"],
    ]


def test_the_bits_of_padded_text_are_valid_only_where_pads_are_scored() -> None:
    def table_of(**more: Any) -> Table:
        found = [report(m, likelihood=likelihood(m, 2.0, (1, 4.0), **more)) for m in ("mdlm", "vadd")]
        return text_likelihood_tables(found, PAPER)[0]

    padded, scored = table_of(valid=False, convention="pads not scored"), table_of()
    assert [row[2] for row in padded.rows] == [
        "step bound, T = 1, pads not scored",
        "ELBO, pads not scored",
        "step bound, T = 1, pads not scored",
        "DELBO, not a likelihood bound, pads not scored",
    ]
    assert NOTES["pads"] in padded.note
    assert NOTES["pads"] not in scored.note
    assert "a bound" in str(scored.rows[0][2])


def test_a_recipe_of_another_name_that_extends_the_papers_is_read_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("extends: openwebtext\ntraining: {steps: 1000, precision: bfloat16}\n")
    recipe = load_recipe(str(file))
    assert published_recipe(recipe) == "openwebtext"
    assert unlike(recipe, "openwebtext") == ("training.steps=1000 instead of 1000000",)
    assert how_computed(recipe) == ("training.precision=bfloat16",)
    assert published_recipe(recipe.with_overrides(["data.wrap=packed"])) is None


def test_a_copy_of_lm1b_has_another_held_out_part_than_the_papers() -> None:
    """A file has no test split; OpenWebText's is the end of any copy."""
    copies = [load_recipe(name).with_overrides(["data.path=copy.txt"]) for name in ("lm1b", "openwebtext")]
    lm1b, openwebtext = (unlike(recipe, published_recipe(recipe) or "") for recipe in copies)
    assert lm1b == ("data.path, of which 0.1 is held out instead of the published test split",)
    assert openwebtext == ()
    assert unlike(load_recipe("lm1b"), "lm1b") == ()


def test_the_ablation_over_k_is_of_openwebtext_alone() -> None:
    counts = {name: study_named(name).settings["paper"].measuring for name in ("text", "lm1b")}
    assert bound_settings(counts["text"]).delbo_counts == [1, 10, 50, 100, 1000]
    assert bound_settings(counts["lm1b"]).delbo_counts == [1000]
