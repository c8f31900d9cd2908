"""What can be counted in texts without a language model: how varied they are."""

from collections.abc import Sequence

import numpy as np

from vadd.evaluation.metrics import TextMetrics
from vadd.kinds.arrays import Array


def sample_entropy(samples: Sequence[Array]) -> float:
    """The entropy, in nats, of the token counts of each sample, averaged over the samples.

    A text that repeats itself has a low one, and a judge likes it all the same: a generative perplexity means nothing
    without it.
    """
    return float(np.mean([_entropy(np.unique(tokens, return_counts=True)[1]) for tokens in samples]))


def _entropy(counts: Array) -> float:
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def distinct_n(texts: Sequence[str], n: int) -> float | None:
    """Distinct n-grams of words over all n-grams of words in all texts; None where no text has n words.

    Words are what white space parts, and no n-gram goes over the end of a text. It falls with the amount of text, so
    it compares only between equal amounts.
    """
    split = [text.split() for text in texts]
    found = [tuple(words[first : first + n]) for words in split for first in range(len(words) - n + 1)]
    return len(set(found)) / len(found) if found else None


def text_statistics(samples: Sequence[Array], texts: Sequence[str]) -> TextMetrics:
    """How varied samples are, by their own tokens (an array for each sample) and by the texts that they stand for."""
    return TextMetrics(
        sample_entropy=sample_entropy(samples),
        distinct_1=distinct_n(texts, 1),
        distinct_2=distinct_n(texts, 2),
        distinct_3=distinct_n(texts, 3),
    )
