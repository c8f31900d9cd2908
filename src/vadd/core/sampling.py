r"""From all masked to data in T steps: what the loops of all samplers share.

At each step values are drawn for some hidden positions given a latent, and revealed. Algorithm 2
(:class:`~vadd.core.samplers.Ancestral`) needs to know only when a position is revealed, not its value, so the network
sees the sequences that reveal something, and its output layer the positions revealed. That is the same distribution as
drawing "value or mask" everywhere, and much cheaper; steps that reveal nothing cost nothing.

Given positions are never hidden and so never change: infilling is sampling from another start.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from vadd.core.places import Places, Where, has_float64, upload
from vadd.core.precision import precise
from vadd.core.randomness import Noise
from vadd.core.samplers import Grid, Sampler
from vadd.errors import UserError
from vadd.settings import Count, checked_fields

if TYPE_CHECKING:
    from vadd.core.base import Model

DrawPrecision = Literal["float64", "float32"]
ELEMENTS_AT_ONCE = 1 << 22
"""Of the logits that are turned to float64 at a time: 32 MB, whatever the size of the vocabulary."""
LatentPolicy = Literal["resample", "fixed"]
LOGITS_AT_ONCE = 1 << 26
"""Most logits the network writes in one call, unless a single sequence takes more."""


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

    def uniforms(self, numbers: Tensor, where: Where, vocab_size: int) -> Tensor:
        """Of the ``numbers`` (rows, N) those of the M true entries of ``where`` (rows, N): (M,). In float32 a single
        draw takes V numbers, and ``numbers`` (rows,) are seeds of the rows instead: (M, V).
        """
        places = Places.of(where)
        if self.precision == "float64":
            return numbers.flatten().index_select(0, places.numbers)
        counts = places.rows.bincount(minlength=places.batch).tolist()
        generator = torch.Generator()
        pairs = zip(numbers.tolist(), counts, strict=True)
        return torch.cat([torch.rand(n, vocab_size, generator=generator.manual_seed(seed)) for seed, n in pairs])

    def __call__(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        """Logits (M, V) and :meth:`uniforms` -> (M,) integers."""
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
    """What the network is asked about at a step, of some of the rows."""

    rows: Tensor
    """(m,), on the device."""
    places: Places
    """Among these rows, on the device."""
    host_rows: Tensor
    host_places: Places

    @property
    def owners(self) -> Tensor:
        """(M,): the row of each place."""
        return self.rows[self.places.rows]


class Drawn(NamedTuple):
    """Values, and the numbers n * N + i of their positions: (M,) each, on the device."""

    positions: Tensor
    values: Tensor


class Walk:
    """Samples of a model on their way from all masked to data; a :class:`~vadd.core.samplers.Sampler` moves them.

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
            if start.ndim != 2 or start.shape[1] != model.positions or len(start) == 0:
                raise UserError(f"sequences to fill have the shape (n, {model.positions}), not {tuple(start.shape)}")
            model.check_values(start, "the sequences to fill hold", also_masks=True)
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

    def logits(self, asked: Asked) -> Tensor:
        """What the network predicts, (M, V)."""
        z = None if self.z is None else self.z[asked.rows]
        return self.model.predict(self.x[asked.rows], z, self.t[asked.rows], asked.places)

    def draw(
        self,
        where: Tensor,
        *,
        numbers: Tensor | None = None,
        logits: Callable[[Asked], Tensor] | None = None,
        finish: Callable[[Asked, Tensor, Tensor], Tensor] | None = None,
    ) -> Drawn:
        """Values for the M positions ``where`` (n, N) of the host, drawn but not written yet.

        They follow the ``logits``, by default the network's. ``finish`` turns logits and values of some rows into what
        takes the values' place.
        """
        token_sampler = self.how.token_sampler
        if numbers is None:  # drawn at every step, whatever is predicted: so rows do not depend on each other
            single = token_sampler.precision == "float32"
            numbers = self.noise.seeds() if single else self.noise.uniform(self.model.positions)
        counts = where.sum(dim=1)
        asking = counts.nonzero()[:, 0]
        drawn = [Drawn(self.x.new_zeros(0), self.x.new_zeros(0))]
        if len(asking):
            self.evaluations += 1
            self.sequences += len(asking)
            # So many rows at a time that their logits fit.
            size = max(1, LOGITS_AT_ONCE // (int(counts.max()) * self.model.vocab_size))
            parts, law = torch.split(asking, size), logits or self.logits
            drawn = [self._drawn(where, numbers, rows, law, finish) for rows in parts]
        return Drawn(*map(torch.cat, zip(*drawn, strict=True)))

    def _drawn(
        self,
        where: Tensor,
        numbers: Tensor,
        rows: Tensor,
        logits: Callable[[Asked], Tensor],
        finish: Callable[[Asked, Tensor, Tensor], Tensor] | None,
    ) -> Drawn:
        places = Places.of(where[rows], self.model.group)
        uniforms = self.how.token_sampler.uniforms(numbers[rows], places, self.model.vocab_size)
        asked = Asked(rows, places, rows, places)
        if not self.x.is_cpu:
            asked, uniforms = self._sent(asked, uniforms)
        predicted = logits(asked)
        values = self.how.token_sampler(predicted, uniforms)
        positions = asked.places.numbers
        if len(rows) < len(where):
            positions = asked.rows[asked.places.rows] * where.shape[1] + asked.places.columns
        return Drawn(positions, values if finish is None else finish(asked, predicted, values))

    def _sent(self, asked: Asked, uniforms: Tensor) -> tuple[Asked, Tensor]:
        """Random numbers and places live on the host, wherever the model is: they are sent together."""
        places = asked.host_places
        stays = uniforms.dtype == torch.float64 and not has_float64(self.x.device)
        parts = [asked.rows, places.numbers, *([] if places.groups is None else [places.groups])]
        rows, numbers, *others = upload([*parts, *([] if stays else [uniforms])], self.x.device)
        groups = None if places.groups is None else others[0]
        there = asked._replace(rows=rows, places=replace(places, numbers=numbers, groups=groups))
        return there, uniforms if stays else others[-1]

    def write(self, drawn: Drawn) -> None:
        self.x.view(-1).index_copy_(0, drawn.positions, drawn.values)

    def reveal(self, where: Tensor, **options: Any) -> None:
        """Draw values ``where`` (n, N) and write them; ``options`` are those of :meth:`draw`."""
        self.write(self.draw(where, **options))
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
