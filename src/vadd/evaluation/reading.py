"""Text that a run has not learnt from, in the sequences that the run knows: its tokenizer, its length, its wrapping."""

from pathlib import Path
from typing import get_args

from torch import Tensor

from vadd.data import examples_from
from vadd.data.text.corpora import CorpusName
from vadd.errors import UserError
from vadd.kinds import TextKind
from vadd.progress import Progress, silent
from vadd.recipe import TextData
from vadd.run.run import Run

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
