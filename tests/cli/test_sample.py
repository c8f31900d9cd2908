"""``vadd sample``: samplers and draws, files that grow chunk by chunk and are whole or absent, and what is told."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import vadd
from tests.helpers.commands import Command
from tests.helpers.text_runs import BOOK, text_recipe
from tests.helpers.tiny import train_in
from vadd.core import Samples
from vadd.evaluation import histogram
from vadd.recipe import SAMPLERS, load_recipe
from vadd.run import run as memory
from vadd.run.run import Run

DIGITS = (
    "training.steps=5",
    "training.batch=32",
    "network.width=16",
    "network.denoiser.blocks=1",
    "network.recognizer.blocks=1",
)


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "digits"
    train_in(path, load_recipe("digits").with_overrides([*DIGITS, "training.evaluate_every=5"]))
    return path


@pytest.fixture(scope="module")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("text")
    (place / "book.txt").write_text(BOOK)
    train_in(place / "run", text_recipe(place / "book.txt", "data.length=12"))
    return place / "run"


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that files are written in several parts."""
    monkeypatch.setattr(memory, "CPU_ROWS", 64)


def test_samples_are_written_as_an_array(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    done = vadd_command("sample", vadd_run, "-n", 50, "--steps", 3, "--seed", 4, "--out", tmp_path / "points.npy")
    assert done.code == 0
    assert str(tmp_path / "points.npy") in done.out
    assert np.array_equal(np.load(tmp_path / "points.npy"), vadd.load(vadd_run).sample(50, steps=3, seed=4).numpy())


def test_samples_are_written_as_text(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    assert vadd_command("sample", vadd_run, "-n", 50, "--out", tmp_path / "points.csv").code == 0
    read = np.loadtxt(tmp_path / "points.csv", delimiter=",", dtype=int)
    assert np.array_equal(read, vadd.load(vadd_run).sample(50).numpy())


def test_without_a_file_the_first_twenty_samples_are_shown(vadd_command: Command, vadd_run: Path) -> None:
    few, many = (vadd_command("sample", vadd_run, "-n", count) for count in (5, 25))
    expected = [" ".join(map(str, row)) for row in vadd.load(vadd_run).sample(25).tolist()]
    assert len(few.out.splitlines()) == 5
    assert many.out.splitlines()[:20] == expected[:20]
    assert "5 more" in many.out.splitlines()[20]


def test_grid_and_latent_policy_can_be_chosen(vadd_command: Command, vadd_run: Path) -> None:
    outputs = {
        vadd_command("sample", vadd_run, "-n", 20, "--steps", 3, *options).out
        for options in ([], ["--grid", "cosine"], ["--latent-policy", "fixed"])
    }
    assert len(outputs) == 3


def test_an_existing_file_is_replaced_when_asked_to(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "points.npy"
    file.write_text("old")
    assert vadd_command("sample", vadd_run, "-n", 3, "--out", file, "--overwrite").code == 0
    assert np.load(file).shape == (3, 2)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_can_be_chosen_and_says_if_it_is_not_exact(
    vadd_command: Command, vadd_run: Path, tmp_path: Path, sampler: str
) -> None:
    out = tmp_path / "points.npy"
    steps = () if sampler == "first-hitting" else ("--steps", 2)
    done = vadd_command("sample", vadd_run, "-n", 100, "--sampler", sampler, *steps, "--out", out)
    assert (done.code, done.err) == (0, "")
    expected = vadd.load(vadd_run).sample(100, steps=2, sampler=sampler)
    assert np.array_equal(np.load(out), expected.numpy())
    assert (f"not exact: the sampler {sampler}" in done.out) == (not SAMPLERS[sampler].exact)


def test_the_last_line_tells_what_was_done(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    done = vadd_command("sample", vadd_run, "-n", 100, "--steps", 5, "--out", tmp_path / "points.npy")
    parts = list(vadd.load(vadd_run).stream(100, steps=5))
    assert re.fullmatch(
        rf"100 samples in 5 steps: {re.escape(str(tmp_path / 'points.npy'))}; \d+\.\d s, \S+ samples/s; "
        rf"{sum(part.evaluations for part in parts)} evaluations of the network, "
        rf"{sum(part.sequences for part in parts)} sequences shown to it\n",
        done.out,
    )


def test_printed_samples_have_the_output_for_themselves(vadd_command: Command, vadd_run: Path) -> None:
    done = vadd_command("sample", vadd_run, "-n", 3, "--precision", "float32", "--temperature", 0.5)
    assert len(done.out.splitlines()) == 3
    assert done.err.startswith("3 samples in 1 step; ")
    assert done.err.endswith("; not exact: temperature 0.5, float32 draws (parity mode)\n")


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        (("--temperature", 0.3), {"temperature": 0.3}),
        (("--top-k", 2), {"top_k": 2}),
        (("--top-p", 0.5), {"top_p": 0.5}),
        (("--precision", "float32"), {"precision": "float32"}),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_values_are_drawn_as_asked(
    vadd_command: Command, vadd_run: Path, tmp_path: Path, options: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    out = tmp_path / "points.npy"
    done = vadd_command("sample", vadd_run, "-n", 200, "--steps", 2, *options, "--out", out)
    assert "not exact: " in done.out
    run = vadd.load(vadd_run)
    assert np.array_equal(np.load(out), run.sample(200, steps=2, **keywords).numpy())
    assert not np.array_equal(np.load(out), run.sample(200, steps=2).numpy())


def test_the_times_of_the_grid_can_be_listed(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "points.npy"
    done = vadd_command("sample", vadd_run, "-n", 100, "--grid", "0,0.2,1", "--out", out)
    assert "100 samples in 2 steps" in done.out
    assert np.array_equal(np.load(out), vadd.load(vadd_run).sample(100, grid=[0, 0.2, 1]).numpy())


def test_the_checkpoint_can_be_chosen(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    drawn = {}
    for which in ("latest", "best", "20"):
        vadd_command("sample", vadd_run, "-n", 100, "--checkpoint", which, "--out", tmp_path / f"{which}.npy")
        drawn[which] = np.load(tmp_path / f"{which}.npy")
    assert np.array_equal(drawn["20"], vadd.load(vadd_run, checkpoint=20).sample(100).numpy())
    assert np.array_equal(drawn["best"], vadd.load(vadd_run, checkpoint="best").sample(100).numpy())
    assert not np.array_equal(drawn["20"], drawn["latest"])


def test_an_array_written_in_parts_is_the_one_that_numpy_writes(
    vadd_command: Command, digits_run: Path, tmp_path: Path
) -> None:
    vadd_command("sample", digits_run, "-n", 150, "--steps", 3, "--out", tmp_path / "digits.npy")
    np.save(tmp_path / "whole.npy", vadd.load(digits_run).sample(150, steps=3).numpy().reshape(150, 8, 8, 1))
    assert (tmp_path / "digits.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_a_picture_of_points_counts_the_samples_of_all_parts(
    vadd_command: Command, vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vadd.report import figures

    drawn: list[Any] = []
    undisturbed = figures.histogram_panels

    def spied(rows: Any) -> Any:
        drawn.append(rows)
        return undisturbed(rows)

    monkeypatch.setattr("vadd.report.samples.histogram_panels", spied)
    assert vadd_command("sample", vadd_run, "-n", 150, "--out", tmp_path / "points.png").code == 0
    ((title, density),) = drawn[0][""]
    assert title == "150 samples"
    assert np.array_equal(density, histogram(vadd.load(vadd_run).sample(150).numpy(), 8))
    assert (tmp_path / "points.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_images_holds_those_of_all_parts(vadd_command: Command, digits_run: Path, tmp_path: Path) -> None:
    assert vadd_command("sample", digits_run, "-n", 100, "--out", tmp_path / "grid.png").code == 0
    with Image.open(tmp_path / "grid.png") as picture:
        assert picture.size == (8 * (1 + 10 * 9), 8 * (1 + 10 * 9))


def test_a_picture_of_too_many_images_is_refused(vadd_command: Command, digits_run: Path, tmp_path: Path) -> None:
    refused = vadd_command("sample", digits_run, "-n", 1025, "--out", tmp_path / "grid.png")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "error: a picture holds at most 1024 images, not 1025: write them as .npy\n"


def test_texts_are_numbered_over_all_parts(vadd_command: Command, text_run: Path, tmp_path: Path) -> None:
    run = vadd.load(text_run)
    tokens = run.sample(70, steps=2)
    assert vadd_command("sample", text_run, "-n", 70, "--steps", 2, "--out", tmp_path / "texts.txt").code == 0
    expected = "\n".join(f"--- {i} ---\n{text}\n" for i, text in enumerate(run.texts(tokens), start=1))
    assert (tmp_path / "texts.txt").read_text() == expected
    assert vadd_command("sample", text_run, "-n", 70, "--steps", 2, "--out", tmp_path / "texts.jsonl").code == 0
    lines = [json.loads(line) for line in (tmp_path / "texts.jsonl").read_text().splitlines()]
    assert [line["text"] for line in lines] == run.texts(tokens)
    assert [line["ids"] for line in lines] == tokens.tolist()


def test_texts_without_a_file_are_shown(vadd_command: Command, text_run: Path) -> None:
    shown = vadd_command("sample", text_run, "-n", 2, "--steps", 2).out
    assert shown == "\n".join([f"--- {i} ---\n{t}\n" for i, t in enumerate(texts_of(text_run), start=1)]) + "\n"


def texts_of(path: Path) -> list[str]:
    run = vadd.load(path)
    return run.texts(run.sample(2, steps=2))


@pytest.mark.parametrize("name", ["points.npy", "points.csv", "points.png"])
@pytest.mark.parametrize("old", [False, True], ids=["new", "overwriting"])
def test_an_interrupted_sampling_leaves_nothing_that_looks_whole(
    vadd_command: Command, vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: bool
) -> None:
    whole = Run.stream

    def interrupted(self: Run, n: int, **options: Any) -> Iterator[Samples]:
        yield next(whole(self, n, **options))
        assert not (tmp_path / name).exists() or old
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "stream", interrupted)
    if old:
        (tmp_path / name).write_text("old")
    ended = vadd_command("sample", vadd_run, "-n", 200, "--out", tmp_path / name, "--overwrite")
    assert ended.code == 130
    assert [path.name for path in tmp_path.iterdir()] == ([name] if old else [])
    if old:
        assert (tmp_path / name).read_text() == "old"


def test_what_a_killed_sampling_left_behind_does_no_harm(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    (tmp_path / ".partial-points.csv").write_text("7,7\n")
    assert vadd_command("sample", vadd_run, "-n", 100, "--out", tmp_path / "points.csv").code == 0
    read = np.loadtxt(tmp_path / "points.csv", delimiter=",", dtype=int)
    assert np.array_equal(read, vadd.load(vadd_run).sample(100).numpy())


@pytest.mark.parametrize("sampler", ["ancestral", "confidence"])
def test_a_trajectory_is_that_of_the_samples_beside_it(
    vadd_command: Command, digits_run: Path, tmp_path: Path, sampler: str
) -> None:
    samples, states = tmp_path / "samples.npy", tmp_path / "states.npz"
    options = ("-n", 100, "--steps", 4, "--seed", 3, "--sampler", sampler, "--temperature", 0.7, "--grid", "cosine")
    vadd_command("sample", digits_run, *options, "--out", samples, "--trajectory", states)
    with np.load(states) as saved:
        assert np.array_equal(saved["states"][-1], np.load(samples)[:4].reshape(4, 64))


def test_the_recipes_sampler_is_the_default(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(vadd_run, tmp_path / "run")
    recipe = load_recipe(str(copy / "recipe.yaml")).with_overrides(["sampling.sampler=margin"])
    (copy / "recipe.yaml").write_text(recipe.to_yaml())
    done = vadd_command("sample", copy, "-n", 50, "--steps", 2, "--out", tmp_path / "points.npy")
    assert "not exact: the sampler margin" in done.out
    assert torch.from_numpy(np.load(tmp_path / "points.npy")).equal(
        vadd.load(vadd_run).sample(50, steps=2, sampler="margin")
    )
