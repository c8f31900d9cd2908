"""What the pages compute and refuse, and which runs they can open."""

import base64
import csv
import io
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from markupsafe import Markup
from PIL import Image

from tests.helpers.people import train_people
from tests.helpers.studio import PATIENCE
from vadd.errors import UserError
from vadd.run.loading import load
from vadd.run.run import OWN_EXAMPLES
from vadd.studio.draw import draw, draw_all, show, write_files
from vadd.studio.infill import (
    Known,
    fill_all,
    fill_numbers,
    fill_picture,
    fill_point,
    fill_row,
    fill_text,
    held_out,
    painting_of,
    words_with_gaps,
)
from vadd.studio.latent import (
    SLIDERS,
    SPAN,
    How,
    dimensions_of,
    map_of,
    moved,
    point_of_example,
    show_path,
    show_points,
)
from vadd.studio.runs import OpenRuns
from vadd.studio.views import ImageView, NumberView, PointView, TableView, TextView, view_of

HOW = How(1, 1.0)


def choices(**changes: object) -> dict[str, Any]:
    plain = {"steps": 2, "sampler": "", "grid": "", "latent_policy": "", "temperature": 1, "seed": 0, "label": ""}
    return plain | changes


def joined(cards: list[Markup]) -> str:
    return "".join(cards)


def test_only_named_runs_are_opened(vadd_run: Path, mdlm_run: Path) -> None:
    runs = OpenRuns([vadd_run])
    assert runs.names() == ["vadd"]
    for name in ("mdlm", str(mdlm_run), "../mdlm/mdlm", ""):
        with pytest.raises(UserError, match="no run of the name"):
            runs.get(name)


