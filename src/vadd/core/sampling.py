r"""From all masked to data in T steps: the loop that all samplers share, and Algorithm 2.

At each step values are drawn for some hidden positions given a latent, and revealed. A *planned* sampler decides before
the network is asked: what it reveals does not depend on the values, so the network sees the sequences that reveal
something, and its output layer the positions revealed. That is the same distribution as drawing "value or mask"
everywhere, and much cheaper; steps that reveal nothing cost nothing. The result follows the model's own distribution
for that plan: such samplers are **exact**, and the step bound holds for them. :mod:`vadd.core.samplers` has others than
:class:`Ancestral`.

Given positions are never hidden and so never change: infilling is sampling from another start.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from vadd.core.host import Noise, Places, has_float64, precise, upload
from vadd.core.masking import Schedule
from vadd.errors import UserError
from vadd.settings import Count, checked_fields

if TYPE_CHECKING:
    from vadd.core.base import Model

LatentPolicy = Literal["resample", "fixed"]
LOGITS_AT_ONCE = 1 << 26
"""Most logits the network writes in one call, unless a single sequence takes more."""
DrawPrecision = Literal["float64", "float32"]
ELEMENTS_AT_ONCE = 1 << 22
"""Of the logits that are turned to float64 at a time: 32 MB, whatever the size of the vocabulary."""
GridName = Literal["uniform", "cosine"]
Grid = GridName | Sequence[float]
"""A name, or the times themselves, rising from 0 to 1."""


def step_grid(steps: int, grid: Grid = "uniform") -> Tensor:
    """Times 0 = t_0 < ... < t_T = 1, float64 (steps + 1,). ``cosine`` takes smaller steps near t = 1, where most
    is hidden.
    """
    if steps < 1:
        raise UserError(f"sampling needs at least 1 step, not {steps}")
    fractions = torch.linspace(0, 1, steps + 1, dtype=torch.float64)
    if grid == "uniform":
        return fractions
    if grid == "cosine":
        times = (math.pi / 2 * fractions).sin()
        # The end must be 1 whatever the rounding.
        times[-1] = 1.0
        return times
    if isinstance(grid, str):  # type: ignore[unreachable]  # users may pass any word
        raise UserError(f"unknown step grid {grid!r}; choose from {', '.join(get_args(GridName))} or list the times")
    times = torch.tensor(list(grid), dtype=torch.float64)
    if len(times) != steps + 1 or times[0] != 0 or times[-1] != 1 or not (times.diff() > 0).all():
        raise UserError(f"a grid of {steps} steps is {steps + 1} times that rise from 0 to 1, not {list(grid)}")
    return times


class LikelihoodKind(NamedTuple):
    """What is known of the likelihood of a sampler."""

    kind: Literal["exact", "bound", "none"]
    why: str
    """The reason, in a few words."""


class RevealPlan(NamedTuple):
    """When everything that is hidden gets revealed."""

    step_of: Tensor
    """(n, N): the step T..1 at which a position is revealed, 0 where it was never hidden."""
    times: Tensor
    """(n, T + 1): the time that the denoiser is given at each step; index 0 is the end."""


@dataclass(frozen=True)
class Sampler(ABC):
    """How samples get from all masked to data."""

    exact: ClassVar[bool] = False
    """Whether it samples the model's own distribution for its plan."""
    uses_grid: ClassVar[bool] = True
    """Whether a grid of times means anything to it."""
    about: ClassVar[str] = ""
    """Why not every number of steps makes sense, if so."""

    def default_steps(self, positions: int, wanted: int) -> int:
        """The ``wanted`` number of steps or, if it makes no sense, the one that does."""
        return wanted

    def check(self, positions: int, steps: int) -> None:
        """Refuse a number of steps that makes no sense, where that is :attr:`about` something."""
        step_grid(steps)  # which refuses fewer than one
        if (possible := self.default_steps(positions, steps)) != steps:
            limit = "at most " if self.default_steps(positions, 1) == 1 else ""
            raise UserError(f"{self.about}: {limit}{possible} steps, not {steps}")

    @abstractmethod
    def run(self, walk: "Walk", steps: int, grid: Grid) -> None:
        """Take all steps of the ``walk``."""


