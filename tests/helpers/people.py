"""A small table with every kind of column, and a run on it."""

import csv
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from tests.helpers.tiny import TINY_TABLE, train_in
from vadd.recipe import recipe_for

FORMULA = '=cmd("x,y")'
CITIES = ["Ulm", "Bonn", FORMULA, ' "quoted", or not']


def write_people(path: Path, rows: int = 200) -> Path:
    """sex decides about height and city; some cells of age and city are missing."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["id", "sex", "age", "height", "born", "member", "city"])
        for number in range(rows):
            sex = int(rng.random() < 0.5)
            age = "" if rng.random() < 0.1 else int(rng.integers(18, 90))
            city = "" if rng.random() < 0.2 else CITIES[int(rng.integers(0, 2)) + 2 * sex]
            born = date(1950, 1, 1) + timedelta(days=int(rng.integers(0, 20_000)))
            height = round(float(rng.normal(165 + 12 * sex, 6)), 1)
            out.writerow([f"P{number:04}", "FM"[sex], age, height, born, ["False", "True"][number % 2], city])
    return path


def train_people(folder: Path, *overrides: str) -> Path:
    recipe = recipe_for(write_people(folder / "people.csv"))
    assert train_in(folder / "run", recipe.with_overrides([*TINY_TABLE, "data.skip=[id]", *overrides])).finished
    return folder / "run"
