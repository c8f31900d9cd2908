"""Completions that go with what is known, against the exact conditional, for models whose joint can be summed.

The denoiser predicts from z alone, whatever the state: then the one-step joint E_z prod_i mu_i(z)[x_i] is the law of
every sampler with one z, and completions must follow its conditional. Seeds are fixed. Comparisons are chi-square tests
at level 1e-5, fewer than 40: if the seeds are ever changed, a correct package fails one with probability below 4e-4.
"""

from functools import partial

import pytest
import torch
from torch import Tensor

from tests.helpers.bounds import PriorGrid
from tests.helpers.exact import (
    LINEAR,
    ConstantRecognizer,
    TableDenoiser,
    all_sequences,
    chi_square_p_value,
    index_of,
    seeded,
)
from vadd.core import Ancestral, GaussianLatent, MaskedDiffusion, Noise, Parallel, Prior, Sampler
from vadd.core.sampling import LatentPolicy
from vadd.run.infilling import latents_that_fit
from vadd.run.sampling import SamplingOptions, draw

LEVEL = 1e-5
GRID = PriorGrid.even(400)
ROWS, CANDIDATES = 3000, 200


def same_in_every_state(positions: int, values: int, seed: int) -> TableDenoiser:
    """z pushes all positions towards high values or low ones, so that one value tells much of the others."""
    denoiser = TableDenoiser(positions, values, seed=seed, latent=True)
    with torch.no_grad():
        denoiser.amplitude.mul_(0.2).add_(torch.linspace(-1, 1, values))
        denoiser.frequency.mul_(0.2).add_(0.7)
        for table in (denoiser.base, denoiser.amplitude, denoiser.frequency):
            table.copy_(table[-1].clone())
    return denoiser


def model_of(denoiser: TableDenoiser, prior: Prior | None = None, pad: int | None = None) -> MaskedDiffusion:
    latent = GaussianLatent(ConstantRecognizer(0.0, 0.0), 1, prior=prior)
    return MaskedDiffusion(denoiser, LINEAR.schedule, latent, pad).requires_grad_(False)


@torch.no_grad()
def mu(denoiser: TableDenoiser) -> Tensor:
    """mu_i(z)[v] on the grid: (Z, N, V)."""
    nothing = torch.full((len(GRID.z), denoiser.positions), denoiser.vocab_size)
    logits: Tensor = denoiser(nothing, GRID.z, torch.ones(len(GRID.z)), torch.ones_like(nothing, dtype=torch.bool))
    return logits.view(len(GRID.z), denoiser.positions, denoiser.vocab_size).softmax(-1)


def likelihood_of(known: list[int], table: Tensor) -> Tensor:
    """prod over the known positions, (Z,); the mask value V stands for what is not known."""
    found = torch.ones(len(table), dtype=torch.float64)
    for position, value in enumerate(known):
        if value < table.shape[-1]:
            found = found * table[:, position, value]
    return found


def law_of_completions(denoiser: TableDenoiser, known: list[int], weights: Tensor) -> Tensor:
    """(V ** N,): what is known stays, the rest is drawn given a z of these weights (Z,) on the grid."""
    table, mask, law = mu(denoiser), denoiser.vocab_size, []
    for sequence in all_sequences(denoiser.positions, mask).tolist():
        pairs = list(zip(sequence, known, strict=True))
        rest = [value if given == mask else mask for value, given in pairs]
        agrees = all(given in (value, mask) for value, given in pairs)
        law.append(float(weights @ likelihood_of(rest, table)) if agrees else 0.0)
    return torch.tensor(law, dtype=torch.float64)


def exact_conditional(denoiser: TableDenoiser, known: list[int]) -> Tensor:
    """p(x) / p(known) for the sequences that agree with what is known, from the one-step joint."""
    table, sequences = mu(denoiser), all_sequences(denoiser.positions, denoiser.vocab_size)
    joint = torch.stack([GRID.weights @ likelihood_of(x0, table) for x0 in sequences.tolist()])
    given = torch.tensor(known)
    agrees = ((sequences == given) | (given == denoiser.vocab_size)).all(1)
    return joint * agrees / joint[agrees].sum()


def settings(
    steps: int = 1,
    *,
    sampler: Sampler | None = None,
    latent: LatentPolicy = "fixed",
    candidates: int = CANDIDATES,
    seed: int = 0,
) -> SamplingOptions:
    return SamplingOptions(
        steps=steps, seed=seed, sampler=sampler or Ancestral(), latent_policy=latent, candidates=candidates
    )


def completions(model: MaskedDiffusion, known: list[int], chosen: SamplingOptions, rows: int = ROWS) -> Tensor:
    starts = torch.tensor(known).repeat(rows, 1)
    tokens = draw(model, chosen, starts, range(rows)).tokens
    stays = starts != model.mask_value
    assert torch.equal(tokens[stays], starts[stays]), "what is known never changes"
    assert bool((tokens < model.vocab_size).all())
    return tokens


