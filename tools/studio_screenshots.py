"""Pictures of every page of the studio, light, dark and narrow, for the documentation.

    python -m tools.studio_screenshots runs/digits-mdlm runs/digits-vadd [--out docs/images]

The studio is started with the runs, a browser uses each page, and what it shows is written in few colours: each file is
small. Needs Playwright and Chromium.
"""

import argparse
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from tests.helpers.studio import PATIENCE, find_chromium, studio

COLOURS = 128
TALLEST = 1600
LOOKS = {"": (1200, "light"), "-dark": (1200, "dark"), "-narrow": (400, "light")}


def open_tab(page: Page, name: str) -> None:
    """On a narrow screen the last tabs stand in a menu."""
    tab = page.get_by_role("tab", name=name)
    if tab.count() and tab.first.is_visible():
        tab.first.click()
    else:
        page.locator(".overflow-menu > button").click()
        page.locator(".overflow-dropdown button", has_text=name).click()


def draw(page: Page) -> None:
    page.locator("#draw-shown img").nth(1).wait_for()


def infill(page: Page) -> None:
    open_tab(page, "Infill")
    page.wait_for_function("document.querySelector('#painter canvas')?.width !== 300")
    canvas = page.locator("#painter canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    for row in range(4, 8):
        height = box["y"] + (row + 0.5) * box["height"] / 8
        page.mouse.move(box["x"] + 2, height)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] - 2, height, steps=16)
        page.mouse.up()
    page.locator("#infill-button").click()
    page.locator("#infill-shown img").nth(1).wait_for()


def latent(page: Page) -> None:
    open_tab(page, "Latent")
    page.locator("#latent-shown img").wait_for()
    for button, place in (("#latent-walk", "#latent-path"), ("#latent-vary", "#latent-varied")):
        page.locator(button).click()
        page.locator(f"{place} img").first.wait_for()


def compare(page: Page) -> None:
    open_tab(page, "Compare")
    page.locator("#compare-button").click()
    page.locator("#compare-shown .note", has_text="kept in").wait_for()


def train(page: Page) -> None:
    open_tab(page, "Train")
    if not page.locator("#train-shown figcaption").count():
        page.get_by_label("Training steps").fill("400")
        page.locator("#train-plan").click()
        page.locator("#train-start").click()
    page.locator("#train-shown .note", has_text="finished").wait_for()
    page.locator("#train-shown img.pixels").wait_for()


PAGES: dict[str, Callable[[Page], None]] = {
    "draw": draw,
    "infill": infill,
    "latent": latent,
    "compare": compare,
    "train": train,
}


def save(page: Page, file: Path) -> None:
    page.mouse.move(0, 0)
    page.evaluate("() => { document.activeElement?.blur(); window.scrollTo(0, 0); }")
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    picture = picture.crop((0, 0, picture.width, min(picture.height, TALLEST)))
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file}: {picture.width} x {picture.height}, {file.stat().st_size // 1000} kB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--pages", nargs="+", choices=list(PAGES), default=list(PAGES))
    options = parser.parse_args()
    runs = [run.resolve() for run in options.runs]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        place = Path(folder)
        browser = driver.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"])
        # Started inside: what is kept stands on the page, and should not name a folder of this machine.
        with studio(*runs, "--out", "runs/studio", log=place / "log", cwd=place) as running:
            for look, (width, scheme) in LOOKS.items():
                shown = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
                shown.set_default_timeout(5000 * PATIENCE)
                page = shown.new_page()
                page.goto(running.url)
                draw(page)
                for name in options.pages:
                    PAGES[name](page)
                    save(page, options.out / f"studio-{name}{look}.png")
                shown.close()
        browser.close()


if __name__ == "__main__":
    main()
