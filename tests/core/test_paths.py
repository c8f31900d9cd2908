"""Likelihoods of samplers that look or mask again, against the enumeration of everything they may draw.

Exact ones to 1e-9. Estimates of p(x0): their mean is p(x0) and the mean of their logarithm does not exceed log p(x0),
each within 5 standard errors (6e-7 and 3e-7 by chance); there are fewer than 700 comparisons, one for each x0, so if
the seeds are ever changed a correct package fails one with probability below 7e-4. Frequencies of samples: chi-square
at level 1e-5.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.bounds import PriorGrid, standard_error
from tests.helpers.exact import (
    LINEAR,
    SQUARE,
    ConstantRecognizer,
    TableDenoiser,
    TableRecognizer,
    all_sequences,
    index_of,
    seeded,
)
from tests.helpers.paths import Enumeration, Rule, Sharpen, as_it_is, nucleus, surest, tempered, top, within_budget
from tests.helpers.plans import ancestral, in_order, p_value, planned_law
from vadd.core import (
    CodedLatent,
    EntropyBounded,
    GaussianLatent,
    InOrder,
    MaskedDiffusion,
    Ordered,
    Particles,
    Remask,
    Sampler,
    TokenSampler,
    sample,
    step_bound,
)
from vadd.core.samplers import AdaptiveSampler
from vadd.core.sampling import Drawing, LatentPolicy
from vadd.core.subsets import drawn_subset, log_subset_sums
from vadd.errors import UserError

RULES: dict[str, tuple[Sampler, Rule]] = {
    "margin": (Ordered("margin"), surest("margin")),
    "entropy": (Ordered("entropy"), surest("entropy")),
    "entropy-bounded 0": (EntropyBounded(0.0), within_budget(0.0)),
    "entropy-bounded 1": (EntropyBounded(1.0), within_budget(1.0)),
}
CONFIDENCE = (Ordered("confidence"), surest("confidence"))


def three(mu: np.ndarray) -> np.ndarray:
    return nucleus(0.7)(top(2)(tempered(1.7)(mu)))


LAWS: dict[str, tuple[TokenSampler, Sharpen]] = {
    "as it is": (TokenSampler(), as_it_is),
    "temperature 0.6": (TokenSampler(temperature=0.6), tempered(0.6)),
    "temperature 1.7": (TokenSampler(temperature=1.7), tempered(1.7)),
    "temperature 0": (TokenSampler(temperature=0), tempered(0)),
    "top-p 0.7": (TokenSampler(top_p=0.7), nucleus(0.7)),
    "top-k 2": (TokenSampler(top_k=2), top(2)),
    "all three": (TokenSampler(temperature=1.7, top_k=2, top_p=0.7), three),
}
QUANTILES = PriorGrid.quantiles(300)


def mdlm(positions: int, values: int, seed: int, *, timed: bool = True) -> tuple[TableDenoiser, MaskedDiffusion]:
    denoiser = TableDenoiser(positions, values, seed=seed, timed=timed)
    return denoiser, MaskedDiffusion(denoiser, LINEAR.schedule)


def estimates(model: MaskedDiffusion, steps: int, particles: Particles, repeats: int, **how: Any) -> Tensor:
    """Draws of the bound of every x0: (repeats, V ** N)."""
    x0 = all_sequences(model.positions, model.vocab_size)
    return step_bound(model, x0.repeat(repeats, 1), steps, particles, seeded(steps), **how).view(repeats, -1)


def check_unbiased(draws: Tensor, law: Tensor) -> None:
    """And from below in the logarithm."""
    beyond = (draws.exp().mean(0) - law).abs() - 5 * standard_error(draws.exp())
    assert float(beyond.max()) < 1e-9
    possible = draws.isfinite().all(0)  # else the mean of the logarithms is minus infinity
    if possible.any():
        over = draws[:, possible].mean(0) - law[possible].log() - 5 * standard_error(draws[:, possible])
        assert float(over.max()) < 1e-9


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("positions", "values"), [(3, 3), (4, 2)])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_without_a_latent_the_likelihood_of_a_rule_without_chance_is_exact(
    name: str, positions: int, values: int, steps: int
) -> None:
    sampler, rule = RULES[name]
    denoiser, model = mdlm(positions, values, seed=steps)
    found = estimates(model, steps, Particles(1), 1, sampler=sampler)[0].exp()
    assert float(found.sum()) == pytest.approx(1, abs=1e-9)
    assert_close(found, Enumeration(denoiser).looking(rule, steps), rtol=0, atol=1e-9)
    assert model.likelihood_kind(steps, Drawing(sampler=sampler)).kind == "exact"


@pytest.mark.parametrize("name", [*RULES, "confidence"])
def test_it_takes_one_pass_a_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all sequences together; by confidence of all paths."""
    sampler, _ = CONFIDENCE if name == "confidence" else RULES[name]
    denoiser, model = mdlm(4, 2, seed=7)
    passes: list[int] = []
    inner = denoiser.forward

    def watched(xt: Tensor, *rest: Any) -> Tensor:
        passes.append(len(xt))
        return inner(xt, *rest)

    monkeypatch.setattr(denoiser, "forward", watched)
    estimates(model, 3, Particles(5), 1, sampler=sampler)
    assert 0 < len(passes) <= 3
    assert max(passes) <= 16 * (5 if name == "confidence" else 1)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_from_left_to_right_there_is_one_plan(steps: int) -> None:
    denoiser, model = mdlm(4, 2, seed=90)
    found = estimates(model, steps, Particles(1), 1, sampler=InOrder())[0].exp()
    assert_close(found, planned_law(denoiser, LINEAR, in_order(steps)), rtol=0, atol=1e-7)  # times in float32
    assert model.likelihood_kind(steps, Drawing(sampler=InOrder())).kind == "exact"


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ["margin", "confidence"])
def test_values_that_are_never_drawn_have_probability_zero(law: str, name: str) -> None:
    """By confidence the order follows the network's own probabilities, also of values drawn otherwise."""
    token_sampler, sharpen = LAWS[law]
    sampler, rule = CONFIDENCE if name == "confidence" else RULES[name]
    denoiser, model = mdlm(3, 3, seed=11, timed=False)
    expected = Enumeration(denoiser, sharpen).looking(rule, 2)
    how = Drawing(sampler=sampler, token_sampler=token_sampler)
    kind = model.likelihood_kind(2, how).kind
    if kind == "exact":
        found = estimates(model, 2, Particles(1), 1, sampler=sampler, token_sampler=token_sampler)[0]
        assert_close(found.exp(), expected, rtol=0, atol=1e-9)
        assert ((found == -math.inf) == (expected == 0)).all()
    else:
        assert name == "confidence"
        check_unbiased(estimates(model, 2, Particles(2), 400, sampler=sampler, token_sampler=token_sampler), expected)
    assert kind == ("bound" if name == "confidence" and token_sampler.temperature else "exact")


