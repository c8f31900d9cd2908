"""An exported model: a folder from which anybody can sample, without the data and without the training.

mine/
    model.safetensors    the averaged weights of one checkpoint
    recipe.yaml          how they were trained, without paths of the machine
    config.json          format, version, shape of an example, vocabulary size, pad, step, checksums of weights and data
    README.md            the model card
    tokenizer/           where the run had one
    table.json           where the data were a table

It may also lie on the Hugging Face Hub under a name "owner/name". :mod:`vadd.run.export` writes what this module
reads.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vadd.errors import UserError
from vadd.kinds import Kind, check_facts, read_kind
from vadd.kinds.kind import TABLE, TOKENIZER
from vadd.parsing import read_json
from vadd.recipe import Recipe, load_recipe
from vadd.run.directory import (
    EXPORTED_CONFIG,
    EXPORTED_WEIGHTS,
    OLD_CONDITIONAL,
    PRIORS,
    RECIPE,
    is_hub_name,
    prior_file,
)

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = 1
READ_FROM_HUB = (
    EXPORTED_WEIGHTS,
    RECIPE,
    EXPORTED_CONFIG,
    f"{TOKENIZER}/*.json",
    TABLE,
    PRIORS,
    prior_file("flow"),
    prior_file("conditional"),
    OLD_CONDITIONAL,
)
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

    def weights(self) -> "dict[str, Tensor]":
        """After their checksum has been verified."""
        from vadd.run.checkpoint import load_verified  # which imports torch

        return load_verified(self.path / EXPORTED_WEIGHTS, self.sha256, f"the exported model {self.path}")


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
