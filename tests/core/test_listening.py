"""Denoisers that listen to the latent in some states only: the bounds integrate z out there, and nowhere else."""

import torch
from torch import Tensor

from tests.exact import TableDenoiser, TableRecognizer, all_sequences, seeded
from vadd.core import GaussianLatent, LinearSchedule, MaskedDiffusion, Particles, sample, step_bound

POSITIONS, VALUES = 3, 2


class Hesitant(TableDenoiser):
    """Takes z for zero unless at least ``least`` positions are masked, and does not say so."""

    def __init__(self, least: int) -> None:
        super().__init__(POSITIONS, VALUES, seed=1, latent=True)
        self.least = least
        self.sequences = 0

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert z is not None
        self.sequences += len(xt)
        return super().forward(xt, z * self.hears(xt)[:, None], t, where)

    def hears(self, xt: Tensor) -> Tensor:
        return (xt == VALUES).sum(dim=1) >= self.least


class Outspoken(Hesitant):
    """The same, and says so."""

    def listens(self, xt: Tensor) -> Tensor:
        return self.hears(xt)


def vadd(denoiser: Hesitant) -> MaskedDiffusion:
    return MaskedDiffusion(denoiser, LinearSchedule(), GaussianLatent(TableRecognizer(POSITIONS, VALUES), dim=1))


def test_where_it_never_listens_the_bound_is_that_of_the_model_without_a_latent() -> None:
    """Of every x0, with the same masks; a latent of zero only shifts the logits of the table."""
    denoiser = Outspoken(least=POSITIONS + 1)
    plain = TableDenoiser(POSITIONS, VALUES, seed=1)
    plain.base.data += 3 * denoiser.amplitude.data * torch.sin(torch.tensor(1.0, dtype=torch.float64))
    x0 = all_sequences(POSITIONS, VALUES)
    for steps in (1, 2, 3):
        found = step_bound(vadd(denoiser), x0, steps, Particles(50), seeded(steps))
        exact = step_bound(MaskedDiffusion(plain, LinearSchedule()), x0, steps, Particles(1), seeded(steps))
        torch.testing.assert_close(found, exact, rtol=0, atol=1e-9)


def test_saying_so_changes_nothing_but_the_work() -> None:
    """Two estimates with K = 2,000 each: over 200 examples their means differ by less than 5 standard errors."""
    particles, x0 = Particles(2_000, ("prior",)), all_sequences(POSITIONS, VALUES).repeat(25, 1)
    found, work = [], []
    for denoiser in (Outspoken(least=2), Hesitant(least=2)):
        found.append(step_bound(vadd(denoiser), x0, POSITIONS, particles, seeded(0)))
        work.append(denoiser.sequences)
    difference = found[0] - found[1]
    assert float(difference.mean().abs()) < 5 * float(difference.std()) / len(x0) ** 0.5
    assert float(difference.abs().max()) < 0.3
    assert work[0] < 0.9 * work[1]


def test_a_silent_state_draws_no_more_than_one_particle() -> None:
    denoiser = Outspoken(least=POSITIONS + 1)
    step_bound(vadd(denoiser), torch.zeros(10, POSITIONS, dtype=torch.int64), 1, Particles(50), seeded(0))
    assert denoiser.sequences == 10


def test_samples_are_the_same_whether_it_says_so_or_not() -> None:
    drawn = [
        sample(vadd(denoiser), 64, 3, seeded(0), latent="fixed").tokens
        for denoiser in (Outspoken(least=2), Hesitant(least=2))
    ]
    assert torch.equal(*drawn)
