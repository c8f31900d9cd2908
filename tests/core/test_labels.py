"""Labels beside z: what the denoiser, the recognition model and a learned prior are given, dropping, guidance, bounds
given a label, and the mixture over labels that a model is without one.

Frequencies are compared by chi-square tests at level 1e-5, fewer than 10, with fixed seeds.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.helpers.exact import ConstantRecognizer, all_sequences, chi_square_p_value, index_of, seeded
from tests.helpers.networks import flat_settings
from vadd.core import (
    ExactCount,
    GaussianLatent,
    LabelledLatent,
    LinearSchedule,
    MaskedBatch,
    MaskedDiffusion,
    NoLatent,
    Ordered,
    elbo,
    sample,
    step_bound,
)
from vadd.core.categorical import LabelledRecognizer
from vadd.errors import UserError
from vadd.networks import MlpDenoiser, SiameseMlpRecognizer
from vadd.run.sampling import SamplingOptions, draw

CLASSES = 3
SHARES = (0.5, 0.1, 0.4)
ODDS = (-1.0, 0.5, 2.0)


class LabelDenoiser(nn.Module):
    """Two positions of two values whose odds are those of the label, 0 without one; z, if any, comes first."""

    def __init__(self, odds: list[float], dim: int = 0) -> None:
        super().__init__()
        self.positions, self.vocab_size, self.uses_time = 2, 2, False
        self.odds, self.dim = nn.Parameter(torch.tensor(odds)), dim

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert z is not None
        odds = z[:, self.dim :].to(self.odds.dtype) @ self.odds
        logits = torch.stack([torch.zeros_like(odds), odds], dim=-1)
        return logits[where.nonzero()[:, 0]]


def model_of(latent: bool) -> MaskedDiffusion:
    inner = GaussianLatent(ConstantRecognizer(0.0, 0.0), dim=1) if latent else NoLatent()
    network = LabelDenoiser(list(ODDS), dim=int(latent))
    return MaskedDiffusion(network, LinearSchedule(), LabelledLatent(CLASSES, inner, shares=SHARES))


def law(odds: float) -> Tensor:
    """Of both positions, (2, 2)."""
    one = torch.tensor([0.0, odds], dtype=torch.float64).softmax(0)
    return torch.outer(one, one)


MIXTURE = sum((share * law(odds) for share, odds in zip(SHARES, ODDS, strict=True)), torch.zeros(2, 2))


@pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
@pytest.mark.parametrize(
    ("label", "guidance", "exact"),
    [(None, 1.0, MIXTURE), (2, 1.0, law(2.0)), (0, 1.0, law(-1.0)), (2, 1.5, law(3.0))],
    ids=["mixture", "2", "0", "guided"],
)
def test_samples_follow_the_law_of_their_label(latent: bool, label: int | None, guidance: float, exact: Tensor) -> None:
    for policy in ("resample", "fixed"):
        tokens = sample(model_of(latent).labelled(label, guidance), 4000, 2, seeded(1), latent_policy=policy).tokens
        assert chi_square_p_value(index_of(tokens, 2).bincount(minlength=4).numpy(), exact.flatten().numpy()) > 1e-5


def test_completions_without_a_label_have_none_and_samples_beside_them_draw_theirs() -> None:
    start = torch.tensor([[1, 2], [2, 2]]).repeat_interleave(4000, dim=0)
    tokens = sample(model_of(latent=False), start, 1, seeded(1)).tokens
    # What is known would tell the label; this denoiser does not look, and without a label its odds are 0.
    completed = tokens[:4000, 1].bincount(minlength=2).numpy()
    assert chi_square_p_value(completed, torch.tensor([0.5, 0.5]).double().numpy()) > 1e-5
    drawn = index_of(tokens[4000:], 2).bincount(minlength=4).numpy()
    assert chi_square_p_value(drawn, MIXTURE.flatten().numpy()) > 1e-5


@pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
def test_bounds_given_a_label_are_its_likelihood(latent: bool) -> None:
    x0 = torch.tensor([[1, 1], [0, 1]])
    for label, exact in ((None, MIXTURE), (1, law(0.5)), (2, law(2.0))):
        for policy in ("resample", "fixed"):
            found = step_bound(model_of(latent).labelled(label), x0, 2, 16, latent_policy=policy)
            assert found.tolist() == pytest.approx(exact[x0[:, 0], x0[:, 1]].log().tolist(), abs=1e-6)


def test_the_elbo_of_a_mixture_is_a_bound_of_it() -> None:
    x0 = torch.cartesian_prod(torch.arange(2), torch.arange(2)).repeat(2000, 1)
    found = elbo(model_of(latent=False), x0, 8, seeded(0)).view(2000, 4)
    exact = MIXTURE.flatten().log()
    error = found.std(dim=0) / 2000**0.5
    # Not above by 5 standard errors; below by what weighing labels with other masks costs.
    assert (found.mean(dim=0) <= exact + 5 * error + 1e-6).all()
    assert (found.mean(dim=0) >= exact - 0.2).all()


def network_model(dropout: float = 0.5) -> MaskedDiffusion:
    torch.manual_seed(0)
    denoiser = MlpDenoiser(3, 4, flat_settings("mlp", width=16), latent_dim=2 + CLASSES)
    recognizer = SiameseMlpRecognizer(3, 4, flat_settings("mlp", width=16), latent_dim=2)
    return MaskedDiffusion(
        denoiser, LinearSchedule(), LabelledLatent(CLASSES, GaussianLatent(recognizer, 2, particles=2), dropout)
    )


def test_guidance_of_one_is_no_guidance_bit_for_bit() -> None:
    model = network_model()
    plain, guided = (sample(model.labelled(1, *guidance), 200, 3, seeded(0)).tokens for guidance in ((), (1.0,)))
    assert torch.equal(plain, guided)
    assert not torch.equal(plain, sample(model.labelled(1, 3.0), 200, 3, seeded(0)).tokens)


def batch_of(size: int = 400) -> MaskedBatch:
    x0 = torch.randint(4, (size, 3), generator=seeded(1))
    masking = ExactCount()(size, 3, LinearSchedule(), seeded(2))
    return replace(MaskedBatch.of(x0, masking, 4), labels=torch.randint(CLASSES, (size,), generator=seeded(3)))


def test_training_hears_labels_and_drops_a_share_of_them() -> None:
    batch = batch_of()
    assert batch.labels is not None
    others = replace(batch, labels=(batch.labels + 1) % CLASSES)
    without = replace(batch, labels=None)
    for dropout, share in ((0.0, 1.0), (1.0, 0.0), (0.5, 0.5)):
        model = network_model(dropout)
        with torch.no_grad():
            first, second, third = (model(each, 1.0, seeded(4)).bound for each in (batch, others, without))
        changed = float((first != second).double().mean())
        # Of 400 coins the share lies within 5 standard deviations.
        assert abs(changed - share) <= 5 * (share * (1 - share) / 400) ** 0.5
    assert third.shape == (400,)


def test_every_parameter_learns_and_the_recognition_model_knows_the_label() -> None:
    model = network_model(0.1)
    model(batch_of(), 1.0, seeded(4)).bound.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    latent = model.latent
    assert isinstance(latent, LabelledLatent)
    assert isinstance(latent.inner, GaussianLatent)
    assert isinstance(latent.inner.recognizer, LabelledRecognizer)
    table = latent.inner.recognizer.table
    assert table.grad is not None
    assert (table.grad.abs().sum(dim=1) > 0).all()


def test_guided_samples_have_the_bound_of_what_guidance_makes_of_the_predictions() -> None:
    for latent in (False, True):
        guided = [model_of(latent).labelled(label, guidance=2.0) for label in range(CLASSES)]
        x0 = all_sequences(2, 2)
        laws = []
        for label, model in enumerate(guided):
            one = torch.tensor([0.0, 2.0 * ODDS[label]], dtype=torch.float64).softmax(0)
            law = one[x0].prod(1)
            laws.append(law)
            for steps in (1, 2):  # the predictions do not depend on what is known, so that all plans are alike
                assert_close(step_bound(model, x0, steps, 4).exp(), law, rtol=1e-5, atol=0)
        mixed = model_of(latent).labelled(None, guidance=2.0)  # labels are drawn
        expected = sum(share * law for share, law in zip(SHARES, laws, strict=True))
        assert_close(step_bound(mixed, x0, 2, 4).exp(), expected, rtol=1e-5, atol=0)
        looking = step_bound(guided[0], x0, 2, 4, sampler=Ordered("margin"))
        assert_close(looking.exp(), laws[0], rtol=1e-5, atol=0)


def test_wrong_labels_and_guidance_are_refused() -> None:
    with pytest.raises(UserError, match=r"no label 3; the model knows 0\.\.2"):
        network_model().labelled(3)
    with pytest.raises(UserError, match="guidance must be at least 0"):
        network_model().labelled(1, -1.0)
    with pytest.raises(UserError, match=r"data.labels=true"):
        MaskedDiffusion(MlpDenoiser(2, 3, flat_settings("mlp", width=8)), LinearSchedule()).labelled(1)


@pytest.mark.parametrize("latent", [False, True], ids=["mdlm", "vadd"])
def test_rows_of_which_nothing_is_known_follow_the_mixture_beside_known_ones(latent: bool) -> None:
    """With one z for all steps z is chosen by what is known: other rows must not change how a blank one is drawn.

    The chi-square test against the enumerated mixture has a false-alarm rate of 1e-5; without labels p is below 1e-30.
    """
    model = model_of(latent)
    starts = torch.full((40_000, 2), model.mask_value)
    starts[::4, 0] = 1
    options = SamplingOptions().changed({"latent_policy": "fixed", "candidates": 3, "steps": 1, "seed": 5}, model)
    drawn = draw(model, options, starts, range(len(starts))).tokens
    blank = (starts == model.mask_value).all(dim=1)
    counts = torch.bincount(index_of(drawn[blank], 2), minlength=4)
    assert chi_square_p_value(counts.numpy(), MIXTURE.flatten().numpy()) > 1e-5
    # The random numbers of a row are its own: a call without the second half draws the first half alike.
    assert draw(model, options, starts, range(64)).tokens.equal(drawn[:64])