def test_what_is_no_run_is_refused_and_equal_names_are_told_apart(vadd_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a run"):
        OpenRuns([tmp_path])
    (tmp_path / "vadd").symlink_to(vadd_run)
    assert OpenRuns([vadd_run, tmp_path / "vadd"]).names() == ["vadd"]
    (tmp_path / "other").mkdir()
    shutil.copytree(vadd_run, tmp_path / "other" / "vadd")
    assert OpenRuns([vadd_run, tmp_path / "other" / "vadd"]).names() == ["vadd", "other/vadd"]


def test_a_run_is_read_again_when_it_has_a_newer_checkpoint(vadd_run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(vadd_run, copy)
    runs = OpenRuns([copy])
    newest = sorted((copy / "checkpoints").iterdir())[-1]
    away = newest.rename(tmp_path / newest.name)
    assert runs.get("run").step == 20
    assert runs.get("run") is runs.get("run")
    away.rename(newest)
    assert runs.get("run").step == 30


def test_the_samples_are_those_of_vadd_sample(vadd_run: Path) -> None:
    run = load(vadd_run)
    drawn = draw(run, "vadd", 5, choices(seed=3))
    assert np.array_equal(drawn.tokens, run.sample(5, steps=2, seed=3).numpy())
    assert np.array_equal(drawn.states[-1], drawn.tokens)
    assert (drawn.states[0] == run.model.mask_value).all()


@pytest.mark.parametrize(("count", "steps"), [(0, 1), (10**7, 1), (1, 0), (1, 10**6)])
def test_absurd_wishes_are_refused(vadd_run: Path, count: int, steps: int) -> None:
    with pytest.raises(UserError, match="between 1 and"):
        draw(load(vadd_run), "vadd", count, choices(steps=steps))


def test_at_most_three_runs_are_drawn_at_once(vadd_run: Path) -> None:
    runs = OpenRuns([vadd_run])
    with pytest.raises(UserError, match="at most 3"):
        draw_all(runs, ["vadd"] * 4, 5, choices())
    assert draw_all(runs, [], 5, choices()) == []
    with pytest.raises(UserError, match="seed must be at least 0"):
        draw_all(runs, ["vadd"], 5, choices(seed=-1))


def test_every_kind_of_data_has_a_view_and_files(
    digits_runs: list[Path],
    vadd_run: Path,
    array_run: Path,
    script_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    runs = OpenRuns([digits_runs[1], vadd_run, array_run, script_run])
    kinds = [ImageView, PointView, NumberView, TextView]
    assert [type(view_of(runs.get(name))) for name in runs.names()] == kinds
    suffixes = [{".png", ".gif", ".npy"}, {".png", ".gif", ".npy"}, {".csv", ".gif", ".npy"}, {".txt", ".gif", ".npy"}]
    for name, expected in zip(runs.names(), suffixes, strict=True):
        drawn = draw_all(runs, [name], 5, choices())
        for page in (show(runs, drawn), *(show(runs, drawn, step) for step in range(3))):
            assert "<script" not in page
            assert name in page
        files = [Path(file) for file in write_files(runs, drawn)]
        assert {file.suffix for file in files} == expected
        saved = next(np.load(file) for file in files if file.suffix == ".npy")
        assert np.array_equal(saved.reshape(5, -1), drawn[0].tokens)


def test_a_masked_text_shows_its_masks(script_run: Path) -> None:
    runs = OpenRuns([script_run])
    drawn = draw_all(runs, ["script"], 1, choices())
    assert show(runs, drawn, 0).count('class="masked"') == 24
    assert show(runs, drawn, 2).count('class="masked"') == 0


def test_what_is_known_of_a_picture_stays(digits_runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(digits_runs[1])
    painting = painting_of(run, 2)
    painting["cells"][:32] = [-1] * 32
    seen: list[torch.Tensor] = []
    infill = run.infill

    def watched(*given: Any, **options: Any) -> torch.Tensor:
        seen.append(infill(*given, **options))
        return seen[-1]

    monkeypatch.setattr(run, "infill", watched)
    assert joined(fill_picture(run, Known(painting, steps=2))).count("<img") == 2
    assert seen[0].shape == (1, 8, 64)
    assert (seen[0][0, :, 32:] == torch.from_numpy(held_out(run, 2))[32:]).all()


def test_an_exported_model_begins_with_samples_of_its_own(
    digits_runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load(load(digits_runs[1]).export(tmp_path / "exported"))
    monkeypatch.setattr("vadd.run.run.build_dataset", None)
    own = run.sample(OWN_EXAMPLES, seed=0)
    assert torch.equal(torch.from_numpy(held_out(run, 2)), own[2])
    assert painting_of(run, 2, kept=0.5)["cells"] == [*own[2, :32].tolist(), *[-1] * 32]
    assert painting_of(run, None)["cells"] == [-1] * 64
    assert len(dimensions_of(run).numbers) == SLIDERS
    with pytest.raises(UserError, match=r"no example 100; choose from 0\.\.99"):
        held_out(run, 100)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([0] * 64, "no pixel is grey"),
        ([-1] * 63, "have 64 positions, not 63"),
        ([-1] * 63 + [9], "hold the value 9"),
        (["<b>"] * 64, "no picture"),
        (None, "no picture"),
    ],
)
def test_a_picture_that_is_none_is_refused(digits_runs: list[Path], cells: object, told: str) -> None:
    with pytest.raises(UserError, match=told):
        fill_picture(load(digits_runs[1]), Known({"cells": cells}))


def test_texts_points_and_numbers_are_filled(script_run: Path, vadd_run: Path, array_run: Path) -> None:
    assert joined(fill_text(load(script_run), Known(text="<scr__t>"))).count("<mark>") == 8
    assert joined(fill_point(load(vadd_run), Known(coordinate="second", value=3))).count("<img") == 2
    assert joined(fill_numbers(load(array_run), Known(text="0 1, 2 -1 -1 -1"))).count("<pre") == 8
    with pytest.raises(UserError, match="there is no gap"):
        fill_text(load(script_run), Known(text="<script>"))
    for wrong in ("0 1", "a b c d e f", "1" * 40 + " 0 0 0 0 0"):
        with pytest.raises(UserError, match="numbers"):
            fill_numbers(load(array_run), Known(text=wrong))
    with pytest.raises(UserError, match="no example 999999"):
        held_out(load(vadd_run), 999999)


@pytest.fixture(scope="module")
def people_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_people(tmp_path_factory.mktemp("people"))


def test_rows_of_a_table_are_shown_kept_and_filled_in_its_own_words(
    people_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    runs = OpenRuns([people_run])
    run = runs.get("run")
    assert type(view_of(run)) is TableView
    drawn = draw_all(runs, ["run"], 5, choices())
    page = show(runs, drawn)
    assert "<th>height</th>" in page
    assert page.count("<tr>") == 6
    assert show(runs, drawn, 0).count('class="masked"') == 5 * 6
    written = {Path(file).suffix: Path(file) for file in write_files(runs, drawn)}
    header, *lines = csv.reader(written[".csv"].read_text().splitlines())
    assert header == ["sex", "age", "height", "born", "member", "city"]
    assert {line[0] for line in lines} <= {"F", "M"}
    begun = words_with_gaps(run)
    assert begun.splitlines()[1].endswith(",,,")
    filled = joined(fill_row(run, Known(text=begun)))
    assert filled.count("<tr>") == 9
    assert filled.count("<mark>") == 8 * begun.splitlines()[1].split(",").count("")
    page = joined(fill_row(run, Known(text='sex,age,height,born,member,city\nF,,,,,"=cmd(""x,y"")"')))
    assert page.count("=cmd(&#34;x,y&#34;)") == 8


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a line of column names"),
        ("sex,age\nF", "as many cells"),
        ("sex,sex\nF,M", "as many cells"),
        ("sex,age,height,born,member\nF,,,,", "no column 'city'"),
        ("sex,age,height,born,member,city\nX,,,,,", "'X'"),
        ("sex,age,height,born,member,city\nF,20,160,1960-01-01,True,Ulm", "nothing to fill"),
    ],
)
def test_a_row_that_is_none_of_the_table_is_refused(people_run: Path, text: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        fill_row(load(people_run), Known(text=text))


def test_two_visitors_draw_two_labels_of_one_run_at_once(labelled_run: Path) -> None:
    run = load(labelled_run)
    first, second = (draw(run, "named", 5, choices(label=label)) for label in ("1", "2"))
    assert not np.array_equal(first.tokens, second.tokens)
    assert first.said.startswith("label 1 · 2 steps")
    with ThreadPoolExecutor(2) as visitors:
        again = [visitors.submit(draw, run, "named", 5, choices(label=label)) for label in ("1", "2") * 5]
    for number, drawn in enumerate(again):
        assert np.array_equal(drawn.result(PATIENCE).tokens, (first, second)[number % 2].tokens)


def test_a_label_is_no_dimension_of_the_latent(labelled_run: Path) -> None:
    run = load(labelled_run)
    assert run.model.latent.dim == dimensions_of(run).among + 10
    assert "<img" in show_points(run, point_of_example(run, 0)[None], HOW)[0]


def test_the_dimensions_are_in_the_order_of_what_they_carry(digits_runs: list[Path]) -> None:
    run = load(digits_runs[1])
    found = dimensions_of(run)
    assert len(found.numbers) == 6
    assert found.nats == sorted(found.nats, reverse=True)
    z = moved(point_of_example(run, 0), found.numbers, [SPAN] * 6)
    assert z[found.numbers].tolist() == [SPAN] * 6
    assert "<img" in show_points(run, z[None], HOW)[0]
    assert show_path(run, z.repeat(3, 1), HOW).count("<img") == 3


def test_a_model_without_a_latent_says_so(mdlm_run: Path) -> None:
    with pytest.raises(UserError, match="no latent"):
        dimensions_of(load(mdlm_run))


def test_every_run_that_is_chosen_fills_in_if_its_examples_look_the_same(
    digits_runs: list[Path], vadd_run: Path
) -> None:
    runs = OpenRuns([*digits_runs, vadd_run])
    painting = painting_of(runs.get("digits-vadd"), None)
    page = fill_all(runs, runs.names(), Known(painting))
    assert page.count("<h4>") == 2
    assert page.count("<img") == 4
    with pytest.raises(UserError, match="choose a run"):
        fill_all(runs, [], Known())


@pytest.mark.parametrize("name", ["vadd_run", "array_run", "digits"])
def test_the_map_of_the_latent_has_a_picture_whatever_the_examples_are(
    name: str, digits_runs: list[Path], request: pytest.FixtureRequest
) -> None:
    run = load(digits_runs[1] if name == "digits" else request.getfixturevalue(name))
    picture = map_of(run, point_of_example(run, 0), dimensions_of(run), HOW)
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture.split(",")[1]))))
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 2
