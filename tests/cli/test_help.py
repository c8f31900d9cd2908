"""Help, version, and how little has to be imported for them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import vadd
from tests.conftest import Command
from vadd.cli import app


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    children = getattr(command, "commands", {})
    if not children:
        yield path
    for name, child in children.items():
        yield from leaves(child, (*path, name))


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


def test_help_does_not_wait_for_torch_and_bad_input_is_one_line_in_a_real_process() -> None:
    script = (
        "import sys, vadd.cli\n"
        "assert not {'torch', 'matplotlib', 'accelerate'} & set(sys.modules), 'too much was imported'\n"
        "sys.argv = ['vadd', 'recipes', 'chekerboard']\n"
        "vadd.cli.main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "error: unknown recipe 'chekerboard', did you mean 'checkerboard'?; see `vadd recipes`\n"
