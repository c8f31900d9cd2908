"""How fast the studio is: until the page opens, for a draw, and under a slider.

    python benchmarks/studio.py [RUN ...] [--chromium PATH] [--starts 5] [--clicks 10] [--seconds 5] [--json FILE]

`vadd studio` is started, without a run on the models of the package, and a browser clicks and drags. Needs Playwright
and Chromium. The load average stands beside the numbers: on a machine that has other work they are worse.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

PATIENCE = 600
NEXT_PICTURE = """before => new Promise(done => {
    const began = performance.now();
    document.querySelector('#draw-button').click();
    const look = () => {
        const image = document.querySelector('#draw-shown img');
        if (image && image.src !== before && image.complete) done(performance.now() - began);
        else requestAnimationFrame(look);
    };
    look();
})"""
DRAG = """seconds => new Promise(done => {
    const slider = document.querySelector('#latent-slider-0 input[type=range]');
    let last = document.querySelector('#latent-shown img').src;
    let moves = 0, pictures = 0, different = 0;
    const watched = new MutationObserver(() => {
        const image = document.querySelector('#latent-shown img');
        pictures += 1;
        if (image && image.src !== last) { last = image.src; different += 1; }
    });
    watched.observe(document.querySelector('#latent-shown .live'), {childList: true});
    const began = performance.now();
    const move = () => {
        const took = (performance.now() - began) / 1000;
        if (took >= seconds) {
            watched.disconnect();
            done({moves: moves / took, pictures: pictures / took, different: different / took});
            return;
        }
        slider.value = 3 * Math.sin(2 * took);
        slider.dispatchEvent(new Event('input', {bubbles: true}));
        moves += 1;
        requestAnimationFrame(move);
    };
    move();
})"""


@contextmanager
def studio(*arguments: object) -> Iterator[tuple[str, float]]:
    """The address of a studio and the seconds from its start until it answered; ended as by Ctrl-C."""
    with tempfile.NamedTemporaryFile("w+") as log:
        began = time.perf_counter()
        command = [sys.executable, "-m", "vadd", "studio", *map(str, arguments), "--no-open"]
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"PYTHONUNBUFFERED": "1"})
        try:
            while not (found := re.search(r"the studio is at (\S+)", Path(log.name).read_text())):
                if process.poll() is not None:
                    sys.exit(f"the studio did not start: {Path(log.name).read_text()}")
                time.sleep(0.02)
            urllib.request.urlopen(found[1], timeout=PATIENCE).read()
            yield found[1], time.perf_counter() - began
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def opened(page: Page, address: str, served: float) -> dict[str, float]:
    """Seconds from the start of the studio until the page can be used, and until it shows samples."""
    began = time.perf_counter()
    page.goto(address)
    page.locator("#draw-button").wait_for()
    usable = time.perf_counter() - began
    page.wait_for_selector("#draw-shown img")
    return {"usable": served + usable, "samples_shown": served + time.perf_counter() - began}


def drawn(page: Page, clicks: int) -> list[float]:
    """Milliseconds from a click to another picture, each of another seed."""
    page.wait_for_selector("#draw-shown img")
    found = []
    for seed in range(1, clicks + 1):
        page.get_by_label("Seed", exact=True).fill(str(seed))
        page.wait_for_timeout(300)
        found.append(page.evaluate(NEXT_PICTURE, page.locator("#draw-shown img").first.get_attribute("src")))
    return found


def dragged(page: Page, seconds: float) -> dict[str, float]:
    """Each second, while a slider is moved to and fro at every frame of the browser: moves, pictures, and how many of
    these differ from the one before; small pictures often stay as they are for a while.
    """
    page.get_by_role("tab", name="Latent").click()
    page.locator("#latent-shown img").wait_for()
    found: dict[str, float] = page.evaluate(DRAG, seconds)
    return found


def seconds_of_imports() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import gradio, torch"], check=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, help="trained on images, at least one with a latent")
    parser.add_argument("--chromium", default=os.environ.get("VADD_CHROMIUM") or shutil.which("chromium"))
    parser.add_argument("--clicks", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    result: dict[str, object] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        place = Path(folder)
        browser = driver.chromium.launch(executable_path=options.chromium, args=["--no-sandbox", "--disable-gpu"])
        starts: list[dict[str, float]] = []
        for last in [False] * (options.starts - 1) + [True]:
            imports = seconds_of_imports()
            # A new one each time, which has fetched nothing before.
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            page.set_default_timeout(1000 * PATIENCE)
            with studio(*options.runs, "--out", place) as (address, served):
                starts.append({"imports": imports, "served": served} | opened(page, address, served))
                if last:
                    clicks = drawn(page, options.clicks)
                    result["slider_a_second"] = dragged(page, options.seconds)
            page.close()
        browser.close()
    result |= {
        "start_seconds": starts,
        "start_seconds_median": {key: statistics.median(start[key] for start in starts) for key in starts[0]},
        "draw_ms": clicks,
        "draw_ms_median": statistics.median(clicks),
        "load_after": os.getloadavg()[0],
    }
    text = json.dumps(result, indent=2)
    print(text)
    if options.json is not None:
        options.json.write_text(text)


if __name__ == "__main__":
    main()
