"""One z with one meaning for a whole example, and the priors that are learned for it."""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.core.gaussian import DiagonalGaussian, GaussianLatent, Prior, StandardNormal
from vadd.core.latents import Evidence, Score
from vadd.core.masking import MaskedBatch


class Flow(Protocol):
    """A network that turns standard normal numbers into a density, see :class:`vadd.networks.flows.CouplingFlow`."""

    dim: int
    noise_dim: int
    """The normal numbers that a draw takes; a mixture needs one more than ``dim``, to choose a component."""

    def log_prob(self, z: Tensor, context: Tensor | None = None) -> Tensor: ...

    def from_noise(self, noise: Tensor, context: Tensor | None = None) -> Tensor: ...

    def start_at(self, z: Tensor) -> None:
        """Begin near examples (n, d) of what is to be learnt, if that helps."""


class FlowPrior(Prior):
    """A learned prior: a flow, and for a conditional one a ``reader`` that turns states (B, N) into contexts (B, c).

    With ``classes`` it is p(z | label), and one density more for z without a label. A one-hot label ends the context;
    where the flow has contexts of ``positions`` of z, it ends each of them.
    """

    flow: Flow

    def __init__(
        self, flow: nn.Module, reader: nn.Module | None = None, classes: int = 0, *, positions: int = 1
    ) -> None:
        super().__init__()
        self.classes, self.positions = classes, positions
        self.flow = flow  # type: ignore[assignment]  # a Module that satisfies the protocol
        self.reader = reader
        self.dim, self.noise_dim = self.flow.dim, self.flow.noise_dim
        self.conditional = reader is not None

    def context(self, xt: Tensor, labels: Tensor | None = None, count: int = 1) -> Tensor | None:
        """What the flow reads, (count, B, c)."""
        parts = [] if self.reader is None else [self.reader(xt)]
        if self.classes:
            rows = xt.shape[0]
            labels = torch.full((rows,), self.classes, device=xt.device) if labels is None else labels.to(xt.device)
            one_hot = F.one_hot(labels, self.classes + 1).float()[:, None].expand(-1, self.positions, -1)
            parts = [torch.cat([*(read.view(rows, self.positions, -1) for read in parts), one_hot], dim=-1).flatten(1)]
        return parts[0].expand(count, *parts[0].shape) if parts else None

    def from_noise(self, noise: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.flow.from_noise(noise, self.context(xt, labels, noise.shape[0]))

    def log_prob(self, z: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        # The flow works in single precision. Half precision would be wrong by whole nats in its log-determinants.
        device = "cpu" if z.is_meta else z.device.type  # costs are counted on the meta device
        with torch.autocast(device, enabled=False):
            return self.flow.log_prob(z.float(), self.context(xt, labels, len(z))).to(z.dtype)


class SharedLatent(GaussianLatent):
    r"""One z with one meaning: the recognition model r(z | x0) does not see x_t, and one z serves all steps.

    The evidence is w log p(x_S | x_t, z) - lambda KL(r(z | x0) || p(z)): the KL counts once for an example, not once
    for every state. With the weights of :class:`~vadd.core.masking.StepTimes` its mean is a bound of the likelihood of
    the sampler that keeps one z for its T steps.
    """

    def __init__(self, recognizer: nn.Module, dim: int, mask_value: int, *, prior: Prior | None = None) -> None:
        super().__init__(recognizer, dim, prior=prior)
        self.mask_value = mask_value

    def posterior(self, batch: MaskedBatch) -> DiagonalGaussian:
        """r(z | x0): the recognition model is shown everything masked, whatever the state."""
        # One row in memory for all examples: a network may read it once.
        nothing_known = batch.x0.new_full((1, batch.x0.shape[1]), self.mask_value).expand_as(batch.x0)
        return self._recognized(batch, nothing_known, torch.ones_like(batch.t))

    def evidence(
        self, score: Score, batch: MaskedBatch, weight: Tensor, kl_weight: float, generator: torch.Generator
    ) -> Evidence:
        posterior = self.posterior(batch)
        z = posterior.from_noise(batch.normal(1, self.dim, generator))
        reconstruction = weight * score(z)[0]
        # z is drawn once, before the first step: its prior is that of the state in which everything is masked. The KL
        # counts once, so it is not weighted by w, which stands for a sum over steps.
        nothing_known = torch.full_like(batch.xt, self.mask_value)
        if isinstance(self.prior, StandardNormal):
            kl = self.prior.kl(posterior, z, nothing_known, batch.labels)
            return Evidence(reconstruction - kl_weight * kl, reconstruction, kl)
        # A prior that is trained with the model must follow the posterior at full weight while the KL is warmed up: its
        # weights get the gradient of log p(z) as it is, z gets kl_weight times that.
        follows = kl_weight * z + (1 - kl_weight) * z.detach()
        log_prior = self.prior.log_prob(follows, nothing_known, batch.labels)[0]
        kl = -posterior.entropy() - log_prior
        lag = (1 - kl_weight) * log_prior.detach()
        return Evidence(reconstruction + kl_weight * posterior.entropy() + log_prior - lag, reconstruction, kl)
