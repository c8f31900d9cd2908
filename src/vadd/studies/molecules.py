"""QM9, small molecules as text, and the scores that are published of them: valid, unique and new ones, FCD.

Protocol: ten draws of 1,024; unique among the valid ones of a draw. Molecules are compared in RDKit's canonical form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import fmean

import numpy as np

from vadd.studies.table_scores import file_in

DRAWS, DRAW = 10, 1024
COMPARED = 10_000
"""Training molecules that FCD compares with."""


def canonical(texts: Sequence[str]) -> list[str | None]:
    """None is not a molecule by RDKit, which would print why."""
    import_module("rdkit.RDLogger").DisableLog("rdApp.*")
    chemistry = import_module("rdkit.Chem")
    parsed = [chemistry.MolFromSmiles(text) if text else None for text in texts]
    return [None if molecule is None else chemistry.MolToSmiles(molecule) for molecule in parsed]


@dataclass(frozen=True)
class Molecules:
    train: list[str]
    draws: int = DRAWS
    draw: int = DRAW

    @property
    def samples(self) -> int:
        return self.draws * self.draw

    def scores(self, texts: Sequence[str]) -> dict[str, float]:
        found = canonical(texts)
        draws = [
            [text for text in found[first : first + self.draw] if text] for first in range(0, len(found), self.draw)
        ]
        known, valid = set(canonical(self.train)), [text for text in found if text]
        distance = import_module("fcd").get_fcd
        rows = np.random.default_rng(0).permutation(len(self.train))[:COMPARED]
        return {
            f"valid of {self.draw:,}": fmean(map(len, draws)),
            "unique": fmean(len(set(draw)) / max(1, len(draw)) for draw in draws),
            "new": fmean(text not in known for text in valid) if valid else 0.0,
            "FCD": float(distance(valid, [self.train[row] for row in rows])) if len(valid) > 1 else float("nan"),
        }


@cache
def molecules() -> Molecules:
    read = import_module("pandas").read_csv
    parts: list[Path] = [file_in("qm9pack", f"data/qm9_part{part}.csv") for part in (1, 2, 3)]
    return Molecules([smiles for part in parts for smiles in read(part)["SMILES"].tolist()])
