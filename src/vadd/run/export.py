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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import yaml
from torch import Tensor

from vadd.errors import UserError
from vadd.files import checksum, whole_path, write_json, writing
from vadd.kinds import Kind, check_facts, read_kind
from vadd.kinds.files import name_parts_of
from vadd.networks import CustomSettings
from vadd.parsing import read_json
from vadd.recipe import MODELS, Recipe, build_model, flatten, load_recipe
from vadd.run.checkpoint import Archive, check_fit, finite, load_verified, read_weights, save_tensors
from vadd.run.directory import (
    EXPORTED_CARD,
    EXPORTED_CONFIG,
    EXPORTED_WEIGHTS,
    PRETRAINED,
    RECIPE,
    CheckpointName,
    RunDirectory,
    check_hub_name,
    is_hub_name,
    read_records,
    shipped,
    step_of,
)
from vadd.run.priors import PRIORS_LOCK, prior_records, read_prior, write_prior
from vadd.run.status import latent_verdict
from vadd.settings import Section
from vadd.version import __version__
from vadd.words import first_line

FORMAT = 1
READ_FROM_HUB = ("*.safetensors", "*.json", RECIPE)
"""Nothing else is downloaded: there is nothing to execute and nothing to unpickle in it."""


@dataclass(frozen=True)
class CardResults:
    """Tables for a model card, and what they are about."""

    source: str
    recipe: str
    model: str
    step: int | None
    """Of the weights that were measured, where that was written down."""
    tables: str
    """Markdown."""

    def check(self, recipe: Recipe, step: int) -> None:
        """Refuse tables about another run or other weights."""
        if (self.recipe, self.model) != (recipe.name, recipe.model):
            raise UserError(
                f"{self.source} is about {self.recipe} {self.model}; this run is {recipe.name} {recipe.model}"
            )
        if self.step not in (None, step):
            raise UserError(f"{self.source} is about the weights of step {self.step}; those chosen are of step {step}")


@dataclass(frozen=True)
class StoredModel:
    """Averaged weights, of a checkpoint or exported, and what is known of them."""

    path: Path
    """Of the checkpoint or of the exported folder; fitted priors lie there too."""
    recipe: Recipe
    kind: Kind
    step: int
    weights: dict[str, Tensor]
    data_sha256: str | None
    """Of the data that the model learned from."""

    def check(self, problem: str) -> None:
        """Refuse weights that do not fit the recipe, before a network takes memory for them."""
        # Of custom networks only their owner knows the shapes; what is part of the package fits.
        if isinstance(self.recipe.network, CustomSettings) or self.path.parent == PRETRAINED:
            return
        # Every position and every value has some weight: absurd sizes need not even be built on the meta device.
        if max(self.kind.positions, self.kind.vocab_size) > sum(tensor.numel() for tensor in self.weights.values()):
            raise UserError(problem)
        check_fit(self.weights, partial(build_model, self.recipe, self.kind), problem)


def stored_in(directory: RunDirectory, checkpoint: CheckpointName) -> StoredModel:
    """One of the checkpoints of a run."""
    recipe = directory.recipe()
    chosen, weights = Archive(directory).chosen(checkpoint, read_weights)
    kind, fingerprint = directory.kind(recipe)
    return StoredModel(chosen, recipe, kind, step_of(chosen), weights, fingerprint)


def find_exported(path: str | Path) -> StoredModel | None:
    """The exported model in the folder ``path`` or, where there is no such path, of that name in the package or on the
    Hub.

    None for anything else. Where there is a folder "a" here, "a/b" is taken for a mistyped path, not for a name on the
    Hub.
    """
    local = Path(path)
    if local.exists():
        return read_exported(local) if (local / EXPORTED_CONFIG).is_file() else None
    if (part := shipped(local)) is not None:
        return read_exported(part)
    return read_exported(fetch_from_hub(local.as_posix())) if is_hub_name(local) else None


def fetch_from_hub(name: str) -> Path:
    """Get the model "owner/name" from the Hugging Face Hub, into its client's cache."""
    from huggingface_hub import snapshot_download  # heavy; accelerate brings it

    try:
        return Path(snapshot_download(repo_id=name, allow_patterns=list(READ_FROM_HUB)))
    except Exception as error:  # no network, no such name, no permission, a full disk: the client's own, and many
        problem = f"there is no directory {name}, and the Hugging Face Hub did not give it"
        raise UserError(f"{problem}: {first_line(error)}") from None


def push(folder: Path, name: str, *, private: bool = False) -> str:
    """Put an exported model on the Hugging Face Hub as "owner/name"; the address of its page."""
    from huggingface_hub import HfApi  # heavy; accelerate brings it

    check_hub_name(name)
    try:
        page = HfApi().create_repo(name, private=private, exist_ok=True)
        HfApi().upload_folder(repo_id=name, folder_path=folder, commit_message=f"vadd {__version__}")
    except Exception as error:  # no network, no token, no permission, a full disk: the client's own, and many
        hint = "log in with `hf auth login` or set HF_TOKEN"
        raise UserError(f"the Hugging Face Hub did not take {name}: {first_line(error)}; {hint}") from None
    return str(page)


