"""``vadd reproduce mnist`` and ``cifar10``, shrunk to seconds, and their tables beside the paper's numbers."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.commands import Command
from tests.helpers.pictures import cifar_files, mnist_files
from tests.helpers.reports import likelihood, run_report
from vadd.evaluation import RunReport
from vadd.evaluation import frechet as inception
from vadd.evaluation.reports import InceptionDistance, StepResult
from vadd.recipe import differences, load_recipe
from vadd.studies.study import study_named
from vadd.studies.tables import bits_table, fid_table

TINY = (
    "network.width=16",
    "network.denoiser.blocks=1",
    "latent.dim=3",
    "training.steps=6",
    "training.batch=8",
    "training.evaluate_every=3",
    "training.log_every=3",
)


LITTLE = ("--particles", 2, "--draws", 1, "--limit", 3)


def test_mnist_from_nothing_to_the_report(vadd_command: Command, tmp_path: Path) -> None:
    out, data, file = tmp_path / "out", mnist_files(tmp_path / "mnist"), tmp_path / "numbers.json"
    options = ("--out", out, "--data", data, "--json", file, "--samples", 40, *LITTLE)
    result = vadd_command("reproduce", "mnist", *TINY, "training.precision=bfloat16", *options)
    assert result.code == 0, result.err
    reports = json.loads(file.read_text())
    assert [report["model"] for report in reports] == ["mdlm", "vadd", "vadd"]
    assert [report.get("latent_policy") for report in reports] == [None, "resample", "fixed"]
    assert [[found["steps"] for found in report["results"]] for report in reports] == [[1, 2, 5, 10, 20]] * 3
    assert [[bound["steps"] for bound in report["bounds"]] for report in reports] == [[1, 2, 5, 10]] * 3
    one_step = [report["results"][0]["frechet"] for report in reports]
    assert one_step[1] == one_step[2], "in one step there is one latent either way"
    assert reports[0]["elbo"]["valid"] is True
    assert reports[1]["delbo"]["valid"] is False
    figures = {figure.stem for figure in (out / "figures").iterdir()}
    assert {"grids", "denoising", "traversal", "divergence", "bounds", "training"} <= figures
    page = (out / "report.html").read_text()
    command = f"vadd reproduce mnist {' '.join(TINY)} training.precision=bfloat16 --out"
    for part in ("Bits per dimension of held-out images", "DELBO, not a likelihood bound", command):
        assert part in page
    assert "computed with training.precision=bfloat16" in page
    assert [report["how_computed"] for report in reports] == [["training.precision=bfloat16"]] * 3
    assert all(report["published_recipe"] == "mnist" for report in reports)
    for part in ("DELBO", "0.063", "1000", "all of the"):
        assert part in result.out
    assert load_recipe(str(out / "mnist-per-state-vadd" / "recipe.yaml")).data.directory == str(data)  # type: ignore[union-attr]


class Means(nn.Module):
    """Stands in for Inception: the mean of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=3).mean(dim=2)


