"""The standard errors of a judge's numbers at equal entropy: where they are known, and against repeated draws."""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest

from tests.helpers.reports import run_report
from vadd.evaluation.language_models import CONVENTIONS, Convention, LanguageJudge, Scores
from vadd.evaluation.reports import AtEntropy, AtTemperature, TextMetrics
from vadd.evaluation.zero_shot import sample_entropies, text_metrics
from vadd.kinds.arrays import Array

LETTERS = 20
Drawn = tuple[list[Array], list[str], Scores]
"""Tokens, texts and what a judge gives them."""


class Known:
    """A judge whose scores are given."""

    def __init__(self, scores: Scores, convention: Convention = "corpus") -> None:
        self.scores, self.convention = scores, convention

    def score(self, texts: Sequence[str], **_: object) -> Scores:
        return self.scores


def draw(rng: np.random.Generator, values: int, count: int, slope: float, noise: float) -> Drawn:
    """Texts whose nats grow with the entropy of their tokens; a smaller number of values is a lower temperature."""
    samples = list(rng.integers(values, size=(count, LETTERS)))
    tokens = rng.integers(5, 30, count)
    texts = ["x" * int(letters) for letters in 3 * tokens + rng.integers(0, 9, count)]
    nats = tokens * (1 + slope * sample_entropies(samples) + noise * rng.normal(size=count))
    return samples, texts, Scores(nats, tokens, 0)


def measured(drawn: Drawn, convention: Convention = "corpus") -> TextMetrics:
    samples, texts, scores = drawn
    return text_metrics(samples, texts, cast(LanguageJudge, Known(scores, convention)))


def matched(points: Sequence[TextMetrics], target: TextMetrics) -> AtEntropy:
    curve = [AtTemperature(temperature=number, steps=1, metrics=point) for number, point in enumerate(points)]
    return run_report("mdlm", results=(), temperatures=tuple(curve)).at_entropy(1, target)


def test_where_every_text_lies_on_the_line_only_the_target_has_an_error() -> None:
    """One token and one letter a text: its nats are 1 + 2 H, so the curve is ln(perplexity) = 1 + 2 H without error."""
    rng = np.random.default_rng(0)

    def exact(values: int, count: int) -> TextMetrics:
        samples = list(rng.integers(values, size=(count, LETTERS)))
        ones = np.ones(count, dtype=np.int64)
        return measured((samples, ["x"] * count, Scores(1 + 2 * sample_entropies(samples), ones, 0)))

    target = exact(6, 50)
    found = matched([exact(3, 40), exact(12, 30)], target)
    assert target.covariance is not None
    error = 2 * math.sqrt(target.covariance[0][0])
    perplexity = math.exp(1 + 2 * target.sample_entropy)
    assert found.gen_ppl == pytest.approx(perplexity)
    assert found.gen_ppl_stderr == pytest.approx(perplexity * error, rel=1e-6)
    assert found.judge_bits == pytest.approx((1 + 2 * target.sample_entropy) / math.log(2))
    assert found.judge_bits_stderr == pytest.approx(error / math.log(2), rel=1e-6)


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_errors_are_those_of_repeated_draws(convention: Convention) -> None:
    """250 repetitions: the variance of repeated numbers has a relative error of 9%. Four of these are 36%: by chance
    one of the two numbers is beyond it for about 1 seed of 5,000.
    """
    rng, found = np.random.default_rng(1), []
    for _ in range(250):
        points = [measured(draw(rng, values, 40, 0.3, 0.2), convention) for values in (4, 12)]
        found.append(matched(points, measured(draw(rng, 7, 60, 0, 0), convention)))
    for numbers, errors in (
        ([math.log(each.gen_ppl or 0) for each in found], [each.gen_ppl_stderr / each.gen_ppl for each in found]),  # type: ignore[operator]
        ([each.judge_bits or 0 for each in found], [each.judge_bits_stderr or 0 for each in found]),
    ):
        ratio = np.mean(np.square(errors)) / np.var(numbers, ddof=1)
        print("variance stated over variance seen", ratio)
        assert 1 / 1.36 < ratio < 1.36


def test_errors_of_bits_and_perplexity_are_those_of_the_numbers_themselves() -> None:
    one = measured(draw(np.random.default_rng(2), 5, 30, 0.3, 0.2))
    assert one.covariance is not None
    assert one.gen_ppl is not None
    assert one.gen_ppl_stderr == pytest.approx(one.gen_ppl * math.sqrt(one.covariance[1][1]))
    texts = one.changed(covariance=None)
    assert matched([texts, texts.changed(sample_entropy=9.0)], one).judge_bits_stderr is None
    few = measured(draw(np.random.default_rng(3), 5, 1, 0.3, 0.2))
    assert few.covariance is None
    assert few.judge_bits_stderr is None


def test_texts_that_were_not_scored_add_nothing() -> None:
    _, texts, scores = draw(np.random.default_rng(4), 5, 30, 0.3, 0.2)
    scores.nats[:5], scores.tokens[:5] = 0, 0
    for convention in CONVENTIONS:
        perplexity, bits = scores.deviations(texts, convention)
        assert [*perplexity[:5], *bits[:5]] == [0] * 10
        assert abs(perplexity.mean()) < 1e-12
    cut = Scores(scores.nats, scores.tokens, cut=1)
    assert not cut.deviations(texts, "corpus")[1].any()
