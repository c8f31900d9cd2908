"""Tables from end to end: inspect, train, sample, fill; and what is wrong is one line with exit code 2."""

import csv
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pandas
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vadd
from tests.helpers.commands import Command
from tests.helpers.people import CITIES, FORMULA, train_people, write_people
from tests.helpers.tiny import TINY_TABLE, train_in
from vadd.kinds.files import csv_lines
from vadd.kinds.table.codec import data_frame
from vadd.kinds.table.reading import read_table
from vadd.kinds.table.schema import infer
from vadd.recipe import recipe_for
from vadd.run.directory import RunDirectory
from vadd.run.export import export
from vadd.run.tables import cell_probabilities, fill_rows, sample_rows


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_people(tmp_path_factory.mktemp("people"))


@pytest.fixture
def place(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "run")
    write_people(Path("people.csv"))
    return tmp_path


def rows_of(file: str) -> list[dict[str, str]]:
    with Path(file).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_inspect_shows_the_columns_and_writes_a_schema(place: Path, vadd_command: Command) -> None:
    shown = vadd_command("data", "inspect", "people.csv", "--schema", "people.yaml")
    assert shown.code == 0
    lines = {line.split()[0]: line for line in shown.out.splitlines()}
    assert "200 rows" in lines["people.csv:"]
    assert "it names the rows" in lines["id"]
    for column, kind in (("sex", "category"), ("age", "integer"), ("height", "real"), ("born", "date")):
        assert kind in lines[column]
    assert "boolean" in lines["member"]
    assert "format: '%Y-%m-%d'" in Path("people.yaml").read_text()
    again = vadd_command("data", "inspect", "people.csv", "--schema", "people.yaml")
    assert (again.code, "exists" in again.err) == (2, True)


def test_a_table_is_trained_on_sampled_and_written_as_it_was(place: Path, vadd_command: Command) -> None:
    done = vadd_command("train", "--data", "people.csv", "data.skip=[id]", *TINY_TABLE, "--out", "new")
    assert done.code == 0, done.err
    assert "age: integer, 51 values, missing cells are one of them" in done.err
    assert "id: left out" in done.err
    assert vadd_command("sample", "new", "-n", "150", "--steps", "2", "--out", "s.csv").code == 0
    drawn, real = rows_of("s.csv"), rows_of("people.csv")
    assert list(drawn[0]) == ["sex", "age", "height", "born", "member", "city"]
    assert len(drawn) == 150
    for name in ("sex", "member", "city"):
        assert {row[name] for row in drawn} <= {row[name] for row in real}  # FORMULA comes out as it went in
    for name in ("age", "height", "born"):
        known = sorted(filter(None, (row[name] for row in real)))
        assert all(known[0] <= row[name] <= known[-1] for row in drawn if row[name])
    kinds = {name: spec.kind for name, spec in infer(read_table(Path("s.csv"))).items()}
    assert kinds == {
        "sex": "category",
        "age": "integer",
        "height": "real",
        "born": "date",
        "member": "boolean",
        "city": "category",
    }
    assert vadd_command("sample", "new", "-n", "70", "--steps", "2", "--out", "few.csv").code == 0
    assert rows_of("few.csv") == drawn[:70]


def test_parquet_keeps_the_types(place: Path, vadd_command: Command) -> None:
    assert vadd_command("sample", "run", "-n", "80", "--out", "s.parquet").code == 0
    assert vadd_command("sample", "run", "-n", "80", "--out", "s.csv").code == 0
    table = parquet.read_table("s.parquet")
    types = [str(field.type) for field in table.schema]
    assert types == ["string", "int64", "double", "date32[day]", "bool", "string"]
    assert [str(cell) for cell in table["born"].to_pylist()] == [row["born"] for row in rows_of("s.csv")]


def test_samples_are_printed_as_rows(place: Path, vadd_command: Command) -> None:
    shown = vadd_command("sample", "run", "-n", "30")
    assert shown.out.splitlines()[0] == "sex,age,height,born,member,city"
    assert "--out FILE.csv" in shown.out


