"""``vadd infill``: texts, images and arrays with gaps, on tiny runs."""

import json
import re
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import vadd
from tests.helpers.commands import Command
from tests.helpers.files import contents
from vadd.report.images import MASK_COLOUR


def texts(shown: str) -> list[str]:
    """What stands below each line "--- 1 ---"."""
    return [part.removesuffix("\n\n").removesuffix("\n") for part in re.split(r"--- [\d.]+ ---\n", shown)[1:]]


def test_gaps_are_filled_and_the_text_stays(vadd_command: Command, book_run: Path) -> None:
    done = vadd_command("infill", book_run, "--text", "the ___ sat on", "-n", 3, "--steps", 4)
    assert (done.code, done.err) == (0, "")
    found = texts(done.out)
    assert len(found) == 3
    assert all(re.fullmatch(r"the [^_]{3} sat on", text, re.DOTALL) for text in found)
    assert done.out == vadd_command("infill", book_run, "--text", "the ___ sat on", "-n", 3, "--steps", 4).out
    assert done.out != vadd_command("infill", book_run, "--text", "the ___ sat on", "-n", 3, "--seed", 1).out


def test_what_was_filled_stands_out_on_a_terminal(
    vadd_command: Command, book_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = vadd_command("infill", book_run, "--text", "the ___ sat", "-n", 1)
    assert "\x1b" not in plain.out
    stream = StringIO()
    terminal = Console(file=stream, force_terminal=True, color_system="standard", highlight=False, markup=False)
    monkeypatch.setattr(sys.modules["vadd.cli.sample"], "out_console", terminal)
    vadd_command("infill", book_run, "--text", "the ___ sat", "-n", 1)
    (text,) = texts(plain.out)
    shown = stream.getvalue()
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == plain.out
    assert re.search(rf"the \x1b\[1;36m{re.escape(text[4:7])}\x1b\[0m sat", shown)


def test_a_prefix_and_a_suffix_stand_at_the_ends(vadd_command: Command, book_run: Path) -> None:
    (whole,) = texts(vadd_command("infill", book_run, "--prefix", "the cat", "-n", 1).out)
    assert whole.startswith("the cat")
    assert len(whole) == 24
    both = vadd_command("infill", book_run, "--prefix", "the", "--suffix", "log.", "--length", 15, "-n", 2)
    assert all(text.startswith("the") and text.endswith("log.") and len(text) == 15 for text in texts(both.out))


def test_many_texts_are_filled_at_once_and_written_for_programs(
    vadd_command: Command, book_run: Path, tmp_path: Path
) -> None:
    prompts = ["the ___ sat", "on the ____", "the dog __"]
    (tmp_path / "prompts.txt").write_text("\n\n".join(prompts) + "\n")
    arguments = ("infill", book_run, "--file", tmp_path / "prompts.txt", "-n", 2, "--steps", 3)
    done = vadd_command(*arguments, "--out", tmp_path / "filled.jsonl")
    assert done.code == 0, done.err
    assert "6 completions in 3 steps" in done.out
    rows = [json.loads(line) for line in (tmp_path / "filled.jsonl").read_text().splitlines()]
    assert [row["prompt"] for row in rows] == [prompt for prompt in prompts for _ in range(2)]
    tokenizer = vadd.load(book_run).tokenizer
    assert tokenizer is not None
    for row in rows:
        assert row["text"] == tokenizer.decode(row["ids"])
        assert row["known"] == [character != "_" for character in row["prompt"]]
        kept = zip(row["text"], row["prompt"], row["known"], strict=True)
        assert all(written == wanted for written, wanted, known in kept if known)
    assert vadd_command(*arguments, "--out", tmp_path / "filled.txt").code == 0
    names = [f"{prompt}.{number}" for prompt in (1, 2, 3) for number in (1, 2)]
    expected = [f"--- {name} ---\n{row['text']}\n" for name, row in zip(names, rows, strict=True)]
    assert (tmp_path / "filled.txt").read_text() == "\n".join(expected)


def test_a_text_is_a_whole_padded_document(vadd_command: Command, lines_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "states.npz"
    done = vadd_command("infill", lines_run, "--text", "the ___ sat", "-n", 1, "--steps", 3, "--trajectory", out)
    assert done.code == 0, done.err
    tokenizer = vadd.load(lines_run).tokenizer
    assert tokenizer is not None
    with np.load(out) as saved:
        start, end = saved["states"][0, 0], saved["states"][-1, 0]
    specials = tokenizer.specials
    assert start[[0, 12]].tolist() == [specials.bos, specials.eos]
    assert (start[13:] == specials.pad).all()
    assert (start[5:8] == tokenizer.vocab_size).all()
    assert (end[start < tokenizer.vocab_size] == start[start < tokenizer.vocab_size]).all()


def test_halves_of_held_out_images_are_painted_anew(vadd_command: Command, digits_run: Path, tmp_path: Path) -> None:
    arguments = ("infill", digits_run, "--from-data", "3,0", "--keep", "top", "-n", 5, "--steps", 2)
    assert vadd_command(*arguments, "--out", tmp_path / "filled.npy").code == 0
    filled = np.load(tmp_path / "filled.npy")
    images = vadd.load(digits_run).data.test[[3, 0]].numpy().reshape(2, 1, 8, 8, 1)
    assert filled.shape == (2, 5, 8, 8, 1)
    assert (filled[:, :, :4] == images[:, :, :4]).all()
    assert not (filled[:, :, 4:] == images[:, :, 4:]).all()
    assert vadd_command(*arguments, "--out", tmp_path / "filled.png").code == 0
    with Image.open(tmp_path / "filled.png") as opened:
        grid = np.asarray(opened.convert("RGB"))[4::8, 4::8]
    assert grid.shape == (1 + 2 * 9, 1 + 6 * 9, 3)
    assert (grid[5:9, 1:9] == MASK_COLOUR).all()
    assert (grid[1:9, 10:18, 0] == 255 * filled[0, 0, :, :, 0]).all()


def test_an_image_and_a_mask_come_from_files(vadd_command: Command, digits_run: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 2, (8, 8)).astype(np.uint8) * 255
    Image.fromarray(pixels).save(tmp_path / "image.png")
    white = np.zeros((8, 8), np.uint8)
    white[2:5, 3:7] = 255
    Image.fromarray(white).save(tmp_path / "mask.png")
    out = tmp_path / "filled.npy"
    done = vadd_command(
        "infill", digits_run, "--image", tmp_path / "image.png", "--mask", tmp_path / "mask.png", "--out", out
    )
    assert done.code == 0, done.err
    filled = np.load(out)
    assert filled.shape == (1, 4, 8, 8, 1)
    assert (filled[0, :, white == 0, 0] == (pixels[white == 0] // 255)[:, None]).all()


def test_any_array_is_filled_where_it_says_minus_one(vadd_command: Command, array_run: Path, tmp_path: Path) -> None:
    x = np.array([[[0, -1, 2], [-1, 1, -1]], [[-1, -1, -1], [2, 3, 0]]])
    np.save(tmp_path / "x.npy", x)
    arguments = ("infill", array_run, "--array", tmp_path / "x.npy", "-n", 3, "--steps", 2)
    expected = vadd.load(array_run).infill(x, steps=2, count=3)
    assert vadd_command(*arguments, "--out", tmp_path / "y.npy").code == 0
    assert np.array_equal(np.load(tmp_path / "y.npy"), expected.numpy().reshape(2, 3, 2, 3))
    assert vadd_command(*arguments, "--out", tmp_path / "y.csv").code == 0
    assert np.array_equal(np.loadtxt(tmp_path / "y.csv", delimiter=",", dtype=int), expected.reshape(6, 6).numpy())
    printed = vadd_command(*arguments).out.splitlines()
    assert printed == [" ".join(map(str, row)) for row in expected.reshape(6, 6).tolist()]
    many = vadd_command(*arguments[:-4], "-n", 15).out.splitlines()
    assert (len(many), many[-1].split()[1]) == (21, "10")
    np.save(tmp_path / "one.npy", x[0])
    one = vadd_command("infill", array_run, "--array", tmp_path / "one.npy", "-n", 1, "--steps", 2)
    assert len(one.out.splitlines()) == 1


def test_the_samplers_and_their_settings_can_be_chosen(vadd_command: Command, array_run: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((1, 6), -1))
    choices = [
        ["--sampler", "first-hitting"],
        ["--steps", "2"],
        *(
            ["--steps", "4", *choice]
            for choice in (
                [],
                ["--sampler", "confidence"],
                ["--sampler", "parallel"],
                ["--temperature", "0.2"],
                ["--top-k", "1"],
                ["--top-p", "0.3"],
                ["--precision", "float32"],
                ["--latent-policy", "resample"],
                ["--grid", "0,0.1,0.2,0.3,1"],
            )
        ),
    ]
    ended = [vadd_command("infill", array_run, "--array", tmp_path / "x.npy", "-n", 12, *choice) for choice in choices]
    assert {done.code for done in ended} == {0}
    assert len({done.out for done in ended}) == len(choices)


@pytest.mark.parametrize("suffix", ["html", "gif", "npz"])
def test_how_completions_come_about_is_written(
    vadd_command: Command, book_run: Path, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"way.{suffix}"
    arguments = ("infill", book_run, "--text", "the ___ sat", "-n", 6, "--steps", 5)
    done = vadd_command(*arguments, "--trajectory", out)
    assert done.code == 0, done.err
    found = texts(done.out)
    if suffix == "html":
        page = out.read_text()
        assert page.count('<div class="text">the <span') == 4
        assert page.count("data-changes=") == 4 * 3  # of the text that was asked for
    elif suffix == "gif":
        with Image.open(out) as animation:
            assert getattr(animation, "n_frames", 1) > 1
    else:
        tokenizer = vadd.load(book_run).tokenizer
        assert tokenizer is not None
        with np.load(out) as saved:
            states = saved["states"]
        assert states.shape == (6, 4, 24)
        assert [tokenizer.decode(row.tolist())[:11] for row in states[-1]] == found[:4]


@pytest.mark.parametrize("kind", ["text", "images", "numbers"])
def test_samples_of_all_kinds_come_about_on_a_page(
    vadd_command: Command, book_run: Path, digits_run: Path, array_run: Path, tmp_path: Path, kind: str
) -> None:
    run = {"text": book_run, "images": digits_run, "numbers": array_run}[kind]
    out = tmp_path / "way.html"
    done = vadd_command("sample", run, "-n", 2, "--steps", 5, "--trajectory", out)
    assert done.code == 0, done.err
    page = out.read_text()
    assert f"<h1>{run.name}: 5 steps</h1>" in page
    if kind == "images":
        assert page.count("data:image/png") == 4
    else:
        assert page.count("data-changes=") == 2 * (24 if kind == "text" else 6)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("old.txt").write_text("old")
    Path("prompts.txt").write_text("the ___\nno gap\n")
    Path("empty.txt").write_text("\n")
    Path("latin.txt").write_bytes(b"caf\xe9 __")
    np.save("full.npy", np.zeros((2, 6), int))
    np.save("long.npy", np.full((2, 7), -1))
    np.save("large.npy", np.array([[9, -1, -1, -1, -1, -1]]))
    Image.new("L", (9, 8), 255).save("wide.png")
    Image.new("L", (8, 8), 255).save("white.png")
    return tmp_path


BAD = [
    (("book",), "what is to be filled?; give one of --text, --prefix, --suffix, --file"),
    (("book", "--text", "a __", "--array", "full.npy"), "--text and --array exclude each other"),
    (("book", "--text", "the cat"), "there is no gap in 'the cat'"),
    (("book", "--text", "The __"), "the character 'T' is not among"),
    (("book", "--text", "the cat sat on the mat ____"), "takes 27 tokens, too long: this model's texts have 24"),
    (("book", "--text", "a __", "--gap", 0), "a gap takes 1 to 24 tokens, not 0"),
    (("book", "--text", "a __", "--length", 5), "--length is for --prefix or --suffix"),
    (("book", "--prefix", "a", "--length", 99), "a length of 99 tokens is too much"),
    (("book", "--prefix", "a", "--gap", 2), "--gap is for --text or --file"),
    (("book", "--text", "a __", "-n", 0), "greater than or equal to 1"),
    (("book", "--text", "a __", "--steps", 0), "steps must be at least 1, not 0"),
    (("book", "--text", "a __", "--sampler", "fast"), "unknown sampler 'fast'; choose from ancestral"),
    (("book", "--text", "a __", "--temperature", "-1"), "temperature"),
    (("book", "--text", "a __", "--precision", "half"), "'half' is not one of 'float64', 'float32'"),
    (("book", "--text", "a __", "--out", "old.txt"), "old.txt exists"),
    (("book", "--text", "a __", "--out", "new.png"), "can be written as .txt or .jsonl, not to new.png"),
    (("book", "--text", "a __", "--trajectory", "way.mp4"), "--trajectory takes a file that ends in .html"),
    (("book", "--text", "a __", "--trajectory", "way.png"), "as .png is for images"),
    (("book", "--file", "prompts.txt"), "prompts.txt, line 2: there is no gap"),
    (("book", "--file", "empty.txt"), "holds no text"),
    (("book", "--file", "latin.txt"), "is not text in UTF-8"),
    (("book", "--file", "none.txt"), "there is no file none.txt"),
    (("book", "--from-data", "0", "--keep", "top"), "not images: they have the shape (24,)"),
    (("book", "--text", "a __", "--keep", "top"), "is for --image or --from-data"),
    (("codes", "--text", "a __"), "not text; give it an --image"),
    (("codes", "--array", "full.npy"), "there is nothing to fill in full.npy: mark it with -1"),
    (("codes", "--array", "long.npy"), "has the shape (2, 7); the model's examples need (n, 2, 3)"),
    (("codes", "--array", "large.npy"), "hold the value 9; the model knows 0..3"),
    (("codes", "--array", "none.npy"), "there is no file none.npy"),
    (("digits", "--image", "white.png", "--out", "x.png"), "give --mask FILE (white is filled) or --keep HALF"),
    (("digits", "--image", "white.png", "--mask", "wide.png", "--out", "x.png"), "wide.png is 9 x 8 pixels"),
    (("digits", "--image", "wide.png", "--keep", "left", "--out", "x.png"), "the model's images are 8 x 8"),
    (("digits", "--image", "white.png", "--keep", "left"), "need a file: --out FILE.png or .npy"),
    (("digits", "--from-data", "0", "--keep", "left", "--mask", "white.png"), "exclude each other"),
    (("digits", "--from-data", "297", "--keep", "left", "--out", "x.png"), "no example 297; choose from 0..296"),
    (("digits", "--from-data", "a", "--keep", "left", "--out", "x.png"), "like 0,5,7; not 'a'"),
]


@pytest.mark.parametrize(("arguments", "told"), BAD, ids=[told.replace(" ", "-")[:40] for _, told in BAD])
def test_bad_input_is_one_line_and_loses_nothing(
    place: Path,
    vadd_command: Command,
    book_run: Path,
    digits_run: Path,
    array_run: Path,
    arguments: tuple[object, ...],
    told: str,
) -> None:
    run = {"book": book_run, "digits": digits_run, "codes": array_run}[str(arguments[0])]
    before = contents(place)
    ended = vadd_command("infill", run, *arguments[1:])
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert told in ended.err
    assert contents(place) == before


def test_completions_do_not_disturb_the_global_generator(array_run: Path) -> None:
    run = vadd.load(array_run)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    run.infill(torch.full((1, 6), -1), steps=2)
    assert torch.equal(torch.rand(3), expected)


def test_completions_say_when_they_are_not_exact(vadd_command: Command, array_run: Path, tmp_path: Path) -> None:
    """With one z it is one of several draws; a new z at each step follows the sampler's own law."""
    np.save(tmp_path / "x.npy", np.array([[0, -1, 2, -1, 1, -1]]))
    run, told = vadd.load(array_run), {}
    for name, choice in {
        "fresh": ["--latent-policy", "resample"],
        "fixed": ["--latent-policy", "fixed", "--candidates", "32"],
        "sharp": ["--latent-policy", "resample", "--temperature", "0.5"],
        "adaptive": ["--latent-policy", "resample", "--sampler", "confidence"],
    }.items():
        done = vadd_command("infill", array_run, "--array", tmp_path / "x.npy", "-n", 1, "--steps", 2, *choice)
        assert done.code == 0
        told[name] = done.err
    assert "not exact" not in told["fresh"]
    assert "not exact: z is one of 32 draws, chosen by what is known" in told["fixed"]
    assert "not exact: temperature 0.5" in told["sharp"]
    assert "not exact: the sampler confidence" in told["adaptive"]
    assert run.options(latent_policy="fixed").exact, "samples of nothing known are"
    assert run.inexact_completions(latent_policy="fixed")
