"""Images end to end: digits learned for a moment, drawn, judged; the paper's recipes at full size."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import vadd
from tests.helpers.commands import Command
from tests.helpers.fixtures import inception_network
from tests.helpers.tiny import train_in
from vadd.core import GaussianLatent
from vadd.evaluation import EvaluationOptions, evaluate
from vadd.kinds import kind_of
from vadd.networks.unet import UnetSettings
from vadd.recipe import build_model, load_recipe

TINY_DIGITS = ("training.steps=30", "training.batch=32", "network.width=32", "training.evaluate_every=30")


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "digits"
    train_in(path, load_recipe("digits").with_overrides(TINY_DIGITS))
    return path


def test_samples_are_binary_images_without_masks(digits_run: Path) -> None:
    run = vadd.load(digits_run)
    drawn = run.sample(50, steps=3)
    assert drawn.shape == (50, 64)
    assert set(drawn.flatten().tolist()) <= {0, 1}


def test_a_picture_of_samples_is_a_grid(digits_run: Path, vadd_command: Command, tmp_path: Path) -> None:
    result = vadd_command("sample", digits_run, "--steps", 2, "--out", tmp_path / "grid.png")
    assert result.code == 0
    with Image.open(tmp_path / "grid.png") as grid:
        picture = np.asarray(grid)
    assert picture.shape[0] == picture.shape[1] > 8 * 8
    assert {0, 255} <= set(np.unique(picture).tolist())


def test_an_array_of_samples_has_the_shape_of_the_images(
    digits_run: Path, vadd_command: Command, tmp_path: Path
) -> None:
    assert vadd_command("sample", digits_run, "-n", 7, "--out", tmp_path / "digits.npy").code == 0
    assert np.load(tmp_path / "digits.npy").shape == (7, 8, 8, 1)


def test_images_with_labels_are_judged_by_the_features_of_a_classifier(digits_run: Path) -> None:
    report = evaluate(vadd.load(digits_run), [1], samples=200).report.to_json()
    (result,) = report["results"]
    assert result["classifier_accuracy"] > 0.95
    assert result["frechet"] > result["frechet_floor"] > 0


@pytest.mark.parametrize(
    ("name", "shape", "vocab_size", "dim", "parameters"),
    [
        ("mnist", (32, 32, 1), 2, 64, (2_245_730, 2_328_162)),
        ("cifar10", (32, 32, 3), 256, 128, (31_561_248, 31_889_952)),
    ],
)
def test_the_papers_recipes_have_the_papers_sizes_and_settings(
    name: str, shape: tuple[int, ...], vocab_size: int, dim: int, parameters: tuple[int, int]
) -> None:
    recipe = load_recipe(name)
    training = recipe.training
    assert isinstance(recipe.network, UnetSettings)
    assert (recipe.latent.dim, recipe.latent.particles, recipe.network.dropout) == (dim, 1, 0.1)
    assert (training.optimizer, training.betas, training.weight_decay) == ("adamw", (0.9, 0.99), 0.01)
    assert (training.learning_rate, training.learning_rate_schedule) == (2e-4, "constant")
    assert (training.batch, training.clip, training.ema) == (256, 1.0, 0.9999)
    assert training.steps == {"mnist": 200_000, "cifar10": 1_000_000}[name]
    assert training.kl_warmup * training.steps == 100_000
    format = recipe.data.example_kind()
    assert format == kind_of(shape, vocab_size)
    with torch.device("meta"):
        models = [build_model(recipe.with_overrides([f"model={kind}"]), format) for kind in ("mdlm", "vadd")]
    denoisers = [sum(p.numel() for n, p in model.named_parameters() if n.startswith("denoiser")) for model in models]
    assert tuple(denoisers) == parameters
    assert isinstance(models[1].latent, GaussianLatent)


@pytest.mark.parametrize("suffix", ["gif", "png", "npz"])
def test_the_denoising_of_images_is_written_as_animation_strip_or_states(
    digits_run: Path, vadd_command: Command, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / f"denoising.{suffix}"
    assert vadd_command("sample", digits_run, "-n", 2, "--steps", 5, "--trajectory", out).code == 0
    if suffix == "gif":
        with Image.open(out) as animation:
            assert getattr(animation, "n_frames", 1) > 2
    elif suffix == "png":
        with Image.open(out) as strip:
            assert np.asarray(strip).std() > 0
    else:
        with np.load(out) as saved:
            states, mask = saved["states"], int(saved["mask"])
        assert states.shape == (6, 2, 64)
        assert (states[0] == mask).all()
        assert (states[-1] < mask).all()
        assert (states[-1] == vadd.load(digits_run).sample(2, steps=5).numpy()).all()


def test_the_fid_is_refused_where_there_are_no_images_or_no_network(
    digits_run: Path, vadd_run: Path, vadd_command: Command, tmp_path: Path
) -> None:
    for run in (digits_run, vadd_run):
        result = vadd_command("eval", run, "--steps", 1, "--samples", 10, "--inception", tmp_path / "none.pt")
        assert (result.code, result.err.count("\n")) == (2, 1)
    result = vadd_command("eval", digits_run, "--steps", 1, "--samples", 10, "--fid")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "vadd data inception" in result.err


def test_the_fid_of_samples_is_measured_with_the_real_network(digits_run: Path) -> None:
    network = inception_network()
    (result,) = evaluate(
        vadd.load(digits_run), [1], samples=16, options=EvaluationOptions(inception=network)
    ).report.to_json()["results"]
    assert result["fid_reference"] == 16
    assert result["fid"] > 10


def test_a_switch_takes_true_and_a_number_does_not() -> None:
    switched = load_recipe("mnist").with_overrides(["network.checkpointing=true"])
    assert isinstance(switched.network, UnetSettings)
    assert switched.network.checkpointing is True
    with pytest.raises(vadd.UserError, match=r"training\.batch does not take true"):
        load_recipe("mnist").with_overrides(["training.batch=true"])
