"""Options in groups, and how they are read."""

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from tests.helpers.commands import Command
from tests.helpers.tiny import TINY
from vadd.cli import syntax
from vadd.cli.checks import parse_steps
from vadd.cli.commands import Lazy, LazyGroup
from vadd.cli.options import DrawingOptions
from vadd.cli.syntax_sampling import Sample
from vadd.errors import UserError
from vadd.run.run import Run as LoadedRun
from vadd.run.sampling import SamplingOptions
from vadd.words import duration, parse_size, size_in_memory


def lowered(colour: str) -> str:
    return colour.lower()


@dataclass(frozen=True, kw_only=True)
class Brush:
    wide: bool = False
    """A wide one."""


@dataclass(frozen=True, kw_only=True)
class Paint(Brush):
    """Paint a wall."""

    wall: Annotated[Path, typer.Argument()]
    """What to paint."""
    colour: Annotated[str, lowered]
    """Red or
    blue."""
    coats: Annotated[int, typer.Option("-c", min=1), "Research"] = 2
    """How often."""


def paint(options: Paint) -> None:
    typer.echo(f"{options.wall} {options.colour} {options.coats} {options.wide}")


class Painting(LazyGroup):
    lazy = {"paint": Lazy("Paint.")}  # noqa: RUF012


def run(*arguments: str) -> Result:
    app = typer.Typer(cls=Painting)
    app.callback()(lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(syntax, "Paint", Paint, raising=False)
        patch.setitem(sys.modules, "vadd.cli.paint", sys.modules[__name__])
        return CliRunner().invoke(app, ["paint", *arguments])


def test_an_option_for_each_field_fills_the_class() -> None:
    assert run("north", "--colour", "red", "-c", "3", "--wide").output == "north red 3 True\n"
    assert run("north", "--colour", "BLUE").output == "north blue 2 False\n"  # by the function of the annotation


def test_the_help_shows_every_option_in_its_panel() -> None:
    shown = run("--help").output
    assert "Paint a wall." in shown
    for option, help in (("--colour", "Red or blue."), ("-c", "How often."), ("--wide", "A wide one.")):
        (line,) = (line for line in shown.splitlines() if line.strip().startswith(option))
        assert help in line
    assert shown.index("Common:") < shown.index("--colour") < shown.index("Research:") < shown.index("-c ")


def test_a_field_without_a_default_is_required_and_limits_hold() -> None:
    for arguments, message in ((["north"], "--colour"), (["north", "--colour", "red", "-c", "0"], "-c")):
        refused = run(*arguments).exception
        assert isinstance(refused, UserError)
        assert message in str(refused)


def test_what_is_left_open_is_left_to_the_recipe() -> None:
    options = DrawingOptions(run=Path("run")).sampling()
    given = {name: value for name, value in options.items() if value is not None}
    assert given == {"seed": 0, "precision": "float64"}
    assert DrawingOptions(run=Path("run"), latent_policy="fixed").sampling()["latent_policy"] == "fixed"
    assert DrawingOptions(run=Path("run"), grid="0,0.5,1").sampling()["grid"] == [0, 0.5, 1]


def test_every_option_of_sampling_is_on_the_command_line() -> None:
    here = {field.name for field in fields(Sample)} - {"where", "n"}
    assert set(SamplingOptions.model_fields) - {"z"} <= here


def test_steps_are_sorted_and_told_once() -> None:
    assert parse_steps("5,1,5") == [1, 5]


@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 500_000_000), ("2GB", 2 * 10**9), ("1.5 gb", 1_500_000_000), ("64kB", 64_000), ("7", 7), ("7B", 7)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text, "--memory") == size


