"""Exported models: a folder from which anybody can sample, without the data and without the training.

mine/
    model.safetensors    the averaged weights of one checkpoint
    recipe.yaml          how they were trained, without paths of the machine
    config.json          format, version, shape of an example, vocabulary size, pad, step, checksums of weights and data
    README.md            the model card
    tokenizer/           where the run had one
    table.json           where the data were a table

It may also lie on the Hugging Face Hub under a name "owner/name".
"""

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath

from torch import Tensor

from vadd.errors import UserError
from vadd.files import checksum, whole_path, write_json, writing
from vadd.kinds import Kind, check_facts, read_kind
from vadd.kinds.files import name_parts_of
from vadd.networks import CustomSettings
from vadd.parsing import read_json
from vadd.recipe import Recipe, build_model, load_recipe
from vadd.run.checkpoint import Archive, check_fit, finite, load_verified, read_weights, save_tensors
from vadd.run.directory import (
    EXPORTED_CARD,
    EXPORTED_CONFIG,
    EXPORTED_WEIGHTS,
    PRIORS,
    RECIPE,
    CheckpointName,
    Record,
    RunDirectory,
    is_hub_name,
    prior_path,
    read_records,
    step_of,
)
from vadd.run.model_card import CardResults, model_card
from vadd.run.priors import prior_records, read_prior
from vadd.version import __version__

FORMAT = 1
READ_FROM_HUB = ("*.safetensors", "*.json", RECIPE)
"""Nothing else is downloaded: there is nothing to execute and nothing to unpickle in it."""


@dataclass(frozen=True)
class ExportedModel:
    path: Path
    recipe: Recipe
    kind: Kind
    step: int
    sha256: str
    data_sha256: str | None = None
    """Of the data that the model learned from."""

    def weights(self) -> dict[str, Tensor]:
        """After their checksum has been verified."""
        what = f"the exported model {self.path}"
        return finite(load_verified(self.path / EXPORTED_WEIGHTS, self.sha256, what), what)


def find_exported(path: str | Path) -> ExportedModel | None:
    """The exported model in the folder ``path`` or, where there is no such path, of that name on the Hub.

    None for anything else. Where there is a folder "a" here, "a/b" is taken for a mistyped path, not for a name on the
    Hub.
    """
    local = Path(path)
    if local.exists():
        return read_exported(local) if (local / EXPORTED_CONFIG).is_file() else None
    return read_exported(fetch_from_hub(local.as_posix())) if is_hub_name(local) else None


def fetch_from_hub(name: str) -> Path:
    """Get the model "owner/name" from the Hugging Face Hub, into its client's cache."""
    from huggingface_hub import snapshot_download  # heavy; accelerate brings it

    try:
        return Path(snapshot_download(repo_id=name, allow_patterns=list(READ_FROM_HUB)))
    except Exception as error:  # no network, no such name, no permission, a full disk: the client's own, and many
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UserError(f"there is no directory {name}, and the Hugging Face Hub did not give it: {reason}") from None


def read_exported(path: Path) -> ExportedModel:
    try:
        content = read_json(path / EXPORTED_CONFIG)
        if content["library"] != "vadd":
            raise ValueError
        newer = int(content["format"]) > FORMAT
        step, sha256 = int(content["step"]), str(content["sha256"])
        data_sha256 = None if content.get("data_sha256") is None else str(content["data_sha256"])
        about = content | {"vocab_size": content["values"]}
        check_facts(about)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise UserError(
            f"{path} is not a model exported by vadd: its {EXPORTED_CONFIG} is missing or of another kind"
        ) from None
    if newer:
        raise UserError(f"{path} was exported by a newer version, vadd {content.get('vadd')}: upgrade with pip")
    recipe = load_recipe(str(path / RECIPE))
    kind = read_kind(path, about, getattr(recipe.data, "wrap", None))
    return ExportedModel(path, recipe, kind, step, sha256, data_sha256)


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
    name_parts_of(out)
    with writing(out), whole_path(out) as folder:
        folder.mkdir()
        save_tensors(weights, folder / EXPORTED_WEIGHTS, {"format": "pt"})
        (folder / RECIPE).write_text(published.to_yaml())
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
            "sha256": checksum(folder / EXPORTED_WEIGHTS),
            "data_sha256": fingerprint,
            **about,
        }
        write_json(folder / EXPORTED_CONFIG, config)
        parameters = sum(tensor.numel() for tensor in weights.values())
        card = model_card(published, kind, step, parameters, _measured(directory, step), results)
        (folder / EXPORTED_CARD).write_text(card)
        if fitted := prior_records(chosen):
            for record in fitted.values():
                read_prior(chosen, record.name)  # verified before it is passed on
                shutil.copy(prior_path(chosen, record.name), folder)
            shutil.copy(chosen / PRIORS, folder)
        kind.copy_files(directory.path, folder)
        if out.exists():
            # It is empty, and a folder cannot be renamed over it on every system.
            out.rmdir()
    return read_exported(out)


def without_paths(recipe: Recipe) -> Recipe:
    """Of every path only the last name is left: where the data lie on this machine is private."""
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


def _measured(directory: RunDirectory, step: int) -> dict[str, Record]:
    """The newest line of metrics of each split that was logged up to ``step``."""
    return {record["split"]: record for record in read_records(directory.metrics_file) if record["step"] <= step}
