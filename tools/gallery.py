"""Make the pictures of docs/gallery.md: every command of the page is run, in a folder of its own.

python tools/gallery.py
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def commands(page: str) -> list[list[str]]:
    """The lines of its blocks of code, in words."""
    return [shlex.split(line) for line in page.splitlines() if line.startswith("    vadd ")]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for _, *words in commands((DOCS / "gallery.md").read_text()):
            subprocess.run([sys.executable, "-m", "vadd", *words], cwd=folder, check=True)
        for picture in Path(folder).glob("*.png"):
            shutil.copy(picture, DOCS / "images")


if __name__ == "__main__":
    main()