def p_value(tokens: Tensor, law: Tensor, values: int) -> float:
    return chi_square_p_value(index_of(tokens, values).bincount(minlength=len(law)).numpy(), law.numpy())


THREE, PAIR = same_in_every_state(3, 2, seed=41), same_in_every_state(2, 3, seed=42)
STARTS = [(THREE, [1, 2, 2]), (THREE, [2, 0, 1]), (THREE, [2, 0, 2]), (PAIR, [0, 3]), (PAIR, [3, 2])]
for_each_start = pytest.mark.parametrize(
    ("denoiser", "known"), STARTS, ids=lambda value: str(value) if isinstance(value, list) else ""
)


@for_each_start
@pytest.mark.parametrize("steps", [1, 2])
def test_of_many_candidates_the_one_that_fits_gives_completions_of_the_exact_conditional(
    denoiser: TableDenoiser, known: list[int], steps: int
) -> None:
    """3000 completions with 200 candidates each, whose bias, of the order 1/200, no such test can see. What the prior
    alone would give is refuted, so the candidates matter.
    """
    tokens = completions(model_of(denoiser), known, settings(steps))
    assert p_value(tokens, exact_conditional(denoiser, known), denoiser.vocab_size) > LEVEL
    from_the_prior = law_of_completions(denoiser, known, GRID.weights)
    assert p_value(tokens, from_the_prior, denoiser.vocab_size) < 1e-8


@for_each_start
def test_a_single_candidate_follows_the_prior(denoiser: TableDenoiser, known: list[int]) -> None:
    tokens = completions(model_of(denoiser), known, settings(candidates=1), rows=20_000)
    assert p_value(tokens, law_of_completions(denoiser, known, GRID.weights), denoiser.vocab_size) > LEVEL
    assert p_value(tokens, exact_conditional(denoiser, known), denoiser.vocab_size) < 1e-8


@for_each_start
def test_the_chosen_latents_follow_their_posterior(denoiser: TableDenoiser, known: list[int]) -> None:
    """z itself, in 20 intervals that are equally likely under p(z | known)."""
    z = latents_that_fit(model_of(denoiser), torch.tensor(known).repeat(ROWS, 1), CANDIDATES, Noise.of(seeded(1), ROWS))
    assert isinstance(z, Tensor)
    posterior = GRID.weights * likelihood_of(known, mu(denoiser))
    levels = (posterior.cumsum(0) - posterior / 2) / posterior.sum()
    place = torch.searchsorted(GRID.z[:, 0].contiguous(), z[:, 0].double().contiguous()).clamp(1, len(levels) - 1)
    left, right = GRID.z[place - 1, 0], GRID.z[place, 0]
    share = ((z[:, 0] - left) / (right - left)).clamp(0, 1)
    uniforms = levels[place - 1] * (1 - share) + levels[place] * share
    counts = (uniforms * 20).long().clamp(0, 19).bincount(minlength=20)
    assert chi_square_p_value(counts.numpy(), torch.full((20,), 1 / 20).numpy()) > LEVEL


