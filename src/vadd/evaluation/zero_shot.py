"""Text that a run was not trained on, in the sequences that the run knows; zero-shot likelihoods of whole corpora."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from torch import Tensor

from vadd.data import TextData, examples_from
from vadd.data.text.corpora import CorpusName
from vadd.errors import UserError
from vadd.evaluation.likelihood import BoundSettings, measure_bounds
from vadd.evaluation.reports import CorpusReport, ScoredCorpus, SkippedCorpus
from vadd.kinds import TextKind
from vadd.progress import Progress, named, silent
from vadd.run.run import Run

SUFFIXES = frozenset({".txt", ".jsonl", ".csv"})
NAMED: tuple[CorpusName, ...] = tuple(name for name in get_args(CorpusName) if name not in ("files", "pydocs"))


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
