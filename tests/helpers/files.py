"""Files written and read back."""

import os
from pathlib import Path


def write(path: Path, content: str | bytes) -> Path:
    """One file, and the folders it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_all(folder: Path, files: dict[str, bytes]) -> Path:
    """A folder of files."""
    for name, content in files.items():
        write(folder / name, content)
    return folder


def contents(path: Path) -> dict[str, bytes]:
    """Every file in a folder and below."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def do_not_wait_for_the_disk() -> None:
    """No test cuts the power, and a killed process loses nothing that it has written."""
    os.fsync = lambda fd: None
