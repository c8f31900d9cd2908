r"""EDLM: an energy over whole sequences re-weighs k candidates of a masked model at each step.

Positions that are revealed together are drawn independently. So at each step k *whole* completions are drawn from the
masked model, one of them is kept with probabilities in proportion to :math:`w_j`, and what the step reveals is taken
from it. With :math:`w = p(x) / \prod_i \mu_i(x_t)[x_i]` and k large the completion follows p, the model that the
energy comes from; with k = 1 this is the masked model's own sampler. In between it is neither: **no likelihood bound
exists for it**, and bounds of such a model are those of its proposal, the masked model.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.core.base import Model
from vadd.core.host import precise, upload
from vadd.core.latents import Evidence
from vadd.core.masking import MaskedBatch, Schedule
from vadd.core.model import MaskedDiffusion
from vadd.core.sampling import Ancestral, Asked, Grid, Sampler, Walk, inverted
from vadd.errors import UserError
from vadd.models.ar import Autoregressive
from vadd.models.transitions import check_values_alone
from vadd.settings import Count, Fraction, checked_fields

ROWS_AT_ONCE = 256
"""Sequences that an energy is asked about at a time."""


@checked_fields
@dataclass(frozen=True)
class EnergyWeighted(Sampler):
    """``candidates`` completions at each step, one of which is kept by its weight. ``window`` is the share of the
    steps, from the first on, that do so; the others are the masked model's own.
    """

    candidates: Count = 8
    window: Fraction = 1.0

    def run(self, walk: Walk, steps: int, grid: Grid) -> None:
        check_values_alone(walk)  # candidates are weighed by how they were drawn
        plan = Ancestral().plan(walk.hidden_at_start, steps, walk.model.schedule, grid, walk.noise)
        for step in walk.steps(plan.times):
            revealed = plan.step_of == step
            if self.candidates == 1 or step <= (1 - self.window) * steps:
                walk.reveal(revealed)
                continue
            # Everything that is hidden, in the rows of which something is revealed: energies are of whole sequences.
            where = walk.hidden & revealed.any(dim=1, keepdim=True)
            numbers = walk.noise.uniform(walk.model.positions)
            # For the candidates but the first, and for the choice among them.
            own = walk.noise.uniform(self.candidates - 1, walk.model.positions + 1)
            shown = walk.sequences
            for asked in walk.ask(where, numbers=numbers):
                completed = self._chosen(walk, own, asked)
                # The others stay masked until their step has come.
                (now,) = upload([asked.host_places.values(revealed[asked.host_rows])], walk.x.device)
                walk.write(asked, torch.where(now, completed, walk.model.mask_value))
            walk.sequences += self.candidates * (walk.sequences - shown)
            walk.hidden = walk.hidden & ~revealed

    def _chosen(self, walk: Walk, numbers: Tensor, asked: Asked) -> Tensor:
        """(M,): of some rows the candidate that is kept."""
        x, numbers, owners = walk.x[asked.rows], numbers[asked.host_rows], asked.places.rows
        log_mu = precise(asked.logits).log_softmax(dim=-1)
        peaked = log_mu - log_mu.amax(dim=-1, keepdim=True)
        others = [asked.host_places.values(numbers[:, k, :-1]) for k in range(self.candidates - 1)]
        *others, levels = upload([*others, numbers[:, 0, -1]], x.device)
        draws = [walk.how.token_sampler(asked.logits, asked.uniforms)]
        draws += [inverted(peaked, uniforms) for uniforms in others]
        weights = []
        for candidate in draws:
            complete = asked.places.written(x, candidate)
            proposal = log_mu.new_zeros(len(x)).index_add(0, owners, log_mu.gather(1, candidate[:, None])[:, 0])
            parts = (torch.split(tensor, ROWS_AT_ONCE) for tensor in (complete, x, walk.t[asked.rows], proposal))
            model = cast(EnergyDiffusion, walk.model)
            weights.append(torch.cat([model.log_weights(*part) for part in zip(*parts, strict=True)]))
        cumulative = torch.stack(weights).softmax(dim=0).cumsum(dim=0)
        level = levels.to(cumulative) * cumulative[-1]
        chosen = (cumulative <= level).sum(dim=0).clamp(max=self.candidates - 1)
        return torch.stack(draws).gather(0, chosen[owners][None])[0]


class EnergyDiffusion(MaskedDiffusion):
    """A masked model whose candidates are weighed. Its sampler is not exact: bounds are of the sampler ``proposal``."""

    samplers: Mapping[str, Sampler] = {"ancestral": EnergyWeighted(), "proposal": Ancestral()}

    @abstractmethod
    def log_weights(self, x: Tensor, xt: Tensor, t: Tensor, log_proposal: Tensor) -> Tensor:
        """Of complete sequences x (R, N) drawn in the states xt (R, N) at times t (R,) with ``log_proposal`` (R,)."""


class EnergyOfAnother(EnergyDiffusion):
    """The energy is minus the log-likelihood of an autoregressive model, which is not trained for it.

    The masked model may have a latent; candidates of a step share its z.
    """

    other: Autoregressive

    @classmethod
    def of(cls, model: Model, other: Model, sampler: EnergyWeighted) -> "EnergyOfAnother":
        if type(model) is not MaskedDiffusion:
            raise UserError("--energy needs a masked model (MDLM or VADD) to sample from; this run is another")
        if not isinstance(other, Autoregressive):
            raise UserError("--energy needs an autoregressive run, one trained with model=ar")
        parts = (cast(nn.Module, model.denoiser), model.schedule, model.latent, model.pad)
        made = cls(*parts, sizes=model.sizes, unknowns=model.unknowns)
        made.other = other.scoring_pads()  # whole sequences are weighed
        made.samplers = {**cls.samplers, "ancestral": sampler}
        return made

    def log_weights(self, x: Tensor, xt: Tensor, t: Tensor, log_proposal: Tensor) -> Tensor:
        return precise(self.other.log_likelihood(x)) - log_proposal


class LearnedEnergy(EnergyDiffusion):
    r"""The energy E(x, xt, t) is a network, trained to tell data from completions by the masked model, which stays as
    it is (noise-contrastive estimation). At its optimum :math:`e^{-E}` is the ratio of the two.
    """

    def __init__(self, denoiser: nn.Module, schedule: Schedule, energy: nn.Module, pad: int | None = None) -> None:
        super().__init__(denoiser, schedule, pad=pad)
        self.energy = energy
        denoiser.requires_grad_(False)

    def log_weights(self, x: Tensor, xt: Tensor, t: Tensor, log_proposal: Tensor) -> Tensor:
        return precise(-self.energies(x, xt, t))

    def energies(self, x: Tensor, xt: Tensor, t: Tensor) -> Tensor:
        """Of complete sequences (B, N), given the states that they complete: (B,). The network has the form of a
        recognition model; its means add up to the energy.
        """
        return self.energy(x, xt, t)[0].sum(dim=-1)

    def asked(self, x0: Tensor, masked: Tensor) -> Tensor:
        return masked

    def numbers_ahead(self, batch: MaskedBatch, generator: torch.Generator) -> list[Tensor]:
        return [batch.uniform(generator)]

    def forward(self, batch: MaskedBatch, kl_weight: float, generator: torch.Generator) -> Evidence:
        """log P(data | x0) + log P(not data | a completion), for each example."""
        where = batch.masked
        places = self.places(batch.where(where))
        with torch.no_grad():
            logits = precise(self.predict(batch.xt, None, batch.t, places))
            drawn = inverted(logits - logits.amax(-1, keepdim=True), places.values(batch.uniform(generator)))
        completed = places.written(batch.xt, drawn)
        real, made = (self.energies(x, batch.xt, batch.t) for x in (batch.x0, completed))
        log_right = F.logsigmoid(-real) + F.logsigmoid(made)
        # Where nothing is masked both are the same sequence, and log 1/2 twice is the best.
        return Evidence.without_latent(torch.where(where.any(dim=1), log_right, -2 * math.log(2)))
