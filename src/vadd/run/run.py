"""A trained run, and what can be done with it."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from vadd.core import MaskedDiffusion, Prior, Samples, TokenSampler
from vadd.data import DiscreteDataset, ExampleFormat
from vadd.data.dataset import Array
from vadd.errors import UserError
from vadd.kinds.table import TableCodec
from vadd.kinds.text.tokenizers import Tokenizer, refuse_other
from vadd.models import EnergyOfAnother, EnergyWeighted
from vadd.parallel import Processes, default_device
from vadd.progress import Progress, silent
from vadd.recipe import OwnNetwork, Recipe
from vadd.recipe.building import OwnNetworks, build_dataset, build_model, build_prior
from vadd.run.archive import Archive
from vadd.run.checkpoint import read_weights
from vadd.run.chunks import bytes_per_row, chunk_size
from vadd.run.directory import CheckpointName, PriorChoice, RunDirectory, step_of
from vadd.run.effort import check_held, check_samples
from vadd.run.exported import find_exported
from vadd.run.formats import exported_format, read_fingerprint, read_format, read_table_codec, read_tokenizer
from vadd.run.infilling import as_given, latent_rows, masked_starts
from vadd.run.options import SamplingOptions, resolve
from vadd.run.priors import prior_records, read_prior
from vadd.run.sampling import check_start, stream
from vadd.words import suggestion


class Run:
    """A trained model with its recipe, ready to sample from. Its data are read when somebody asks for them."""

    def __init__(
        self,
        directory: RunDirectory,
        model: MaskedDiffusion,
        recipe: Recipe,
        format: ExampleFormat,
        tokenizer: Tokenizer | None = None,
        step: int | None = None,
        informed: Prior | None = None,
        table: TableCodec | None = None,
    ) -> None:
        self.directory = directory
        self.model = model
        self.recipe = recipe
        self.format = format
        """The shape of an example, the size of the vocabulary, the pad."""
        self.tokenizer = tokenizer
        """What makes text of samples, where the data are text."""
        self.table = table
        """What makes rows of samples, where the data are a table."""
        self.step = step
        """Of the training, that the weights are from."""
        self.informed = informed
        """The prior p(z | x_t) that completions draw from, where one was fitted."""
        self.fingerprint: str | None = None
        """Of the data that the model learned from, where the run knows it."""
        self.is_exported = False
        self.token_sampler: TokenSampler | None = None
        """How values are drawn where nothing else is said; None: exactly."""
        self.prior_seconds: float | None = None
        """What the fit of the prior took that samples are drawn with, where that is known."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one example, before it is flattened."""
        return self.format.shape

    @cached_property
    def data(self) -> DiscreteDataset:
        try:
            data = build_dataset(self.recipe, tokenizer=self.tokenizer)
        except UserError as error:
            raise UserError(f"this needs the data that the model learned from: {error}") from None
        if data.format != self.format:
            raise UserError(
                f"the data here are not what the model learned from: examples have the shape {data.shape} and "
                f"{data.vocab_size} values, not {self.format.shape} and {self.format.vocab_size}"
            )
        path = getattr(self.recipe.data, "path", None)
        # An exported recipe has no paths but names, and any file here may have such a name.
        if self.is_exported and path and data.fingerprint() != self.fingerprint:
            why = (
                "has another checksum" if self.fingerprint else "cannot be told from others: the export has no checksum"
            )
            raise UserError(
                f"this needs the data that the model learned from, and {path} here {why}; give --data to bound the "
                "likelihood of other data"
            )
        return data

    def texts(self, tokens: Tensor | Array) -> list[str]:
        """Samples (n, N) of a run on text as text.

        Where a sample is one padded document it ends at its first EOS; else several documents may follow each other,
        and blank lines part them.
        """
        if self.tokenizer is None:
            raise UserError(f"{self.directory.path} is not a run on text")
        padded = self.format.pad is not None
        return [self.tokenizer.text(row, padded=padded) for row in np.asarray(tokens)]

    def with_sampling(self, **changes: Any) -> Self:
        """The same model with other defaults of sampling, like ``latent_policy="fixed"``."""
        settings = self.recipe.sampling.model_copy(update=changes)
        other = copy.copy(self)
        other.recipe = self.recipe.model_copy(update={"sampling": settings})
        return other

    def labelled(self, label: str | int | None, guidance: float = 1.0) -> "Run":
        """The same run for samples of one label, by its name or number; see :meth:`MaskedDiffusion.labelled`."""
        names = self.format.labels or ()
        if self.table is not None:
            raise UserError("the labels of a table are its columns: --where COLUMN=VALUE, in Python where=")
        if label is not None and names and str(label) not in names:
            raise UserError(
                f"unknown label {str(label)!r}{suggestion(str(label), names)}; known are {', '.join(names)}"
            )
        other = copy.copy(self)
        other.model = self.model.labelled(None if label is None or not names else names.index(str(label)), guidance)
        return other

    def restricted(self, sizes: Sequence[int]) -> "Run":
        """The same run with only the first values of each position allowed."""
        other = copy.copy(self)
        other.model = self.model.restricted(sizes)
        return other

    def with_energy(self, other: "Run", candidates: int = 8, window: float = 1.0) -> "Run":
        """The same model with its candidates weighed by the likelihood of an autoregressive run (EDLM): at each of the
        first steps, a share ``window`` of all, so many completions are drawn, and one is kept. Not exact.
        """
        if other.format != self.format:
            raise UserError(
                f"the energy of {other.directory.path} is over examples of shape {other.format.shape} with "
                f"{other.format.vocab_size} values; those of {self.directory.path} have {self.format.shape} and "
                f"{self.format.vocab_size}"
            )
        if self.tokenizer is not None and other.tokenizer is not None:
            refuse_other(self.tokenizer, other.tokenizer, str(self.directory.path))
        weighed = copy.copy(self)
        weighed.__dict__.pop("_bytes_per_row", None)
        sampler = EnergyWeighted(candidates, window)
        weighed.model = EnergyOfAnother.of(self.model, other.model.to(self.model.device), sampler)
        weighed.recipe = self.recipe.model_copy(update={"model": "edlm"})
        return weighed

    def with_draws(self, token_sampler: TokenSampler) -> Self:
        """The same model, whose values are drawn otherwise, like ``TokenSampler(precision="float32")``."""
        other = copy.copy(self)
        other.token_sampler = token_sampler
        return other

    @cached_property
    def _bytes_per_row(self) -> int:
        return bytes_per_row(self.model)

    def stream(
        self,
        start: int | Tensor = 1,
        *,
        record: int = 0,
        memory: int | None = None,
        processes: Processes | None = None,
        progress: Progress = silent,
        **options: Unpack[SamplingOptions],
    ) -> Iterator[Samples]:
        """Samples chunk by chunk, in memory that does not grow with their number.

        ``start`` is how many, or sequences (n, N) with the mask value V where something is to be filled. The
        ``options`` are those of :class:`~vadd.run.options.SamplingOptions`. Of the first ``record`` samples the
        trajectories are kept. ``memory`` is what a chunk may take, in bytes; by default 256 MB, on a GPU a part of what
        is free. Several ``processes`` divide the chunks, and the samples come out in the main one.
        """
        label, guidance = options.pop("label", None), options.pop("guidance", None)
        if label is not None or guidance is not None:
            given = self.labelled(label, 1.0 if guidance is None else guidance)
            return given.stream(start, record=record, memory=memory, processes=processes, progress=progress, **options)
        if options.get("token_sampler") is None:
            options["token_sampler"] = self.token_sampler
        settings = resolve(self.model, self.recipe.sampling, **options)
        n = check_start(self.model, settings, start)
        check_samples(n, settings.steps)
        size = 1
        if n > 1:
            # A single sample needs no measurement, which costs a pass through the network.
            size = chunk_size(self._bytes_per_row, self.model, settings.steps, memory)
        # An informed prior reads what is known; of samples from nothing, nothing is known.
        model = self.model if isinstance(start, int) or self.informed is None else self.model.with_prior(self.informed)
        return stream(model, settings, start, size, record=record, processes=processes, progress=progress)

    def sample(
        self, n: int = 1, *, memory: int | None = None, progress: Progress = silent, **options: Unpack[SamplingOptions]
    ) -> Tensor:
        """``n`` samples, (n, N) integers, for example ``run.sample(16, steps=8, sampler="parallel", seed=3)``.

        They are the first of those that the seed stands for: a larger ``n`` begins with the same ones.
        """
        check_held(n, self.model.positions)
        return torch.cat([part.tokens for part in self.stream(n, memory=memory, progress=progress, **options)])

    def infill(
        self,
        x: Tensor | Array,
        known: Tensor | Array | None = None,
        *,
        count: int | None = None,
        memory: int | None = None,
        progress: Progress = silent,
        **options: Unpack[SamplingOptions],
    ) -> Tensor:
        """A completion of each of the sequences ``x``, in the shape of ``x``: (n, N), (n, *shape) or one example.

        What is ``known`` stays, or, without it, all but -1. With ``count`` there are so many completions of each,
        (n, count, ...). Infilling is sampling from another start: the ``options`` are the same.
        """
        each = 1 if count is None else count
        starts = masked_starts(self.model, self.shape, x, known, each)
        if isinstance(latent := options.get("latent"), Tensor) and latent.ndim == 3:
            options["latent"] = latent_rows(latent, len(starts) // each, each)
        drawn = [part.tokens for part in self.stream(starts, memory=memory, progress=progress, **options)]
        return as_given(torch.cat(drawn), x, self.shape, count)

    def trajectory(self, n: int = 1, **options: Unpack[SamplingOptions]) -> Tensor:
        """How the ``n`` samples that :meth:`sample` gives come about: (steps + 1, n, N), from all masked (the value V)
        to the samples.
        """
        states = [part.trajectory for part in self.stream(n, record=n, **options)]
        return torch.cat([state for state in states if state is not None], dim=1)


def load(
    path: str | Path,
    device: str | torch.device | None = None,
    *,
    checkpoint: CheckpointName = "latest",
    prior: PriorChoice = "fitted",
    own: OwnNetworks | None = None,
) -> Run:
    """Open a run with the averaged weights of one of its checkpoints, on ``device`` (default: a GPU if there is one,
    else the CPU).

    ``checkpoint`` is "latest" (the newest that is whole), "best" (the lowest held-out objective) or a step. Priors that
    ``vadd fit-prior`` made for it are used unless ``prior`` is "trained"; "flow" and "informed" ask for that one. With
    a flow prior samples keep one z for all steps unless the options say otherwise.
    ``path`` may also be a folder that ``vadd export`` wrote or, where there is no such path, the name "owner/name" of
    one on the Hugging Face Hub. Its ``data`` are read only when they are needed; sampling does not need them.
    A run that was trained with networks of somebody's ``own`` is opened with the same.
    """
    exported = find_exported(path)
    if exported is None:
        directory = RunDirectory.open(path)
        recipe, tokenizer = directory.recipe(), read_tokenizer(directory)
        chosen, weights = Archive(directory).chosen(checkpoint, read_weights)
        step, format = step_of(chosen), read_format(directory, recipe, tokenizer)
    else:
        if checkpoint not in ("latest", exported.step):
            raise UserError(f"{path} is an exported model: it holds the weights of step {exported.step} only")
        directory, recipe, chosen = RunDirectory(exported.path), exported.recipe, exported.path
        step, weights, tokenizer = exported.step, exported.weights(), read_tokenizer(directory)
        format = exported_format(exported, tokenizer)
    if own is not None and not isinstance(recipe.network, OwnNetwork):
        raise UserError(f"{path} has networks of its recipe ({recipe.network.kind}); none of your own are needed")
    problem = f"the weights in {chosen} do not fit the recipe of {path}"
    # Every position and every value has some weight: absurd sizes need not even be built on the meta device.
    if max(format.positions, format.vocab_size) > sum(tensor.numel() for tensor in weights.values()) and own is None:
        raise UserError(problem)
    if not isinstance(recipe.network, OwnNetwork):
        check_fit(weights, partial(build_model, recipe, format), problem)
    model = build_model(recipe, format, own)
    try:
        model.load_state_dict(weights)
    except RuntimeError:
        raise UserError(f"the weights in {chosen} do not fit the networks that were given") from None
    run = Run(directory, model, recipe, format, tokenizer, step, table=read_table_codec(directory))
    run.is_exported = exported is not None
    run.fingerprint = read_fingerprint(directory) if exported is None else exported.data_sha256
    _use_priors(run, chosen, prior)
    run.model.to(device or default_device()).eval().requires_grad_(False)
    if run.informed is not None:
        run.informed.to(run.model.device).eval().requires_grad_(False)
    return run


def check_fit(weights: Mapping[str, Tensor], build: Callable[[], nn.Module], problem: str) -> None:
    """Refuse weights of other shapes than those of what ``build`` makes, before that takes any memory."""
    try:
        with torch.device("meta"):  # where tensors have shapes and nothing else
            wanted = {name: tensor.shape for name, tensor in build().state_dict().items()}
    except (RuntimeError, TypeError, OverflowError) as error:  # sizes beyond 63 bits
        wanted = None
        if "meta tensors" in str(error):  # a flow looks at its own masks, which takes real ones
            wanted = {name: tensor.shape for name, tensor in build().state_dict().items()}
    if wanted != {name: tensor.shape for name, tensor in weights.items()}:
        raise UserError(problem)


def _use_priors(run: Run, place: Path, choice: PriorChoice) -> None:
    """Give a run the priors that lie beside its weights."""
    if choice == "trained":
        return
    there = prior_records(place)
    for name in ("flow", "informed"):
        if name not in there and choice != name:
            continue
        weights = read_prior(place, name)
        build = partial(build_prior, run.recipe, run.format, informed=name == "informed")
        check_fit(weights, build, f"the {name} prior in {place} does not fit the recipe of its run: fit it anew")
        fitted = build()
        fitted.load_state_dict(weights)
        if name == "informed":
            run.informed = fitted
        if name == choice or (name == "flow" and choice == "fitted"):
            run.model = run.model.with_prior(fitted)
            run.prior_seconds = there[name].seconds
            # It was fitted to r(z | x0, everything masked): a z for the whole sample, drawn at the start.
            settings = run.recipe.sampling.model_copy(update={"latent_policy": "fixed"})
            run.recipe = run.recipe.model_copy(update={"sampling": settings})
