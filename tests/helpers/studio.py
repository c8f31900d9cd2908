"""A studio in a process of its own, as somebody starts it, and a browser to look at it with."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 120
"""Seconds that something on the page, or the server itself, may take: the machine may be busy."""


@contextmanager
def studio(*arguments: object, log: Path, cwd: Path | None = None) -> Iterator["Studio"]:
    """Until it is left, then interrupted as by Ctrl-C."""
    command = [sys.executable, "-m", "vadd", "studio", *map(str, arguments), "--no-open"]
    source = str(Path(__file__).parents[2] / "src")
    environment = os.environ | {"PYTHONPATH": source, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=cwd, env=environment)
        try:
            yield Studio(process, log, _address(process, log))
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Studio:
    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, url: str) -> None:
        self.process, self.log, self.url = process, log, url

    def interrupt(self) -> int:
        """Ctrl-C; gives back the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE)

    def said(self) -> str:
        return self.log.read_text()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    until = time.monotonic() + 3 * PATIENCE
    while time.monotonic() < until and process.poll() is None:
        if found := re.search(r"the studio is at (\S+)", log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"the studio did not start: {log.read_text()}")


def find_chromium() -> str | None:
    """Debian's, or whatever $VADD_CHROMIUM names."""
    names = (os.environ.get("VADD_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)
