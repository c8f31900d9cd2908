"""Many samples in bounded memory: chunk by chunk, in one process or several, always the same ones.

A seed stands for an endless list of samples, of which ``n`` takes the first. Row r is given random numbers by its block
of 64 (:mod:`vadd.core.noise`), so neither the chunks nor the number of processes nor ``n`` changes what it is given.
The network's arithmetic may: floating-point sums depend on how many sequences a call holds, in the last bit. A draw by
inversion notices only if its uniform number falls into a gap of that size, some 1e-7 in float32. Temperature 0 and
samplers that order positions by how sure they are notice where two are equal to that precision, as all positions of a
transformer are while everything is masked. With chunks of equal size, as in one and several processes, the samples are
the same bit for bit.
"""

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vadd.core import MaskedDiffusion, Noise, Sampler, Samples, ValueDraw, sample, step_grid
from vadd.core.noise import BLOCK
from vadd.core.sampler import Grid, LatentPolicy, check_policy, given_latents
from vadd.core.strategies import FirstHitting, sampler_named
from vadd.errors import UserError
from vadd.sections import Sampling
from vadd.team import Team
from vadd.training.randomness import SAMPLING, step_generator

MEMORY = 1 << 28
"""Bytes that one chunk's tensors may take; kernels and allocators need about as much again."""
MOST_ROWS = 2048
"""Of a chunk: more at once are no faster, on a CPU slower."""


class Progress(Protocol):
    def __call__(self, *, done: int, evaluations: int) -> object:
        """``done`` samples are finished; the network has been called at ``evaluations`` steps of chunks."""


def untold(*, done: int, evaluations: int) -> None:
    pass


class Options(TypedDict, total=False):
    """How to sample; what is left out, or None, is the recipe's or the obvious."""

    steps: int | None
    """By default 1, with a list of times one less than these, for the first-hitting sampler one for each position."""
    seed: int
    """By default 0."""
    sampler: str | Sampler | None
    """One of :data:`vadd.core.SAMPLERS` by name, or one with settings of its own."""
    grid: Grid | None
    """``uniform``, ``cosine`` or the times themselves, rising from 0 to 1."""
    latent_policy: LatentPolicy | None
    z: Tensor | None
    """The latents to use, (n, d), instead of the prior's."""
    values: ValueDraw | None
    """Temperature, top-k, top-p and precision of the draws."""


@dataclass(frozen=True)
class Settings:
    """Options that fit the model, with nothing left open."""

    steps: int
    seed: int
    sampler: Sampler
    grid: Grid
    latent: LatentPolicy | Tensor
    values: ValueDraw

    @property
    def exact(self) -> bool:
        """Whether the samples follow the model's own distribution."""
        return self.sampler.exact and self.values.exact


def settle(
    model: MaskedDiffusion,
    habits: Sampling,
    *,
    steps: int | None = None,
    seed: int = 0,
    sampler: str | Sampler | None = None,
    grid: Grid | None = None,
    latent_policy: LatentPolicy | None = None,
    z: Tensor | None = None,
    values: ValueDraw | None = None,
) -> Settings:
    """Fill what is open with the recipe's ``habits``; see :class:`Options`."""
    if z is not None and latent_policy is not None:
        raise UserError("give the latents z or a latent policy, not both")
    chosen, times = choose(habits, sampler, grid)
    if steps is None:
        listed = len(times) - 1 if not isinstance(times, str) else 1
        steps = model.positions if isinstance(chosen, FirstHitting) else listed
    chosen.check(model.positions, steps)
    if chosen.uses_grid:
        step_grid(steps, times)
    policy = latent_policy or habits.latent_policy
    check_policy(policy)
    latent = policy if z is None else z
    return Settings(steps, seed, chosen, times, latent, values or ValueDraw())


def choose(habits: Sampling, sampler: str | Sampler | None = None, grid: Grid | None = None) -> tuple[Sampler, Grid]:
    """Sampler and grid, the recipe's unless given. A grid for a sampler without one is refused, not ignored."""
    named = habits.sampler if sampler is None else sampler
    chosen = sampler_named(named) if isinstance(named, str) else named
    if grid is not None and not chosen.uses_grid:
        name = named if isinstance(named, str) else type(named).__name__
        raise UserError(f"the sampler {name} has no grid of times; leave the grid out")
    return chosen, habits.grid if grid is None else grid


