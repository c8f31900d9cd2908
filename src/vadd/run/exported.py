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

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vadd.errors import UserError
from vadd.parsing import read_json
from vadd.recipe import Recipe, load_recipe
from vadd.run.directory import (
    EXPORTED_CONFIG,
    EXPORTED_WEIGHTS,
    OLD_CONDITIONAL,
    PRIORS,
    RECIPE,
    TABLE,
    TOKENIZER,
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
    shape: tuple[int, ...]
    vocab_size: int
    pad: int | None
    step: int
    sha256: str
    sizes: tuple[int, ...] | None = None
    labels: tuple[str, ...] | None = None
    unknowns: bool = False
    data_sha256: str | None = None
    """Of the data that the model learned from."""
    label_shares: tuple[float, ...] | None = None

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
        shape, vocab_size, step = tuple(map(int, content["shape"])), int(content["values"]), int(content["step"])
        sha256, pad = str(content["sha256"]), content.get("pad")
        data_sha256 = None if content.get("data_sha256") is None else str(content["data_sha256"])
        sizes = None if content.get("sizes") is None else tuple(map(int, content["sizes"]))
        labels, shares = read_labels(content)
        if not shape or min(shape) < 1 or vocab_size < 2 or not (pad is None or isinstance(pad, int)):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise UserError(
            f"{path} is not a model exported by vadd: its {EXPORTED_CONFIG} is missing or of another kind"
        ) from None
    if newer:
        raise UserError(f"{path} was exported by a newer version, vadd {content.get('vadd')}: upgrade with pip")
    unknowns = bool(content.get("unknowns"))
    recipe = load_recipe(str(path / RECIPE))
    return ExportedModel(
        path, recipe, shape, vocab_size, pad, step, sha256, sizes, labels, unknowns, data_sha256, shares
    )


def read_labels(about: Mapping[str, Any]) -> tuple[tuple[str, ...] | None, tuple[float, ...] | None]:
    """The names of labels and how frequent each is, where runs and exports tell; ValueError where they contradict."""
    if about.get("labels") is None:
        return None, None
    names = tuple(map(str, about["labels"]))
    if about.get("label_shares") is None:
        return names, None
    shares = tuple(map(float, about["label_shares"]))
    if len(shares) != len(names) or not all(0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-6:
        raise ValueError
    return names, shares
