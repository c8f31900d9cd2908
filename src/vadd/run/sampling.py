"""How to draw samples, and many of them in bounded memory: chunk by chunk, in one process or several, always the same.

A seed stands for an endless list of samples, of which ``n`` takes the first. Row r has the random numbers of its block
of 64 (:mod:`vadd.core.host`), so neither the chunks nor the number of processes nor ``n`` changes it.
The network's arithmetic may: floating-point sums depend on how many sequences a call holds, in the last bit. A draw by
inversion notices only if its uniform number falls into a gap of that size, some 1e-7 in float32. Temperature 0 and
samplers that order positions by how sure they are notice where two are equal to that precision, as all positions of a
transformer are while everything is masked. With chunks of equal size, as in one and several processes, the samples are
the same bit for bit.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakSet

import torch
from pydantic import Field, InstanceOf, PrivateAttr, ValidationError
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vadd.core import Drawing, Model, Noise, Sampler, Samples, TokenSampler, step_grid
from vadd.core.compiling import compiled_to_sample
from vadd.core.host import BLOCK, SAMPLING, step_generator
from vadd.errors import UserError
from vadd.models import Autoregressive
from vadd.parallel import Processes
from vadd.progress import Progress, silent
from vadd.recipe.sections import SamplerName, Sampling
from vadd.run.infilling import as_latents, latents_that_fit
from vadd.settings import Count, UnknownOptionError, explained
from vadd.words import duration

STEPS_PER_SECOND, ROWS_PER_SECOND = 100_000, 10_000_000
"""More than any machine reaches: sampling steps of a chunk, and sequences shown to a network."""
LONGEST = 86_400
"""Seconds. What takes a day at this impossible speed takes months at a real one."""

if TYPE_CHECKING:
    AnySampler = Any  # a name where it was chosen, a sampler where it draws
else:
    AnySampler = SamplerName | InstanceOf[Sampler]


class SamplingOptions(Sampling):
    """The options of samples and completions. An option that is not given, or None, has the run's default. The defaults
    are in the section ``sampling`` of the recipe.
    """

    sampler: AnySampler = "ancestral"
    """The name of a sampler (`vadd sample --help` lists them), or a sampler of ``vadd.core``."""
    grid: Literal["uniform", "cosine"] | tuple[float, ...] = "uniform"  # type: ignore[assignment]
    """The name of a grid, or its times, rising from 0 to 1."""
    top_k: Count | None = None
    """Draw only from the k likeliest values."""
    top_p: float | None = Field(None, gt=0, le=1)
    """Draw only from the likeliest values whose probabilities add up to p."""
    precision: Literal["float64", "float32"] = "float64"
    """The precision of the draws. float32, as in the paper's figure of text, makes samples less varied."""
    seed: int = Field(0, ge=0, lt=2**63)
    label: str | int | None = None
    """For a run that was trained with labels: the label of the samples, by name or number."""
    guidance: float = Field(1.0, ge=0)
    """Classifier-free guidance: above 1, samples agree with the label more often than under the model."""
    z: Any = None
    """A tensor (n, d): the latents of the samples, in place of draws from the prior."""
    _sampler_name: str = PrivateAttr("")
    """Of a sampler that has taken the place of its name."""

    def changed(self, given: Mapping[str, Any], model: Model | None = None) -> "SamplingOptions":
        """A copy with the options that were ``given``, validated; those that are None do not change. With a ``model``
        the sampler is the model's own of that name, and the number of steps is one that it can take.
        """
        chosen = {key: value for key, value in given.items() if value is not None}
        for key in chosen.keys() - {"z"}:  # NumPy's numbers as Python's, arrays of times as lists
            if hasattr(chosen[key], "tolist"):
                chosen[key] = chosen[key].tolist()
        if "z" in chosen:
            chosen["z"] = as_latents(chosen["z"])
        try:
            checked = type(self).model_validate(chosen)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            if first["type"] == "extra_forbidden":
                raise UnknownOptionError(name, "sampling", list(type(self).model_fields)) from None
            raise UserError(explained(first, name, first["input"])) from None
        options = self.model_copy(update={key: getattr(checked, key) for key in chosen})
        if model is None:
            return options
        sampler, grid = options.sampler, options.grid
        if isinstance(sampler, str):
            if sampler not in model.samplers:
                names = ", ".join(model.samplers)
                raise UserError(f"this model does not have the sampler {sampler!r}; choose from {names}")
            sampler = model.samplers[sampler]
        if "grid" in chosen and not sampler.uses_grid:
            raise UserError(f"the sampler {options.sampler_name} has no grid of times; leave the grid out")
        times = None if isinstance(grid, str) or not sampler.uses_grid else grid
        steps = options.steps
        if "steps" not in chosen:
            steps = sampler.default_steps(model.positions, steps) if times is None else len(times) - 1
        if sampler.about:
            sampler.check(model.positions, steps)
        if times is not None:
            step_grid(steps, times)  # refuses times that do not fit
        fitting = options.model_copy(update={"sampler": sampler, "steps": steps})
        fitting._sampler_name = options.sampler if isinstance(options.sampler, str) else ""
        return fitting

    @property
    def sampler_name(self) -> str:
        return self.sampler if isinstance(self.sampler, str) else self._sampler_name or type(self.sampler).__name__

    @property
    def drawing(self) -> Drawing:
        """As the model takes them."""
        of_values = {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "precision")}
        return Drawing(self.sampler, self.grid, self.latent_policy, self.z, TokenSampler(**of_values))

    @property
    def inexact(self) -> list[str]:
        """Why the samples do not follow the model's own distribution. They may still have a likelihood:
        :meth:`~vadd.core.base.Model.likelihood_kind`.

        A new z at each step and one z for all steps are two samplers, with a bound each; no bound is about a given z.
        """
        reasons = {
            f"the sampler {self.sampler_name}": not getattr(self.sampler, "exact", True),
            f"temperature {self.temperature:g}": self.temperature != 1,
            f"top-k {self.top_k}": self.top_k is not None,
            f"top-p {self.top_p}": self.top_p not in (None, 1.0),
            "float32 draws (parity mode)": self.precision == "float32",
            f"guidance {self.guidance:g}": self.guidance != 1,
            "latents that were given": self.z is not None,
        }
        return [reason for reason, holds in reasons.items() if holds]

    @property
    def exact(self) -> bool:
        return not self.inexact

    def inexact_completions(self, *, latent: bool) -> list[str]:
        """Why completions do not follow the law of the sampler that starts from what is known. With one z that is the
        law in which z follows p(z | known), and choosing among few draws only approaches it.
        """
        if not latent or self.latent_policy != "fixed" or self.z is not None:
            return self.inexact
        weighed = f"z is one of {self.candidates} draws, chosen by what is known"
        return [*self.inexact, weighed if self.candidates > 1 else "z is one draw, not weighed by what is known"]


