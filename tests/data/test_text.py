"""Text as a data set, from a file to a run that carries its tokenizer and prints what it samples."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import vadd
from tests.helpers.commands import Command
from tests.helpers.exact import properties
from tests.helpers.files import write
from tests.helpers.fixtures import CORPORA
from tests.helpers.text_runs import BOOK, TINY_NETWORK, text_recipe
from tests.helpers.texts import TOPICS
from tests.helpers.tiny import TINY_FLOW
from tests.helpers.tokenizers import small_tokenizer, write_bert
from vadd.data import TextData
from vadd.data.text.named_corpora import lm1b
from vadd.errors import UserError
from vadd.kinds import kind_of
from vadd.kinds.text.tokenizers import CharacterTokenizer
from vadd.recipe import build_dataset, recipe_for
from vadd.run.directory import RunDirectory
from vadd.training.loop import train


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("text") / "book.txt", BOOK)


@pytest.fixture(scope="module")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on text whose corpus is gone."""
    folder = tmp_path_factory.mktemp("gone")
    recipe = text_recipe(write(folder / "book.txt", BOOK), "data.length=12")
    directory = RunDirectory(folder / "run")
    directory.create(recipe)
    train(recipe, directory, build_dataset(recipe))
    (folder / "book.txt").unlink()
    return directory.path


def test_a_book_becomes_sequences_of_its_characters(book: Path) -> None:
    data = TextData(corpus="files", path=str(book), length=10, test_fraction=0.25).load()
    assert (data.name, data.shape, data.positions, data.pad) == ("book", (10,), 10, None)
    assert data.vocab_size == len(set(BOOK))
    assert data.train.dtype == torch.uint8
    assert data.tokenizer is not None
    cut = round(0.75 * len(BOOK))
    whole = {"train": BOOK[:cut], "test": BOOK[cut:]}
    for part, text in whole.items():
        rows = getattr(data, part)
        assert [data.tokenizer.decode(row) for row in rows.tolist()] == [
            text[first : first + 10] for first in range(0, len(text) - 9, 10)
        ]


def test_batches_are_drawn_as_the_trainer_draws_them(book: Path) -> None:
    data = TextData(corpus="files", path=str(book), length=10).load()
    batch = data.train[torch.tensor([5, 0, 5])].to(torch.int64)
    assert batch.dtype == torch.int64
    assert batch.equal(data.train.long()[[5, 0, 5]])


@given(
    count=st.integers(2, 20),
    length=st.integers(3, 9),
    seed=st.integers(0, 9),
    wrap=st.sampled_from(["packed", "wrapped", "padded"]),
)
@properties
def test_no_document_is_on_both_sides_of_the_split(
    tmp_path_factory: pytest.TempPathFactory, count: int, length: int, seed: int, wrap: Any
) -> None:
    """Each document has a character of its own, so that tokens tell documents."""
    lines = [chr(ord("A") + number) * 9 for number in range(count)]
    path = write(tmp_path_factory.getbasetemp() / "own.txt", "\n".join(lines))
    settings = TextData(corpus="files", path=str(path), documents="line", length=length, wrap=wrap, test_fraction=0.3)
    data = settings.load(seed=seed)
    sides = [set(part.flatten().tolist()) & set(range(count)) for part in (data.train, data.test)]
    assert not sides[0] & sides[1]
    assert sides[0]
    assert sides[1]


def test_padded_data_name_their_pad(tmp_path: Path) -> None:
    path = write(tmp_path / "lines.txt", "ab\na\nbb\nabab\n")
    data = TextData(corpus="files", path=str(path), documents="line", wrap="padded", length=5).load()
    assert data.tokenizer is not None
    assert data.pad == data.tokenizer.specials.pad == 4
    scored = data.train != data.pad
    assert scored.sum(1).tolist() == [
        len(text) + 2 if len(text) < 3 else 5
        for text in (data.tokenizer.documents(row)[0] for row in data.train.numpy())
    ]