def test_where_fixes_columns(place: Path, vadd_command: Command) -> None:
    conditions = ["--where", "age=30-69", "--where", "sex=F", "--where", "born=1955-01-01..1994-12-31"]
    assert vadd_command("sample", "run", "-n", "12", *conditions, "--out", "w.csv").code == 0
    rows = rows_of("w.csv")
    assert {row["sex"] for row in rows} == {"F"}
    assert all(30 <= int(row["age"]) <= 69 for row in rows)
    assert all(date(1955, 1, 1) <= date.fromisoformat(row["born"]) <= date(1994, 12, 31) for row in rows)
    assert len({row["city"] for row in rows}) > 1
    assert vadd_command("sample", "run", "-n", "5", "--where", "city=", "--out", "none.csv").code == 0
    assert {row["city"] for row in rows_of("none.csv")} == {""}


def test_infill_fills_what_is_missing_and_nothing_else(place: Path, vadd_command: Command) -> None:
    before = rows_of("people.csv")
    done = vadd_command("infill", "run", "--table", "people.csv", "--out", "filled.csv")
    assert done.code == 0, done.err
    after = rows_of("filled.csv")
    assert list(after[0]) == list(before[0])
    filled = 0
    for old, new in zip(before, after, strict=True):
        for name, cell in old.items():
            assert new[name] == cell if cell else new[name] != ""
            filled += not cell
    assert filled > 20


def test_several_imputations_and_their_probabilities(place: Path, vadd_command: Command) -> None:
    arguments = ("--table", "people.csv", "--count", "3", "--probabilities", "p.csv", "--out", "f.csv")
    assert vadd_command("infill", "run", *arguments).code == 0
    rows, missing = rows_of("f.csv"), sum(not cell for row in rows_of("people.csv") for cell in row.values())
    assert [row["imputation"] for row in rows] == ["1"] * 200 + ["2"] * 200 + ["3"] * 200
    chances = rows_of("p.csv")
    assert len(chances) == 3 * missing
    assert all(0 < float(row["probability"]) <= 1 for row in chances)
    copies = {row["imputation"]: [r for r in rows if r["imputation"] == row["imputation"]] for row in rows}
    assert copies["1"] != [{**row, "imputation": "1"} for row in copies["2"]]
    for row in chances:
        cell = copies[row["imputation"]][int(row["row"]) - 1][row["column"]]
        assert cell in row["value"] or row["column"] == "age"  # of a bin the probability is the bin's
    assert vadd_command("infill", "run", "--table", "people.csv", "--out", "f.parquet").code == 0
    assert str(parquet.read_table("f.parquet").schema.field("age").type) == "int64"
    shown = vadd_command("infill", "run", "--table", "people.csv")
    assert shown.out.splitlines()[0].startswith("id,sex,age")


def test_an_export_samples_rows_without_the_data(place: Path, vadd_command: Command) -> None:
    export(RunDirectory("run"), Path("shared"))
    assert vadd_command("sample", "shared", "-n", "10", "--where", "sex=M", "--out", "e.csv").code == 0
    assert {row["sex"] for row in rows_of("e.csv")} == {"M"}


def test_rows_and_frames_in_python(place: Path) -> None:
    run = vadd.load("run")
    frame = data_frame(sample_rows(run, 20, {"sex": "F", "age": 40}))
    assert set(frame["age"]) == {40}
    assert [str(kind) for kind in frame.dtypes][:3] == ["str", "int64", "float64"]
    table = read_table(Path("people.csv"))
    first, second = fill_rows(run, table, 2)
    assert first["sex"] == table.columns["sex"]
    assert all(cell is not None for cell in [*first["city"], *second["age"]])
    assert run.table is not None
    chance = cell_probabilities(run, run.table.gaps(table))
    hidden = run.table.gaps(table) == -1
    assert chance.sum(-1)[hidden] == pytest.approx(1)
    assert not chance[~hidden].any()


def test_resuming_with_another_table_is_refused(place: Path, vadd_command: Command) -> None:
    recipe = RunDirectory("run").recipe()
    assert recipe.data.kind == "table"
    content = Path(str(recipe.data.path)).read_text()
    try:
        Path(str(recipe.data.path)).write_text(content.replace("Ulm", "Wien"))
        again = vadd_command("train", "--out", "run", "--resume", "training.steps=40")
    finally:
        Path(str(recipe.data.path)).write_text(content)
    assert again.code == 2
    assert "a table of other" in again.err


