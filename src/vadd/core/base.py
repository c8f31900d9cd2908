"""What training, sampling and evaluation ask of any model."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor, nn

from vadd.core.categorical import LabelledLatent
from vadd.core.gaussian import DiagonalGaussian, Particles, Prior
from vadd.core.host import Noise, Places, Where
from vadd.core.latents import Evidence, Latent, NoLatent, changed
from vadd.core.masking import BatchPart, ExactCount, MaskDraw, MaskedBatch, Masking, Schedule
from vadd.core.sampling import Drawing, LikelihoodKind, Sampler, Samples, Walk
from vadd.errors import UserError


class Denoiser(Protocol):
    """A network that predicts the hidden values.

    ``denoiser(xt, z, t, where)`` takes tokens (B, N) in 0..V, a latent (B, d) or None, times (B,), and a bool mask
    (B, N) with M true entries. It returns logits (M, V) at these positions only, in row-major order. The output for an
    example depends on that example alone; in eval mode it is deterministic. A denoiser with ``takes_places = True``
    gets :class:`~vadd.core.host.Places` in place of the mask. :func:`vadd.check` tests a module.
    """

    positions: int
    """N, the number of values in an example."""
    vocab_size: int
    """V, the number of values; the value V itself is the mask."""
    uses_time: bool
    """Whether the output depends on t."""

    def __call__(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Any) -> Tensor: ...


class Model(nn.Module, ABC):
    """A denoiser, a noise schedule and perhaps a latent, with the verbs ``forward`` (the evidence that training
    maximises), ``sample``, ``bound`` and ``encode``.
    """

    denoiser: Denoiser
    samplers: Mapping[str, Sampler]
    """By name; the one called ``ancestral`` is the default."""
    held_out_draw: ClassVar[MaskDraw] = ExactCount()
    """The states that held-out examples are evaluated in during training."""
    outside: Tensor | None

    def __init__(
        self,
        denoiser: nn.Module,
        schedule: Schedule,
        latent: Latent | None = None,
        pad: int | None = None,
        *,
        sizes: Sequence[int] | None = None,
        unknowns: bool = False,
    ) -> None:
        super().__init__()
        self.denoiser = denoiser  # type: ignore[assignment]  # a Module that satisfies the protocol
        self.positions, self.vocab_size = self.denoiser.positions, self.denoiser.vocab_size
        self.group: int = getattr(denoiser, "group", 1)
        """Positions that the denoiser reads out together."""
        self.mask_value = self.vocab_size
        """The mask is one more value, after the V real ones."""
        self.schedule = schedule
        self.latent = NoLatent() if latent is None else latent
        self.pad = pad
        """A value that only fills examples up: masked and seen like any other, but never scored."""
        self.sizes = None if sizes is None else tuple(sizes)
        """Where positions have different numbers of values: position i has 0..sizes[i]-1, all others probability 0."""
        self.guidance = 1.0
        """How far predictions with a label are pushed away from those without; 1 leaves them as they are."""
        self.unknowns = unknowns
        """Whether examples may hold the mask value: unknown values, which stay hidden and are not scored."""
        self.register_buffer("outside", None if sizes is None else _outside(sizes, self.vocab_size), persistent=False)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @abstractmethod
    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        """What the examples of a batch add to the objective: the networks' part of a training step."""

    @torch.no_grad()
    def sample(
        self, start: int | Tensor, steps: int, noise: Noise | torch.Generator, how: Drawing | None = None
    ) -> Samples:
        """Draw samples in ``steps`` steps. ``start`` is their number, or sequences (n, N) in which the mask value marks
        what is to be filled.
        """
        how = Drawing() if how is None else how
        sampler = how.sampler or self.samplers["ancestral"]
        if sampler.about:
            sampler.check(self.positions, steps)
        walk = Walk(self, start, noise, how)
        sampler.run(walk, steps, how.grid)
        return walk.samples()

    @torch.no_grad()
    def bound(
        self,
        x0: Tensor,
        steps: int,
        particles: Particles | int = 64,
        generator: torch.Generator | None = None,
        how: Drawing | None = None,
    ) -> Tensor:
        """A lower bound of log p_T(x0), (B,) float64 nats, of the sampler, grid and latent policy of ``how``: the
        logarithm of an unbiased estimate of p_T(x0), which does not exceed it in expectation. ``particles`` is their
        number, or a :class:`~vadd.core.latents.Particles` that also names the proposals.
        """
        how = Drawing() if how is None else how
        sampler = how.sampler or self.samplers["ancestral"]
        known = self.likelihood_kind(steps, how)
        if known.kind == "none":
            others = [self.likelihood_kind(steps, replace(how, sampler=other)).kind for other in self.samplers.values()]
            names = [name for name, kind in zip(self.samplers, others, strict=True) if kind != "none"]
            instead = f"; choose from {', '.join(names)}" if names else ""
            raise UserError(
                f"no likelihood bound exists for the sampler {type(sampler).__name__}: {known.why}{instead}"
            )
        if sampler.about:
            sampler.check(self.positions, steps)
        particles = Particles(particles) if isinstance(particles, int) else particles
        return self.step_bound(x0, steps, particles, generator or torch.Generator().manual_seed(0), how)

    def likelihood_kind(self, steps: int, how: Drawing | None = None) -> LikelihoodKind:
        """Whether :meth:`bound` is exact or a bound for the sampler of ``how``, or why neither."""
        sampler = (how and how.sampler) or self.samplers["ancestral"]
        if how is not None and not how.token_sampler.exact:
            return LikelihoodKind("none", "this model has no temperature, top-k, top-p or float32 draws")
        if not sampler.exact:
            return LikelihoodKind("none", "it does not draw from the model's own distribution")
        return LikelihoodKind("bound", "Jensen's inequality over paths")

    @abstractmethod
    def step_bound(
        self, x0: Tensor, steps: int, particles: Particles, generator: torch.Generator, how: Drawing
    ) -> Tensor:
        """What :meth:`bound` returns, after its checks."""

    def elbo(self, x0: Tensor, draws: int, generator: torch.Generator | None = None) -> Tensor:
        """A lower bound of log p(x0) of the sampler with many steps, (B,), from ``draws`` masks for each example."""
        raise UserError("this model has no ELBO over numbers of masked positions; use the step bound")

    @torch.no_grad()
    def encode(self, x0: Tensor, labels: Tensor | None = None) -> DiagonalGaussian | None:
        """r(z | x0, everything masked) at t = 1 for examples (B, N), given their ``labels`` (B,) if any; None without a
        recognition model. The mask value stands for what is not known of an example.
        """
        batch = MaskedBatch.all_masked(x0.to(self.device, torch.int64), self.mask_value)
        return self.posterior(replace(batch, labels=None if labels is None else labels.to(self.device)))

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian | None:
        """r(z | x0, xt), for latents that have a recognition model."""
        return self.latent.posterior(batch)

    def asked(self, x0: Tensor, masked: Tensor) -> Tensor:
        """Where :meth:`forward` asks the network, (B, N) bool, for examples of which some positions are ``masked``."""
        return masked & self.scored(x0) if self.pad is not None or self.unknowns else masked

    def batch(
        self,
        x0: Tensor,
        masking: Masking,
        part: BatchPart | None = None,
        labels: Tensor | None = None,
        generator: torch.Generator | None = None,
        where: Tensor | None = None,
    ) -> MaskedBatch:
        """Examples (B, N) and masks of the host, on the device of the model: everything in one copy, with the places
        that the network is asked about, by default those of :meth:`asked`, and, given a ``generator``, the random
        numbers that :meth:`forward` takes.
        """
        made = replace(MaskedBatch.of(x0.long(), masking, self.mask_value, part), labels=labels)
        if self.device.type == "cpu":  # nothing is sent: numbers are found where they are needed
            return made
        places = self.places(self.asked(made.x0, masking.masked) if where is None else where)
        ahead = [] if generator is None else self.numbers_ahead(made, generator)
        return replace(made, places=places, ahead=ahead).to(self.device)

    def numbers_ahead(self, batch: MaskedBatch, generator: torch.Generator) -> list[Tensor]:
        """The random numbers that :meth:`forward` takes of a batch, in its order."""
        return self.latent.numbers_ahead(batch, generator)

    def places(self, where: Where) -> Places:
        """The true entries of ``where`` (B, N), as the denoiser takes them."""
        return Places.of(where, self.group)

    def predict(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        """The denoiser's logits (M, V) at the M true entries of ``where``."""
        places = Places.of(where, self.group)
        asked: Where = places
        if not getattr(self.denoiser, "takes_places", False):
            asked = where.mask if isinstance(where, Places) else where
        logits = self.denoiser(xt, z, t, asked)
        if self.guidance != 1.0 and z is not None and isinstance(self.latent, LabelledLatent):
            without = self.denoiser(xt, self.latent.unlabelled(z), t, asked)
            logits = without + self.guidance * (logits - without)
        return logits if self.outside is None else logits.masked_fill(self.outside[places.columns], -torch.inf)

    def scored(self, x0: Tensor) -> Tensor:
        """Which positions of x0 (B, N) count: (B, N) bool."""
        counted = torch.ones_like(x0, dtype=torch.bool) if self.pad is None else x0 != self.pad
        return counted & (x0 != self.mask_value) if self.unknowns else counted

    def check_sequences(self, x: Tensor, what: str, *, also_masks: bool = False) -> None:
        """Refuse what is not sequences (n, N), or holds a value which its position does not have."""
        if x.ndim != 2 or x.shape[1] != self.positions or len(x) == 0:
            raise UserError(f"{what} have the shape (n, {self.positions}), not {tuple(x.shape)}")
        x = x.long()
        limits = torch.tensor(self.sizes or [self.vocab_size] * self.positions, device=x.device)
        known_masks = (x == self.mask_value) & (also_masks or self.unknowns)
        wrong = (((x < 0) | (x >= limits)) & ~known_masks).nonzero()
        if len(wrong):
            row, position = wrong[0].tolist()
            where = "" if self.sizes is None else f" at position {position}"
            raise UserError(
                f"the {what} hold the value {int(x[row, position])}{where}; the model knows 0..{limits[position] - 1}"
            )

    def scoring_pads(self) -> Self:
        """The same networks, with pads scored like any other value."""
        return changed(self, pad=None)

    def restricted(self, sizes: Sequence[int]) -> Self:
        """The same networks, with only the first values of each position allowed: predictions given that it is so."""
        return changed(self, outside=_outside(sizes, self.vocab_size).to(self.device), sizes=tuple(sizes))

    def labelled(self, label: int | None, guidance: float = 1.0) -> Self:
        """The same networks, given a label; without one samples draw theirs. With ``guidance`` other than 1 predictions
        are those without the label plus so many times what it changes: classifier-free guidance, which is no longer the
        model's own distribution.
        """
        if not isinstance(self.latent, LabelledLatent):
            raise UserError("this model has not learned from labels: train it with data.labels=true")
        if not 0 <= guidance < float("inf"):
            raise UserError(f"the guidance must be at least 0, not {guidance}")
        if label is not None and not 0 <= label < self.latent.classes:
            raise UserError(f"there is no label {label}; the model knows 0..{self.latent.classes - 1}")
        return changed(self, latent=changed(self.latent, given=label), guidance=guidance)

    def with_prior(self, prior: Prior) -> Self:
        """The same networks, with z drawn from another prior."""
        return changed(self, latent=self.latent.with_prior(prior))


@dataclass(frozen=True)
class Objective:
    """What a step minimises, and the parts that are logged."""

    loss: Tensor
    """What the optimiser minimises: the negative objective in nats *per position*, so that clipping means the
    same at any N. All N positions count, pads too: so no example weighs more for being short.
    """
    reconstruction: Tensor
    """-w(t) E_r log p(x_S | x_t, z), nats per example."""
    kl: Tensor
    """The KL as it counts, nats per example, without the warm-up's lambda."""

    @classmethod
    def mean(cls, parts: Sequence["Objective"]) -> "Objective":
        """Of parts of equal size, without gradients."""
        names = ("loss", "reconstruction", "kl")
        return cls(*(torch.stack([getattr(part, name).detach() for part in parts]).mean() for name in names))


def objective(evidence: Evidence, positions: int) -> Objective:
    """The means of what the examples of a batch add, each of N ``positions``.

    >>> import torch
    >>> bound, kl = torch.tensor([-3.0, -2.0]), torch.tensor([0.5, 0.0])
    >>> objective(Evidence(bound, bound + kl, kl), positions=2)
    Objective(loss=tensor(1.2500), reconstruction=tensor(2.2500), kl=tensor(0.2500))
    """
    return Objective(
        loss=-evidence.bound.mean() / positions,
        reconstruction=-evidence.reconstruction.detach().mean(),
        kl=evidence.kl.detach().mean(),
    )


def _outside(sizes: Sequence[int], vocab_size: int) -> Tensor:
    """(N, V) bool: the values that a position does not have."""
    if min(sizes) < 1 or max(sizes) > vocab_size:
        raise ValueError(f"sizes lie in 1..{vocab_size}, not {min(sizes)}..{max(sizes)}")
    return torch.arange(vocab_size) >= torch.tensor(sizes)[:, None]