@pytest.mark.parametrize(("positions", "values", "steps"), [(3, 3, 2), (3, 3, 3), (4, 2, 2), (4, 2, 3)])
def test_by_confidence_the_mean_over_orders_is_the_likelihood(positions: int, values: int, steps: int) -> None:
    denoiser, model = mdlm(positions, values, seed=20 + steps, timed=False)
    law = Enumeration(denoiser).looking(CONFIDENCE[1], steps)
    draws = {count: estimates(model, steps, Particles(count), 500, sampler=CONFIDENCE[0]) for count in (1, 20)}
    check_unbiased(draws[20], law)  # of single paths 500 would miss the rare ones
    gaps = {count: float((law.log() - found.mean(0)).mean()) for count, found in draws.items()}
    assert 0 < gaps[20] < gaps[1] / 4


@pytest.mark.parametrize("policy", ["resample", "fixed"])
@pytest.mark.parametrize("name", ["margin", "confidence", "remask"])
def test_a_latent_is_summed_by_particles(name: str, policy: LatentPolicy) -> None:
    denoiser = TableDenoiser(2, 3, seed=5, latent=True, timed=True)
    latent = GaussianLatent(TableRecognizer(2, 3, seed=6), dim=1)
    model = MaskedDiffusion(denoiser, LINEAR.schedule, latent)
    enumeration = Enumeration(denoiser, prior=QUANTILES, fixed_z=policy == "fixed")
    if name == "remask":
        sampler: Sampler = Remask("rescaled", 0.6)
        law = enumeration.remasking(LINEAR, 3, "rescaled", 0.6)
    else:
        sampler, rule = CONFIDENCE if name == "confidence" else RULES[name]
        law = enumeration.looking(rule, 2)
    steps = 3 if name == "remask" else 2
    few, many = (
        estimates(model, steps, Particles(count), 600, sampler=sampler, latent_policy=policy) for count in (3, 30)
    )
    check_unbiased(few, law)
    check_unbiased(many, law)
    gap, smaller = (float((law.log() - found.mean(0)).mean()) for found in (few, many))
    assert 0 < smaller < gap / 2
    how = Drawing(sampler=sampler, latent_policy=policy)
    assert model.likelihood_kind(steps, how).kind == "bound"


