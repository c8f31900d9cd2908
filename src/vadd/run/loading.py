"""Opening runs and exported models, and whether several have learned from the same data."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from vadd.errors import UserError
from vadd.networks import CustomNetworks, CustomSettings
from vadd.parallel import chosen_device
from vadd.recipe import build_model
from vadd.run.checkpoint import Unfilled, check_fit
from vadd.run.directory import PRETRAINED, CheckpointName, PriorChoice, RunDirectory
from vadd.run.export import find_exported, stored_in
from vadd.run.priors import prior_records, read_prior
from vadd.run.run import Run
from vadd.settings import Place, checked

READING = frozenset({"tokenizer", "tokenizer_path", "vocabulary", "length", "wrap", "documents", "field"})
SIZES = frozenset({"train_size", "test_size", "test_fraction"})
"""Keys of the section ``data`` in which runs on the same data may differ."""


@checked
def load(
    path: Place,
    device: str | torch.device | None = None,
    *,
    checkpoint: CheckpointName = "latest",
    prior: Annotated[PriorChoice, Field()] = "fitted",
    denoiser: nn.Module | None = None,
    recognizer: nn.Module | None = None,
) -> Run:
    """Open a run with the averaged weights of one of its checkpoints, on ``device`` (default: a GPU if there is one,
    else the CPU).

    ``path`` is a run's directory, a folder that ``vadd export`` wrote, the name of a model of the package
    ("mnist-pretrained") or the name "owner/name" of a model on the Hugging Face Hub.

    ``checkpoint`` is "latest" (the newest complete one), "best" (the one with the lowest held-out objective) or a step.

    ``prior`` is "fitted" (the priors of ``vadd fit-prior``, if there are any), "trained" (only the prior of the
    training), "flow" or "conditional" (refused if that one was not fitted). With a flow prior, samples have one z for
    all steps, unless the sampling options say otherwise.

    A run with a custom ``denoiser`` and ``recognizer`` needs modules of the same class and size; they are copied. The
    data are read when they are needed. Sampling does not need them.
    """
    own, device = given_networks(denoiser, recognizer), chosen_device(device)
    stored = find_exported(path)
    is_exported = stored is not None
    if stored is None:
        directory = RunDirectory.open(path)
        stored = stored_in(directory, checkpoint)
    elif checkpoint not in ("latest", stored.step):
        raise UserError(f"{path} is an exported model: it holds the weights of step {stored.step} only")
    else:
        directory = RunDirectory(stored.path)
    recipe, kind = stored.recipe, stored.kind
    if own is not None and not isinstance(recipe.network, CustomSettings):
        raise UserError(f"{path} has networks of its recipe ({recipe.network.kind}); none of your own are needed")
    stored.check(f"the weights in {stored.path} do not fit the recipe of {path}")
    with Unfilled():
        model = build_model(recipe, kind, own)
    try:
        model.load_state_dict(stored.weights)
    except RuntimeError:
        raise UserError(f"the weights in {stored.path} do not fit the networks that were given") from None
    run = Run(directory, model, recipe, kind, stored.step)
    run.is_exported, run.fingerprint = is_exported, stored.data_sha256
    _use_priors(run, stored.path, prior)
    for module in filter(None, (run.model, run.conditional)):
        module.to(device).eval().requires_grad_(False)
    return run


def given_networks(denoiser: nn.Module | None, recognizer: nn.Module | None) -> CustomNetworks | None:
    if denoiser is None:
        if recognizer is not None:
            raise UserError("a custom recognizer needs a custom denoiser: denoiser=...")
        return None
    return CustomNetworks(denoiser, recognizer)


def _use_priors(run: Run, place: Path, choice: PriorChoice) -> None:
    """Give a run the priors that were fitted to its weights."""
    if choice == "trained":
        return
    there = prior_records(place)
    for name in ("flow", "conditional"):
        if name not in there and choice != name:
            continue
        weights = read_prior(place, name)
        build = partial(run.recipe.latent.build_prior, run.recipe.network, run.kind, conditional=name == "conditional")
        if place.parent != PRETRAINED:
            check_fit(weights, build, f"the {name} prior in {place} does not fit the recipe of its run: fit it anew")
        with Unfilled():
            fitted = build()
        fitted.load_state_dict(weights)
        if name == "conditional":
            run.conditional = fitted
        if name == choice or (name == "flow" and choice == "fitted" and there[name].helps):
            run.model = run.model.with_prior(fitted)
            run.prior_seconds = there[name].seconds
            # It was fitted to r(z | x0, everything masked): a z for the whole sample, drawn at the start.
            run.sampling = run.sampling.changed({"latent_policy": "fixed"})


def check_same_data(runs: Sequence[Run]) -> None:
    """Refuse runs whose data differ in more than how they are read and divided."""
    first = runs[0]
    for other in runs[1:]:
        if first.fingerprint is not None and first.fingerprint == other.fingerprint:
            continue
        ours, theirs = (_source_of_data(run, first.is_exported or other.is_exported) for run in (first, other))
        different = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        if different:
            shown = "; ".join(f"{key} is {ours.get(key)!r} and {theirs.get(key)!r}" for key in different)
            names = f"{first.directory.path} and {other.directory.path}"
            raise UserError(f"{names} have learned from different data: {shown}")


def _source_of_data(run: Run, name_only: bool) -> dict[str, object]:
    """``name_only`` where paths were left out of an export."""
    section = run.recipe.data
    if section.kind == "given":  # made in Python; every run keeps its own copy
        return {"data.kind": "given", "shape": run.kind.shape, "vocab_size": run.kind.vocab_size}
    content = {key: value for key, value in section.model_dump(mode="json").items() if key not in READING | SIZES}
    if content.get("path") and name_only:
        content["path"] = Path(str(content["path"])).name
    return {f"data.{key}": value for key, value in content.items()}
