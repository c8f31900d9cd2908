r"""From all masked to data in T steps: what the loops of all samplers share.

At each step values are drawn for some hidden positions given a latent, and revealed. Algorithm 2
(:class:`~vadd.core.samplers.Ancestral`) needs to know only when a position is revealed, not its value, so the network
sees the sequences that reveal something, and its output layer the positions revealed. That is the same distribution as
drawing "value or mask" everywhere, and much cheaper; steps that reveal nothing cost nothing.

Given positions are never hidden and so never change: infilling is sampling from another start.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from vadd.core.labels import LabelledLatent
from vadd.core.randomness import Noise
from vadd.core.samplers import Grid, Sampler
from vadd.core.token_sampler import TokenSampler
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.core.base import Model

LatentPolicy = Literal["resample", "fixed"]
LOGITS_AT_ONCE = 1 << 26
"""Most logits the network writes in one call, unless a single sequence takes more."""


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


@dataclass(frozen=True)
class Drawing:
    """How samples are drawn from a model."""

    sampler: Sampler | None = None
    """By default the model's own, the one that its bound is about."""
    grid: Grid = "uniform"
    latent_policy: LatentPolicy = "resample"
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


class Walk:
    """Samples of a model on their way from all masked to data; a :class:`~vadd.core.samplers.Sampler` moves them.

    The order of the draws is part of what a seed means: labels, of a model that draws them; the sampler's plan; then at
    each step z, the sampler's numbers for choosing positions, the numbers for the values, and the sampler's numbers for
    what follows.
    """

    def __init__(self, model: "Model", start: int | Tensor, noise: Noise | torch.Generator, how: Drawing) -> None:
        if how.latent_policy not in get_args(LatentPolicy):
            known = ", ".join(get_args(LatentPolicy))
            raise UserError(f"unknown latent policy {how.latent_policy!r}; choose from {known}")
        self.model, self.how = model, how
        self.x = _start(model, start)
        """(n, N): the states."""
        self.noise = Noise.of(noise, len(self.x)) if isinstance(noise, torch.Generator) else noise
        if self.noise.rows != len(self.x):
            raise ValueError(f"noise for {self.noise.rows} rows, but {len(self.x)} samples")
        self.hidden_at_start = self.x == model.mask_value
        self.z = None if how.z is None else given_latents(model, how.z, len(self.x))
        self.labels: Tensor | None = None
        if isinstance(model.latent, LabelledLatent) and model.latent.given is None and self.z is None:
            self.labels = model.latent.draw_labels(self.hidden_at_start.all(dim=1), self.noise)
        self.evaluations = self.sequences = 0
        self.states: list[Tensor] = []

    @property
    def hidden(self) -> Tensor:
        """(n, N): the positions that hold the mask."""
        return self.x == self.model.mask_value

    def steps(self, times: Tensor) -> Iterator[int]:
        """T..1 for ``times`` (n, T + 1); before each the time is set and z is drawn, if it is drawn anew."""
        keeps, record = self.how.z is not None or self.how.latent_policy == "fixed", self.how.record
        self.states = [self.x[:record].clone()]
        for step in range(times.shape[1] - 1, 0, -1):
            self.t = times[:, step].to(self.x.device, torch.float32)
            if self.z is None or not keeps:
                self.z = self.model.latent.draw(self.x, self.t, self.noise, self.labels)
            yield step
            if record:
                self.states.append(self.x[:record].clone())
            if self.how.on_step is not None:
                self.how.on_step(self.evaluations)

    def logits(self, where: Tensor, rows: Tensor) -> Tensor:
        """What the network predicts at the positions ``where`` (n, N) of some ``rows``: (M, V)."""
        z = None if self.z is None else self.z[rows]
        return self.model.predict(self.x[rows], z, self.t[rows], where[rows])

    def draw(
        self,
        where: Tensor,
        *,
        numbers: Tensor | None = None,
        logits: Callable[[Tensor, Tensor], Tensor] | None = None,
        finish: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Values drawn for the M positions ``where`` (n, N): (M,).

        They follow the ``logits`` of ``where`` and some rows, by default the network's. ``finish`` turns rows, logits
        and values of these rows into what takes the values' place.
        """
        token_sampler = self.how.token_sampler
        # Drawn at every step, whatever is predicted: so rows do not depend on each other.
        numbers = token_sampler.numbers(self.noise, self.model.positions) if numbers is None else numbers
        counts = where.sum(dim=1)
        asking = counts.nonzero()[:, 0]
        if len(asking) == 0:
            return self.x.new_zeros(0)
        drawn = []
        # So many rows at a time that their logits fit.
        for rows in torch.split(asking, max(1, LOGITS_AT_ONCE // (int(counts.max()) * self.model.vocab_size))):
            predicted = (logits or self.logits)(where, rows)
            # Random numbers live on the CPU, wherever the model is.
            uniforms = token_sampler.uniforms(numbers[rows.cpu()], where[rows], self.model.vocab_size)
            values = token_sampler(predicted, uniforms)
            drawn.append(values if finish is None else finish(rows, predicted, values))
        self.evaluations += 1
        self.sequences += len(asking)
        return torch.cat(drawn)

    def samples(self) -> Samples:
        trajectory = torch.stack(self.states) if self.how.record else None
        return Samples(self.x, self.evaluations, self.sequences, trajectory)


def _start(model: "Model", start: int | Tensor) -> Tensor:
    if isinstance(start, int):
        if start < 1:
            raise UserError(f"the number of samples must be at least 1, not {start}")
        return torch.full((start, model.positions), model.mask_value, device=model.device)
    if start.ndim != 2 or start.shape[1] != model.positions or len(start) == 0:
        raise UserError(f"sequences to fill have the shape (n, {model.positions}), not {tuple(start.shape)}")
    model.check_values(start, "the sequences to fill hold", also_masks=True)
    return start.to(model.device, torch.int64, copy=True)


def given_latents(model: "Model", z: Tensor, count: int) -> Tensor:
    """The z that was given for ``count`` samples, as the prior draws it."""
    dim = model.latent.dim
    if dim == 0:
        raise UserError("this model has no latent: there is no z to give")
    if z.shape != (count, dim):
        raise UserError(f"latents for {count} samples have the shape ({count}, {dim}), not {tuple(z.shape)}")
    return z.to(model.device, torch.float32)