@pytest.mark.parametrize("proposals", [("prior",), ("recognition",), ("revealed", "prior")])
def test_every_proposal_is_unbiased(proposals: Any) -> None:
    denoiser = TableDenoiser(2, 2, seed=8, latent=True)
    recognizer = ConstantRecognizer(0.3, 0.1)  # wider than the prior: else weights may have no variance
    model = MaskedDiffusion(denoiser, LINEAR.schedule, GaussianLatent(recognizer, dim=1))
    law = Enumeration(denoiser, prior=QUANTILES).looking(RULES["entropy"][1], 2)
    check_unbiased(estimates(model, 2, Particles(4, proposals), 800, sampler=Ordered("entropy")), law)


class CodedTable(TableDenoiser):
    """The one-hot code as the number that bends the logits."""

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert z is not None
        return super().forward(xt, z.double() @ torch.tensor([[-0.7], [0.2], [0.9]], dtype=torch.float64), t, where)


CODES = PriorGrid(torch.eye(3), torch.tensor([0.0, 1.0, -0.5], dtype=torch.float64).softmax(0))


@pytest.mark.parametrize("policy", ["resample", "fixed"])
@pytest.mark.parametrize("name", ["margin", "confidence"])
def test_codes_are_summed_exactly_for_one_code_and_drawn_for_new_ones(name: str, policy: LatentPolicy) -> None:
    denoiser, latent = CodedTable(3, 2, seed=9, latent=True), CodedLatent(3)
    with torch.no_grad():
        latent.logits.copy_(torch.tensor([0.0, 1.0, -0.5]))
    model = MaskedDiffusion(denoiser, LINEAR.schedule, latent)
    sampler, rule = CONFIDENCE if name == "confidence" else RULES[name]
    law = Enumeration(denoiser, prior=CODES, fixed_z=policy == "fixed").looking(rule, 2)
    draws = estimates(model, 2, Particles(5), 300, sampler=sampler, latent_policy=policy)
    if name == "margin" and policy == "fixed":
        assert_close(draws.exp(), law.expand_as(draws), rtol=0, atol=1e-7)  # the codes' logits are float32
    else:
        check_unbiased(draws, law)
    exact = name == "margin" and policy == "fixed"
    how = Drawing(sampler=sampler, latent_policy=policy)
    assert model.likelihood_kind(2, how).kind == ("exact" if exact else "bound")