def noise_for(seed: int, rows: range) -> Noise:
    """The random numbers of the samples number ``rows`` of a seed."""
    blocks = range(rows.start // BLOCK, -(-rows.stop // BLOCK))
    generators = [step_generator(seed, SAMPLING, block) for block in blocks]
    return Noise(generators, len(rows), first=rows.start % BLOCK)


def draw(
    model: MaskedDiffusion,
    settings: Settings,
    rows: range,
    *,
    record: bool = False,
    watch: Callable[[int], object] = lambda evaluations: None,
) -> Samples:
    """The samples number ``rows`` of the seed, on the CPU."""
    latent = settings.latent[rows.start : rows.stop] if isinstance(settings.latent, Tensor) else settings.latent
    drawn = sample(
        model,
        len(rows),
        settings.steps,
        noise_for(settings.seed, rows),
        sampler=settings.sampler,
        grid=settings.grid,
        latent=latent,
        values=settings.values,
        record=record,
        watch=watch,
    )
    trajectory = None if drawn.trajectory is None else drawn.trajectory.cpu()
    return Samples(drawn.tokens.cpu(), drawn.evaluations, drawn.sequences, trajectory)


def check_count(model: MaskedDiffusion, settings: Settings, n: int) -> None:
    if n < 1:
        raise UserError(f"the number of samples must be at least 1, not {n}")
    if isinstance(settings.latent, Tensor):
        given_latents(model, settings.latent, n)


def stream(
    model: MaskedDiffusion,
    settings: Settings,
    n: int,
    size: int,
    *,
    team: Team | None = None,
    progress: Progress = untold,
) -> Iterator[Samples]:
    """``n`` samples in chunks of ``size``. A ``team`` divides the chunks; they come out in its main process only, in
    order, and the others must run through this as well.
    """
    done = evaluations = 0

    def rows_from(first: int) -> range:
        return range(first, min(first + size, n))

    def drawn(first: int) -> Samples:
        def watch(more: int) -> None:
            progress(done=done, evaluations=evaluations + more)

        return draw(model, settings, rows_from(first), watch=watch)

    def shape(first: int) -> tuple[int, int]:
        return len(rows_from(first)), model.positions

    firsts = range(0, n, size)
    for part in map(drawn, firsts) if team is None else team.divide(firsts, drawn, shape):
        done, evaluations = done + len(part.tokens), evaluations + part.evaluations
        progress(done=done, evaluations=evaluations)
        yield part


def chunk_size(network_bytes: int, positions: int, steps: int) -> int:
    """Rows in a chunk, from what a row takes in the network and in the sampler; whole blocks if it can be."""
    # A dozen numbers of 8 bytes for each position (state, plan, keys to sort by), and two for each step.
    row = network_bytes + 8 * (12 * positions + 2 * (steps + 1))
    size = max(1, min(MOST_ROWS, MEMORY // row))
    return size - size % BLOCK if size > BLOCK else size


@torch.no_grad()
def bytes_per_row(model: MaskedDiffusion) -> int:
    """The most that is alive at once while the network predicts one position of one sequence, weights left out. More
    positions cost their logits, which the sampler limits by itself.
    """
    x = torch.full((1, model.positions), model.mask_value, device=model.device)
    t = torch.ones(1, device=model.device)
    where = torch.zeros_like(x, dtype=torch.bool)
    where[0, 0] = True
    z = model.latent.draw(x, t, Noise.of(torch.Generator().manual_seed(0), 1))
    alive = _Alive(model)
    with alive:
        model.denoiser(x, z, t, where)
    return alive.most


class _Alive(TorchFunctionMode):
    """Follows the memory of all tensors that are made in here, by their storages: views share one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.most = 0
        self._now = 0
        weights = [*model.parameters(), *model.buffers()]
        self._known = {tensor.untyped_storage()._cdata for tensor in weights}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            for tensor in made if isinstance(made, tuple | list) else (made,):
                if isinstance(tensor, Tensor):
                    self._meet(tensor.untyped_storage())
        self.most = max(self.most, self._now)
        return made

    def _meet(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata not in self._known:
            self._known.add(storage._cdata)
            self._now += storage.nbytes()
            weakref.finalize(storage, self._part, storage._cdata, storage.nbytes())

    def _part(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._now -= size