BAD: list[tuple[tuple[str, ...], str]] = [
    (("sample", "run", "--where", "agee=1"), "no column 'agee', did you mean 'age'"),
    (("sample", "run", "--where", "age=200-300"), "the column 'age' has no such value"),
    (("sample", "run", "--where", "sex=Q"), "the column 'sex' has no value 'Q'"),
    (("sample", "run", "--where", "sex"), "--where takes COLUMN=VALUE"),
    (("sample", "run", "--label", "F"), "a table has columns instead of labels: give --where COLUMN=VALUE"),
    (("sample", "run", "--where", "sex=F", "--where", "sex=M"), "names the column 'sex' twice"),
    (("sample", "run", "--out", "a.png"), "can be written as .csv, .parquet or .npy"),
    (("infill", "run", "--table", "whole.csv"), "nothing to fill"),
    (("infill", "run", "--table", "other.csv"), "has no column"),
    (("infill", "run", "--table", "ragged.csv"), "row 2 (line 3) has 1 cell, the header"),
    (("infill", "run", "--table", "none.csv"), "there is no file"),
    (("infill", "run", "--text", "a __", "--probabilities", "p.csv"), "--probabilities is for --table"),
    (("train", "--data", "people.csv", "--out", "new"), "'id' has another text in every row"),
    (("train", "--data", "empty.csv", "--out", "new"), "has no rows"),
    (("train", "--data", "blank.csv", "--out", "new"), "nothing but missing values"),
    (("train", "--data", "latin.csv", "--out", "new"), "byte 0xe9 in line 2"),
    (("train", "--data", "million.csv", "--out", "new"), "different texts, more than 10,000"),
    (("train", "--data", "people.csv", "data.skip=[idd]", "--out", "new"), "did you mean 'id'"),
    (("train", "table", "data.path=none.csv", "data.name=null", "--out", "new"), "there is no file none.csv"),
    (("data", "inspect"), "no table is named; type: vadd data inspect FILE.csv"),
    (("data", "inspect", "none.csv"), "there is no file"),
    (("data", "mnist", "people.csv"), "vadd data inspect FILE"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD, ids=[" ".join(arguments)[:40] for arguments, _ in BAD])
def test_bad_input(place: Path, vadd_command: Command, arguments: tuple[str, ...], said: str) -> None:
    Path("whole.csv").write_text("sex,age,height,born,member,city\nF,40,160.0,1960-01-01,True,Ulm\n")
    Path("other.csv").write_text("sex,age\nF,\n")
    Path("ragged.csv").write_text("sex,age\nF,3\nF\n")
    Path("empty.csv").write_text("sex,age\n")
    Path("blank.csv").write_text("sex,age\nF,\nM,\n")
    Path("latin.csv").write_bytes("a,b\n1,caf\xe9\n".encode("latin-1"))
    if "million.csv" in arguments:
        Path("million.csv").write_text("a\n" + "".join(f"x{n % 15_000}\n" for n in range(30_000)))
    ended = vadd_command(*arguments)
    assert ended.code == 2
    assert said in ended.err
    assert len(ended.err.strip().splitlines()) == 1
    assert not Path("new").exists()


def test_a_run_without_a_table_has_no_columns(vadd_run: Path, vadd_command: Command) -> None:
    ended = vadd_command("sample", vadd_run, "--where", "age=1")
    assert (ended.code, "not a table" in ended.err) == (2, True)


CELLS: dict[str, st.SearchStrategy[Any]] = {
    "words": st.sampled_from([*CITIES, FORMULA, "a\nb", "=1+1", "ä€", " x "]),
    "whole": st.integers(-5, 10**9).map(str),
    "real": st.floats(-1e6, 1e6, allow_nan=False).map(repr),
    "day": st.dates(date(1900, 1, 1), date(2100, 1, 1)).map(str),
    "flag": st.sampled_from(["true", "false"]),
}


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    rows=st.lists(
        st.fixed_dictionaries({name: st.none() | cells for name, cells in CELLS.items()}), min_size=4, max_size=25
    )
)
def test_types_survive_training_sampling_and_csv(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str | None]]
) -> None:
    folder = tmp_path_factory.mktemp("types")
    first: dict[str, str | None] = {"words": "a", "whole": "1", "real": "0.5", "day": "2000-01-31", "flag": "true"}
    rows = [first, {**first, "words": "b", "flag": "false"}, *rows]
    lines = [list(CELLS), *([row[name] or "" for name in CELLS] for row in rows)]
    (folder / "t.csv").write_text(csv_lines(lines), encoding="utf-8", newline="")
    recipe = recipe_for(folder / "t.csv").with_overrides(
        [*TINY_TABLE, "training.steps=1", "latent.prior=normal", "training.trackers=[]"]
    )
    assert train_in(folder / "run", recipe).finished
    run = vadd.load(folder / "run")
    with run.kind.sample_file(folder / "out.csv", 40) as write:
        for part in run.stream(40, steps=2):
            write(part.tokens.numpy())
    was, now = read_table(folder / "t.csv"), read_table(folder / "out.csv")
    assert list(now.columns) == list(was.columns)
    for name in CELLS:
        allowed = {None if cell is None else float(cell) if name == "real" else cell for cell in was.columns[name]}
        found = {None if cell is None else float(cell) if name == "real" else cell for cell in now.columns[name]}
        assert found <= allowed