class ExactPosterior(Prior):
    """p(z | what is known), summed on the grid: a conditional prior that is perfect for the model."""

    conditional = True

    def __init__(self, denoiser: TableDenoiser) -> None:
        super().__init__()
        self.dim = self.noise_dim = 1
        self.table = mu(denoiser)

    def masses(self, xt: Tensor) -> Tensor:
        """(B, Z)."""
        found = torch.stack([GRID.weights * likelihood_of(state, self.table) for state in xt.tolist()])
        return found / found.sum(1, keepdim=True)

    def from_noise(self, noise: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        states, which = torch.unique(xt, dim=0, return_inverse=True)
        uniform = torch.special.ndtr(noise[..., 0].double())
        chosen = torch.zeros(uniform.shape, dtype=torch.int64)
        for state, levels in enumerate(self.masses(states).cumsum(1)):
            chosen[:, which == state] = torch.searchsorted(levels, uniform[:, which == state].contiguous())
        return GRID.z[chosen.clamp(max=len(GRID.z) - 1)].float()

    def log_prob(self, z: Tensor, xt: Tensor, labels: Tensor | None = None) -> Tensor:
        """Masses in place of densities: the grid is the same for every state, and only their ratios count."""
        place = torch.searchsorted(GRID.z[:, 0].float().contiguous(), z[..., 0].contiguous())
        states, which = torch.unique(xt, dim=0, return_inverse=True)
        return self.masses(states)[which.expand_as(place), place].log().to(z.dtype)

    def nodes(self, count: int, xt: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return GRID.z, self.masses(xt[None])[0]


@for_each_start
@pytest.mark.parametrize("latent", ["fixed", "resample"])
def test_a_prior_that_knows_what_fits_gives_the_exact_conditional(
    denoiser: TableDenoiser, known: list[int], latent: LatentPolicy
) -> None:
    """20,000 completions in two steps. One z drawn given what is known, or a fresh one at each step given what is known
    by then: by the chain rule both are exact. More candidates have equal weights and the same law.
    """
    model = model_of(denoiser, ExactPosterior(denoiser))
    for candidates, rows in ((1, 20_000), (3, ROWS)):
        tokens = completions(model, known, settings(2, latent=latent, candidates=candidates), rows=rows)
        assert p_value(tokens, exact_conditional(denoiser, known), denoiser.vocab_size) > LEVEL


class HalfInformed(ExactPosterior):
    """Knows nothing beforehand as it should, and of what is known only a part: half of its logarithm."""

    def masses(self, xt: Tensor) -> Tensor:
        found = torch.stack([GRID.weights * likelihood_of(state, self.table).sqrt() for state in xt.tolist()])
        return found / found.sum(1, keepdim=True)


@pytest.mark.parametrize(("denoiser", "known"), [(THREE, [2, 0, 1]), (PAIR, [3, 2])], ids=["three", "pair"])
def test_candidates_of_a_prior_that_reads_badly_come_to_the_exact_conditional(
    denoiser: TableDenoiser, known: list[int]
) -> None:
    """3000 completions with 60 candidates each; one candidate alone is refuted."""
    model = model_of(denoiser, HalfInformed(denoiser))
    truth = exact_conditional(denoiser, known)
    assert p_value(completions(model, known, settings(candidates=60)), truth, denoiser.vocab_size) > LEVEL
    alone = completions(model, known, settings(candidates=1), rows=50_000)
    assert p_value(alone, truth, denoiser.vocab_size) < 1e-8


def test_parallel_steps_with_one_fitting_z_follow_the_conditional_too() -> None:
    known = [2, 1, 2]
    tokens = completions(model_of(THREE), known, settings(2, sampler=Parallel(), seed=3))
    assert p_value(tokens, exact_conditional(THREE, known), 2) > LEVEL


def test_with_nothing_known_it_is_sampling_and_with_everything_known_nothing_is_drawn() -> None:
    """Bit for bit, whatever the number of candidates."""
    model, nothing = model_of(THREE), torch.full((50, 3), 2)
    sampled = draw(model, settings(2), 50, range(50)).tokens
    for candidates in (1, 7):
        assert torch.equal(draw(model, settings(2, candidates=candidates), nothing, range(50)).tokens, sampled)
    everything = all_sequences(3, 2)
    assert torch.equal(draw(model, settings(2), everything, range(8)).tokens, everything)


@pytest.mark.parametrize("size", [1, 7, 64, 100])
def test_chunks_do_not_matter_also_where_nothing_is_known_of_some(size: int) -> None:
    """Whole chunks of which nothing is known, beside others."""
    starts = torch.full((150, 3), 2)
    starts[70:80, 0] = 1
    starts[140:, 2] = 0
    drawn = partial(draw, model_of(THREE), settings(2, candidates=5), starts)
    parts = [drawn(range(first, min(first + size, 150))).tokens for first in range(0, 150, size)]
    assert torch.equal(torch.cat(parts), drawn(range(150)).tokens)


def test_known_pads_do_not_choose_the_latent() -> None:
    """The value 1 is a pad, of which the model was never asked: z goes with the other known values alone."""
    starts = torch.tensor([[0, 1, 2]]).repeat(200, 1)
    alone = torch.tensor([[0, 2, 2]]).repeat(200, 1)
    padded, scored = model_of(THREE, pad=1), model_of(THREE)
    chosen = latents_that_fit(padded, starts, 20, Noise.of(seeded(2), 200))
    expected = latents_that_fit(scored, alone, 20, Noise.of(seeded(2), 200))
    with_pad = latents_that_fit(scored, starts, 20, Noise.of(seeded(2), 200))
    assert isinstance(chosen, Tensor)
    assert isinstance(expected, Tensor)
    assert isinstance(with_pad, Tensor)
    assert torch.equal(chosen, expected)
    assert not torch.equal(chosen, with_pad)


def test_without_a_latent_there_is_nothing_to_choose() -> None:
    model = MaskedDiffusion(TableDenoiser(3, 2, seed=1), LINEAR.schedule).requires_grad_(False)
    starts = torch.tensor([[1, 2, 2]]).repeat(100, 1)
    assert latents_that_fit(model, starts, 5, Noise.of(seeded(0), 100)) is None
    one, many = (draw(model, settings(2, candidates=count), starts, range(100)).tokens for count in (1, 9))
    assert torch.equal(one, many)
    assert bool((one[:, 0] == 1).all())