@dataclass(frozen=True)
class Samples:
    """Samples, what they cost, and how the first of them came about.

    >>> drawn = Samples(torch.tensor([[1, 0], [4, 2]]), evaluations=2, sequences=3)
    >>> f"{len(drawn.tokens)} samples, {drawn.sequences / len(drawn.tokens)} passes through the network for each"
    '2 samples, 1.5 passes through the network for each'
    """

    tokens: Tensor
    """(n, N) integers in 0..V-1."""
    evaluations: int
    """Steps at which the network was called: at most the number of steps."""
    sequences: int
    """Sequences that the network was shown, over all steps: at most n times the number of steps."""
    trajectory: Tensor | None = None
    """(steps + 1, rows, N), from the start to the sample, V for the mask, of as many rows as were recorded."""


@checked_fields
@dataclass(frozen=True, kw_only=True)
class TokenSampler:
    """One value from each distribution, by inversion in float64.

    ``temperature`` sharpens (below 1; 0 takes the likeliest) or flattens, ``top_k`` keeps the k likeliest values,
    ``top_p`` the fewest whose probabilities reach p. ``precision="float32"`` is the Gumbel draw in single precision of
    the paper's text figure; the tail of a large vocabulary is out of its reach, which silently sharpens the
    distribution.

    Three draws from probabilities 0.09, 0.67, 0.24, with the uniform numbers that they are made from:

    >>> logits = torch.tensor([[0.0, 2.0, 1.0]]).expand(3, -1)
    >>> TokenSampler()(logits, torch.tensor([0.05, 0.5, 0.99]))
    tensor([0, 1, 2])
    >>> TokenSampler(temperature=0)(logits, torch.tensor([0.05, 0.5, 0.99]))
    tensor([1, 1, 1])
    """

    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    top_k: Count | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    precision: Annotated[DrawPrecision, Field()] = "float64"

    @property
    def exact(self) -> bool:
        """Whether the values follow the denoiser's own distribution."""
        kept = self.top_k is None and self.top_p in (None, 1.0)
        return kept and self.temperature == 1 and self.precision == "float64"

    def __call__(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """Logits (M, V) and uniform numbers, (M,) or in float32 (M, V) -> (M,) integers."""
        if len(logits) == 0:
            return torch.zeros(0, dtype=torch.int64, device=logits.device)
        size = max(1, ELEMENTS_AT_ONCE // logits.shape[1])
        pairs = zip(torch.split(logits, size), torch.split(uniforms, size), strict=True)
        return torch.cat([self.draw(part, uniform) for part, uniform in pairs])

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Of the values that are drawn, in float64, for logits (M, V): (M, V), minus infinity for those that never are.

        >>> TokenSampler(top_k=2).log_probabilities(torch.tensor([[0.0, 2.0, 1.0]])).exp()
        tensor([[0.0000, 0.7311, 0.2689]], dtype=torch.float64)
        """
        if self.temperature < torch.finfo(torch.float32).tiny:
            likeliest = logits.argmax(dim=-1, keepdim=True)
            return torch.full_like(precise(logits), float("-inf")).scatter_(1, likeliest, 0.0)
        return self._scaled(precise(logits)).log_softmax(dim=-1)

    def draw(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """The same of all at once."""
        if self.temperature < torch.finfo(torch.float32).tiny:  # which float32 cannot divide by
            return logits.argmax(dim=-1)
        if self.precision == "float32":
            scaled = self._scaled(logits.float())
            # Single precision ends at 1 - 2^-24; what would round to 1 must not become an infinite number.
            single = uniforms.to(logits.device, torch.float32).clamp(1e-10, 1 - 2**-24)
            return (scaled - (-single.log()).log()).argmax(dim=-1)
        on_device = logits if has_float64(logits.device) else logits.cpu()
        return inverted(self._scaled(on_device.double()), uniforms).to(logits.device)

    def _scaled(self, logits: Tensor) -> Tensor:
        """At the temperature, 0 where they are largest, minus infinity where a value is not to be drawn."""
        never = float("-inf")
        # Shifted before they are divided: at a low temperature the largest must not overflow.
        logits = (logits - logits.amax(dim=-1, keepdim=True)) / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[1]:
            # Values that are as likely as the k-th are kept as well.
            least = logits.topk(self.top_k, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < least, never)
        if self.top_p is not None and self.top_p < 1:
            ordered, places = logits.sort(dim=-1, descending=True)
            # A value stays if the likelier ones do not reach p without it: so at least one always does.
            before = F.pad(ordered.softmax(dim=-1).cumsum(dim=-1)[:, :-1], (1, 0))
            ordered = ordered.masked_fill(before >= self.top_p, never)
            logits = torch.empty_like(logits).scatter_(1, places, ordered)
        return logits


def inverted(logits: Tensor, uniforms: Tensor) -> Tensor:
    """One value for each row of ``logits`` (M, V) float64, the largest 0: where its distribution function passes
    ``uniforms`` (M,).
    """
    # Unnormalised: scaling the uniform by the last entry also keeps rounding from pushing a draw past the end.
    cumulative = logits.exp().cumsum(dim=-1)
    levels = uniforms.to(cumulative)[:, None] * cumulative[:, -1:]
    # From the right: a value of probability 0 has an empty interval and is never drawn, not even by the uniform 0.
    return torch.searchsorted(cumulative, levels, right=True)[:, 0].clamp(max=logits.shape[1] - 1)


@checked_fields
@dataclass(frozen=True)
class Drawing:
    """How samples are drawn from a model."""

    sampler: Sampler | None = None
    """By default the model's own, the one that its bound is about."""
    grid: Grid = "uniform"
    latent_policy: Annotated[LatentPolicy, Field()] = "resample"
    """``resample``: a new z at each step, as in the paper; ``fixed``: one z for a whole trajectory."""
    z: Tensor | None = None
    """(n, d): the latents to use instead of draws from the prior."""
    token_sampler: TokenSampler = field(default_factory=TokenSampler)
    record: int = 0
    """Of so many samples, the first ones, the states are kept."""
    on_step: Callable[[int], object] | None = None
    """Called after every step with the number of steps at which the network was called so far."""


def sample(model: "Model", start: int | Tensor, steps: int, noise: Noise | torch.Generator, **options: Any) -> Samples:
    """Draw samples in ``steps`` steps; ``options`` are those of :class:`Drawing`.

    ``start`` is their number, or sequences (n, N) in which the mask value marks what is to be filled.

    >>> from vadd.core import LinearSchedule, MaskedDiffusion
    >>> from vadd.networks import MlpDenoiser, MlpSettings
    >>> model = MaskedDiffusion(MlpDenoiser(3, 5, MlpSettings(width=16)), LinearSchedule())
    >>> sample(model, 4, steps=2, noise=torch.Generator().manual_seed(0)).tokens.shape
    torch.Size([4, 3])
    >>> sample(model, torch.tensor([[1, 5, 2]]), 1, torch.Generator()).tokens[0, [0, 2]]
    tensor([1, 2])
    """
    return model.sample(start, steps, noise, Drawing(**options))


class Asked(NamedTuple):
    """What the network predicts at a step, in some of the rows, and what values are drawn by."""

    rows: Tensor
    """(m,), on the device."""
    places: Places
    """Among these rows, on the device."""
    uniforms: Tensor
    logits: Tensor
    """(M, V)"""
    host_rows: Tensor
    host_places: Places

    @property
    def owners(self) -> Tensor:
        """(M,): the row of each place."""
        return self.rows[self.places.rows]


def uniforms_of_seeds(places: Places, seeds: Tensor, vocab_size: int) -> Tensor:
    """V numbers for each of M places, from the ``seeds`` (rows,) of their rows: (M, V)."""
    counts, generator = places.rows.bincount(minlength=places.batch).tolist(), torch.Generator()
    pairs = zip(seeds.tolist(), counts, strict=True)
    return torch.cat([torch.rand(n, vocab_size, generator=generator.manual_seed(seed)) for seed, n in pairs])


class Walk:
    """Samples of a model on their way from all masked to data; a :class:`Sampler` moves them.

    The order of the draws is part of what a seed means: labels, of a model that draws them; the sampler's plan; then at
    each step z, the sampler's numbers for choosing positions, the numbers for the values, and the sampler's numbers for
    what follows.
    """

    def __init__(self, model: "Model", start: int | Tensor, noise: Noise | torch.Generator, how: Drawing) -> None:
        self.model, self.how = model, how
        if isinstance(start, int):
            if start < 1:
                raise UserError(f"the number of samples must be at least 1, not {start}")
            self.x = torch.full((start, model.positions), model.mask_value, device=model.device)
            """(n, N): the states."""
        else:
            model.check_sequences(start, "sequences to fill", also_masks=True)
            self.x = start.to(model.device, torch.int64, copy=True).contiguous()
        self.noise = Noise.of(noise, len(self.x)) if isinstance(noise, torch.Generator) else noise
        if self.noise.rows != len(self.x):
            raise ValueError(f"noise for {self.noise.rows} rows, but {len(self.x)} samples")
        # On the host, like all that decides what is revealed when: the host need not wait for the device.
        self.hidden_at_start = torch.ones(self.x.shape, dtype=torch.bool)
        """(n, N)"""
        if isinstance(start, Tensor):
            self.hidden_at_start = (start == model.mask_value).cpu()
        self.hidden = self.hidden_at_start
        """(n, N): the positions that hold the mask."""
        self.z = None if how.z is None else given_latents(model, how.z, len(self.x))
        self.labels: Tensor | None = None
        if self.z is None and model.latent.label_shares is not None:
            labels = model.latent.draw_labels(self.hidden_at_start.all(dim=1), self.noise)
            self.labels = None if labels is None else labels.to(model.device)
        self.evaluations = self.sequences = 0
        self.states: list[Tensor] = []

    def steps(self, times: Tensor) -> Iterator[int]:
        """T..1 for ``times`` (n, T + 1); before each the time is set and z is drawn, if it is drawn anew."""
        keeps, record = self.how.z is not None or self.how.latent_policy == "fixed", self.how.record
        self.states = [self.x[:record].clone()]
        on_device = times.to(self.x.device, torch.float32)
        for step in range(times.shape[1] - 1, 0, -1):
            self.t = on_device[:, step].contiguous()
            if self.z is None or not keeps:
                self.z = self.model.latent.draw(self.x, self.t, self.noise, self.labels)
            yield step
            if record:
                self.states.append(self.x[:record].clone())
            if self.how.on_step is not None:
                self.how.on_step(self.evaluations)

    def ask(self, where: Tensor, *, numbers: Tensor | None = None, predicted: Tensor | None = None) -> Iterator[Asked]:
        """Ask the network about the positions ``where`` (n, N) of the host, so many rows at a time that their logits
        fit, unless they were ``predicted`` before, (n, V) for one position of each row. The ``numbers`` to draw values
        by are drawn at every step, whatever is predicted: so rows do not depend on each other.
        """
        model, device = self.model, self.x.device
        if numbers is None:
            single = self.how.token_sampler.precision == "float32"
            numbers = self.noise.seeds() if single else self.noise.uniform(model.positions)
        counts = where.sum(dim=1)
        asking = counts.nonzero()[:, 0]
        if len(asking) == 0:
            return
        self.evaluations += 1
        self.sequences += len(asking)
        for host_rows in torch.split(asking, max(1, LOGITS_AT_ONCE // (int(counts.max()) * model.vocab_size))):
            host_places = Places.of(where[host_rows], model.group)
            uniforms = numbers[host_rows]
            if numbers.ndim == 2:
                uniforms = uniforms.flatten().index_select(0, host_places.numbers)
            else:  # in float32 a single draw takes V numbers
                uniforms = uniforms_of_seeds(host_places, uniforms, model.vocab_size)
            rows, places = host_rows, host_places
            if device.type != "cpu":
                # A device without float64 takes no such numbers: the values are drawn on the host.
                sent = None if uniforms.dtype == torch.float64 and not has_float64(device) else uniforms
                rows, numbered, groups, sent = upload([rows, places.numbers, places.groups, sent], device)
                places, uniforms = replace(places, numbers=numbered, groups=groups), uniforms if sent is None else sent
            if predicted is None:
                z = None if self.z is None else self.z[rows]
                logits = model.predict(self.x[rows], z, self.t[rows], places)
            else:
                logits = predicted[rows]
            yield Asked(rows, places, uniforms, logits, host_rows, host_places)

    def write(self, asked: Asked, values: Tensor) -> None:
        """Values (M,) where they were asked for."""
        positions = asked.places.numbers
        if len(asked.rows) < len(self.x):
            positions = asked.owners * self.x.shape[1] + asked.places.columns
        self.x.view(-1).index_copy_(0, positions, values)

    def reveal(self, where: Tensor, predicted: Tensor | None = None) -> None:
        """Draw values ``where`` (n, N) and write them."""
        for asked in self.ask(where, predicted=predicted):
            self.write(asked, self.how.token_sampler(asked.logits, asked.uniforms))
        self.hidden = self.hidden & ~where

    def mask(self, where: Tensor) -> None:
        """Hide the positions ``where`` (n, N) again."""
        (positions,) = upload([Places.of(where).numbers], self.x.device)
        self.x.view(-1).index_fill_(0, positions, self.model.mask_value)
        self.hidden = self.hidden | where

    def samples(self) -> Samples:
        trajectory = torch.stack(self.states) if self.how.record else None
        return Samples(self.x, self.evaluations, self.sequences, trajectory)


def given_latents(model: "Model", z: Tensor, count: int) -> Tensor:
    """The z that was given for ``count`` samples, as the prior draws it."""
    dim = model.latent.dim
    if dim == 0:
        raise UserError("this model has no latent: there is no z to give")
    if z.shape != (count, dim):
        raise UserError(f"latents for {count} samples have the shape ({count}, {dim}), not {tuple(z.shape)}")
    return z.to(model.device, torch.float32)


class PlannedSampler(Sampler):
    """Decides at the start what is revealed when."""

    exact: ClassVar[bool] = True
    one_plan: ClassVar[bool] = False
    """Whether it always makes the same one."""

    @abstractmethod
    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        """From the positions hidden at the start, (n, N)."""

    def run(self, walk: Walk, steps: int, grid: Grid) -> None:
        plan = self.plan(walk.hidden_at_start, steps, walk.model.schedule, grid, walk.noise)
        for step in walk.steps(plan.times):
            walk.reveal(plan.step_of == step)


def on_the_grid(hidden: Tensor, steps: int, schedule: Schedule, grid: Grid) -> tuple[Tensor, Tensor]:
    """The times, and what share of the positions hidden at the start is expected to be hidden before each step, both
    (n, T + 1). A row starts at the time whose expected masked fraction is the row's own, and its grid shrinks with it.
    """
    fraction = hidden.cpu().double().mean(dim=1, keepdim=True)
    times = schedule.time_at(fraction) * step_grid(steps, grid)
    # A row with nothing hidden has nothing to do; any shares will do for it.
    return times, schedule.masked_fraction(times) / fraction.clamp(min=1 / hidden.shape[1])


class Ancestral(PlannedSampler):
    """Algorithm 2: every hidden position is revealed between t and s with probability rho, independently.

    A coin for each position at every step is the same as one draw for each: the interval of the grid it falls into.

    >>> from vadd.core import LinearSchedule
    >>> hidden, noise = torch.tensor([[True, True, True, False]]), Noise.of(torch.Generator().manual_seed(0), rows=1)
    >>> plan = Ancestral().plan(hidden, 8, LinearSchedule(), "uniform", noise)
    >>> plan.step_of
    tensor([[8, 6, 4, 0]])
    """

    def plan(self, hidden: Tensor, steps: int, schedule: Schedule, grid: Grid, noise: Noise) -> RevealPlan:
        times, left = on_the_grid(hidden, steps, schedule, grid)
        levels = noise.uniform(hidden.shape[1])
        # ``left`` rises from 0 to 1 with the steps: a position is revealed at the step whose interval holds its level.
        step_of = torch.searchsorted(left, levels, right=True).clamp(1, steps).to(hidden.device)
        return RevealPlan(step_of * hidden, times)
