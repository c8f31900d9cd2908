"""Text that a run was not trained on, in the sequences that the run knows; zero-shot likelihoods of whole corpora."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import get_args

import numpy as np
from torch import Tensor

from vadd.data import TextData, examples_from
from vadd.data.text.corpora import CorpusName
from vadd.data.text.documents import Documents, TextFiles, text_files
from vadd.errors import UserError
from vadd.evaluation.divergence import entropy
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.likelihood import BoundSettings, measure_bounds
from vadd.evaluation.reports import CorpusReport, FileOfTexts, ScoredCorpus, SkippedCorpus, TextMetrics
from vadd.kinds import TextKind
from vadd.kinds.arrays import Array
from vadd.progress import Progress, named, silent
from vadd.run.run import Run
from vadd.settings import Count, checked

SUFFIXES = frozenset({".txt", ".jsonl", ".csv"})
NAMED: tuple[CorpusName, ...] = tuple(name for name in get_args(CorpusName) if name not in ("files", "pydocs"))

Tokens = Callable[[str], Iterable[object]]
"""Of a text."""


def recognise(path: Path) -> CorpusName:
    """Which corpus a file or folder is a copy of, by the beginning of its name: ``wikitext2_raw_test.txt`` is wikitext.

    Anything else is plain text, ``files``.
    """
    written = path.name.lower().replace("-", "_")
    return next((name for name in NAMED if written.startswith(name)), "files")


def read_examples(run: Run, path: Path, progress: Progress = silent) -> Tensor:
    """All examples of a file, (n, N): an ``.npy`` or, for a run on text, text, which is read like the run's own."""
    if path.suffix == ".npy" or not isinstance(run.recipe.data, TextData):
        return examples_from(path)
    own = run.recipe.data.corpus
    return read_text(run, path, own if own in NAMED and own != "text8" else "files", progress)


def read_text(
    run: Run, path: Path, corpus: CorpusName, progress: Progress = silent, *, like_text8: bool = False
) -> Tensor:
    """The sequences (n, N) of a local copy of ``corpus``; ``like_text8`` in the 27 letters of text8.

    Where it is plain text, a document is what the recipe says; by default the whole file, for padded sequences a line.
    """
    data = run.recipe.data
    if not isinstance(data, TextData) or not isinstance(run.kind, TextKind):
        raise UserError(f"{run.directory.path} is not a run on text: it cannot read {path}")
    documents, field = (data.documents, data.field) if corpus in ("files", data.corpus) else (None, None)
    if corpus == "files" and documents is None:
        documents = "line" if data.wrap == "padded" else "file"
    local = {"corpus": corpus, "path": str(path), "documents": documents, "field": field}
    return data.model_copy(update=local).evaluation_text(run.kind.tokenizer, like_text8=like_text8, progress=progress)


def zero_shot(
    run: Run, corpora: Path | Sequence[Path], settings: BoundSettings, progress: Progress = silent
) -> tuple[CorpusReport, ...]:
    """The same bounds for every corpus, or all in a folder; one that the run cannot read is skipped and says why."""
    paths = corpora_in(corpora) if isinstance(corpora, Path) else corpora
    reports = tuple(_score(run, path, settings, progress) for path in paths)
    first = reports[0]
    if isinstance(first, SkippedCorpus) and all(isinstance(report, SkippedCorpus) for report in reports):
        raise UserError(f"{run.directory.path} can read nothing in {paths[0].parent}; {first.corpus}: {first.skipped}")
    return reports


def _score(run: Run, path: Path, settings: BoundSettings, progress: Progress) -> CorpusReport:
    corpus = recognise(path)
    about = {"corpus": path.name, "read_as": "plain text" if corpus == "files" else corpus}
    of_text8 = isinstance(run.recipe.data, TextData) and run.recipe.data.corpus == "text8"
    spelled = of_text8 and corpus != "text8"
    try:
        examples = read_text(run, path, corpus, progress, like_text8=spelled)
    except UserError as reason:
        return SkippedCorpus(**about, skipped=str(reason))
    likelihood = measure_bounds(run, examples, settings, named(progress, path.name))
    return ScoredCorpus(
        **about, sequences=len(examples), spelled_like="text8" if spelled else None, likelihood=likelihood
    )


def corpora_in(folder: Path) -> list[Path]:
    """Files of text and folders, sorted by name; hidden ones are left out."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}")
    paths = [
        path
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and (path.is_dir() or path.suffix in SUFFIXES)
    ]
    if not paths:
        raise UserError(f"there is no text in {folder}: a corpus is a .txt, .jsonl or .csv file, or a folder of .txt")
    return paths


def sample_entropies(samples: Sequence[Array]) -> Array:
    """The entropy, in nats, of the token counts of each sample.

    A text that repeats itself has a low one and yet a low generative perplexity, which means nothing without it.
    """
    counts = [np.unique(tokens, return_counts=True)[1] for tokens in samples]
    return np.array([entropy(count / count.sum()) for count in counts])


def ngrams(words: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[first : first + n]) for first in range(len(words) - n + 1))


def distinct_n(texts: Sequence[str], n: int) -> float | None:
    """Distinct n-grams of words over all n-grams of words in all texts; None where no text has n words.

    Words are separated by white space, and no n-gram crosses the end of a text. It falls with the amount of text, so
    it compares only between equal amounts.
    """
    found = [gram for text in texts for gram in ngrams(text.split(), n)]
    return len(set(found)) / len(found) if found else None


def text_metrics(
    samples: Sequence[Array],
    texts: Sequence[str],
    language: LanguageJudge | None = None,
    *,
    what: str = "the judge reads",
    progress: Progress = silent,
) -> TextMetrics:
    """Of samples by their own tokens (an array for each sample) and by the texts that they stand for."""
    entropies = sample_entropies(samples)
    metrics = TextMetrics(
        sample_entropy=float(entropies.mean()),
        distinct_1=distinct_n(texts, 1),
        distinct_2=distinct_n(texts, 2),
        distinct_3=distinct_n(texts, 3),
    )
    if language is None:
        return metrics
    scores = language.score(texts, what=what, progress=progress)
    perplexity, error = scores.perplexity(language.convention)
    deviations = np.stack([entropies - entropies.mean(), *scores.deviations(texts, language.convention)])
    count = len(texts)
    return metrics.changed(
        covariance=tuple(map(tuple, (np.cov(deviations) / count).tolist())) if count > 1 else None,
        gen_ppl=perplexity,
        gen_ppl_stderr=error,
        judge_bits=scores.bits_per_character(texts),
        judged_tokens=int(scores.tokens.sum()),
        empty_texts=scores.empty,
        cut_texts=scores.cut,
    )


@checked
def read_texts(path: Path, documents: Documents, field: str, limit: Count | None = None) -> list[str]:
    """The documents of a file or folder, blank ones left out."""
    texts = list(islice(TextFiles(text_files(path), documents, field), limit))
    if not texts:
        raise UserError(f"there is no text in {path}")
    return texts


def evaluate_texts(
    name: str,
    texts: Sequence[str],
    language: LanguageJudge | None,
    progress: Progress = silent,
    tokens: Tokens = str.split,
) -> FileOfTexts:
    """The entropy is of the counts of words, where the ``tokens`` of texts are not known."""
    known: dict[object, int] = {}
    numbers = [np.array([known.setdefault(token, len(known)) for token in tokens(text)]) for text in texts]
    metrics = text_metrics(numbers, texts, language, what=f"the judge reads {name}", progress=progress)
    judge = None if language is None else language.about()
    return FileOfTexts(file=name, texts=len(texts), judge=judge, metrics=metrics)
