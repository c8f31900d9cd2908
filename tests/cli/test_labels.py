"""Runs that learn from labels, from the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vadd
from tests.helpers.commands import Command
from vadd.training import prior as fitting

TINY = ("data.labels=true", "training.steps=20", "training.batch=32", "network.width=32", "training.evaluate_every=20")


@pytest.fixture(scope="module")
def labelled_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.helpers.tiny import train_in
    from vadd.recipe import load_recipe

    path = tmp_path_factory.mktemp("labels") / "run"
    assert train_in(path, load_recipe("digits").with_overrides(TINY)).finished
    return path


def test_samples_of_a_label_and_guidance(labelled_run: Path, tmp_path: Path, vadd_command: Command) -> None:
    for name, arguments in {"plain": (), "one": ("--guidance", "1.0"), "more": ("--guidance", "2")}.items():
        done = vadd_command(
            "sample", labelled_run, "-n", "16", "--label", "7", *arguments, "--out", tmp_path / f"{name}.npy"
        )
        assert done.code == 0, done.err
        assert ("not exact: guidance 2" in done.out) == (name == "more")
    plain, one, more = (np.load(tmp_path / f"{name}.npy") for name in ("plain", "one", "more"))
    assert (plain == one).all()
    assert (plain != more).any()
    run = vadd.load(labelled_run)
    assert torch.equal(run.sample(16, label=7), torch.from_numpy(plain.reshape(16, -1)))
    assert not torch.equal(run.sample(16, label=7), run.sample(16))
    half = np.where(np.arange(64) < 32, run.data.test[0].long().numpy(), -1)
    filled = run.infill(half, label=3)
    assert (filled.numpy()[:32] == half[:32]).all()


def test_bounds_given_the_label(labelled_run: Path, tmp_path: Path, vadd_command: Command) -> None:
    arguments = ("--bound", "1", "--limit", "20", "--particles", "4")
    given = vadd_command("eval", labelled_run, *arguments, "--given-label", "--json", tmp_path / "given.json")
    assert given.code == 0, given.err
    alone = vadd_command("eval", labelled_run, *arguments, "--json", tmp_path / "alone.json")
    assert given.out != alone.out
    # Two likelihoods that are not to be confused: what is printed and what is kept both say which it is.
    assert "given the label" in " ".join(given.out.replace("│", " ").split())
    assert "given the label" not in " ".join(alone.out.replace("│", " ").split())
    assert json.loads((tmp_path / "given.json").read_text())["bounds"][0]["given_label"] is True
    assert "given_label" not in json.loads((tmp_path / "alone.json").read_text())["bounds"][0]


def test_samples_are_judged_by_label(labelled_run: Path, tmp_path: Path, vadd_command: Command) -> None:
    done = vadd_command("eval", labelled_run, "--steps", "1", "--samples", "200", "--json", tmp_path / "e.json")
    assert done.code == 0, done.err
    report = json.loads((tmp_path / "e.json").read_text())
    found = report["results"][0]
    assert report["labels"] == [str(digit) for digit in range(10)]
    assert "Samples of each label" in done.out
    assert f"{found['frechet_by_label'][7]:.4f}" in done.out
    assert 0 <= found["labels_obeyed"] <= 1
    assert len(found["frechet_by_label"]) == 10
    assert min(found["frechet_by_label"]) > 0
    assert "labels" in done.out
    few = ("--steps", "1", "--samples", "100", "--bound", "none", "--out", tmp_path / "report")
    compared = vadd_command("compare", labelled_run, *few)
    assert compared.code == 0, compared.err
    assert "Samples of each label" in (tmp_path / "report" / "report.html").read_text()


def test_a_baseline_without_a_latent_learns_from_labels_too(tmp_path: Path, vadd_command: Command) -> None:
    trained = vadd_command("train", "digits", "model=mdlm", *TINY, "--out", tmp_path / "run")
    assert trained.code == 0, trained.err
    assert vadd_command("sample", tmp_path / "run", "-n", "4", "--label", "0").code == 0
    assert vadd_command("eval", tmp_path / "run", "--bound", "2", "--delbo", "--limit", "5").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sample", "RUN", "--label", "77"), "unknown label '77', did you mean '7'"),
        (("sample", "RUN", "--label", "7", "--guidance", "-1"), "guidance must be at least 0"),
        (("sample", "PLAIN", "--label", "7"), "train it with data.labels=true"),
        (("eval", "PLAIN", "--bound", "1", "--given-label"), "train it with data.labels=true"),
        (("train", "digits-per-state", "data.labels=true", "latent.codes=4", "--out", "new"), "latent.codes=0"),
        (("train", "checkerboard", "data.labels=true", "--out", "new"), "data.labels does not exist for data.kind=toy"),
    ],
)
def test_bad_input(
    labelled_run: Path, vadd_run: Path, vadd_command: Command, arguments: tuple[str, ...], said: str
) -> None:
    places = {"RUN": labelled_run, "PLAIN": vadd_run}
    ended = vadd_command(*(places.get(word, word) for word in arguments))
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.strip().splitlines()) == 1


SMALL = (
    "training.steps=10",
    "training.batch=8",
    "training.evaluate_every=10",
    "network.width=16",
    "latent.dim=2",
)


def test_labels_of_somebodys_own_images(tmp_path: Path, vadd_command: Command) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow, the extra `images`, is not installed")
    for name, value in (("dark", 0), ("light", 255)):
        (tmp_path / "mine" / name).mkdir(parents=True)
        for number in range(20):
            image.fromarray(np.full((4, 4), value, np.uint8)).save(tmp_path / "mine" / name / f"{number}.png")
    mentioned = vadd_command("train", "--data", tmp_path / "mine", *SMALL, "--out", tmp_path / "plain")
    assert mentioned.code == 0, mentioned.err
    assert "2 folders (dark, light) could be labels" in mentioned.err
    run = tmp_path / "run"
    done = vadd_command("train", "--data", tmp_path / "mine", "data.labels=true", *SMALL, "--out", run)
    assert done.code == 0, done.err
    assert "could be labels" not in done.err
    assert vadd_command("sample", run, "-n", "3", "--label", "dark", "--out", tmp_path / "dark.npy").code == 0
    assert torch.equal(
        vadd.load(run).sample(3, label="dark"), torch.from_numpy(np.load(tmp_path / "dark.npy").reshape(3, -1))
    )
    wrong = vadd_command("sample", run, "--label", "drak")
    assert wrong.code == 2
    assert "unknown label 'drak', did you mean 'dark'" in wrong.err


def test_labels_of_somebodys_own_array_and_a_learned_prior(
    tmp_path: Path, vadd_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fit reports on some of the held-out examples, with their labels."""
    monkeypatch.setattr(fitting, "JUDGED", 7)
    values = np.arange(200) % 3
    np.save(tmp_path / "codes.npy", np.repeat(values[:, None], 4, axis=1))
    np.save(tmp_path / "labels.npy", np.array(["low", "mid", "high"])[values])
    run, flow = tmp_path / "run", ("latent.flow.transforms=2", "latent.flow.components=4", "latent.flow.steps=5")
    arguments = ("data.labels=true", "latent.prior=flow", *flow, "latent.flow.width=8", *SMALL)
    done = vadd_command("train", "--data", tmp_path / "codes.npy", *arguments, "--out", run)
    assert done.code == 0, done.err
    assert "flow prior" in done.out
    assert json.loads((run / "data.json").read_text())["labels"] == ["high", "low", "mid"]
    for given in (("--given-label",), ()):
        bound = vadd_command("eval", run, "--bound", "1", "--limit", "5", "--particles", "4", *given)
        assert bound.code == 0, bound.err
    # Where the run goes its labels and its prior go too.
    assert vadd_command("export", run, tmp_path / "exported").code == 0
    assert torch.equal(vadd.load(tmp_path / "exported").sample(8, seed=1), vadd.load(run).sample(8, seed=1))
    assert vadd.load(tmp_path / "exported").kind.label_shares == vadd.load(run).kind.label_shares


