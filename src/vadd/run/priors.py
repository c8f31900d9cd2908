"""Priors that were fitted to a trained run: files next to the averaged weights that they belong to.

checkpoints/step-00001000/
    prior-flow.safetensors         p(z), for sampling
    prior-conditional.safetensors  p(z | x_t), for completions
    priors.json                    checksums, and the KL of the recognition model before and after

An exported model has the same files next to its weights.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from filelock import FileLock
from torch import Tensor

from vadd.errors import UserError
from vadd.files import checksum, whole_path, write_json
from vadd.parsing import read_json
from vadd.run.checkpoint import finite, load_verified, save_tensors
from vadd.run.directory import PRIORS, PriorName

PRIORS_LOCK = ".priors.lock"


@dataclass(frozen=True)
class PriorRecord:
    """What is known of a fitted prior."""

    name: PriorName
    kl_normal: float
    """KL(r || N(0, I)) with everything masked, in nats, on held-out examples."""
    kl: float
    """KL(r || prior), likewise."""
    steps: int
    sha256: str = ""
    seconds: float | None = None
    """What the fit took since it was last started."""

    @property
    def helps(self) -> bool:
        """Whether it is nearer to the recognition model than N(0, I) is; one that is not is used only by its name."""
        return self.kl <= self.kl_normal


def write_prior(place: Path, weights: Mapping[str, Tensor], record: PriorRecord) -> None:
    """Into a checkpoint's directory; an earlier one of that name is replaced."""
    file = place / f"prior-{record.name}.safetensors"
    with FileLock(place / PRIORS_LOCK):  # another prior may be written at the same time
        with whole_path(file) as partial:
            save_tensors(weights, partial)
        records = prior_records(place) | {record.name: replace(record, sha256=checksum(file))}
        write_json(place / PRIORS, {name: asdict(each) for name, each in records.items()})


def prior_path(place: Path, name: PriorName) -> Path:
    """The file of a fitted prior, of this version or, with the name that a conditional one had there, of 0.2.0."""
    path = place / f"prior-{name}.safetensors"
    return place / "prior-informed.safetensors" if name == "conditional" and not path.exists() else path


def prior_records(place: Path) -> dict[str, PriorRecord]:
    """The priors in a checkpoint's directory or an exported folder, by name."""
    try:
        content = read_json(place / PRIORS)
        if "informed" in content:  # written by version 0.2.0
            content["conditional"] = content.pop("informed") | {"name": "conditional"}
        return {name: PriorRecord(**entry) for name, entry in content.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError):
        raise UserError(f"{place / PRIORS} is damaged") from None


def read_prior(place: Path, name: PriorName) -> dict[str, Tensor]:
    """Its weights, after their checksum has been verified."""
    record = prior_records(place).get(name)
    if record is None:
        command = "vadd fit-prior RUN" + (" --conditional" if name == "conditional" else "")
        raise UserError(f"{place} has no {name} prior; fit one with: {command}")
    what = f"the prior in {place}"
    return finite(load_verified(prior_path(place, name), record.sha256, what), what)