@pytest.mark.parametrize("text", ["", "MB", "-1GB", "0", "0.1", "2 bananas", "1e9", "inf"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--memory takes a size like 500MB or 2GB"):
        parse_size(text, "--memory")


def test_numbers_are_written_as_people_do() -> None:
    written = [size_in_memory(count) for count in (0, 999, 1234, 1_234_567, 56 * 10**12, 10**16)]
    assert written == ["0", "999", "1.234 kB", "1.235 MB", "56 TB", "10,000 TB"]
    times = [duration(seconds) for seconds in (42, 1020, 11_100, 1_051_200)]
    assert times == ["42 s", "17 min", "3 h 05 min", "12 d 4 h"]


def test_less_memory_takes_smaller_chunks_of_the_same_samples(
    vadd_command: Command, vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    undisturbed = LoadedRun.stream

    def spied(self: LoadedRun, *arguments: object, **options: object) -> object:
        for part in undisturbed(self, *arguments, **options):  # type: ignore[arg-type]
            sizes.append(len(part.tokens))
            yield part

    monkeypatch.setattr(LoadedRun, "stream", spied)
    drawn = []
    for name, options in (("a.npy", ()), ("b.npy", ("--memory", "100kB"))):
        done = vadd_command("sample", vadd_run, "-n", 300, "--steps", 2, *options, "--out", tmp_path / name)
        assert done.code == 0, done.err
        drawn.append(np.load(tmp_path / name))
    assert np.array_equal(*drawn)
    assert sizes[0] == 300
    assert sum(sizes[1:]) == 300
    assert len(sizes) > 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("sample {vadd} --candidates 3", "--candidates is for --where"),
        ("sample {mdlm} --prior trained", "has no latent; leave --prior out"),
        ("infill {mdlm} --array {codes} --candidates 3", "--candidates needs a run with a latent and one z"),
        (
            "infill {vadd} --array {codes} --candidates 3 --latent-policy resample",
            "--candidates needs a run with a latent",
        ),
        ("eval {vadd} --draws 3", "--draws is for --delbo, --delbo-particles or --zero-shot"),
        ("eval {vadd} --bound 1 --paths 3", "--paths is for --bracket"),
        *((f"eval {{vadd}} --steps 1 {each}", "--bracket, --delbo") for each in ("--particles 3", "--grid cosine")),
        *((f"eval {{vadd}} {each}", "is for --bound") for each in ("--limit 2", "--given-label", "--proposals prior")),
        ("eval {vadd} --bound 1 --convention sedd", "--convention is for --judge"),
        ("eval {vadd} --bound 1 --score-pads", "has no pads; leave --score-pads out"),
        ("eval {vadd} --bound 1 --features words", "--features is for runs on text"),
        ("eval {vadd} --bound 1 --limit 2 --inception {codes}", "the FID is for images"),
        ("eval {vadd} --zero-shot . --bracket 1", "--bracket and --conventions are not for --zero-shot"),
        ("compare {vadd} --bound none --particles 3", "--particles: with --bound none"),
        ("latent {vadd} --encode 0 --steps 2", "--steps is for --interpolate or --traverse"),
        ("latent {vadd} --interpolate 0 1 --span 3", "--span is for --traverse"),
        ("judge {codes} --documents file --field a", "--field is for .csv or .jsonl"),
        ("data inspect people.csv --dir .", "--dir says where to put a download"),
    ],
    ids=str,
)
def test_an_option_that_would_do_nothing_is_refused(
    vadd_command: Command, vadd_run: Path, mdlm_run: Path, tmp_path: Path, words: str, told: str
) -> None:
    codes = tmp_path / "codes.npy"
    np.save(codes, np.array([[5, -1]]))
    done = vadd_command(*words.format(vadd=vadd_run, mdlm=mdlm_run, codes=codes).split())
    assert done.code == 2
    assert told in done.err.splitlines()[-1]


def test_a_key_of_a_recipe_that_does_nothing_is_named(vadd_command: Command, tmp_path: Path) -> None:
    done = vadd_command("train", "checkerboard", *TINY, "model=mdlm", "latent.dim=7", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "latent.dim is not used: model=mdlm has no latent" in done.err


def test_samples_that_were_asked_for_are_measured_beside_bounds(vadd_command: Command, vadd_run: Path) -> None:
    done = vadd_command("eval", vadd_run, "--bound", 1, "--limit", 2, "--samples", 20)
    assert done.code == 0, done.err
    assert "Distance of the samples from the data" in done.out