@pytest.mark.parametrize(("rule", "eta"), [("capped", 0.3), ("rescaled", 0.7), ("rescaled", 1.0), ("capped", 0.0)])
@pytest.mark.parametrize("steps", [2, 4])
def test_remasking_counts_what_is_revealed_for_the_last_time(rule: Any, eta: float, steps: int) -> None:
    denoiser = TableDenoiser(3, 2, seed=30, timed=True)
    model = MaskedDiffusion(denoiser, SQUARE.schedule)
    law = Enumeration(denoiser).remasking(SQUARE, steps, rule, eta)
    assert float(law.sum()) == pytest.approx(1)
    draws = {count: estimates(model, steps, Particles(count), 600, sampler=Remask(rule, eta)) for count in (1, 16)}
    for found in draws.values():
        check_unbiased(found, law)
    gaps = {count: float((law.log() - found.mean(0)).mean()) for count, found in draws.items()}
    assert 0 < gaps[16] < gaps[1] / 4


def test_remasking_draws_from_the_law_of_its_values() -> None:
    denoiser, model = mdlm(3, 3, seed=31)
    law = Enumeration(denoiser, nucleus(0.8)).remasking(LINEAR, 3, "rescaled", 0.8)
    how = {"sampler": Remask("rescaled", 0.8), "token_sampler": TokenSampler(top_p=0.8)}
    check_unbiased(estimates(model, 3, Particles(4), 400, **how), law)


