"""Corpora that a run has not learnt from: recognised, read as the run reads, judged or skipped with a reason."""

import json
from pathlib import Path

import pytest
import torch

from tests.helpers.commands import Command
from tests.helpers.files import write
from tests.helpers.reports import run_report
from tests.helpers.text_runs import BOOK, train_on_text
from vadd.core import Particles
from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.likelihood import measure_bounds
from vadd.evaluation.reports import NOT_A_BOUND, ScoredCorpus, SkippedCorpus
from vadd.evaluation.zero_shot import corpora_in, read_examples, read_text, recognise, zero_shot
from vadd.report.likelihood_tables import zero_shot_table
from vadd.run.loading import load
from vadd.run.run import Run

SETTINGS = BoundSettings(Particles(2), (2,), delbo_draws=1, limit=5)
LETTERS = 'abcdefghijklmnopqrstuvwxyz -"\n'


def train_on(folder: Path, text: str, *overrides: str) -> Run:
    """A run whose corpus is gone."""
    run = train_on_text(folder, text, "training.steps=2", "data.length=8", *overrides)
    (folder / "learnt.txt").unlink()
    return load(run.directory.path)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A VADD on characters of a running text: its tokenizer has no EOS."""
    # The alphabet over and over looks like a list of items; here it is to be read as running text.
    as_it_is = ("data.documents=null", "data.wrap=packed")
    return train_on(tmp_path_factory.mktemp("running"), LETTERS * 40, *as_it_is)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An MDLM on bytes of documents, with EOS after each."""
    return train_on(
        tmp_path_factory.mktemp("packed"), BOOK, "model=mdlm", "data.documents=line", "data.tokenizer=bytes"
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six corpora; two of them a run on the characters above cannot read."""
    place = tmp_path / "corpora"
    place.mkdir()
    write(place / "LAMBADA_test.txt", "“ the dog ” sat on\nthe cat sat on the mat\n")
    write(place / "wikitext-2.txt", "guest @-@ starring in a film\n" * 3)
    write(place / "tale.txt", "once upon a time\n\nthere was a cat\n")
    write(place / "numbers.txt", "1 and 2 and 3 are numbers\n")
    write(place / "tiny.txt", "cat")
    (place / "letters").mkdir()
    write(place / "letters" / "one.txt", "dear reader")
    write(place / "letters" / "two.txt", "yours truly")
    write(place / ".hidden.txt", "not a corpus")
    write(place / "weights.bin", "not text")
    return place


@pytest.mark.parametrize(
    ("name", "corpus"),
    [
        ("lambada_test_plain_text.txt", "lambada"),
        ("lm1b_heldout_00000.txt", "lm1b"),
        ("wikitext2_raw_test.txt", "wikitext"),
        ("WikiText-103", "wikitext"),
        ("ag_news_test.csv", "ag_news"),
        ("ag-news.csv", "ag_news"),
        ("pubmed.jsonl", "pubmed"),
        ("arxiv_validation.jsonl", "arxiv"),
        ("text8_10m.txt", "text8"),
        ("openwebtext.jsonl", "openwebtext"),
        ("my_lm1b.txt", "files"),
        ("tinyshakespeare.txt", "files"),
        ("pydocs.txt", "files"),
    ],
)
def test_a_corpus_is_recognised_by_the_beginning_of_its_name(name: str, corpus: str) -> None:
    assert recognise(Path("somewhere") / name) == corpus


def decoded(run: Run, rows: torch.Tensor) -> str:
    assert run.tokenizer is not None
    return run.tokenizer.decode(run.tokenizer.to_ids(rows.flatten().numpy()).tolist())


def test_a_run_reads_a_corpus_with_its_detokenizer_its_tokenizer_and_its_length(
    running: Run, packed: Run, folder: Path
) -> None:
    """Without EOS the documents are lines of one running text, with it each ends by it; plain text stays as it is."""
    lambada = '\n"the dog" sat on\n\nthe cat sat on the mat\n'.replace('"the dog"', '" the dog "')
    for run, text in ((running, lambada), (packed, lambada.replace("on\n", "on<eos>").replace("mat\n", "mat<eos>"))):
        rows = read_text(run, folder / "LAMBADA_test.txt", "lambada")
        assert rows.shape[1] == 8
        whole = decoded(run, rows)
        assert text.startswith(whole)
        tokens = len(text.replace("<eos>", "."))
        assert len(rows) == tokens // 8
    assert decoded(running, read_text(running, folder / "tale.txt", "files")) == "once upon a time\n\nthere was a ca"


def test_plain_text_is_read_as_the_recipe_says(packed: Run, running: Run, folder: Path, tmp_path: Path) -> None:
    """One document a line for the one, the file as it is for the other; several files one after the other."""
    assert decoded(packed, read_examples(packed, folder / "tale.txt")).startswith("once upon a time<eos>there was")
    assert decoded(running, read_examples(running, folder / "tale.txt")).startswith("once upon a time\n\nthere")
    assert decoded(running, read_examples(running, folder / "letters")) == "dear reader\nyours truly\n"
    padded = train_on(tmp_path, BOOK, "data.wrap=padded", "data.documents=line")
    assert len(read_text(padded, write(tmp_path / "two.txt", "the cat\nthe dog\n"), "files")) == 2


def test_every_corpus_is_judged_or_says_why_not(running: Run, folder: Path) -> None:
    found = zero_shot(running, folder, SETTINGS)
    assert [entry.corpus for entry in found] == [
        "LAMBADA_test.txt",
        "letters",
        "numbers.txt",
        "tale.txt",
        "tiny.txt",
        "wikitext-2.txt",
    ]
    judged = {entry.corpus: entry for entry in found if isinstance(entry, ScoredCorpus)}
    skipped = {entry.corpus: entry.skipped for entry in found if isinstance(entry, SkippedCorpus)}
    assert list(skipped) == ["numbers.txt", "tiny.txt"]
    assert "the character '1' is not among the" in skipped["numbers.txt"]
    assert "has 3 tokens, too few for one sequence of 8" in skipped["tiny.txt"]
    assert [judged[name].read_as for name in ("LAMBADA_test.txt", "tale.txt")] == ["lambada", "plain text"]
    tale = read_text(running, folder / "tale.txt", "files")
    assert judged["tale.txt"].likelihood == measure_bounds(running, tale, SETTINGS)
    assert judged["tale.txt"].sequences == len(tale) == 4
    (lambada,) = judged["LAMBADA_test.txt"].likelihood.bounds
    assert (lambada.examples, lambada.scored) == (5, 40), "the limit is for each corpus"


def test_models_of_text8_read_everything_in_its_letters(tmp_path: Path) -> None:
    changes = ("data.corpus=text8", "data.documents=null", "data.wrap=packed", "data.tokenizer=characters")
    run = train_on(tmp_path, "abcdefghijklmnopqrstuvwxyz " * 40, *changes)
    corpora = tmp_path / "corpora"
    corpora.mkdir()
    write(corpora / "lambada_test.txt", "“ The 12 dogs ” sat!\nA café, on\tthe mat\n")
    rows = read_text(run, corpora / "lambada_test.txt", "lambada", like_text8=True)
    assert "the one two dogs sat a caf on the mat ".startswith(decoded(run, rows).lstrip())
    (judged,) = zero_shot(run, corpora, SETTINGS)
    assert isinstance(judged, ScoredCorpus)
    assert (judged.spelled_like, judged.sequences) == ("text8", len(rows))
    assert ScoredCorpus.model_validate(judged.to_json()) == judged
    assert "Spelled like text8" in zero_shot_table(run_report("vadd", zero_shot=(judged,))).note
    with pytest.raises(UserError, match="is not among the"):
        read_examples(run, corpora / "lambada_test.txt")


def test_the_table_has_a_row_for_each_and_names_what_is_no_bound(running: Run, packed: Run, folder: Path) -> None:
    vadd = zero_shot_table(run_report("vadd", zero_shot=zero_shot(running, folder, SETTINGS)))
    assert [row[0] for row in vadd.rows] == ["lambada", "letters", "tale.txt", "wikitext"]
    assert [column for column in vadd.columns if NOT_A_BOUND in column] == [f"the paper's DELBO, K = 2: {NOT_A_BOUND}"]
    assert "Skipped numbers.txt: the character '1'" in vadd.note
    assert "Perplexity per character" in vadd.note
    mdlm = zero_shot_table(run_report("mdlm", zero_shot=zero_shot(packed, folder, SETTINGS)))
    assert "ELBO" in mdlm.columns
    assert not any(NOT_A_BOUND in column for column in mdlm.columns)
    assert "bits per character" in mdlm.columns
    assert len(mdlm.rows) == 5, "bytes read everything that is long enough"
    assert all(len(row) == len(table.columns) for table in (vadd, mdlm) for row in table.rows)


def test_the_command_judges_without_the_data_that_the_run_learnt_from(
    vadd_command: Command, running: Run, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "numbers.json"
    options = ("--bound", "1,2", "--particles", "2", "--draws", "1", "--limit", "3", "--json", file)
    done = vadd_command("eval", running.directory.path, "--zero-shot", folder, *options)
    assert (done.code, done.err) == (0, "")
    report = json.loads(file.read_text())
    assert [bound["steps"] for bound in report["zero_shot"][0]["bounds"]] == [1, 2]
    assert report["zero_shot"][0]["delbo"]["warning"] == NOT_A_BOUND
    assert report["results"] == []
    for name in ("lambada", "tale.txt", "wikitext", "Skipped numbers.txt"):
        assert name in " ".join(done.out.split())


def test_bad_folders_are_one_line(vadd_command: Command, running: Run, folder: Path, tmp_path: Path) -> None:
    run, empty, unreadable = running.directory.path, tmp_path / "empty", tmp_path / "unreadable"
    empty.mkdir()
    unreadable.mkdir()
    write(unreadable / "digits.txt", "0123456789" * 3)
    write(unreadable / "tiny.txt", "a")
    for place, message in (
        (empty, "there is no text in"),
        (tmp_path / "missing", "there is no file"),
        (unreadable, "can read nothing in"),
        (unreadable, "digits.txt: the character '0' is not among"),
    ):
        done = vadd_command("eval", run, "--zero-shot", place)
        assert done.code == 2
        assert message in done.err
        assert len(done.err.splitlines()) == 1
    both = vadd_command("eval", run, "--zero-shot", folder, "--data", folder / "tale.txt")
    assert (both.code, "give one of them" in both.err) == (2, True)


def test_a_run_that_is_not_on_text_cannot_read(vadd_run: Path, folder: Path) -> None:
    with pytest.raises(UserError, match="is not a run on text"):
        zero_shot(load(vadd_run), folder, SETTINGS)


def test_hidden_files_and_other_files_are_no_corpora(folder: Path) -> None:
    assert [path.name for path in corpora_in(folder)] == [
        "LAMBADA_test.txt",
        "letters",
        "numbers.txt",
        "tale.txt",
        "tiny.txt",
        "wikitext-2.txt",
    ]
