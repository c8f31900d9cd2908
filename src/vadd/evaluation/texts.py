"""Texts that exist already, judged as samples are: by a language model, and by how varied they are."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vadd.data.text.documents import Documents, TextFiles, text_files
from vadd.errors import UserError
from vadd.evaluation.judges import with_scores
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.metrics import TextMetrics
from vadd.evaluation.reports import JudgeReport
from vadd.evaluation.text_statistics import text_statistics
from vadd.kinds.arrays import Array
from vadd.progress import Progress, silent


@dataclass(frozen=True)
class JudgedTexts:
    name: str
    """The name of their file."""
    texts: int
    metrics: TextMetrics
    judge: JudgeReport | None = None

    def to_json(self) -> dict[str, Any]:
        judge = {} if self.judge is None else {"judge": asdict(self.judge)}
        return {"file": self.name, "texts": self.texts, **judge, **self.metrics.to_json()}


def read_texts(path: Path, documents: Documents, field: str, limit: int | None = None) -> list[str]:
    """The documents of a file or folder, blank ones left out."""
    found = [text for text, _ in zip(TextFiles(text_files(path), documents, field), _numbers(limit), strict=False)]
    if not found:
        raise UserError(f"there is no text in {path}")
    return found


def _numbers(limit: int | None) -> range:
    return range(2**62 if limit is None else limit)


def judge_texts(
    name: str, texts: Sequence[str], language: LanguageJudge | None, progress: Progress = silent
) -> JudgedTexts:
    """The entropy is of the counts of words: whoever wrote the texts, their tokens are not known here."""
    metrics = text_statistics(_words(texts), texts)
    if language is None:
        return JudgedTexts(name, len(texts), metrics)
    scores = language.score(texts, what=f"the judge reads {name}", progress=progress)
    return JudgedTexts(name, len(texts), with_scores(metrics, scores, texts, language), language.about())


def _words(texts: Sequence[str]) -> list[Array]:
    """Each text's words as numbers; white space parts them."""
    known: dict[str, int] = {}
    return [np.array([known.setdefault(word, len(known)) for word in text.split()]) for text in texts]