def test_labels_of_documents(tmp_path: Path, vadd_command: Command) -> None:
    rows = [{"text": f"{'ball' if n % 2 else 'vote'} {n}", "topic": ["politics", "sports"][n % 2]} for n in range(40)]
    (tmp_path / "news.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    narrow = ("network.denoiser.width=16", "network.denoiser.blocks=1", "network.recognizer.width=16")
    flow = ("latent.flow.steps=2", "latent.flow.transforms=2", "latent.flow.width=8", "latent.flow.batch=8")
    tiny = ("training.steps=3", "training.batch=4", "network.heads=2", *narrow, *flow)
    labelled = ("data.labels=True", "data.label_field=topic")
    for model in ("vadd", "mdlm"):
        run = tmp_path / model
        arguments = ("--data", tmp_path / "news.jsonl", *labelled, f"model={model}", *tiny, "--out", run)
        done = vadd_command("train", *arguments)
        assert done.code == 0, done.err
        drawn = vadd_command("sample", run, "-n", "2", "--steps", "4", "--label", "sports")
        assert drawn.code == 0, drawn.err
    refused = vadd_command("train", "--data", tmp_path / "news.jsonl", *labelled, "data.wrap=packed", "--out", "new")
    assert refused.code == 2
    assert "data.wrap=padded" in refused.err


def test_columns_of_a_csv_without_names_are_numbered(tmp_path: Path) -> None:
    (tmp_path / "news.csv").write_text(
        "".join(f'"{n % 2 + 1}","{"ball" if n % 2 else "vote"} {n}"\n' for n in range(40))
    )
    tiny: dict[str, Any] = {"denoiser": {"width": 16, "blocks": 1}, "recognizer": {"width": 16}, "heads": 2}
    told: dict[str, Any] = {"field": 2, "label_field": 1, "labels": True, "network": tiny, "prior": "normal"}
    run = vadd.train(tmp_path / "news.csv", tmp_path / "run", steps=1, batch=4, progress=False, **told)
    assert run.kind.labels == ("1", "2")


def test_the_label_of_a_table_is_one_of_its_columns(tmp_path: Path, vadd_command: Command) -> None:
    (tmp_path / "people.csv").write_text("age,label\n" + "30,a\n40,b\n" * 10)
    refused = vadd_command("train", "--data", tmp_path / "people.csv", "data.labels=true", "--out", "new")
    assert refused.code == 2
    assert "--where COLUMN=VALUE" in refused.err
    assert len(refused.err.strip().splitlines()) == 1


def test_samples_of_all_labels(labelled_run: Path, tmp_path: Path, vadd_command: Command) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow, the extra `images`, is not installed")
    for name in ("all.png", "all.npy"):
        done = vadd_command("sample", labelled_run, "-n", "3", "--label", "all", "--out", tmp_path / name)
        assert done.code == 0, done.err
        assert "30 samples" in done.out
    with image.open(tmp_path / "all.png") as picture:
        # Ten rows of three images of 8 pixels, each a square of 8, with lines between; names stand before them.
        assert picture.height == 8 * (10 * 9 + 1)
        assert picture.width > 8 * (3 * 9 + 1)
    drawn = np.load(tmp_path / "all.npy").reshape(10, 3, 64)
    run = vadd.load(labelled_run)
    for label in (0, 7):
        assert torch.equal(torch.from_numpy(drawn[label]), run.sample(3, label=label))
    printed = vadd_command("sample", labelled_run, "-n", "3", "--label", "all")
    assert printed.code == 0, printed.err
    assert printed.out.count("7: ") == 2
    assert "... 10 more" in printed.out
    assert (
        vadd_command("sample", labelled_run, "-n", "2", "--label", "all", "--trajectory", tmp_path / "t.npz").code == 0
    )
