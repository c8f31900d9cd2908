"""The model: a denoiser, a mask schedule and, for VADD, a latent.

With the latent it is VADD; without, the same code is MDLM.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.core.gaussian import DiagonalGaussian
from vadd.core.labels import LabelledLatent
from vadd.core.latents import Evidence, GaussianLatent, Latent, NoLatent
from vadd.core.masking import ExactCount, MaskDraw, MaskedBatch
from vadd.core.noise import Noise
from vadd.core.precision import at_least_single, precise
from vadd.core.priors import Prior
from vadd.core.samplers import Ancestral, Sampler
from vadd.core.schedule import Schedule
from vadd.errors import UserError, check_range


class Denoiser(Protocol):
    """A network that predicts the hidden values.

    ``denoiser(xt, z, t, where)`` takes tokens (B, N) in 0..V, a latent (B, d) or None, times (B,), and a bool mask
    (B, N) with M true entries. It returns logits (M, V), for the positions asked for only, in row-major order. What it
    says of an example depends on that example alone, and in eval mode on nothing else. :func:`vadd.check` tells
    whether a module keeps to that.
    """

    positions: int
    """N, the values of an example."""
    vocab_size: int
    """V; the value V itself is the mask."""
    uses_time: bool
    """Whether the output depends on t."""

    def __call__(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor: ...


Predict = Callable[[Tensor, Tensor | None, Tensor, Tensor, Tensor], Tensor]
"""States (n, N), z, times (n,), ``where`` (n, N) and the rows that are meant -> the logits of these rows, (M, V)."""


class MaskedDiffusion(nn.Module):
    """A denoiser, a mask schedule and, for VADD, a latent; without one it is MDLM.

    Called with a batch it gives the evidence that training maximises; :func:`~vadd.core.sampling.sample` draws from it,
    :func:`~vadd.core.bounds.step_bound` judges it.

    >>> from vadd.core import LinearSchedule, MaskedBatch
    >>> from vadd.networks import MlpDenoiser, MlpSettings
    >>> model = MaskedDiffusion(MlpDenoiser(2, 5, MlpSettings(width=16)), LinearSchedule())
    >>> batch = MaskedBatch.all_masked(torch.tensor([[3, 1], [0, 4]]), model.mask_value)
    >>> model(batch, 1.0, torch.Generator()).bound.shape
    torch.Size([2])
    """

    denoiser: Denoiser
    samplers: ClassVar[Mapping[str, Sampler] | None] = None
    """By name, for a model that has samplers of its own and no others; None: all that reveal masked positions. One
    called ``ancestral`` is among them.
    """

    proposal_name: ClassVar[str | None] = None
    """Of the sampler that bounds are about, for a model whose own sampler has none."""
    shows_mask: ClassVar[bool] = True
    """Whether what is hidden shows as the mask, so that masks alone make a state."""
    counts_masks: ClassVar[bool] = True
    """Whether all masks of as many positions are alike, so that the integral over t is a sum over their numbers."""
    held_out_draw: ClassVar[MaskDraw] = ExactCount()
    """The states that held-out examples are judged in during training."""
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
        self.schedule = schedule
        self.latent = NoLatent() if latent is None else latent
        self.pad = pad
        """A value that only fills examples up: masked and seen like any other, but never scored."""
        self.sizes = None if sizes is None else tuple(sizes)
        """Where positions have different numbers of values: position i has 0..sizes[i]-1, all others probability 0."""
        self.guidance = 1.0
        """How far predictions with a label are pushed away from those without; 1 leaves them as they are."""
        self.unknowns = unknowns
        """Whether examples may hold the mask value: what was never known, stays hidden and is not scored."""
        self.register_buffer("outside", None if sizes is None else _outside(sizes, self.vocab_size), persistent=False)

    @property
    def positions(self) -> int:
        return self.denoiser.positions

    @property
    def vocab_size(self) -> int:
        return self.denoiser.vocab_size

    @property
    def mask_value(self) -> int:
        """The mask is one more value, after the V real ones."""
        return self.denoiser.vocab_size

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def scored(self, x0: Tensor) -> Tensor:
        """Which positions of x0 (B, N) count: (B, N) bool."""
        counted = torch.ones_like(x0, dtype=torch.bool) if self.pad is None else x0 != self.pad
        return counted & (x0 != self.mask_value) if self.unknowns else counted

    def scoring_pads(self) -> "MaskedDiffusion":
        """The same networks, with pads scored like any other value."""
        other = copy.copy(self)
        other.pad = None
        return other

    def restricted(self, sizes: Sequence[int]) -> "MaskedDiffusion":
        """The same networks, with only the first values of each position allowed: predictions given that it is so."""
        other = copy.copy(self)
        # A shallow copy shares its tables of buffers and modules: a change needs a table of its own.
        other._buffers = {**self._buffers, "outside": _outside(sizes, self.vocab_size).to(self.device)}
        other.sizes = tuple(sizes)
        return other

    def labelled(self, label: int | None, guidance: float = 1.0) -> "MaskedDiffusion":
        """The same networks, given a label; without one samples draw theirs. With ``guidance`` other than 1 predictions
        are those without the label plus so many times what it changes: classifier-free guidance, which is no longer the
        model's own distribution.
        """
        if not isinstance(self.latent, LabelledLatent):
            raise UserError("this model has not learnt from labels: train it with data.labels=true")
        if not 0 <= guidance < float("inf"):
            raise UserError(f"the guidance must be at least 0, not {guidance}")
        if label is not None and not 0 <= label < self.latent.classes:
            raise UserError(f"there is no label {label}; the model knows 0..{self.latent.classes - 1}")
        other = copy.copy(self)
        other._modules = {**self._modules, "latent": self.latent.with_label(label)}
        other.guidance = guidance
        return other

    @property
    def label_shares(self) -> Tensor | None:
        """(C,), where the model is a mixture over labels: how much of each. None for one label, and without labels."""
        latent = self.latent
        return latent.shares if isinstance(latent, LabelledLatent) and latent.given is None else None

    def with_drawn_labels(self, hidden: Tensor, noise: Noise) -> "MaskedDiffusion":
        """For samples whose ``hidden`` positions are (n, N): each has a label if nothing of it is known."""
        if not isinstance(self.latent, LabelledLatent) or self.latent.given is not None:
            return self
        other = copy.copy(self)
        other._modules = {**self._modules, "latent": self.latent.with_drawn_labels(hidden.all(dim=1), noise)}
        return other

    def check_values(self, x: Tensor, what: str, *, also_masks: bool = False) -> None:
        """Refuse sequences (n, N) that hold a value which their position does not have."""
        masks = (self.mask_value,) if also_masks or self.unknowns else ()
        low, high = int(x.min()), int(x.max())
        check_range(low, high, self.vocab_size, f"{what} the value", also=masks, limits="; the model knows")
        if self.sizes is None:
            return
        limits = torch.tensor(self.sizes, device=x.device)
        wrong = ((x >= limits) & ~((x == self.mask_value) & bool(masks))).nonzero()
        if len(wrong):
            row, position = wrong[0].tolist()
            raise UserError(
                f"{what} the value {int(x[row, position])} at position {position}; the model knows "
                f"0..{self.sizes[position] - 1} there"
            )

    def predict(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        """The denoiser's logits (M, V) at the M true entries of ``where``."""
        logits = self.denoiser(xt, z, t, where)
        if self.guidance != 1.0 and z is not None and isinstance(self.latent, LabelledLatent):
            without = self.denoiser(xt, self.latent.unlabelled(z), t, where)
            logits = without + self.guidance * (logits - without)
        if self.outside is None:
            return logits
        return logits.masked_fill(self.outside[where.nonzero()[:, 1]], -torch.inf)

    @property
    def ancestral(self) -> Sampler:
        """The model's own sampler, the one that its bound is about."""
        return Ancestral() if self.samplers is None else self.samplers["ancestral"]

    def begun(self, x: Tensor, hidden: Tensor, noise: Noise) -> Tensor:
        """What sampling starts from, where the ``hidden`` positions of x (n, N) hold the mask."""
        return x

    def unfinished(self, x: Tensor, hidden_at_start: Tensor) -> Tensor:
        """(n, N): the positions that later steps may still change."""
        return x == self.mask_value

    def noised(self, batch: MaskedBatch, generator: torch.Generator) -> MaskedBatch:
        """The batch as the network sees it, where what is masked shows as something else."""
        return batch

    def step_score(self, batch: MaskedBatch, before: Tensor, z: Tensor | None, xs: Tensor | None) -> Tensor:
        """For models whose sampler draws transitions, log prod_j p_j(x_s | x_t, z) / q(x_s | x_t, x0) of the step from
        t to ``before`` (B,), for z (K, B, d) or None: (K, B), at ``xs`` (B, N) or averaged over q.
        """
        raise NotImplementedError(f"the samplers of {type(self).__name__} plan ahead")

    def step_before(self, batch: MaskedBatch, before: Tensor, generator: torch.Generator) -> Tensor:
        """x_s (B, N) drawn from q(x_s | x_t, x0), likewise."""
        raise NotImplementedError(f"the samplers of {type(self).__name__} plan ahead")

    def check_start(self, hidden: Tensor) -> None:
        """Refuse to fill the ``hidden`` positions (n, N) where the model cannot."""

    def predictions(self) -> Predict:
        """What one run of the sampler asks for logits; a model that remembers what it has read starts anew."""

        def predict(x: Tensor, z: Tensor | None, t: Tensor, where: Tensor, rows: Tensor) -> Tensor:
            return self.predict(x[rows], None if z is None else z[rows], t[rows], where[rows])

        return predict

    @property
    def remembered_bytes(self) -> int:
        """What :meth:`predictions` keep of each row."""
        return 0

    def log_likelihood_in_one_pass(self, x0: Tensor) -> Tensor | None:
        """log p(x0), (B,), for models whose network gives it exactly at once; None for all others."""
        return None

    def with_prior(self, prior: Prior) -> "MaskedDiffusion":
        """The same networks, with z drawn from another prior."""
        if not isinstance(self.latent, GaussianLatent | LabelledLatent):
            raise UserError("this model has no Gaussian latent: there is no prior to change")
        other = copy.copy(self)
        other._modules = {**self._modules, "latent": self.latent.with_prior(prior)}
        return other

    def log_likelihood(self, batch: MaskedBatch, z: Tensor | None, where: Tensor) -> Tensor:
        r"""sum_{i in where} log mu_i(x_t, z, t)[x0_i], for K latents at once: z (K, B, d) or None (K = 1) gives
        (K, B).
        """
        particles = 1 if z is None else z.shape[0]
        size = len(batch.x0)
        xt, t, x0, flat_z = batch.xt, batch.t, batch.x0, None if z is None else z[0]
        if z is not None and particles > 1:
            # Copy after copy of the batch, in the order of z flattened: the k-th copy goes with the k-th draw.
            xt, x0, where = (tensor.repeat(particles, 1) for tensor in (xt, x0, where))
            t, flat_z = t.repeat(particles), z.flatten(0, 1)
        logits = at_least_single(self.predict(xt, flat_z, t, where))
        log_mu = -F.cross_entropy(logits, x0[where], reduction="none")
        # The logits come in row-major order of ``where``, so this is the example of each of them.
        rows = where.nonzero()[:, 0]
        # Long sums of logarithms: float64 where nothing is trained on them.
        log_mu = log_mu if log_mu.requires_grad else precise(log_mu)
        return log_mu.new_zeros(particles * size).index_add(0, rows, log_mu).view(particles, size)

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian | None:
        """r(z | x0, xt), for latents that have a recognition model."""
        return self.latent.posterior(batch)

    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        """What the masked values of a batch that are scored add to the objective: the networks' part of a step.

        Where nothing is masked, or nothing but pads, there is nothing to explain, and the mask weighs nothing: else the
        KL would make the integral over t diverge near t = 0.
        """
        where = batch.masking.masked
        if self.pad is not None or self.unknowns:
            where = where & self.scored(batch.x0)

        def score(z: Tensor | None) -> Tensor:
            return self.log_likelihood(batch, z, where)

        # At t = 0, where nothing is masked, w(t) is infinite: a product would be no number.
        weight = torch.where(where.any(dim=1).to(batch.t.device), batch.masking.weight, 0.0)
        return self.latent.evidence(score, batch, weight, kl_weight, generator)


def _outside(sizes: Sequence[int], vocab_size: int) -> Tensor:
    """(N, V) bool: the values that a position does not have."""
    if min(sizes) < 1 or max(sizes) > vocab_size:
        raise ValueError(f"sizes lie in 1..{vocab_size}, not {min(sizes)}..{max(sizes)}")
    return torch.arange(vocab_size) >= torch.tensor(sizes)[:, None]
