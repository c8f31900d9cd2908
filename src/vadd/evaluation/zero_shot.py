"""Zero-shot: how well a run on text predicts corpora that it has not learnt from."""

from collections.abc import Sequence
from pathlib import Path

from vadd.errors import UserError
from vadd.evaluation.likelihood import BoundSettings, measure_bounds
from vadd.evaluation.reading import read_text, recognise
from vadd.evaluation.reports import CorpusReport, JudgedCorpus, SkippedCorpus
from vadd.progress import Progress, named, silent
from vadd.recipe import TextData
from vadd.run.run import Run

SUFFIXES = frozenset({".txt", ".jsonl", ".csv"})


def zero_shot(run: Run, folder: Path, settings: BoundSettings, progress: Progress = silent) -> tuple[CorpusReport, ...]:
    """The same bounds for every corpus in ``folder``; one that the run cannot read is skipped and says why."""
    return judge_corpora(run, corpora_in(folder), settings, progress)


def judge_corpora(
    run: Run, paths: Sequence[Path], settings: BoundSettings, progress: Progress = silent
) -> tuple[CorpusReport, ...]:
    """Of corpora wherever they lie."""
    found = tuple(_judge(run, path, settings, progress) for path in paths)
    first = found[0]
    if isinstance(first, SkippedCorpus) and all(isinstance(entry, SkippedCorpus) for entry in found):
        folder = paths[0].parent
        raise UserError(f"{run.directory.path} can read nothing in {folder}; {first.corpus}: {first.skipped}")
    return found


def knows_text8_alone(run: Run) -> bool:
    """Whether other corpora must be spelled in the 27 letters of text8 for this run."""
    return isinstance(run.recipe.data, TextData) and run.recipe.data.corpus == "text8"


def _judge(run: Run, path: Path, settings: BoundSettings, progress: Progress) -> CorpusReport:
    corpus = recognise(path)
    read_as = "plain text" if corpus == "files" else corpus
    spelled = knows_text8_alone(run) and corpus != "text8"
    try:
        examples = read_text(run, path, corpus, progress, like_text8=spelled)
    except UserError as reason:
        return SkippedCorpus(path.name, read_as, str(reason))
    likelihood = measure_bounds(run, examples, settings, named(progress, path.name))
    return JudgedCorpus(path.name, read_as, len(examples), likelihood, "text8" if spelled else None)


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
