"""``vadd eval`` and ``vadd compare`` on runs of text, with a judge and without."""

import json
from pathlib import Path

import pytest

from tests.helpers.commands import Command
from tests.helpers.judges import save_judge
from tests.helpers.text_runs import BOOK, text_recipe
from tests.helpers.tiny import train_in
from vadd.evaluation.reports import PERIODIC, REAL, TRIGRAM


@pytest.fixture(scope="module")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    (folder / "book.txt").write_text(BOOK)
    assert train_in(folder / "run", text_recipe(folder / "book.txt", "training.steps=4", "data.length=12")).finished
    return folder / "run"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_judge(tmp_path_factory.mktemp("judges") / "tiny")


def test_texts_are_judged_beside_as_many_real_ones(
    vadd_command: Command, text_run: Path, judge: Path, tmp_path: Path
) -> None:
    file = tmp_path / "numbers.json"
    done = vadd_command("eval", text_run, "--judge", judge, "--steps", "1,4", "--samples", 6, "--json", file)
    assert done.code == 0, done.err
    report = json.loads(file.read_text())
    assert report["samples"] == report["real_text"]["texts"] == 6
    assert report["judge"]["convention"].startswith("corpus")
    assert report["latent_policy"] == "resample"
    for found in [*report["results"], report["real_text"]]:
        assert found["gen_ppl"] > 1
        assert found["judged_tokens"] > 0
        assert found["sample_entropy"] > 0
    assert "6 real texts" in done.out
    assert "corpus: exp(sum of nats / sum of tokens)" in " ".join(done.out.split())
    assert "…" not in done.out.partition("Health of the latent")[0], "every number is whole at eighty columns"
    mean = vadd_command("eval", text_run, "--judge", judge, "--steps", "1", "--samples", 6, "--convention", "sedd")
    assert "sedd: the mean of the texts' own perplexities" in " ".join(mean.out.split())


def test_controls_and_other_temperatures_stand_beside_the_samples(
    vadd_command: Command, text_run: Path, judge: Path, tmp_path: Path
) -> None:
    """At temperature 0 a text is all of one letter or a few: less entropy than at 1, which is as without the option."""
    file, options = tmp_path / "numbers.json", ("--judge", judge, "--steps", "2", "--samples", 12)
    done = vadd_command("eval", text_run, *options, "--temperatures", "0,3", "--json", file)
    assert done.code == 0, done.err
    report = json.loads(file.read_text())
    names = [each["file"] for each in report["texts"]]
    assert names == ["2 steps", PERIODIC, TRIGRAM, REAL]
    assert {each["against"]["compared"] for each in report["texts"]} == {12}
    assert all(each["gen_ppl"] > 1 for each in report["texts"])
    samples = report["results"][0]
    assert report["texts"][0]["sample_entropy"] == pytest.approx(samples["sample_entropy"])
    curve = report["temperatures"]
    assert [point["temperature"] for point in curve] == [0, 1, 3]
    assert {**curve[1], "temperature": None} == {**samples, "temperature": None}
    assert curve[0]["sample_entropy"] < curve[1]["sample_entropy"]
    (matched,) = report["at_real_entropy"]
    assert matched["entropy"] == report["real_text"]["sample_entropy"]
    for told in ("control:", "Texts as a distribution", "Texts by temperature", "Texts at equal entropy"):
        assert told in done.out
    refused = vadd_command("eval", text_run, "--temperatures", "0.7")
    assert (refused.code, refused.err.splitlines()[-1]) == (2, "error: --temperatures is for --judge")
    wrong = vadd_command("eval", text_run, *options, "--temperatures", "warm")
    assert wrong.code == 2
    assert "--temperatures takes numbers" in wrong.err.splitlines()[-1]


def test_without_a_judge_texts_are_counted_and_it_is_said_how_to_get_more(
    vadd_command: Command, text_run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "numbers.json"
    done = vadd_command("eval", text_run, "--steps", "2", "--samples", 5, "--json", file)
    assert done.code == 0, done.err
    assert "add --judge" in done.err
    report = json.loads(file.read_text())
    (found,) = report["results"]
    assert found.keys() == {"steps", "sample_entropy", "distinct_1", "distinct_2", "distinct_3"}
    assert "judge" not in report


def test_runs_on_text_are_compared_on_one_page(
    vadd_command: Command, text_run: Path, judge: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report"
    options = ("--steps", "1,2", "--samples", 4, "--bound", "none", "--judge", judge, "--temperatures", "0.5")
    done = vadd_command("compare", text_run, text_run, "--out", out, *options)
    assert done.code == 0, done.err
    assert (out / "figures" / "texts.png").is_file()
    assert (out / "figures" / "temperatures.png").is_file()
    assert "Samples side by side" in (out / "report.html").read_text()
    assert len(json.loads((out / "results.json").read_text())) == 2


def test_bad_judges_are_one_line(
    vadd_command: Command, text_run: Path, vadd_run: Path, judge: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + b"\x00" * 30)
    (tmp_path / "folder").mkdir()
    cases = [
        (vadd_run, judge, "--judge is for runs on text"),
        (text_run, tmp_path / "nowhere", "no such file or folder"),
        (text_run, tmp_path / "folder", "config.json"),
        (text_run, tmp_path / "broken.gguf", "broken.gguf"),
    ]
    for run, source, told in cases:
        refused = vadd_command("eval", run, "--judge", source, "--steps", "1")
        assert refused.code == 2
        assert told in refused.err
        assert len(refused.err.strip().splitlines()) == 1
    unknown = vadd_command("eval", text_run, "--judge", judge, "--convention", "mean")
    assert unknown.code == 2
    assert "'mean'" in unknown.err
