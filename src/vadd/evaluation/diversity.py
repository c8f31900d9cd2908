"""Whether texts repeat themselves or copy, and two controls that a good number must not be fooled by."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from vadd.errors import UserError
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.reports import PERIODIC, REAL, TRIGRAM, AgainstSource, FileOfTexts
from vadd.evaluation.text_features import WORDS, TextFeatures
from vadd.evaluation.two_samples import energy_test, mauve
from vadd.evaluation.zero_shot import Tokens, evaluate_texts, ngrams
from vadd.progress import Progress, silent

REPEATED, COPIED, FEWEST = 4, 8, 10
Words = tuple[str, ...]


def repetition(texts: Sequence[str], n: int = REPEATED) -> float | None:
    """The share of n-grams of words that stood earlier in the same text; None where no text has n words.

    >>> repetition(["a b a b a"], 2)
    0.5
    """
    each = [Counter(ngrams(text.split(), n)) for text in texts]
    total = sum(counts.total() for counts in each)
    return sum(counts.total() - len(counts) for counts in each) / total if total else None


def copied(texts: Sequence[str], source: Sequence[str], n: int = COPIED) -> float | None:
    """The share of n-grams of words that stand in a ``source`` text; None where no text has n words.

    >>> copied(["the cat sat"], ["and the cat ran"], 2)
    0.5
    """
    known = {hash(gram) for text in source for gram in ngrams(text.split(), n)}  # a set of words would be far larger
    found = [hash(gram) in known for text in texts for gram in ngrams(text.split(), n)]
    return float(np.mean(found)) if found else None


def periodic_texts(source: Sequence[str], count: int, seed: int = 0) -> list[str]:
    """Control 1: the most frequent words, in one order again and again, as many as give the entropy of the words of a
    real text. A language model that reads it soon knows what comes next.
    """
    words = _words(source)
    entropies = []
    for text in words:
        shares = np.array(list(Counter(text).values())) / len(text)
        entropies.append(-np.sum(shares * np.log(shares)))
    frequent = Counter(word for text in words for word in text).most_common(max(1, round(np.exp(np.mean(entropies)))))
    rng, listed = np.random.default_rng(seed), [word for word, _ in frequent]
    found = []
    for text in _chosen(words, count, rng):
        first = int(rng.integers(len(listed)))
        found.append(" ".join(listed[(first + i) % len(listed)] for i in range(len(text))))
    return found


def trigram_texts(source: Sequence[str], count: int, seed: int = 0) -> list[str]:
    """Control 2: words drawn given the two before them, as often as in the source; texts are as long as there."""
    words = _words(source)
    following: dict[Words, list[str]] = defaultdict(list)
    starts = [tuple(text[:2]) for text in words]
    for text in words:
        for n in (2, 3):
            for gram in ngrams(text, n):
                following[gram[:-1]].append(gram[-1])
    rng, every = np.random.default_rng(seed), [word for text in words for word in text]
    found = []
    for text in _chosen(words, count, rng):
        made = list(starts[int(rng.integers(len(starts)))])
        while len(made) < len(text):
            # Where two words end all their texts, one is enough, or none.
            after = following.get(tuple(made[-2:])) or following.get(tuple(made[-1:])) or every
            made.append(after[int(rng.integers(len(after)))])
        found.append(" ".join(made[: len(text)]))
    return found


def with_controls(files: Mapping[str, Sequence[str]], source: Sequence[str], seed: int = 0) -> dict[str, list[str]]:
    """The files, two controls made of the source, and source texts, which say what to expect."""
    count = max(len(texts) for texts in files.values())
    added = {PERIODIC: periodic_texts(source, count, seed), TRIGRAM: trigram_texts(source, count, seed)}
    real = _shuffled(source, seed)[: max(1, min(count, len(source) // 2))]
    return {name: list(texts) for name, texts in files.items()} | added | {REAL: real}


def against(
    parts: Mapping[str, Sequence[str]], source: Sequence[str], features: TextFeatures = WORDS, seed: int = 0
) -> dict[str, AgainstSource]:
    """Every part of :func:`with_controls` beside other source texts, equally many on each side: so the real texts have
    the floor.
    """
    left = _shuffled(source, seed)[len(parts[REAL]) :]
    count = min(len(left), *map(len, parts.values()))
    if count < FEWEST:
        raise UserError(f"a comparison takes at least {FEWEST} texts of each file and twice as many of the source")
    chosen = {name: _shuffled(texts, seed)[:count] for name, texts in parts.items()}
    reference, *vectors = features.of([left[:count], *chosen.values()], left)
    found = {}
    for (name, texts), those in zip(parts.items(), vectors, strict=True):
        energy = energy_test(those, reference, seed=seed)
        found[name] = AgainstSource(
            features=features.name,
            compared=count,
            repeated=repetition(texts),
            copied=copied(texts, left if name == REAL else source),
            energy=energy.distance,
            energy_p=energy.p_value,
            mauve=mauve(those, reference, seed=seed),
        )
    return found


def beside_source(
    files: Mapping[str, Sequence[str]],
    source: Sequence[str],
    language: LanguageJudge | None,
    features: TextFeatures = WORDS,
    progress: Progress = silent,
    tokens: Tokens = str.split,
) -> list[FileOfTexts]:
    """Every number about the files, the controls and the texts of the source."""
    parts = with_controls(files, source)
    found = against(parts, source, features)
    return [
        evaluate_texts(name, texts, language, progress, tokens).changed(against=found[name])
        for name, texts in parts.items()
    ]


def _shuffled(texts: Sequence[str], seed: int) -> list[str]:
    return [texts[int(number)] for number in np.random.default_rng(seed).permutation(len(texts))]


def _words(source: Sequence[str]) -> list[list[str]]:
    words = [split for text in source if (split := text.split())]
    if not words:
        raise UserError("there are no words in the source")
    return words


def _chosen(words: Sequence[list[str]], count: int, rng: np.random.Generator) -> list[list[str]]:
    """Real texts at random, whose lengths the control has."""
    return [words[int(number)] for number in rng.integers(len(words), size=count)]
