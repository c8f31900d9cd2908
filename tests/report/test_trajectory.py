"""How samples come about: the steps that revealed what, a page that loads nothing, and animations frame by frame."""

import base64
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from tests.helpers.exact import properties
from tests.helpers.pages import NASTY, Elements
from tests.helpers.pictures import trajectory
from vadd.kinds.arrays import Array
from vadd.report.images import tokens_to_images
from vadd.report.trajectory import (
    COLUMNS,
    HIDDEN,
    Token,
    colour,
    image_page,
    mixed,
    reveal_steps,
    text_gif,
    text_page,
    token_histories,
    visible,
)

MASK = 9
STATES = np.array([[[9, 9, 5, 9]], [[1, 9, 5, 9]], [[9, 2, 5, 9]], [[3, 2, 5, 4]]])
"""Three steps of one sample: the first position is revealed, taken back and revealed again, the third was given."""


def histories(pieces: list[str], states: Array = STATES) -> list[list[Token]]:
    return token_histories(states, MASK, [pieces], "old{}".format)


def spans(page: str) -> list[dict[str, Any]]:
    parsed = Elements()
    parsed.feed(page)
    return [attributes for tag, attributes in parsed.tags if tag == "span" and "data-changes" in attributes]


def test_the_last_reveal_counts_and_what_was_given_has_none() -> None:
    assert reveal_steps(STATES, MASK).tolist() == [[3, 2, 0, 3]]


@given(
    states=arrays.arrays(
        np.int64, st.tuples(st.integers(2, 6), st.integers(1, 3), st.integers(1, 4)), elements=st.integers(0, 2)
    )
)
@properties
def test_histories_say_what_stood_where_at_every_step(states: Array) -> None:
    """In any states, 2 the mask, at whose end nothing is masked."""
    states[-1] = np.minimum(states[-1], 1)
    pieces = [[f"{value}" for value in row] for row in states[-1]]
    rows = token_histories(states, 2, pieces, str)
    steps = reveal_steps(states, 2)
    for (step, sample, position), value in np.ndenumerate(states):
        token = rows[sample][position]
        assert token.at(step) == (None if value == 2 else str(value))
    for (sample, position), last in np.ndenumerate(steps):
        line = states[:, sample, position]
        assert rows[sample][position].revealed == last
        assert (line[last:] != 2).all()
        assert last == 0 or line[last - 1] == 2


def test_a_token_knows_its_pieces() -> None:
    first, second, third, fourth = histories(["a", "b", "c", "d"])[0]
    assert first.changes == ((0, None), (1, "old1"), (2, None), (3, "a"))
    assert second.changes == ((0, None), (2, "b"))
    assert third == Token(((0, "c"),), 0)
    assert [fourth.at(step) for step in range(4)] == [None, None, None, "d"]
    assert [token.piece for token in (first, second, third, fourth)] == ["a", "b", "c", "d"]


def test_the_page_loads_nothing_and_escapes_everything() -> None:
    page = text_page(histories([NASTY, "</script>", NASTY, "\n"]), 3, NASTY)
    assert not re.search(r"https?:|//|@import|url\(", page)
    assert page.count("<script") == page.count("</script>") == 1
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    parsed = Elements()
    parsed.feed(page.partition("<script>")[0])
    assert parsed.text.count(NASTY) == 4  # the title twice, two tokens
    assert not {"link", "iframe", "img"} & {tag for tag, _ in parsed.tags}
    assert not any({"src", "href"} & attributes.keys() for _, attributes in parsed.tags)


def test_every_token_of_the_page_has_its_colour_and_its_history() -> None:
    shown = spans(text_page(histories(["a", "b", "c", "\n"]), 3, "title"))
    assert [span["title"] for span in shown] == ["step 3", "step 2", "step 3"]
    assert [span["style"] for span in shown] == [f"--c:{colour(step, 3)}" for step in (3, 2, 3)]
    assert json.loads(shown[0]["data-changes"]) == [[0, None], [1, "old1"], [2, None], [3, "a"]]
    assert json.loads(shown[2]["data-changes"]) == [[0, None], [3, "↵\n"]]


def test_colours_differ_by_step_and_one_step_has_one() -> None:
    assert len({colour(step, 20) for step in range(1, 21)}) == 20
    assert colour(1, 1) == colour(1, 20)
    assert visible("a\nb") == "a↵\nb"


@pytest.mark.parametrize("shape", [(4, 4, 1), (2, 3, 3)])
def test_a_page_of_images_holds_all_states_and_when_pixels_were_revealed(shape: tuple[int, int, int]) -> None:
    states = trajectory(6, count=2, positions=int(np.prod(shape)), values=5)
    page = image_page(states, shape, 5, "title")
    assert not re.search(r"https?:|//|@import", re.sub(r"base64,[A-Za-z0-9+/=]+", "", page))
    pictures = [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(found))).convert("RGB"))
        for found in re.findall(r"url\(data:image/png;base64,([A-Za-z0-9+/=]+)\)", page)
    ]
    assert len(pictures) == 4
    height, width = shape[:2]
    for sample in range(2):
        frames, when = pictures[2 * sample : 2 * sample + 2]
        assert frames.shape == (3 * height, 3 * width, 3)
        for step, expected in enumerate(tokens_to_images(states[:, sample], shape, 5, masks=True)):
            row, column = divmod(step, 3)
            place = np.s_[row * height : (row + 1) * height, column * width : (column + 1) * width]
            assert np.array_equal(frames[place], np.broadcast_to(expected, (height, width, 3)))
        last = reveal_steps(states, 5)[sample].reshape(shape).max(-1)
        for place, step in np.ndenumerate(last):
            assert "#" + bytes(when[place].tolist()).hex() == colour(step, 6)


def test_an_animation_of_text_has_a_frame_for_each_state(tmp_path: Path) -> None:
    path = text_gif(tmp_path / "new" / "text.gif", histories(["aa", "\n", "given", "d" * COLUMNS]), 3)
    with Image.open(path) as animation:
        assert animation.n_frames == 4  # type: ignore[attr-defined]
        frames = []
        for number in range(4):
            animation.seek(number)
            frames.append(np.asarray(animation.convert("RGB")).reshape(-1, 3))
    masked = [int((frame == np.array(list(bytes.fromhex(HIDDEN[1:])))).all(1).sum()) for frame in frames]
    assert masked[0] > masked[1]  # one was revealed
    assert masked[3] == 0
    assert masked[2] > 0
    late = np.array(list(bytes.fromhex(mixed(colour(3, 3))[1:])))
    assert (np.abs(frames[3].astype(int) - late).max(1) <= 2).any()  # GIFs have 256 colours
    assert not (np.abs(frames[0].astype(int) - late).max(1) <= 2).any()


def test_the_slider_works_in_a_browser(tmp_path: Path) -> None:
    """The page's own script, asked for step 1, masks what is masked there; skipped where there is no browser."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no chromium")
    page = text_page(histories(["aa", "bb", "cc", "dd"]), 3, "title").replace("show(last);", "show(1);")
    (tmp_path / "page.html").write_text(page)
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    quiet += [
        "--disable-background-networking",
        "--disable-component-update",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    shown = subprocess.run(
        [browser, *quiet, "--dump-dom", f"file://{tmp_path / 'page.html'}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    tokens = re.findall(r'data-changes="[^"]*"(?: class="(masked|)")?>([^<]*)</span>', shown)
    assert tokens == [("", "old1"), ("masked", "bb"), ("masked", "dd")]
    assert "step 1 of 3, 2 masked" in shown
