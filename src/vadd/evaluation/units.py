"""Log-likelihoods of examples in every unit people use, with standard errors."""

import math
from typing import Any

import torch
from torch import Tensor

from vadd.errors import UserError
from vadd.evaluation.reports import LARGEST_EXPONENT, NegativeLogLikelihood


def negative_log_likelihood(
    log_likelihood: Tensor,
    positions: int | Tensor,
    *,
    log_truth: Tensor | None = None,
    characters: int | None = None,
    **facts: Any,
) -> NegativeLogLikelihood:
    """Summarise the log-likelihoods (n,) of n examples. ``positions`` is how many positions are scored: the same number
    in every example, or one number for each (n,); ``facts`` are the other fields.
    """
    counts = torch.as_tensor(positions).expand(len(log_likelihood)).double()
    possible = log_likelihood.isfinite()
    if impossible := int((~possible).sum()):
        facts |= {"impossible": impossible, "nats_of_possible": float(-log_likelihood[possible].mean())}
        log_truth = None
    nats, stderr = mean_and_error(-log_likelihood)
    each = float(counts.mean())
    if each == 0:
        raise UserError("the examples hold nothing but pads, which are not scored")
    per_position = nats / each
    perplexity, perplexity_stderr = perplexity_of(-log_likelihood, counts)
    excess, excess_stderr = (None, None) if log_truth is None else mean_and_error(log_truth - log_likelihood)
    return NegativeLogLikelihood(
        nats=nats,
        stderr=stderr,
        bpd=per_position / math.log(2),
        perplexity=perplexity,
        perplexity_stderr=perplexity_stderr,
        examples=len(log_likelihood),
        scored=int(counts.sum()),
        bits_per_character=nats * len(log_likelihood) / math.log(2) / characters if characters else None,
        excess=excess,
        excess_stderr=excess_stderr,
        **facts,
    )


def perplexity_of(nats: Tensor, counts: Tensor) -> tuple[float | None, float | None]:
    """exp(sum of nats / sum of counts) and its standard error; None where it is beyond a float."""
    each = float(counts.mean())
    mean = float(nats.mean()) / each
    if mean >= LARGEST_EXPONENT:
        return None, None
    # A ratio of two means: its error is that of what each example adds beyond its share.
    _, beyond = mean_and_error(nats - mean * counts)
    return math.exp(mean), None if beyond is None else math.exp(mean) * beyond / each


def mean_and_error(values: Tensor) -> tuple[float, float | None]:
    """The mean and its standard error; the error is None for a single value."""
    mean = float(values.mean())
    error = float(values.std()) / math.sqrt(len(values)) if len(values) > 1 and math.isfinite(mean) else None
    return mean, error
