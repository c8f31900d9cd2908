"""What holds after every call, whatever it was asked to do."""

from pathlib import Path

from tests.helpers.commands import Finished
from tests.helpers.files import contents

MOST_BYTES = 3000


def problem(ended: Finished) -> str | None:
    """What is wrong with the end of a command."""
    if ended.code not in (0, 2):
        return f"ended with {ended.code}: {ended.err[-400:]}"
    if "Traceback" in ended.err:
        return ended.err[-400:]
    size = len(ended.err.encode())
    return f"said {size} bytes: {ended.err[:200]}" if size > MOST_BYTES else None


class Watched:
    """A working directory whose files must stay as they are; what is new in it is removed between the calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known = set(folder.rglob("*"))
        self.before = contents(folder.parent)

    def clean(self) -> None:
        for path in sorted(set(self.folder.rglob("*")) - self.known, reverse=True):  # what is in a folder before it
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    def check(self) -> None:
        """Nothing was lost or changed, and nothing was written outside."""
        self.clean()
        after = contents(self.folder.parent)
        assert {name for name, content in self.before.items() if after.get(name) != content} == set()
        inside = f"{self.folder.name}/"
        assert {name for name in after.keys() - self.before.keys() if not name.startswith(inside)} == set()
