"""Examples of which only a part of the masked values is to be explained, as in a step of the sampler."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch.distributions import Normal, kl_divergence

from tests.helpers.exact import (
    TableDenoiser,
    TableRecognizer,
    gauss_hermite,
    nonempty_masks,
    properties,
    seeded,
    sigmas,
)
from vadd.core import (
    ExactCount,
    GaussianLatent,
    IidTimes,
    LinearSchedule,
    MaskedBatch,
    MaskedDiffusion,
    Masking,
    PartlyExplained,
)

SCHEDULE = LinearSchedule()


@given(batch=st.integers(1, 9), positions=st.integers(1, 8), share=st.floats(0, 1), seed=st.integers(0, 999))
@properties
def test_a_part_is_masked_and_never_empty(batch: int, positions: int, share: float, seed: int) -> None:
    plain = ExactCount()(batch, positions, SCHEDULE, seeded(seed))
    drawn = PartlyExplained(ExactCount(), share)(batch, positions, SCHEDULE, seeded(seed))
    assert torch.equal(drawn.masked, plain.masked)
    assert torch.equal(drawn.weight, plain.weight)
    assert drawn.explained is not None
    assert not (drawn.explained & ~drawn.masked).any()
    assert drawn.explained.any(dim=1).all()


def test_where_nothing_is_masked_nothing_is_explained() -> None:
    drawn = PartlyExplained(IidTimes(), 0.5)(2000, 2, SCHEDULE, seeded(0))
    assert drawn.explained is not None
    nothing = ~drawn.masked.any(dim=1)
    assert nothing.any()
    assert not drawn.explained[nothing].any()
    assert drawn.explained[~nothing].any(dim=1).all()


def test_without_a_share_everything_masked_is_explained() -> None:
    drawn = PartlyExplained(ExactCount(), 0.0)(50, 7, SCHEDULE, seeded(0))
    assert drawn.explained is not None
    assert torch.equal(drawn.explained, drawn.masked)


def test_the_parts_have_all_sizes_alike_and_all_places_alike() -> None:
    """Two chi-squared tests at 1e-6 each."""
    drawn = PartlyExplained(ExactCount(), 1.0)(40_000, 4, SCHEDULE, seeded(1))
    assert drawn.explained is not None
    parts = drawn.explained[drawn.masked.all(dim=1)]
    sizes = torch.bincount(parts.sum(1), minlength=5)[1:]
    assert stats.chisquare(sizes.numpy()).pvalue > 1e-6
    pairs = parts[parts.sum(1) == 2]
    seen = [int((pairs[:, a] & pairs[:, b]).sum()) for a, b in itertools.combinations(range(4), 2)]
    assert stats.chisquare(seen).pvalue > 1e-6


def test_examples_of_which_too_little_is_masked_are_explained_whole() -> None:
    drawn = PartlyExplained(ExactCount(), 1.0, least_masked=0.5)(4_000, 8, SCHEDULE, seeded(3))
    assert drawn.explained is not None
    whole = (drawn.explained == drawn.masked).all(dim=1)
    counts = drawn.masked.sum(dim=1)
    assert whole[counts < 4].all()
    assert not any(whole[counts == count].all() for count in range(4, 9))


def test_moving_and_choosing_rows_keep_what_is_explained() -> None:
    drawn = PartlyExplained(ExactCount(), 1.0)(6, 4, SCHEDULE, seeded(2))
    assert drawn.explained is not None
    some = drawn[torch.tensor([4, 1])].to(torch.device("cpu"))
    assert some.explained is not None
    assert torch.equal(some.explained, drawn.explained[[4, 1]])


@pytest.mark.parametrize("kl_weight", [0.4, 1.0])
def test_the_evidence_is_that_of_the_explained_values_and_of_nothing_else(kl_weight: float) -> None:
    """For every mask S and part U: E_r log p(x_U | x_t, z) - lambda KL by quadrature, where r sees x_U but not the rest
    of x_S. 19 comparisons of 20,000 draws at 5 standard errors: false alarm below 1.1e-5 together.
    """
    denoiser, recognizer = TableDenoiser(3, 2, latent=True), TableRecognizer(3, 2)
    recognizer.table.data *= 0.3  # wider, the sines of the denoiser would need more nodes
    model = MaskedDiffusion(denoiser, SCHEDULE, GaussianLatent(recognizer, dim=1))
    x0, t = torch.tensor([1, 0, 1]), torch.full((1,), 0.5)
    nodes, weights = gauss_hermite(64)
    for masked in nonempty_masks(3):
        xt = x0.masked_fill(masked, 2)
        for explained in nonempty_masks(3):
            if (explained & ~masked).any():
                continue
            with torch.no_grad():
                mean, log_std = recognizer(torch.where(explained, x0, xt)[None], xt[None], t)
                z = mean + log_std.exp() * nodes[:, None]
                everywhere = torch.ones(64, 3, dtype=torch.bool)
                log_mu = denoiser(xt.expand(64, -1), z, t.expand(64), everywhere).log_softmax(-1).view(64, 3, -1)
                told = torch.stack([log_mu[:, i, x0[i]] for i in range(3) if explained[i]]).sum(0)
                kl = kl_divergence(Normal(mean, log_std.exp()), Normal(0, 1)).sum()
                exact = float((weights * told).sum() - kl_weight * kl)
                many = 20_000
                masking = Masking(masked.expand(many, 3), t.expand(many), torch.ones(many), explained.expand(many, 3))
                batch = MaskedBatch.of(x0.expand(many, 3), masking, 2)
                found = model(batch, kl_weight, seeded(5))
            assert sigmas(found.bound, exact) < 5
            torch.testing.assert_close(found.kl, kl.expand(many), check_dtype=False)


def test_without_a_latent_it_is_the_sum_over_the_part() -> None:
    denoiser = TableDenoiser(3, 2)
    x0, xt = torch.tensor([[1, 0, 1]]), torch.full((1, 3), 2)
    log_mu = denoiser(xt, None, torch.ones(1), torch.ones(1, 3, dtype=torch.bool)).log_softmax(-1).detach()
    explained = torch.tensor([[True, False, True]])
    masking = Masking(torch.ones(1, 3, dtype=torch.bool), torch.ones(1), torch.ones(1), explained)
    found = MaskedDiffusion(denoiser, SCHEDULE)(MaskedBatch.of(x0, masking, 2), 1.0, seeded(0))
    assert found.bound.item() == pytest.approx(float(log_mu[0, 1] + log_mu[2, 1]), rel=1e-9)
