"""Metrics of texts: how varied they are and, with a judge model, how probable it finds them."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from vadd.data.text.documents import Documents, TextFiles, text_files
from vadd.errors import UserError
from vadd.evaluation.divergence import entropy
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.reports import FileOfTexts, TextMetrics
from vadd.kinds.arrays import Array
from vadd.progress import Progress, silent


def sample_entropy(samples: Sequence[Array]) -> float:
    """The entropy, in nats, of the token counts of each sample, averaged over the samples.

    A text that repeats itself has a low one and yet a low generative perplexity, which means nothing without it.
    """
    counts = [np.unique(tokens, return_counts=True)[1] for tokens in samples]
    return float(np.mean([entropy(count / count.sum()) for count in counts]))


def distinct_n(texts: Sequence[str], n: int) -> float | None:
    """Distinct n-grams of words over all n-grams of words in all texts; None where no text has n words.

    Words are separated by white space, and no n-gram crosses the end of a text. It falls with the amount of text, so
    it compares only between equal amounts.
    """
    split = [text.split() for text in texts]
    ngrams = [tuple(words[first : first + n]) for words in split for first in range(len(words) - n + 1)]
    return len(set(ngrams)) / len(ngrams) if ngrams else None


def text_metrics(
    samples: Sequence[Array],
    texts: Sequence[str],
    language: LanguageJudge | None = None,
    *,
    what: str = "the judge reads",
    progress: Progress = silent,
) -> TextMetrics:
    """Of samples by their own tokens (an array for each sample) and by the texts that they stand for."""
    metrics = TextMetrics(
        sample_entropy=sample_entropy(samples),
        distinct_1=distinct_n(texts, 1),
        distinct_2=distinct_n(texts, 2),
        distinct_3=distinct_n(texts, 3),
    )
    if language is None:
        return metrics
    scores = language.score(texts, what=what, progress=progress)
    perplexity, error = scores.perplexity(language.convention)
    return metrics.changed(
        gen_ppl=perplexity,
        gen_ppl_stderr=error,
        judge_bits=scores.bits_per_character(texts),
        judged_tokens=int(scores.tokens.sum()),
        empty_texts=scores.empty,
        cut_texts=scores.cut,
    )


def read_texts(path: Path, documents: Documents, field: str, limit: int | None = None) -> list[str]:
    """The documents of a file or folder, blank ones left out."""
    texts = list(islice(TextFiles(text_files(path), documents, field), limit))
    if not texts:
        raise UserError(f"there is no text in {path}")
    return texts


def evaluate_texts(
    name: str, texts: Sequence[str], language: LanguageJudge | None, progress: Progress = silent
) -> FileOfTexts:
    """The entropy is of the counts of words: the tokens of texts from elsewhere are not known."""
    known: dict[str, int] = {}
    words = [np.array([known.setdefault(word, len(known)) for word in text.split()]) for text in texts]
    metrics = text_metrics(words, texts, language, what=f"the judge reads {name}", progress=progress)
    judge = None if language is None else language.about()
    return FileOfTexts(file=name, texts=len(texts), judge=judge, metrics=metrics)