def check_time(what: str, *, steps: int, rows: int) -> None:
    """Refuse ``what`` needs so many ``steps``, or shows a network so many ``rows``, if that takes absurdly long."""
    # Integers, because a float ends at 10^308.
    least = max(steps // STEPS_PER_SECOND, rows // ROWS_PER_SECOND)
    if least > LONGEST:
        time = duration(least) if least < 10**15 else "longer than the universe is old"
        raise UserError(f"{what} would take at least {time}: ask for less")


@torch.no_grad()
def bytes_per_row(model: Model) -> int:
    """The most that is alive at once while the network predicts one position of one sequence, weights left out, and
    what it remembers of the sequence. More positions cost their logits, which the sampler limits by itself.
    """
    x = torch.full((1, model.positions), model.mask_value, device=model.device)
    t = torch.ones(1, device=model.device)
    where = model.places(torch.arange(model.positions)[None] == 0).to(model.device)
    z = model.latent.draw(x, t, Noise.of(torch.Generator().manual_seed(0), 1))
    alive = _Alive(model)
    with alive:
        model.predict(x, z, t, where)
    return alive.most + (model.cache_bytes if isinstance(model, Autoregressive) else 0)


class _Alive(TorchFunctionMode):
    """Follows the memory of all tensors that are made in here, by their storages: views share one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.most = 0
        self._weights = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
        self._alive: WeakSet[torch.UntypedStorage] = WeakSet()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        # Else looking at a tensor would be followed as well.
        with torch._C.DisableTorchFunction():
            for tensor in made if isinstance(made, tuple | list) else (made,):
                if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in self._weights:
                    self._alive.add(tensor.untyped_storage())
            self.most = max(self.most, sum(storage.nbytes() for storage in self._alive))
        return made


def draw(
    model: Model,
    options: SamplingOptions,
    start: int | Tensor,
    rows: range,
    *,
    record: int = 0,
    progress: Progress = silent,
) -> Samples:
    """The samples number ``rows`` of the seed, on the CPU, with the states of those before number ``record``."""
    blocks = range(rows.start // BLOCK, -(-rows.stop // BLOCK))
    generators = [step_generator(options.seed, SAMPLING, block) for block in blocks]
    noise = Noise(generators, len(rows), first=rows.start % BLOCK)
    z = None if options.z is None else options.z[rows.start : rows.stop]
    begun = len(rows) if isinstance(start, int) else start[rows.start : rows.stop]
    # Asked of all sequences, not of these rows: a row's random numbers do not depend on its chunk.
    something_known = isinstance(start, Tensor) and bool((start != model.mask_value).any())
    fits = z is None and options.latent_policy == "fixed" and options.candidates > 1
    if fits and isinstance(begun, Tensor) and something_known:
        z = latents_that_fit(model, begun, options.candidates, noise)
    # Samples are done all at once with their chunk; a part of its steps counts as a part of its samples.
    steps, n = count(1), start if isinstance(start, int) else len(start)
    how = replace(
        options.drawing,
        z=z,
        record=max(0, min(record, rows.stop) - rows.start),
        on_step=lambda _: progress("samples", rows.start + len(rows) * next(steps) // (options.steps + 1), n),
    )
    assert isinstance(model.denoiser, nn.Module)
    with compiled_to_sample(model.denoiser) if options.compile else nullcontext():
        drawn = model.sample(begun, options.steps, noise, how)
    progress("samples", rows.stop, n)
    trajectory = None if drawn.trajectory is None else drawn.trajectory.cpu()
    return replace(drawn, tokens=drawn.tokens.cpu(), trajectory=trajectory)


def gathered(
    chunks: Sequence[range], drawn: Callable[[range], Samples], positions: int, processes: Processes
) -> Iterator[Samples]:
    """Of several processes each draws its own chunks; they come out in the main one, trajectories only of those it drew
    itself.
    """
    for number, rows in enumerate(chunks):
        owner = number % processes.count
        part = drawn(rows) if owner == processes.index else None
        mine = None if part is None else [torch.tensor([part.evaluations, part.sequences]), part.tokens]
        received = processes.to_main(owner, mine, [(2,), (len(rows), positions)])
        if received is not None:
            counts, tokens = received
            yield part or Samples(tokens, *counts.tolist())