def test_lm1b_as_the_field_pads_it(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    write_bert(tmp_path)
    file, length = CORPORA / "lm1b.txt", 40
    settings = TextData(
        corpus="lm1b", path=str(file), tokenizer="bert", tokenizer_path=str(tmp_path), wrap="padded", length=length
    )
    data = settings.load()
    bert = small_tokenizer("bert")
    assert data.tokenizer is not None
    assert data.tokenizer.fingerprint == bert.fingerprint
    assert (data.vocab_size, data.pad, data.train.dtype) == (bert.vocab_size, 0, torch.int16)
    assert int(data.train.max()) < data.vocab_size
    ids = bert.to_ids(torch.cat([data.train, data.test]).numpy())
    sentences = bert.encode([lm1b(line) for line in file.read_text().splitlines()])
    assert max(map(len, sentences)) > length - 2 > min(map(len, sentences)), "some are cut, some padded"
    expected = [[101, *sentence[: length - 2], 102, *[0] * (length - 2 - len(sentence))] for sentence in sentences]
    assert sorted(ids.tolist()) == sorted(expected)


def test_openwebtext_as_the_paper_wraps_it(tmp_path: Path) -> None:
    gpt2 = small_tokenizer("gpt2")
    rows = TOPICS[:50]
    file = write(tmp_path / "owt.jsonl", "".join(json.dumps({"context_string": row}) + "\n" for row in rows))
    settings = TextData(corpus="openwebtext", path=str(file), wrap="wrapped", length=1024, field="context_string")
    data = settings.load(tokenizer=gpt2)
    end = gpt2.specials.eos
    assert end is not None
    assert (data.train[:, 0] == end).all()
    assert (data.train[:, -1] == end).all()
    row = [number for ids in gpt2.encode(rows[:-5]) for number in (*ids, end)]
    assert data.train[:, 1:-1].flatten().tolist() == row[: len(row) // 1022 * 1022]
    with pytest.raises(UserError, match=r"line 1 has no field 'text'"):
        TextData(corpus="openwebtext", path=str(file), wrap="wrapped", length=64).load(tokenizer=gpt2)


def test_a_learnt_bpe_is_kept_for_the_next_time(book: Path) -> None:
    pytest.importorskip("tokenizers")
    first, again = (
        TextData(corpus="files", path=str(book), tokenizer="bpe", vocabulary=270, length=8).load() for _ in range(2)
    )
    assert first.tokenizer is not None
    assert again.tokenizer is not None
    assert first.vocab_size == 270
    assert first.tokenizer.fingerprint == again.tokenizer.fingerprint
    text = "".join(first.tokenizer.decode(row) for row in first.train.tolist())
    assert text == BOOK[: len(text)]
    assert 0.88 * len(BOOK) < len(text) <= 0.9 * len(BOOK)


def test_a_corpus_to_judge_by_is_read_by_the_models_own_tokenizer(tmp_path: Path) -> None:
    tokenizer = CharacterTokenizer("abc", ("eos",))
    path = write(tmp_path / "other.txt", "abc\ncab\n")
    settings = TextData(path=str(path), length=4)
    examples = settings.evaluation_text(tokenizer)
    assert [tokenizer.decode(row) for row in examples.tolist()] == ["abc<eos>", "cab<eos>"]
    write(path, "abd\n")
    with pytest.raises(UserError, match="the character 'd' is not among the 3 characters"):
        settings.evaluation_text(tokenizer)


def test_a_tokenizer_file_needs_its_path(book: Path) -> None:
    with pytest.raises(UserError, match=r"data\.tokenizer=file needs data\.tokenizer_path"):
        TextData(corpus="files", path=str(book), tokenizer="file").load()


def test_a_short_text_of_ones_own_gets_a_recipe_that_fits(tmp_path: Path) -> None:
    recipe = recipe_for(write(tmp_path / "note.txt", "a short note, " * 50))
    data = build_dataset(recipe)
    assert recipe.name == "note"
    assert data.shape == (17,)
    assert len(data.test) >= 2


def test_a_run_samples_text_without_its_corpus(text_run: Path) -> None:
    run = vadd.load(text_run)
    assert run.tokenizer is not None
    assert run.kind == kind_of((12,), len(set(BOOK)), tokenizer=run.tokenizer)
    samples = run.sample(3, steps=4)
    texts = run.texts(samples)
    assert [len(text) for text in texts] == [12, 12, 12]
    assert set("".join(texts)) <= set(BOOK)
    with pytest.raises(UserError, match="there is no file"):
        _ = run.data


def test_other_runs_have_no_texts(array_run: Path) -> None:
    run = vadd.load(array_run)
    with pytest.raises(UserError, match="not text"):
        run.texts(run.sample(1))


def test_a_run_refuses_another_tokenizer_and_takes_its_own_again(text_run: Path) -> None:
    kind_of((12,), 20, tokenizer=CharacterTokenizer(BOOK)).save(text_run, "")
    with pytest.raises(UserError, match="was trained with another tokenizer"):
        kind_of((12,), 20, tokenizer=CharacterTokenizer(BOOK + "!")).save(text_run, "")


def test_a_text_that_changed_is_noticed_when_training_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path / "book.txt", BOOK)
    recipe = text_recipe(path, "data.length=12")
    directory = RunDirectory(tmp_path / "run")
    directory.create(recipe)
    assert train(recipe, directory, build_dataset(recipe)).finished
    write(path, BOOK + "and a Zebra.\n")
    with pytest.raises(UserError, match="was trained with another tokenizer"):
        train(recipe, directory, build_dataset(recipe), resume=True)


def test_the_commands_train_on_a_text_and_print_text(tmp_path: Path, vadd_command: Command) -> None:
    path = write(
        tmp_path / "rows.jsonl", "".join(json.dumps({"body": line}) + "\n" for line in BOOK.split("\n") if line)
    )
    run = tmp_path / "run"
    wanted = [*TINY_NETWORK, *TINY_FLOW, "training.steps=2", "data.length=12", "data.field=body"]
    done = vadd_command("train", *wanted, "--data", path, "--out", run)
    assert done.code == 0, done.err
    assert f"vadd sample {run} -n 8 --steps 1" in done.out
    assert (run / "tokenizer" / "about.json").is_file()
    shown = vadd_command("sample", run, "--steps", 4)
    assert shown.code == 0, shown.err
    assert [line for line in shown.out.splitlines() if line.startswith("---")] == [f"--- {n} ---" for n in range(1, 9)]
    for name in ("s.txt", "s.jsonl", "s.npy", "s.csv"):
        assert vadd_command("sample", run, "-n", 3, "--steps", 4, "--out", tmp_path / name).code == 0
    tokens = np.load(tmp_path / "s.npy")
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    assert [row["ids"] for row in rows] == tokens.tolist()
    texts = vadd.load(run).texts(torch.from_numpy(tokens))
    assert [row["text"] for row in rows] == texts
    assert (tmp_path / "s.txt").read_text() == "\n".join(f"--- {n} ---\n{t}\n" for n, t in enumerate(texts, start=1))
    refused = vadd_command("sample", run, "--out", tmp_path / "s.png")
    assert refused.code == 2
    assert "can be written as .npy, .csv, .txt or .jsonl" in refused.err


@pytest.mark.parametrize("kind", ["folder", "csv", "code"])
def test_text_is_recognised_by_what_it_lies_in(tmp_path: Path, vadd_command: Command, kind: str) -> None:
    if kind == "folder":
        path = tmp_path / "poems"
        for number in range(4):
            write(path / "part" / f"{number}.txt", BOOK)
    else:
        name, content = ("rows.csv", "text\n" + BOOK) if kind == "csv" else ("program.py", BOOK)
        path = write(tmp_path / name, content)
    wanted = [*TINY_NETWORK, *TINY_FLOW, "training.steps=1", "data.length=12"]
    done = vadd_command("train", *wanted, "--data", path, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert vadd.load(tmp_path / "run").tokenizer is not None


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("empty.txt", b"", "is empty"),
        ("bytes.txt", b"abc\xff" * 99, "is not text in UTF-8: byte 3 is 0xff"),
        ("rows.jsonl", b'{"body": "a"}\n', "has no field 'text'"),
        ("rows.csv", b"a,b\n1,2\n", "holds 1 row; at least 2 are needed"),
        ("short.txt", b"abc", "too few for one sequence of 8"),
    ],
)
def test_bad_text_costs_one_line_and_no_run(
    tmp_path: Path, vadd_command: Command, name: str, content: bytes, told: str
) -> None:
    done = vadd_command("train", "--data", write(tmp_path / name, content), "--out", tmp_path / "run")
    assert done.code == 2
    assert told in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_recipe_for_text_takes_another_text(tmp_path: Path, vadd_command: Command) -> None:
    path = write(tmp_path / "poem.txt", BOOK)
    changes = [*TINY_NETWORK, *TINY_FLOW, "training.steps=1", "data.corpus=files", "data.length=16"]
    done = vadd_command("train", "pydocs", *changes, "--data", path, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    data = RunDirectory(tmp_path / "run").recipe().data
    assert isinstance(data, TextData)
    assert (data.path, data.length) == (str(path.resolve()), 16)


def test_characters_bytes_and_pydocs_need_no_extra_package(tmp_path: Path) -> None:
    program = """
import sys
for name in ("tokenizers", "datasets", "transformers"):
    sys.modules[name] = None
from vadd.data import TextData
for tokenizer in ("characters", "bytes"):
    data = TextData(corpus="pydocs", tokenizer=tokenizer, length=32).load()
    print(data.tokenizer.name, data.vocab_size)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in ran.stdout.splitlines()] == ["characters", "bytes"]
