"""Samples given conditions, completions and their probabilities against the exact conditionals of a known joint.

Chi-square tests at level 1e-5 with fixed seeds, fewer than 10.
"""

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.helpers.columns import INSIDE, SIZES, JointDenoiser, random_joint
from tests.helpers.exact import ConstantRecognizer, TableDenoiser, chi_square_p_value, quantile_nodes
from vadd.core import GaussianLatent, LinearSchedule, MaskedDiffusion
from vadd.errors import UserError
from vadd.run import tables
from vadd.run.infilling import predicted
from vadd.run.sampling import SamplingOptions, draw
from vadd.run.tables import conditioned_starts

ROWS = 2000


def joint_model() -> MaskedDiffusion:
    return MaskedDiffusion(JointDenoiser(random_joint()), LinearSchedule(), sizes=SIZES)


def settings_for(model: MaskedDiffusion, **options: str) -> SamplingOptions:
    return SamplingOptions(sampler="first-hitting").changed(options, model)


def frequencies(tokens: Tensor) -> np.ndarray:
    places = (tokens[:, None] == INSIDE).all(dim=2).long().argmax(dim=1)
    return places.bincount(minlength=len(INSIDE)).numpy()


def rows_given(model: MaskedDiffusion, shares: dict[int, np.ndarray]) -> Tensor:
    settings = settings_for(model)
    starts = conditioned_starts(model, ROWS, shares, settings)
    return draw(model, settings, starts, range(ROWS)).tokens


@pytest.mark.parametrize(
    "shares",
    [
        {1: [0.0, 1.0, 0.0]},
        {2: [1.0, 1.0, 0.0, 0.25]},
        {0: [0.5, 1.0], 2: [0.0, 0.3, 1.0, 1.0]},
        {0: [0.0, 1.0], 1: [1.0, 0.0, 0.5], 2: [0.0, 1.0, 1.0, 0.0]},
    ],
    ids=["one value", "a range", "two ranges", "all"],
)
def test_rows_given_conditions_follow_the_exact_conditional(shares: dict[int, list[float]]) -> None:
    arrays = {position: np.array(share) for position, share in shares.items()}
    exact = random_joint().flatten().numpy().copy()
    for position, share in arrays.items():
        exact *= share[INSIDE[:, position].numpy()]
    counts = frequencies(rows_given(joint_model(), arrays))
    assert chi_square_p_value(counts, exact / exact.sum()) > 1e-5


def test_completions_follow_the_exact_conditional() -> None:
    model = joint_model()
    starts = torch.tensor([[4, 1, 4]]).repeat(ROWS, 1)
    tokens = draw(model, settings_for(model), starts, range(ROWS)).tokens
    exact = (random_joint() * torch.tensor([0.0, 1.0, 0.0])[:, None]).flatten()
    assert chi_square_p_value(frequencies(tokens), (exact / exact.sum()).numpy()) > 1e-5


def test_probabilities_of_cells_are_the_exact_conditionals() -> None:
    joint = random_joint()
    found = predicted(joint_model(), torch.tensor([[4, 1, 4], [0, 1, 4]]), draws=5, seed=0)
    given_middle, given_both = joint[:, 1] / joint[:, 1].sum(), joint[0, 1] / joint[0, 1].sum()
    assert found[0, 0, :2] == pytest.approx(given_middle.sum(1).numpy())
    assert found[0, 2] == pytest.approx(given_middle.sum(0).numpy())
    assert found[1, 2] == pytest.approx(given_both.numpy())
    assert not found[:, 1].any()
    assert not found[0, 0, 2:].any()


def test_probabilities_with_a_latent_weigh_z_by_what_is_known() -> None:
    """Against a sum over quantiles of z: E_z p(known | z) mu / E_z p(known | z). 8,000 draws; tolerance 0.03, more
    than 5 standard errors of a self-normalised mean of that size.
    """
    network = TableDenoiser(3, 4, seed=5, latent=True)
    model = MaskedDiffusion(network, LinearSchedule(), GaussianLatent(ConstantRecognizer(0.0, 0.0), 1), sizes=SIZES)
    x = torch.tensor([[1, 4, 4]])
    found = predicted(model, x, draws=8_000, seed=0)
    z = quantile_nodes(2000)
    with torch.no_grad():
        blank = torch.full((2000, 3), 4)
        first = torch.zeros_like(blank, dtype=torch.bool)
        first[:, 0] = True
        weight = model.predict(blank, z, torch.ones(2000), first).softmax(-1)[:, 1]
        second = torch.zeros_like(blank, dtype=torch.bool)
        second[:, 1] = True
        mu = model.predict(x.repeat(2000, 1), z, torch.ones(2000), second).softmax(-1)
    exact = (weight[:, None] * mu).sum(0) / weight.sum()
    assert found[0, 1] == pytest.approx(exact.numpy(), abs=0.03)


def test_one_condition_with_a_latent_follows_the_mean_over_z() -> None:
    network = TableDenoiser(3, 4, seed=5, latent=True)
    model = MaskedDiffusion(network, LinearSchedule(), GaussianLatent(ConstantRecognizer(0.0, 0.0), 1), sizes=SIZES)
    share = np.array([0.2, 1.0, 0.0, 1.0])
    starts = conditioned_starts(model, ROWS, {2: share}, settings_for(model))
    where = torch.tensor([[False, False, True]]).repeat(2000, 1)
    with torch.no_grad():
        mu = model.predict(torch.full((2000, 3), 4), quantile_nodes(2000), torch.ones(2000), where).softmax(-1).mean(0)
    exact = mu.numpy() * share
    assert chi_square_p_value(starts[:, 2].bincount(minlength=4).numpy(), exact / exact.sum()) > 1e-5
    assert bool((starts[:, :2] == model.mask_value).all())


def test_the_first_rows_do_not_depend_on_how_many_there_are() -> None:
    model, shares = joint_model(), {0: np.array([0.5, 1.0]), 1: np.array([1.0, 0.0, 1.0])}
    many, few = (conditioned_starts(model, n, shares, settings_for(model)) for n in (200, 70))
    assert torch.equal(many[:70], few)


def test_conditions_that_hardly_ever_hold_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ATTEMPTS", 20)
    shares = {0: np.array([1.0, 1.0]), 1: np.array([1e-9, 1e-9, 0.0])}
    with pytest.raises(UserError, match="hardly any row of the model fulfils all conditions"):
        conditioned_starts(joint_model(), 64, shares, settings_for(joint_model()))