def test_dates_that_a_frame_holds_as_text_are_dates_and_come_back_as_text(tmp_path: Path) -> None:
    """As pandas leaves them that reads a CSV; texts of digits stay texts."""
    days = [f"2020-{month:02d}-{day:02d}" for month in (1, 2, 3) for day in range(1, 21)]
    frame = pandas.DataFrame({"day": [*days, None], "code": ["12", "7", "3"] * 20 + [None]})
    run = vadd.train(frame, tmp_path / "run", steps=1, network={"width": 16}, prior="normal", progress=False)
    assert run.table is not None
    assert [column.kind for column in run.table.columns] == ["date", "category"]
    for opened in (run, vadd.load(tmp_path / "run")):
        drawn = opened.sample_frame(20, {"day": "2020-02-01..2020-02-29", "code": "7"})
        assert all(day.startswith("2020-02-") for day in drawn["day"])
        assert set(drawn["code"]) == {"7"}
    filled = run.infill_frame(frame)
    assert filled["day"].to_list()[:-1] == days
    assert filled["day"].to_list()[-1] in days
    with run.kind.sample_file(tmp_path / "out.parquet", 5) as write:
        write(run.sample(5).numpy())
    assert {type(day) for day in read_table(tmp_path / "out.parquet").columns["day"]} <= {str, type(None)}


def test_a_column_that_follows_from_another_is_filled_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vadd_command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    codes = [n * n % 7 for n in range(120)]
    lines = [["code", "name"], *([str(code), f"city {code}"] for code in codes)]
    Path("t.csv").write_text(csv_lines(lines))
    said = "name follows from code: filled in, not modelled"
    assert said in vadd_command("data", "inspect", "t.csv").out
    done = vadd_command("train", "--data", "t.csv", *TINY_TABLE, "--out", "run")
    assert done.code == 0, done.err
    assert said in done.err
    assert vadd_command("sample", "run", "-n", "50", "--steps", "1", "--out", "s.csv").code == 0
    assert all(row["name"] == f"city {row['code']}" for row in rows_of("s.csv"))
    assert vadd_command("sample", "run", "-n", "5", "--where", "name=city 4", "--out", "four.csv").code == 0
    assert {row["code"] for row in rows_of("four.csv")} == {"4"}
    # The first row has no gap that the model would have to fill.
    for number, gaps in enumerate(("code,name\n2,\n", "code,name\n,city 4\n4,\n,\n")):
        Path("gaps.csv").write_text(gaps)
        filled = vadd_command("infill", "run", "--table", "gaps.csv", "--out", f"{number}.csv")
        assert filled.code == 0, filled.err
        assert all(row["name"] == f"city {row['code']}" for row in rows_of(f"{number}.csv"))
    assert vadd_command("eval", "run", "--steps", "1", "--bound", "1", "--samples", "20").code == 0
