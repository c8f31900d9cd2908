"""Zero-shot: how well a run on text predicts corpora that it has not learnt from."""

from pathlib import Path

from vadd.errors import UserError
from vadd.evaluation.likelihood import BoundSettings, measure_bounds
from vadd.evaluation.reading import read_text, recognise
from vadd.progress import Progress, named, silent
from vadd.runs.run import Run

SUFFIXES = frozenset({".txt", ".jsonl", ".csv"})

Corpora = list[dict[str, object]]
"""The entry ``zero_shot`` of a report: for every corpus its file, what it was read as, and either the entries of
:func:`~vadd.evaluation.likelihood.measure_bounds` with the number of sequences that there are, or why it was skipped.
"""


def zero_shot(run: Run, folder: Path, settings: BoundSettings, progress: Progress = silent) -> Corpora:
    """The same bounds for every corpus in ``folder``; one that the run cannot read is skipped and says why."""
    found: Corpora = []
    for path in corpora_in(folder):
        corpus = recognise(path)
        about: dict[str, object] = {"corpus": path.name, "read_as": "plain text" if corpus == "files" else corpus}
        try:
            examples = read_text(run, path, corpus, progress)
        except UserError as reason:
            found.append({**about, "skipped": str(reason)})
            continue

        found.append(
            {**about, "sequences": len(examples), **measure_bounds(run, examples, settings, named(progress, path.name))}
        )
    if all("skipped" in entry for entry in found):
        first = found[0]
        raise UserError(f"{run.directory.path} can read nothing in {folder}; {first['corpus']}: {first['skipped']}")
    return found


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
