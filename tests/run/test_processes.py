"""Samples drawn by several processes: the file that one process writes, byte for byte."""

from pathlib import Path

import pytest

from tests.helpers.children import sampling_commands, together
from tests.helpers.commands import Command
from vadd.run import sampling as memory

CASES = ((300, ".npy"), (300, ".csv"), (40, ".npy"))


def test_two_processes_write_what_one_writes(
    vadd_run: Path, vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five chunks, the last one short; and a single one, where the second process has nothing to do."""

    def commands(by: str) -> dict[Path, list[object]]:
        files = {tmp_path / f"{by}-{n}{suffix}": n for n, suffix in CASES}
        return {out: [vadd_run, "-n", n, "--steps", 2, "--seed", 5, "--out", out] for out, n in files.items()}

    monkeypatch.setattr(memory, "CPU_ROWS", 64)
    for arguments in commands("one").values():
        assert vadd_command("sample", *arguments).code == 0
    together(2, sampling_commands, 64, *commands("two").values())
    for one, two in zip(commands("one"), commands("two"), strict=True):
        assert two.read_bytes() == one.read_bytes()
    assert len(list(tmp_path.iterdir())) == 2 * len(CASES)
