"""``vadd latent`` and the paths behind it: encoding, lines, traversals, and samples that differ by z alone."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vadd
from tests.helpers.commands import Command
from tests.helpers.files import contents
from vadd.core import MaskedBatch, TokenSampler
from vadd.errors import UserError
from vadd.evaluation.latent_paths import cross, decode, encode, informative_dimensions, line
from vadd.networks.perceptrons import ResidualSettings


def test_an_examples_point_is_the_posterior_mean_with_everything_masked(array_run: Path) -> None:
    run = vadd.load(array_run)
    x0 = run.data.test[:5]
    posterior = run.model.posterior(MaskedBatch.all_masked(x0, run.model.mask_value))
    assert posterior is not None
    assert torch.allclose(encode(run, x0), posterior.mean)


def test_a_line_is_even_and_has_both_ends() -> None:
    path = line(torch.tensor([0.0, 1.0]), torch.tensor([4.0, -1.0]), 5)
    assert path.tolist() == [[0, 1], [1, 0.5], [2, 0], [3, -0.5], [4, -1]]
    with pytest.raises(UserError, match="at least 2 points, not 1"):
        line(torch.zeros(2), torch.ones(2), 1)


def test_a_cross_moves_one_dimension_at_a_time() -> None:
    points = cross(torch.tensor([5.0, 6.0, 7.0]), [2, 0], [-1.0, 1.0])
    assert points.tolist() == [[[5, 6, -1], [5, 6, 1]], [[-1, 6, 7], [1, 6, 7]]]


@pytest.mark.parametrize("steps", [1, 4])
def test_all_points_are_decoded_with_the_same_noise(
    digits_run: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = vadd.load(digits_run)
    z = torch.randn(3, run.recipe.latent.dim, generator=torch.Generator().manual_seed(0))
    same = decode(run, z[[0, 1, 0, 2, 0]], steps=steps, seed=3)
    assert same[0].equal(same[2])
    assert same[0].equal(same[4])
    assert same[[0, 1, 3]].equal(decode(run, z, steps=steps, seed=3))
    assert not same.equal(decode(run, z[[0, 1, 0, 2, 0]], steps=steps, seed=4))
    monkeypatch.setattr(ResidualSettings, "rows_at_once", 2)
    assert same.equal(decode(run, z[[0, 1, 0, 2, 0]], steps=steps, seed=3))


def test_an_interpolation_of_images_is_a_picture_an_animation_or_an_array(
    vadd_command: Command, digits_run: Path, tmp_path: Path
) -> None:
    arguments = ("latent", digits_run, "--interpolate", 0, 5, "--points", 4, "--steps", 3)
    for suffix in ("png", "gif", "npy"):
        done = vadd_command(*arguments, "--out", tmp_path / f"path.{suffix}")
        assert (done.code, done.out) == (0, f"written: {tmp_path / f'path.{suffix}'}\n"), done.err
    run = vadd.load(digits_run)
    ends = encode(run, run.data.test[[0, 5]])
    expected = decode(run, line(ends[0], ends[1], 4), steps=3)
    assert np.array_equal(np.load(tmp_path / "path.npy"), expected.numpy().reshape(1, 4, 8, 8, 1))
    with Image.open(tmp_path / "path.png") as picture:
        assert picture.width > 3 * picture.height / 2
    with Image.open(tmp_path / "path.gif") as animation:
        moves = bool((expected[1:] != expected[:-1]).any())  # frames that are alike are kept once
        assert (getattr(animation, "n_frames", 1) > 1) == moves


def test_a_traversal_moves_the_most_telling_dimensions(vadd_command: Command, digits_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "dimensions.npy"
    arguments = ("latent", digits_run, "--traverse", "--dimensions", 2, "--points", 3, "--temperature", 0)
    run = vadd.load(digits_run)
    chosen = informative_dimensions(run, 2)
    centres = {None: torch.zeros(run.recipe.latent.dim), 7: encode(run, run.data.test[7:8])[0]}
    for around, centre in centres.items():
        options = [] if around is None else ["--around", around]
        assert vadd_command(*arguments, *options, "--out", out, "--overwrite").code == 0
        z = cross(centre, chosen, [-2.0, 0.0, 2.0]).flatten(0, 1)
        expected = decode(run, z, steps=1, token_sampler=TokenSampler(temperature=0))
        assert np.array_equal(np.load(out), expected.numpy().reshape(2, 3, 8, 8, 1))
    for suffix in ("png", "gif"):
        assert vadd_command(*arguments, "--out", tmp_path / f"dimensions.{suffix}").code == 0


def test_texts_are_interpolated_line_by_line(vadd_command: Command, book_run: Path, tmp_path: Path) -> None:
    arguments = ("latent", book_run, "--interpolate", "the cat", "the dog sat", "--points", 3, "--steps", 2)
    shown = vadd_command(*arguments)
    assert shown.code == 0, shown.err
    assert re.findall(r"--- (\S+) ---", shown.out) == ["0.00", "0.50", "1.00"]
    assert vadd_command(*arguments, "--out", tmp_path / "path.txt").code == 0
    run = vadd.load(book_run)
    assert run.tokenizer is not None
    unfinished = [run.tokenizer.encode([text])[0] for text in ("the cat", "the dog sat")]
    x0 = torch.tensor([ids + [run.model.mask_value] * (24 - len(ids)) for ids in unfinished])
    ends = encode(run, x0)
    expected = run.texts(decode(run, line(ends[0], ends[1], 3), steps=2))
    assert all(text in shown.out and text in (tmp_path / "path.txt").read_text() for text in expected)


def test_other_data_are_numbers(vadd_command: Command, array_run: Path, codes_file: Path, tmp_path: Path) -> None:
    arguments = ("latent", array_run, "--interpolate", f"{codes_file}:3", 0, "--points", 2)
    shown = vadd_command(*arguments)
    assert shown.code == 0, shown.err
    assert [row.partition(":")[0] for row in shown.out.splitlines()] == ["0.00", "1.00"]
    assert vadd_command(*arguments, "--out", tmp_path / "path.csv").code == 0
    read = np.loadtxt(tmp_path / "path.csv", delimiter=",", dtype=int)
    assert [" ".join(map(str, row)) for row in read] == [row.partition(": ")[2] for row in shown.out.splitlines()]


def test_points_are_printed_and_written(
    vadd_command: Command, array_run: Path, codes_file: Path, tmp_path: Path
) -> None:
    run = vadd.load(array_run)
    shown = vadd_command("latent", array_run, "--encode", "0,3")
    numbers = np.array([[float(number) for number in row.split()] for row in shown.out.splitlines()])
    assert np.allclose(numbers, encode(run, run.data.test[[0, 3]]), atol=1e-4)
    for suffix in ("npy", "csv"):
        out = tmp_path / f"z.{suffix}"
        assert vadd_command("latent", array_run, "--encode", codes_file, "--out", out).code == 0
        z = np.load(out) if suffix == "npy" else np.loadtxt(out, delimiter=",")
        codes = torch.from_numpy(np.load(codes_file).reshape(300, 6))
        assert np.allclose(z, encode(run, codes), atol=1e-5)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("old.png").write_text("old")
    np.save("two.npy", np.zeros((2, 6), int))
    np.save("long.npy", np.zeros((2, 7), int))
    np.save("large.npy", np.full((1, 6), 9))
    return tmp_path


BAD = [
    (("mdlm", "--traverse"), "has no latent"),
    (("mdlm", "--interpolate", 0, 1), "has no latent"),
    (("mdlm", "--encode", 0), "has no latent"),
    (("codes",), "give one of --encode, --interpolate and --traverse"),
    (("codes", "--traverse", "--encode", "0"), "give one of"),
    (("codes", "--encode", "0", "--around", "0"), "--around is for --traverse"),
    (("codes", "--interpolate", 0, 99), "there is no example 99; choose from 0..29"),
    (("codes", "--interpolate", 0, "two.npy"), "two.npy holds 2 examples; name one of them"),
    (("codes", "--interpolate", 0, "two.npy:2"), "two.npy has no row 2; choose from 0..1"),
    (("codes", "--interpolate", 0, "long.npy:0"), "has the shape (2, 7); the model's examples need (n, 2, 3)"),
    (("codes", "--interpolate", 0, "large.npy"), "holds the value 9, outside 0..3"),
    (("codes", "--interpolate", 0, "cat"), "'cat' names no example"),
    (("codes", "--interpolate", 0, 1, "--points", 1), "at least 2 points"),
    (("codes", "--interpolate", 0, 1, "--steps", 0), "at least 1 step"),
    (("codes", "--traverse", "--points", 1), "at least 2 points"),
    (("codes", "--traverse", "--span", 0), "a span above 0"),
    (("codes", "--traverse", "--out", "x.png"), "--out needs a file that ends in .csv or .npy, not x.png"),
    (("codes", "--encode", "0", "--out", "x.txt"), "--out needs a file that ends in .csv or .npy, not x.txt"),
    (("digits", "--traverse"), "--out needs a file that ends in .png, .gif or .npy"),
    (("digits", "--traverse", "--out", "old.png"), "old.png exists"),
    (("digits", "--interpolate", 0, "none.png", "--out", "x.png"), "none.png"),
    (("book", "--interpolate", "the Cat", "the dog"), "the character 'C' is not among"),
]


@pytest.mark.parametrize(("arguments", "told"), BAD, ids=[told.replace(" ", "-")[:40] for _, told in BAD])
def test_bad_input_is_one_line_and_loses_nothing(
    place: Path,
    vadd_command: Command,
    book_run: Path,
    digits_run: Path,
    array_run: Path,
    mdlm_run: Path,
    arguments: tuple[object, ...],
    told: str,
) -> None:
    runs = {"book": book_run, "digits": digits_run, "codes": array_run, "mdlm": mdlm_run}
    before = contents(place)
    ended = vadd_command("latent", runs[str(arguments[0])], *arguments[1:])
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert told in ended.err
    assert contents(place) == before
