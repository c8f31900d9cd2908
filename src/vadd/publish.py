"""Publishing a trained model: a folder with its weights, its recipe and a model card; see :mod:`vadd.exported`."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from vadd.build import build_model, example_shape
from vadd.errors import UserError
from vadd.exported import CARD, CONFIG, FORMAT, RECIPE, TOKENIZER, WEIGHTS, ExportedModel, checksum, read_exported
from vadd.model_card import Measured, model_card
from vadd.overview import read_records
from vadd.recipe import Recipe, TextData
from vadd.run import Checkpoint, RunDirectory
from vadd.training.checkpoint import read_weights, verify_checkpoint
from vadd.version import __version__


def export(
    directory: RunDirectory, out: Path, *, checkpoint: Checkpoint = "latest", results: Path | None = None
) -> ExportedModel:
    """Write the averaged weights of a checkpoint to the folder ``out``, which must be new or empty.

    ``results`` is a file that ``vadd eval --json`` wrote for this run; its tables go into the model card.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not an empty directory; nothing is overwritten, name another one")
    out = out.absolute()
    recipe = directory.recipe()
    report = None if results is None else read_results(results, recipe)
    chosen = directory.chosen_checkpoint(checkpoint)
    step, weights = verify_checkpoint(chosen), read_weights(chosen)
    if report is not None and report.get("step", step) != step:
        raise UserError(f"{results} is about the weights of step {report['step']}; those chosen are of step {step}")
    shape, values = _shape_of(directory, recipe)
    check_fit(weights, recipe, shape, values, chosen)
    published = without_paths(recipe)
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        save_file(weights, partial / WEIGHTS, metadata={"format": "pt"})
        (partial / RECIPE).write_text(published.to_yaml())
        config = {
            "library": "vadd",
            "format": FORMAT,
            "vadd": __version__,
            "model": recipe.model,
            "shape": list(shape),
            "values": values,
            "step": step,
            "sha256": checksum(partial / WEIGHTS),
        }
        (partial / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
        parameters = sum(tensor.numel() for tensor in weights.values())
        card = model_card(published, shape, values, step, parameters, _measured(directory, step), report)
        (partial / CARD).write_text(card)
        tokenizer = directory.path / TOKENIZER
        if tokenizer.is_dir():
            shutil.copytree(tokenizer, partial / TOKENIZER)
        if out.exists():
            out.rmdir()
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return read_exported(out)


def _shape_of(directory: RunDirectory, recipe: Recipe) -> tuple[tuple[int, ...], int]:
    """Of an example, and V; a run on text knows it from its tokenizer, without the text."""
    if isinstance(recipe.data, TextData) and (tokenizer := directory.tokenizer()) is not None:
        return (recipe.data.length,), tokenizer.values
    return example_shape(recipe)


def check_fit(weights: Mapping[str, Tensor], recipe: Recipe, shape: tuple[int, ...], values: int, source: Path) -> None:
    with torch.device("meta"):
        wanted = build_model(recipe, shape, values).state_dict()
    if {name: tensor.shape for name, tensor in wanted.items()} != {name: t.shape for name, t in weights.items()}:
        raise UserError(f"the weights in {source} do not fit the recipe of its run")


def without_paths(recipe: Recipe) -> Recipe:
    """Where the data lie on somebody's machine is nobody else's business: of a path only the last name is left."""
    changes: dict[str, str | None] = {}
    if path := getattr(recipe.data, "path", None):
        changes["path"] = PurePath(path).name
    if getattr(recipe.data, "directory", None):
        changes["directory"] = None
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=changes)})


def read_results(file: Path, recipe: Recipe) -> dict[str, Any]:
    """What ``vadd eval --json`` wrote, if it is about a run of this recipe."""
    try:
        report = json.loads(file.read_text())
        about = (report["recipe"], report["model"])
        assert isinstance(report["results"], list)
    except FileNotFoundError:
        raise UserError(f"there is no file {file}") from None
    except (OSError, ValueError, KeyError, TypeError, AssertionError):
        raise UserError(f"{file} is not what `vadd eval --json` writes") from None
    if about != (recipe.name, recipe.model):
        raise UserError(f"{file} is about {' '.join(map(str, about))}; this run is {recipe.name} {recipe.model}")
    return dict(report)


def _measured(directory: RunDirectory, step: int) -> Measured:
    """The newest held-out numbers that were logged up to ``step``."""
    newest: dict[str, dict[str, Any]] = {}
    for record in read_records(directory.metrics_file):
        if record["step"] <= step:
            newest[record["split"]] = record
    return Measured(newest.get("test"), newest.get("latent"))
