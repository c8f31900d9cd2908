"""The league from nothing to its page in seconds, its data, and what it says of bad requests."""

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.helpers.commands import Command
from vadd.errors import UserError
from vadd.run.directory import RunDirectory
from vadd.studies import published_scores
from vadd.studies.comparison import Result
from vadd.studies.engine import reproduce
from vadd.studies.league import SetRow, measure_table, score_tables, share_table, verdict
from vadd.studies.league_sets import SETS, LeagueSet
from vadd.studies.published_scores import Molecules, canonical
from vadd.studies.study import Published, Request, study_named

STUDY = study_named("league")
TINY = Request(
    out=Path(),
    setting="both",
    sets=("progressions", "anes96"),
    overrides=("training.steps=2", "training.batch=8", "network.width=16"),
    measuring={"samples": 10, "limit": 5, "particles": 2, "steps": (1, 2), "bound_steps": (1, 2)},
    minutes=0.01,
)


def tiny(out: Path, **changes: Any) -> Request:
    return replace(TINY, out=out, **changes)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("league")


@pytest.fixture(scope="module")
def result(out: Path) -> Result:
    return reproduce(STUDY, tiny(out))


def test_both_models_are_trained_and_measured_on_every_set(result: Result, out: Path) -> None:
    assert [row["name"] for row in result.numbers] == ["progressions", "anes96"]
    for row in result.numbers:
        assert set(row["nats"]) == set(row["right"]) == {"vadd", "mdlm"}
        assert row["bound_valid"]
        assert row["training_steps"]["vadd"] == 2
        default = RunDirectory(out / f"{row['name']}-vadd").recipe()
        assert default.has_latent
        mdlm = RunDirectory(out / f"{row['name']}-mdlm").recipe()
        assert (mdlm.model, mdlm.network, mdlm.training.batch) == ("mdlm", default.network, default.training.batch)
    assert (out / "figures" / "shares.png").is_file()
    assert "progressions" in result.page.read_text()
    assert json.loads((out / "results.json").read_text()) == json.loads(json.dumps(result.numbers))


