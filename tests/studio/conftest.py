"""One studio and one browser for all tests that look at the page."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from tests.helpers.studio import PATIENCE, Studio, find_chromium, studio
from tests.helpers.studio_calls import in_a_loop
from tests.helpers.text_runs import text_recipe
from tests.helpers.tiny import train_in
from vadd.recipe import load_recipe
from vadd.studio.page import build_page
from vadd.studio.runs import OpenRuns
from vadd.studio.server import build_app, private_folder
from vadd.studio.trainings import Trainings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

TINY_DIGITS = ("training.steps=20", "training.batch=32", "network.width=32", "training.evaluate_every=20")
QUICKLY = ("training.warmup_steps=1", "training.learning_rate=0.03")
TOKEN = "correct-horse-battery"
HOSTILE = "<script>document.title='taken'</script>${document.title='taken'}{{#each value}}\n" * 60


@pytest.fixture(scope="session")
def digits_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """MDLM and VADD on the digits, trained for a moment."""
    folder = tmp_path_factory.mktemp("studio")
    for model in ("mdlm", "vadd"):
        recipe = load_recipe("digits").with_overrides([*TINY_DIGITS, f"model={model}"])
        assert train_in(folder / f"digits-{model}", recipe).finished
    return [folder / "digits-mdlm", folder / "digits-vadd"]


@pytest.fixture(scope="session")
def labelled_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On the digits and their labels, until those make a difference."""
    folder = tmp_path_factory.mktemp("labels")
    changes = [*TINY_DIGITS, "data.labels=true", "training.steps=80", "training.ema=0.5", *QUICKLY]
    assert train_in(folder / "named", load_recipe("digits").with_overrides(changes)).finished
    return folder / "named"


@pytest.fixture(scope="session")
def script_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a text that would like to be executed."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "script.txt").write_text(HOSTILE)
    assert train_in(folder / "script", text_recipe(folder / "script.txt", "data.length=24")).finished
    return folder / "script"


@contextmanager
def served(uploads: Path, place: Path, *paths: Path, token: str | None = None) -> Iterator[TestClient]:
    """The whole application in this process, without a port."""
    host = "127.0.0.1" if token is None else "0.0.0.0"
    runs = OpenRuns(paths)
    trainings = Trainings(runs, place)
    app = in_a_loop(lambda: build_app(build_page(runs, trainings), runs, uploads, host=host, token=token))
    with TestClient(app, base_url="http://127.0.0.1:7860", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="session")
def uploads() -> Iterator[Path]:
    with private_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def visitor(
    uploads: Path, tmp_path_factory: pytest.TempPathFactory, digits_runs: list[Path], vadd_run: Path, script_run: Path
) -> Iterator[TestClient]:
    """Another user of this machine, who needs no token."""
    with served(uploads, tmp_path_factory.mktemp("place"), *digits_runs, vadd_run, script_run) as client:
        yield client


@pytest.fixture(scope="session")
def token_holder(
    uploads: Path, tmp_path_factory: pytest.TempPathFactory, digits_runs: list[Path]
) -> Iterator[TestClient]:
    with served(uploads, tmp_path_factory.mktemp("place"), digits_runs[1], token=TOKEN) as client:
        assert client.get("/", params={"token": TOKEN}).status_code == 200
        yield client


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install playwright")
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no browser: apt-get install chromium, or name one in $VADD_CHROMIUM")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def open_studio(
    tmp_path_factory: pytest.TempPathFactory,
    digits_runs: list[Path],
    vadd_run: Path,
    mdlm_run: Path,
    script_run: Path,
    labelled_run: Path,
) -> Iterator[Studio]:
    """With runs on images, with labels and without, points and text."""
    folder = tmp_path_factory.mktemp("server")
    with studio(*digits_runs, vadd_run, mdlm_run, script_run, labelled_run, log=folder / "log", cwd=folder) as running:
        yield running


@pytest.fixture(scope="session")
def visitors(browser: "Browser") -> "Iterator[BrowserContext]":
    """They share what the browser has fetched before."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(1000 * PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(visitors: "BrowserContext", open_studio: Studio) -> "Iterator[Page]":
    """A visitor who has just come."""
    opened = visitors.new_page()
    opened.goto(open_studio.url)
    opened.wait_for_selector("#draw-shown img")
    yield opened
    opened.close()