@pytest.mark.parametrize("law", ["temperature 0.6", "top-p 0.7"])
def test_plans_have_the_bound_of_the_law_that_is_drawn(law: str) -> None:
    token_sampler, sharpen = LAWS[law]
    denoiser = TableDenoiser(2, 3, seed=40)

    class Sharpened(TableDenoiser):
        def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
            mu = super().forward(xt, z, t, where).detach().softmax(-1)
            return torch.from_numpy(sharpen(mu.numpy())).log()

    expected = planned_law(Sharpened(2, 3, seed=40), LINEAR, ancestral([0, 0.5, 1]))
    model = MaskedDiffusion(denoiser, LINEAR.schedule)
    check_unbiased(estimates(model, 2, Particles(1), 600, token_sampler=token_sampler), expected)
    in_one = estimates(model, 1, Particles(1), 1, token_sampler=token_sampler)[0]
    assert_close(in_one.exp(), Enumeration(denoiser, sharpen).looking(RULES["margin"][1], 1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["margin", "confidence", "remask"])
def test_samples_follow_the_enumerated_law(name: str) -> None:
    denoiser, model = mdlm(3, 2, seed=50)
    if name == "remask":
        sampler: Sampler = Remask("rescaled", 0.7)
        law = Enumeration(denoiser).remasking(LINEAR, 3, "rescaled", 0.7)
    else:
        sampler, rule = CONFIDENCE if name == "confidence" else RULES[name]
        law = Enumeration(denoiser).looking(rule, 3)
    assert p_value(sample(model, 20_000, 3, seeded(1), sampler=sampler).tokens, law, 2) > 1e-5


@pytest.mark.parametrize("sampler", [Ordered("margin"), Ordered("confidence"), Remask("rescaled", 0.5)], ids=repr)
def test_pads_are_given_and_unknown_values_stay_hidden(sampler: Sampler) -> None:
    """With pads as the only law of their positions the likelihood of the rest sums to 1; so it does where a value is
    not known.
    """
    denoiser = TableDenoiser(3, 3, seed=60)
    padded = MaskedDiffusion(denoiser, LINEAR.schedule, pad=2)
    x0 = torch.tensor([[a, b, 2] for a in range(2) for b in range(2)])
    found = step_bound(padded, x0.repeat(400, 1), 2, 8, seeded(0), sampler=sampler).view(400, -1)
    every = step_bound(padded.scoring_pads(), x0.repeat(400, 1), 2, 8, seeded(0), sampler=sampler).view(400, -1)
    assert (found.mean(0) > every.mean(0)).all()
    unknown = MaskedDiffusion(denoiser, LINEAR.schedule, unknowns=True)
    gaps = torch.cat([all_sequences(2, 3), torch.full((9, 1), 3)], dim=1)
    total = step_bound(unknown, gaps.repeat(400, 1), 2, 8, seeded(0), sampler=sampler).view(400, -1).exp()
    assert float(total.mean(0).sum()) == pytest.approx(1, abs=5 * float(standard_error(total.sum(1)[:, None])) + 1e-9)


def test_an_order_by_values_of_ones_own_has_no_bound_and_one_without_has() -> None:
    class Backwards(AdaptiveSampler):
        def uncertainty(self, logits: Tensor, drawn: Tensor) -> Tensor:
            return logits.amax(dim=-1)

        def revealed(self, step: int, where: Tensor, uncertainty: Tensor) -> Tensor:
            return Ordered("margin").revealed(step, where, uncertainty)

    class Known(Backwards):
        looks_at_values = False

    _, model = mdlm(3, 2, seed=70)
    with pytest.raises(UserError, match=r"for the sampler Backwards: its order depends on values .*; choose from"):
        estimates(model, 2, Particles(1), 1, sampler=Backwards())
    assert float(estimates(model, 3, Particles(1), 1, sampler=Known()).exp().sum()) == pytest.approx(1)
    with pytest.raises(UserError, match="draws in float32 have no law"):
        estimates(model, 2, Particles(1), 1, token_sampler=TokenSampler(precision="float32"))


def test_parts_and_equal_predictions_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all predictions are equal, positions go from left to right, in the sampler as in the likelihood."""
    denoiser, model = mdlm(4, 2, seed=80)
    x0 = all_sequences(4, 2)
    whole = step_bound(model, x0, 2, 1, sampler=Ordered("margin"))
    with monkeypatch.context() as patched:
        patched.setattr("vadd.core.paths.AT_ONCE", 32)
        assert torch.equal(step_bound(model, x0, 2, 1, sampler=Ordered("margin")), whole)
    with torch.no_grad():
        for table in (denoiser.base, denoiser.slope):
            table.copy_(table[:, :1, :].expand_as(table))
    law = Enumeration(denoiser).looking(CONFIDENCE[1], 2)
    check_unbiased(estimates(model, 2, Particles(3), 300, sampler=CONFIDENCE[0]), law)
    exact = Enumeration(denoiser).looking(RULES["margin"][1], 2)
    assert_close(step_bound(model, x0, 2, 1, sampler=Ordered("margin")).exp(), exact, rtol=0, atol=1e-9)


def test_subsets_against_all_of_them() -> None:
    """Sums by hand for every m; draws by chi-square at level 1e-5."""
    generator, length, count = seeded(3), 5, 3
    take = torch.rand(1, length, generator=generator, dtype=torch.float64)
    skip = torch.rand(1, length, length, generator=generator, dtype=torch.float64)
    chosen = [row for row in all_sequences(length, 2).bool() if int(row.sum()) == count]

    def weight(row: Tensor) -> tuple[int, float]:
        last = int(row.nonzero().max())
        return last, float(torch.where(row, take[0], skip[0, :, last]).prod())

    expected = torch.zeros(length, dtype=torch.float64)
    for row in chosen:
        last, value = weight(row)
        expected[last] += value
    assert_close(log_subset_sums(take.log(), skip.log(), torch.tensor([count])).exp()[0], expected)
    last, n = 4, 20_000
    skips, uniforms = skip[:, :, last].log().expand(n, -1), torch.rand(n, length, generator=generator).double()
    drawn = drawn_subset(take.log().expand(n, -1), skips, torch.full((n,), last), torch.full((n,), count), uniforms)
    law = torch.zeros(2**length, dtype=torch.float64)
    for row in chosen:
        if int(row.nonzero().max()) == last:
            law[index_of(row[None].long(), 2)] = weight(row)[1] / expected[last]
    assert p_value(drawn.long(), law, 2) > 1e-5