def test_what_was_measured_is_kept(result: Result, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vadd.studies.league.measure_bounds", None)
    again = reproduce(STUDY, tiny(out, sets=("progressions",)))
    assert again.numbers == result.numbers[:1]


MADE = [name for name, each in SETS.items() if each.needs is None]
EXACT = [name for name in MADE if SETS[name].valid is not None and name not in ("eight-modes", "swissroll")]


@pytest.mark.parametrize("name", EXACT)
def test_measures_tell_the_data_from_independent_positions(name: str, tmp_path: Path) -> None:
    data, valid, rng = SETS[name].make(np.random.default_rng(0), tmp_path), SETS[name].valid, np.random.default_rng(1)
    assert valid is not None
    if isinstance(data, list):
        texts = [" ".join(row) if isinstance(row, list) else row for row in data[:500]]
        assert valid(texts).all()
        assert valid(["".join(rng.permutation(list(text))) for text in texts]).mean() < 0.6
        return
    assert valid(data).all()
    assert valid(rng.permuted(data.reshape(len(data), -1), axis=0).reshape(data.shape)).mean() < 0.6


@pytest.mark.parametrize(("name", "expected"), [("eight-modes", 0.375), ("swissroll", None)])
def test_points_near_the_data(name: str, expected: float | None, tmp_path: Path) -> None:
    """Independent coordinates meet the data where both belong to one of eight places on a circle."""
    points, valid = SETS[name].make(np.random.default_rng(0), tmp_path), SETS[name].valid
    assert valid is not None
    independent = float(valid(np.random.default_rng(1).permuted(points, axis=0)[:3000]).mean())
    assert valid(points[:3000]).mean() >= 0.9
    assert independent == pytest.approx(expected, abs=0.03) if expected else independent < 0.7


def test_the_entropies_are_those_of_the_laws(tmp_path: Path) -> None:
    """Of few values that can be counted; the frequencies of 5,000 examples lie below by about values / 10,000."""
    for name in ("progressions", "permutations", "parity", "latin-squares"):
        data = SETS[name].make(np.random.default_rng(0), tmp_path)
        counts = np.unique(data.reshape(len(data), -1), axis=0, return_counts=True)[1] / len(data)
        assert -float(counts @ np.log(counts)) == pytest.approx(SETS[name].entropy, abs=0.1)
    assert SETS["markov"].entropy == pytest.approx(math.log(8) + 15 * 0.898, abs=0.01)


def test_the_halves_divide_all_sets() -> None:
    halves = [STUDY.settings[half].sets for half in ("choosing", "reporting")]
    assert not {*halves[0]} & {*halves[1]}
    own = [name for name, each in SETS.items() if "sdmetrics" not in str(each.needs)]
    assert sorted((*halves[0], *halves[1])) == sorted(own) == sorted(STUDY.settings["both"].sets)
    assert len(MADE) + sum(each.needs is not None and "vadd[" in each.needs[1][:6] for each in SETS.values()) >= 14


def row(vadd: dict[int, float], mdlm: dict[int, float], name: str = "parity") -> SetRow:
    nats = {"vadd": vadd, "mdlm": mdlm}
    stderr = {model: dict.fromkeys(by_steps, 0.1) for model, by_steps in nats.items()}
    about: dict[str, Any] = {"name": name, "kind": "array", "right": {}, "latent": None, "grid": "uniform", "stamp": ""}
    lengths = {"seconds": {"vadd": 1.0, "mdlm": 1.0}, "training_steps": {"vadd": 1, "mdlm": 1}}
    return SetRow.model_validate({**about, **lengths, "nats": nats, "stderr": stderr, "bound_valid": True})


def test_the_share_of_the_dependence_held() -> None:
    held = row({1: 5.0, 2: 5.5, 16: 4.5}, {1: 8.0, 2: 5.5, 16: 4.0})
    assert held.shares == {1: 0.75, 2: 0, 16: None}, "at 16 MDLM has the best bound itself"
    assert held.is_worse(16)
    assert not held.is_worse(1)
    both = [held, row({1: 8.0}, {1: 6.0, 2: 5.0}, "markov")]
    assert "T = 1: median -0.62, least -2.00 (markov)" in verdict(both, (1,))
    assert "Worse than MDLM at some T, by more than a standard error: markov." in verdict(both, (1,))
    assert share_table(both, (1,), {}).rows[0][2] == "0.75"


def test_published_rows_stand_beside_ours() -> None:
    measured = row({1: 5.0}, {1: 8.0}).model_copy(
        update={"right": {"vadd": {1: 0.5, 2: 0.75}, "mdlm": {1: 0.25}}, "right_held_out": 1.0}
    )
    published = {"parity: another": {2: 12.5}, "markov: absent": {1: 1.0}}
    table = measure_table([measured, row({1: 1.0}, {1: 2.0}, "markov")], (1, 2), published)
    assert [list(cells) for cells in table.rows] == [
        ["parity", "even", "default", "50.0%", "75.0%"],
        ["parity", "even", "MDLM", "25.0%", None],
        ["parity", "even", "another", None, "12.5%"],
        ["parity", "even", "held-out examples", "100.0%", "100.0%"],
    ]


def test_published_rows_are_of_sets_that_are_measured() -> None:
    public = study_named("public")
    rows = [*public.published.by_steps, *public.published.rows]
    assert {name.partition(": ")[0] for name in rows} <= {*public.settings["small"].sets} <= {*SETS}


def test_published_scores_stand_beside_ours() -> None:
    scores = {name: {"vadd": {1: 0.5, 2: 0.75}, "mdlm": {1: 0.25}} for name in ("Shape", "Trend")}
    measured = row({1: 5.0}, {1: 8.0}, "default").model_copy(
        update={"scores": scores, "scores_of_rows": {"Trend": 0.95}}
    )
    published = Published(columns=("Shape", "Trend"), rows={"default: other": (0.9, 0.8), "parity: absent": (1.0, 1.0)})
    (table,) = score_tables([measured, row({1: 5.0}, {1: 8.0})], published)
    assert [list(cells) for cells in table.rows] == [
        ["default", "default", 1, "0.500", "0.500"],
        ["default", "default", 2, "0.750", "0.750"],
        ["default", "MDLM", 1, "0.250", "0.250"],
        ["default", "training rows", None, None, "0.950"],
        ["default", "other", None, "0.900", "0.800"],
    ]


def test_molecules_are_read_by_rdkit() -> None:
    pytest.importorskip("rdkit")
    assert canonical(["OCC", "C1CC", "", "c1ccccc1"]) == ["CCO", None, None, "c1ccccc1"]


def test_scores_of_molecules_count_each_draw_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[list[str]] = []

    def distance(*sides: list[str]) -> float:
        compared.extend(sides)
        return 0.5

    known = {"OCC": "CCO", "C1CC": None}
    monkeypatch.setattr(published_scores, "canonical", lambda texts: [known.get(text, text) for text in texts])
    monkeypatch.setitem(sys.modules, "fcd", SimpleNamespace(get_fcd=distance))
    scores = Molecules(["OCC", "C"], draws=2, draw=3).scores(["CCO", "OCC", "C1CC", "CCN", "CCC", "C"])
    # The first draw has two valid texts of one molecule, the second three molecules; three of five valid are known.
    assert scores == {"valid of 3": 2.5, "unique": 0.75, "new": pytest.approx(0.4), "FCD": 0.5}
    assert [sorted(side) for side in compared] == [["C", "CCC", "CCN", "CCO", "CCO"], ["C", "OCC"]]
    by_model = {name: {"vadd": {1: value}} for name, value in scores.items()}
    measured = row({1: 5.0}, {1: 8.0}, "qm9").model_copy(update={"scores": by_model})
    (table,) = score_tables([measured], Published())
    assert table.title == "Scores of molecules"
    assert list(table.rows[0]) == ["qm9", "default", 1, "2.5", "0.75", "0.4", "0.5"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sets", "progresions"), "unknown set 'progresions', did you mean 'progressions'?"),
        (("--sets", "absent"), "the set absent needs the package not_there: pip install not-there"),
        (("--sets", "parity", "model=mdlm"), "contradicts what is compared"),
    ],
)
def test_bad_requests_are_one_line(
    vadd_command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
) -> None:
    absent = LeagueSet(SETS["parity"].make, needs=("not_there", "not-there"))
    monkeypatch.setattr("vadd.studies.league.SETS", SETS | {"absent": absent})
    refused = vadd_command("reproduce", "league", *options, "--out", tmp_path / "out")
    assert refused.code == 2
    assert message in refused.err
    assert len(refused.err.strip().splitlines()) == 1


def test_a_set_without_its_package_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = LeagueSet(SETS["parity"].make, needs=("not_there", "not-there"))
    monkeypatch.setattr("vadd.studies.league.SETS", {"absent": absent})
    both = STUDY.settings["both"].model_copy(update={"sets": ("absent",)})
    with pytest.raises(UserError, match="pip install not-there"):
        reproduce(STUDY.model_copy(update={"settings": {"both": both}}), tiny(tmp_path, sets=()))


def test_constant_columns_are_learnt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    constant = LeagueSet(lambda rng, folder: np.stack([rng.integers(2, size=40), np.zeros(40, int)], axis=1))
    monkeypatch.setattr("vadd.studies.league.SETS", {"constant": constant})
    monkeypatch.setattr("vadd.studies.league.processor_seconds", lambda path: 0.1)
    (row,) = reproduce(STUDY, tiny(tmp_path, sets=("constant",))).numbers
    assert row["name"] == "constant"
    assert "nats" in row
