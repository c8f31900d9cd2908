"""A training that no memory is there for is refused in one line, before it takes any."""

import re
from pathlib import Path

import pytest

from tests.helpers.commands import Command
from tests.helpers.tiny import TINY
from vadd.recipe import plan as fitting


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["training.batch=1000000000"], r"at least [\d.,]+ TB, .*: lower training\.batch or"),
        (
            ["network.width=1000000"],
            r"at least [\d.,]+ TB, .*: make the network, the latent or the vocabulary smaller$",
        ),
        (
            ["latent.dim=1000000000"],
            r"at least [\d.,]+ TB, .*: make the network, the latent or the vocabulary smaller$",
        ),
        (
            ["data.vocab_size=1000000000"],
            r"at least [\d.,]+ TB, .*: make the network, the latent or the vocabulary smaller$",
        ),
        (
            ["network.width=10000000000"],
            r"more memory than any machine has, .*: make the network, the latent or the vocabulary smaller$",
        ),
    ],
    ids=["batch", "width", "latent", "vocabulary", "width-beyond-counting"],
)
def test_what_cannot_fit_is_refused_with_what_to_lower(
    vadd_command: Command, tmp_path: Path, changes: list[str], told: str
) -> None:
    refused = vadd_command("train", "checkerboard", *TINY, *changes, "--out", tmp_path / "run")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1
    assert re.search(f"^error: this training needs {told}", refused.err.strip())
    assert not (tmp_path / "run").exists()


def test_a_batch_in_parts_may_fit_where_a_whole_one_does_not(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("train", "checkerboard", *TINY, "training.batch=2048", "training.steps=1", "--out", tmp_path / "run")
    monkeypatch.setattr(fitting, "available_memory", lambda device: 1_500_000)
    refused = vadd_command(*arguments)
    assert refused.code == 2
    assert refused.err.endswith(
        "1.5 MB are available: lower training.batch or the sizes of the network, or raise training.accumulate\n"
    )
    assert vadd_command(*arguments, "training.accumulate=32").code == 0


def test_what_is_out_of_memory_on_the_way_is_one_line_too(
    vadd_command: Command, vadd_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (MemoryError("Unable to allocate 5 TiB"), RuntimeError("CUDA out of memory. Tried\nmore")):
        monkeypatch.setattr("vadd.run.loading.load", lambda *_, error=error, **__: (_ for _ in ()).throw(error))
        ended = vadd_command("sample", vadd_run)
        assert ended.code == 2
        assert ended.err == f"error: there is not enough memory for this: {str(error).splitlines()[0]}\n"
    monkeypatch.setattr("vadd.run.loading.load", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        vadd_command("sample", vadd_run)
