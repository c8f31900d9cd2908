"""Help, version, and how little has to be imported for them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import vadd
from tests.helpers.commands import Command
from vadd.cli import app
from vadd.cli.commands import PANELS


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    names = list(getattr(command, "commands", ()))
    if not names:
        yield path
    for name in names:
        yield from leaves(command.get_command(None, name), (*path, name))


COMMANDS = list(leaves(typer.main.get_command(app)))


def test_the_commands_that_others_rely_on_are_there() -> None:
    wanted = ["demo", "train", "sample", "eval", "compare", "recipes"]
    assert {(name,) for name in wanted} | {("reproduce", "toys")} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_examples_that_call_it(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"])
    assert result.exit_code == 0
    examples = result.output.partition("Examples")[2]
    assert re.search(rf"\n +vadd {' '.join(command)}\b", examples)


@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c[0] in {"demo", "eval", "compare", "reproduce"}], ids=" ".join
)
def test_every_command_that_shows_numbers_writes_them_as_json(command: tuple[str, ...]) -> None:
    assert "--json" in CliRunner().invoke(app, [*command, "--help"]).output


def test_the_version_is_that_of_the_package(vadd_command: Command) -> None:
    shown = vadd_command("--version")
    assert (shown.code, shown.out) == (0, f"vadd {vadd.__version__}\n")


def test_an_unknown_command_is_refused(vadd_command: Command) -> None:
    refused = vadd_command("trian")
    assert refused.code == 2
    assert "trian" in refused.err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_first_panel_of_options_is_on_the_first_screen(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 80 columns and 40 lines, with what stands above it. Examples are at the end."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, [*command, "--help"]).output
    head, title, rest = re.split(r"^(Common|Options):\n", shown, maxsplit=1, flags=re.MULTILINE)
    first, *others = rest.split("\n\n")
    assert len(re.findall(r"^  -", first, re.MULTILINE)) <= 10
    assert (head + first).count("\n") + 2 <= 40
    panels = [panel.strip().partition(":")[0] for panel in others]
    assert panels == [name for name in PANELS if name in panels] + ["Examples"]
    assert (title == "Options") == (len(panels) == 1)
    assert all(len(line) <= 80 for line in shown.partition("Examples:")[0].splitlines())


HEAVY = {"torch", "numpy", "matplotlib", "accelerate", "transformers", "scipy", "sklearn", "pandas"}
REFUSED_AT_ONCE = [
    (["recipes", "chekerboard"], "unknown recipe 'chekerboard', did you mean 'checkerboard'?; see `vadd recipes`"),
    (["train", "nosuch"], "unknown recipe 'nosuch'; see `vadd recipes`"),
    (["train", "--data", "no.npy"], "there is no file no.npy"),
    (["train", "checkerboard", "--out", "file"], "file exists and is not a run"),
    (["train", "--out", "nowhere", "--resume"], "nowhere is not a run: there is no such directory"),
    (["sample", "nowhere"], "nowhere is not a run: there is no such directory"),
    (["sample", "--out", "no/x.npy"], "there is no directory no to write x.npy into"),
    (["sample", "--out", "x.doc"], "--out takes a file that ends in .npy, .csv, .png, .txt, .jsonl or .parquet"),
    (["sample", "--energy", "nowhere"], "nowhere is not a run"),
    (["infill", "--file", "no.txt"], "there is no file no.txt"),
    (["latent", "nowhere", "--traverse"], "nowhere is not a run"),
    (["eval", "nowhere"], "nowhere is not a run"),
    (["eval", "--data", "no.npy"], "there is no file no.npy"),
    (["eval", "--zero-shot", "none"], "there is no file none"),
    (["compare", "nowhere"], "nowhere is not a run"),
    (["export", "nowhere", "new"], "nowhere is not a run"),
    (["plan", "nosuch"], "unknown recipe 'nosuch'"),
    (["status", "nowhere"], "nowhere is not a run"),
]
SCRIPT = f"""
import sys, vadd.cli
for arguments in {[arguments for arguments, _ in REFUSED_AT_ONCE]!r}:
    sys.argv = ["vadd", *arguments]
    try:
        vadd.cli.main()
    except SystemExit as ended:
        assert ended.code == 2
    heavy = {HEAVY!r} & set(sys.modules)
    assert not heavy, (arguments, heavy)
"""


def test_wrong_names_and_paths_are_one_line_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    lines = ended.stderr.splitlines()
    assert len(lines) == len(REFUSED_AT_ONCE)
    for line, (_, told) in zip(lines, REFUSED_AT_ONCE, strict=True):
        assert line.startswith(f"error: {told}")


def test_help_waits_not_even_for_pydantic() -> None:
    script = f"import sys, vadd.cli; assert not {HEAVY | {'pydantic', 'yaml'}!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)


def test_sampling_does_without_what_only_data_and_figures_need(vadd_run: Path) -> None:
    script = (
        "import sys, vadd\n"
        f"vadd.load({str(vadd_run)!r}).sample(2)\n"
        f"heavy = {HEAVY - {'torch', 'numpy'}!r} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)
