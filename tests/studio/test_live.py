"""What the sliders of the latent are answered, beside Gradio and behind the same gate."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from vadd.run.loading import load
from vadd.studio.latent import How, dimensions_of, moved, point_card, point_of_example

PLACE = {"run": "digits-vadd", "example": 1, "steps": 1, "temperature": 0, "values": [1.5, -2.0, 0.0]}


def test_the_picture_is_that_of_the_z_that_the_sliders_say(visitor: TestClient, digits_runs: list[Path]) -> None:
    run = load(digits_runs[1])
    z = moved(point_of_example(run, 1), dimensions_of(run).numbers, [1.5, -2.0, 0.0])
    answer = visitor.post("/live/latent", json=PLACE)
    assert (answer.status_code, answer.text) == (200, point_card(run, z, How(1, 0.0)))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"run": "digits-mdlm"}, "has no latent"),
        ({"run": "../secrets"}, "no run of the name"),
        ({"run": "<script>"}, "&lt;script&gt;"),
        ({"example": 10**6}, "there is no example 1000000"),
    ],
)
def test_what_cannot_be_shown_is_told(visitor: TestClient, changes: dict[str, object], told: str) -> None:
    answer = visitor.post("/live/latent", json=PLACE | changes)
    assert answer.status_code == 400
    assert told in answer.text
    assert "<script>" not in answer.text


@pytest.mark.parametrize(
    "changes", [{"steps": 0}, {"steps": 10**6}, {"values": [0.0] * 7}, {"temperature": -1}, {"values": ["x"]}]
)
def test_absurd_wishes_are_refused(visitor: TestClient, changes: dict[str, object]) -> None:
    assert visitor.post("/live/latent", json=PLACE | changes).status_code == 400


def test_other_pages_and_names_are_refused_here_too(visitor: TestClient) -> None:
    assert visitor.post("/live/latent", json=PLACE, headers={"Origin": "http://evil.example"}).status_code == 403
    assert visitor.post("/live/latent", json=PLACE, headers={"Host": "evil.example"}).status_code == 403