def read_exported(path: Path) -> StoredModel:
    """After the checksum of its weights has been verified."""
    try:
        content = read_json(path / EXPORTED_CONFIG)
        newer, step, sha256 = int(content["format"]) > FORMAT, int(content["step"]), str(content["sha256"])
        data_sha256 = None if content.get("data_sha256") is None else str(content["data_sha256"])
        about = content | {"vocab_size": content["values"]}
        check_facts(about)
        if content["library"] != "vadd":
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        problem = f"its {EXPORTED_CONFIG} is missing or of another kind"
        raise UserError(f"{path} is not a model exported by vadd: {problem}") from None
    if newer:
        raise UserError(f"{path} was exported by a newer version, vadd {content.get('vadd')}: upgrade with pip")
    recipe = load_recipe(str(path / RECIPE))
    kind = read_kind(path, about, getattr(recipe.data, "wrap", None))
    what = f"the exported model {path}"
    weights = finite(load_verified(path / EXPORTED_WEIGHTS, sha256, what), what)
    return StoredModel(path, recipe, kind, step, weights, data_sha256)


def export(
    directory: RunDirectory,
    out: Path,
    *,
    checkpoint: CheckpointName = "latest",
    results: CardResults | None = None,
    half: bool = False,
) -> StoredModel:
    """Write the averaged weights of a checkpoint to the folder ``out``, which must be new or empty.

    ``results`` are tables for the model card, measured on the same weights. ``half``: as float16, in half of the space.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not an empty directory; nothing is overwritten, name another one")
    out = out.absolute()
    stored = stored_in(directory, checkpoint)
    chosen, recipe, kind, step, weights = stored.path, stored.recipe, stored.kind, stored.step, stored.weights
    if results is not None:
        results.check(recipe, step)
    stored.check(f"the weights in {chosen} do not fit the recipe of its run")
    published = without_paths(recipe)
    name_parts_of(out)
    with writing(out), whole_path(out) as folder:
        folder.mkdir()
        save_tensors(halved(weights) if half else weights, folder / EXPORTED_WEIGHTS, {"format": "pt"})
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
            "data_sha256": stored.data_sha256,
            **about,
        }
        write_json(folder / EXPORTED_CONFIG, config)
        parameters = sum(tensor.numel() for tensor in weights.values())
        # The newest line of metrics of each split that was logged up to the step.
        lines = [record for record in read_records(directory.metrics_file) if record["step"] <= step]
        measured = {record["split"]: record for record in lines}
        card = model_card(published, kind, step, parameters, measured, results)
        (folder / EXPORTED_CARD).write_text(card)
        for record in prior_records(chosen).values():
            if half and record.name == "flow" and not record.helps:
                continue  # it is not used, and this export is to be small
            tensors = read_prior(chosen, record.name)  # verified before it is passed on
            write_prior(folder, halved(tensors) if half else tensors, record)
        (folder / PRIORS_LOCK).unlink(missing_ok=True)
        kind.copy_files(directory.path, folder)
        if out.exists():
            # It is empty, and a folder cannot be renamed over it on every system.
            out.rmdir()
    return read_exported(out)


def halved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """In float16, what is not an integer; models take them as float32."""
    return {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def without_paths(recipe: Recipe) -> Recipe:
    """Of every path only the last name is left: where the data lie on this machine is private."""
    paths = {key: getattr(recipe.data, key, None) for key in ("path", "schema_path", "directory", "tokenizer_path")}
    changes = {key: None if key == "directory" else PurePath(path).name for key, path in paths.items() if path}
    started = recipe.training.start_from
    training = recipe.training.model_copy(update={"start_from": started and PurePath(started).name})
    data, network = recipe.data.model_copy(update=changes), recipe.network.without_paths()
    return recipe.model_copy(update={"data": data, "training": training, "network": network})


def model_card(
    recipe: Recipe,
    kind: Kind,
    step: int,
    parameters: int,
    measured: Mapping[str, Mapping[str, Any]],
    results: CardResults | None = None,
) -> str:
    """``measured`` are lines of the training's metrics, by their split."""
    from jinja2 import Environment  # heavy, and no sampling needs it

    size, network = " x ".join(map(str, kind.shape)), recipe.network
    tags = ["vadd", "masked-diffusion", "discrete-diffusion", "few-step-generation", recipe.model, recipe.data.kind]
    custom = network.arguments() if isinstance(network, CustomSettings) else {}
    environment = Environment(trim_blocks=True, autoescape=False)  # Markdown, not HTML
    environment.filters |= {"cell": _cell, "listed": _listed}
    card = environment.from_string(Path(__file__).with_name("model_card.md").read_text()).render(
        recipe=recipe,
        kind=kind,
        facts=MODELS[recipe.model],
        front_matter=yaml.safe_dump({"library_name": "vadd", "tags": list(dict.fromkeys(tags))}, sort_keys=False),
        what=f"images of {size}" if kind.name == "image" else f"arrays of {size} integers",
        networks="".join(f", {name}={of}(...)" for name, of in custom.items()),
        step=step,
        parameters=parameters,
        test=measured.get("test"),
        latent=measured.get("latent"),
        verdict=latent_verdict(measured.get("latent", {})),
        results=results,
    )
    return card.strip() + "\n"


def _listed(section: Section) -> str:
    """The settings of a section that say something."""
    settings = flatten(section.model_dump())
    return _cell(", ".join(f"{key} {value}" for key, value in settings if value not in (None, (), [], "", {})))


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value).replace("|", "\\|")