def test_cifar10_from_nothing_to_the_report(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the longer training, whose definition is that of the shorter one but for the settings."""
    network = tmp_path / "means.pt"
    torch.jit.save(torch.jit.script(Means()), network)
    monkeypatch.setattr(inception, "SHA1", hashlib.sha1(network.read_bytes()).hexdigest())
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "kept"))
    out, data, file = tmp_path / "out", cifar_files(tmp_path / "cifar10"), tmp_path / "numbers.json"
    options = ("--data", data, "--inception", network, "--steps", "1,10", "--samples", 8, "--json", file, *LITTLE)
    result = vadd_command("reproduce", "cifar10-2m", "--out", out, *options, *TINY)
    assert result.code == 0, result.err
    reports = json.loads(file.read_text())
    assert [[found["steps"] for found in report["results"]] for report in reports] == [[1, 10]] * 2
    assert all(found["fid"] >= 0 and found["fid_reference"] == 8 for report in reports for found in report["results"])
    assert "334.3" in result.out
    assert "170.3" in result.out
    assert (out / "figures" / "divergence.png").is_file()
    kept = sorted(file.name for file in (tmp_path / "kept" / "inception").iterdir())
    assert len(kept) == 2, "training and test statistics, for both models together"


def report(model: str, integral: float = 1.0) -> RunReport:
    results = tuple(
        StepResult(steps=steps, metrics=InceptionDistance(fid=fid, fid_floor=1.5, fid_reference=500))
        for steps, fid in ((10, 99.0), (7, 98.0))
    )
    found = likelihood(model, integral, (1, 0.3), (20, 0.2))
    return run_report(model, likelihood=found, results=results, samples=500)


def test_every_number_of_bits_stands_under_its_own_name_with_how_it_was_found() -> None:
    one_latent = report("vadd").changed(latent_policy="fixed", likelihood=likelihood("vadd", 1.0, (1, 0.3)))
    ours = [report("mdlm", 0.08).changed(parameters=2_246_000), report("vadd", 0.06), one_latent]
    (table,) = bits_table(ours, study_named("mnist").published)
    assert table.columns == ["", "parameters", "bits/dim", "which is", "K", "masks", "images"]
    assert [list(row) for row in table.rows] == [
        ["MDLM", "2.25M", "0.300", "step bound, T = 1, a bound", None, None, 5],
        ["MDLM", "2.25M", "0.200", "step bound, T = 20, a bound", None, None, 5],
        ["MDLM", "2.25M", "0.080", "ELBO, a bound", None, 2, 5],
        ["VADD", None, "0.300", "step bound, T = 1, a bound", None, None, 5],
        ["VADD", None, "0.200", "step bound, T = 20, a bound", None, None, 5],
        ["VADD", None, "0.060", "DELBO, not a likelihood bound", 4, 2, 5],
        ["VADD, one z", None, "0.300", "step bound, T = 1, a bound", None, None, 5],
        ["VADD, one z", None, "1.000", "DELBO, not a likelihood bound", 4, 2, 5],
        ["MDLM, the paper", "2.2M", "0.075", "ELBO", None, None, "all of the test set"],
        ["VADD, the paper", "2.3M", "0.063", "DELBO, not a likelihood bound", 1000, 100, "all of the test set"],
    ]
    assert "Our DELBO has K = 4, the paper's K = 1000" in table.note
    assert "256" not in table.note
    few = bits_table([report("mdlm")], study_named("cifar10").published)[0].note
    assert "256 values per channel, these 8" in few
    assert "after 2,000,000 iterations, ours after 500" in few


def test_the_fid_stands_above_the_papers_at_the_same_steps() -> None:
    (table,) = fid_table([report("mdlm"), report("vadd")], study_named("cifar10").published)
    assert table.columns == ["", "T = 7", "T = 10"]
    assert [list(row) for row in table.rows] == [
        ["MDLM, 500 images", 98.0, 99.0],
        ["MDLM, the paper, 50000 images", None, 334.3],
        ["VADD, 500 images", 98.0, 99.0],
        ["VADD, the paper, 50000 images", None, 170.3],
        ["DDPM, the paper, 50000 images", None, 298.7],
    ]
    assert "1.50" in table.note


def test_the_longer_training_has_the_same_warm_up_in_steps() -> None:
    shorter, longer = load_recipe("cifar10"), load_recipe("cifar10-2m")
    warm_ups = [round(recipe.training.kl_warmup * recipe.training.steps) for recipe in (shorter, longer)]
    assert warm_ups == [100_000, 100_000]
    assert set(differences(shorter, longer)) == {"name", "about", "training.steps", "training.kl_warmup"}


def test_an_inception_network_that_cannot_be_read_is_told_before_anything_is_trained(
    vadd_command: Command, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.pt"
    wrong.write_bytes(b"no network")
    data = cifar_files(tmp_path / "cifar10")
    refused = vadd_command("reproduce", "cifar10", "--out", tmp_path / "out", "--data", data, "--inception", wrong)
    assert refused.code == 2
    assert "is not the known Inception network" in refused.err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
def test_both_scales_have_a_recipe(data: str) -> None:
    small, paper = (load_recipe(study_named(data).settings[scale].recipes[0]) for scale in ("small", "paper"))
    assert small.network.kind == "pyramid"
    assert paper.network.kind == "unet"


def test_missing_data_are_told_with_the_way_to_get_them(vadd_command: Command, tmp_path: Path) -> None:
    result = vadd_command("reproduce", "mnist", "--out", tmp_path / "out", "--data", tmp_path / "nowhere")
    assert result.code == 2
    assert "vadd data mnist" in result.err
    assert not (tmp_path / "out").exists()
