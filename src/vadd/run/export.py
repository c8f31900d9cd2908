"""Publishing a trained model: a folder with its weights, its recipe and a model card; see :mod:`vadd.run.exported`."""

import shutil
from functools import partial
from pathlib import Path, PurePath

from vadd.errors import UserError
from vadd.files import checksum, whole_path, write_json
from vadd.networks import CustomSettings
from vadd.recipe import Recipe
from vadd.recipe.building import build_model
from vadd.run.archive import Archive
from vadd.run.checkpoint import check_fit, read_weights, save_tensors
from vadd.run.directory import (
    EXPORTED_CARD,
    EXPORTED_CONFIG,
    EXPORTED_WEIGHTS,
    PRIORS,
    RECIPE,
    CheckpointName,
    Record,
    RunDirectory,
    prior_path,
    read_records,
    step_of,
)
from vadd.run.exported import FORMAT, ExportedModel, read_exported
from vadd.run.model_card import CardResults, Measured, model_card
from vadd.run.priors import prior_records, read_prior
from vadd.version import __version__


def export(
    directory: RunDirectory,
    out: Path,
    *,
    checkpoint: CheckpointName = "latest",
    results: CardResults | None = None,
) -> ExportedModel:
    """Write the averaged weights of a checkpoint to the folder ``out``, which must be new or empty.

    ``results`` are tables for the model card, measured on the same weights.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not an empty directory; nothing is overwritten, name another one")
    out = out.absolute()
    recipe = directory.recipe()
    chosen, weights = Archive(directory).chosen(checkpoint, read_weights)
    step = step_of(chosen)
    if results is not None:
        results.check(recipe, step)
    kind, fingerprint = directory.kind(recipe)
    if not isinstance(recipe.network, CustomSettings):  # of these only their owner knows the shapes
        problem = f"the weights in {chosen} do not fit the recipe of its run"
        check_fit(weights, partial(build_model, recipe, kind), problem)
    published = without_paths(recipe)
    with whole_path(out) as beside:
        beside.mkdir()
        save_tensors(weights, beside / EXPORTED_WEIGHTS, {"format": "pt"})
        (beside / RECIPE).write_text(published.to_yaml())
        about = kind.to_json()
        config = {
            "library": "vadd",
            "format": FORMAT,
            "vadd": __version__,
            "model": recipe.model,
            "shape": about.pop("shape"),
            "values": about.pop("vocab_size"),
            "pad": about.pop("pad"),
            "step": step,
            "sha256": checksum(beside / EXPORTED_WEIGHTS),
            "data_sha256": fingerprint,
            **about,
        }
        write_json(beside / EXPORTED_CONFIG, config)
        parameters = sum(tensor.numel() for tensor in weights.values())
        card = model_card(published, kind, step, parameters, _measured(directory, step), results)
        (beside / EXPORTED_CARD).write_text(card)
        if fitted := prior_records(chosen):
            for record in fitted.values():
                read_prior(chosen, record.name)  # verified before it is passed on
                shutil.copy(prior_path(chosen, record.name), beside)
            shutil.copy(chosen / PRIORS, beside)
        kind.copy_files(directory.path, beside)
        if out.exists():
            # It is empty, and a folder cannot be renamed over it on every system.
            out.rmdir()
    return read_exported(out)


def without_paths(recipe: Recipe) -> Recipe:
    """Where the data lie on somebody's machine is nobody else's business: of a path only the last name is left."""
    changes: dict[str, str | None] = {}
    if path := getattr(recipe.data, "path", None):
        changes["path"] = PurePath(path).name
    if schema := getattr(recipe.data, "schema_path", None):
        changes["schema_path"] = PurePath(schema).name
    if getattr(recipe.data, "directory", None):
        changes["directory"] = None
    started = recipe.training.start_from
    training = recipe.training.model_copy(update={"start_from": started and PurePath(started).name})
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=changes), "training": training})


def _measured(directory: RunDirectory, step: int) -> Measured:
    """The newest held-out numbers that were logged up to ``step``."""
    newest: dict[str, Record] = {}
    for record in read_records(directory.metrics_file):
        if record["step"] <= step:
            newest[record["split"]] = record
    return Measured(newest.get("test"), newest.get("latent"))
