"""Samples drawn by several processes: the file that one process writes, byte for byte."""

from pathlib import Path

import pytest

from tests.helpers.children import sampling_command, together
from tests.helpers.commands import Command
from vadd.run import run as memory


@pytest.mark.parametrize(("n", "suffix"), [(300, ".npy"), (300, ".csv"), (40, ".npy")], ids=str)
def test_two_processes_write_what_one_writes(
    vadd_run: Path, vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int, suffix: str
) -> None:
    """Five chunks, the last one short; and a single one, where the second process has nothing to do."""
    arguments = (vadd_run, "-n", n, "--steps", 2, "--seed", 5)
    one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
    monkeypatch.setattr(memory, "CPU_ROWS", 64)
    assert vadd_command("sample", *arguments, "--out", one).code == 0
    together(2, sampling_command, 64, *arguments, "--out", two)
    assert two.read_bytes() == one.read_bytes()
    assert sorted(tmp_path.iterdir()) == [one, two]
