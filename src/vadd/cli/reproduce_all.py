"""``vadd reproduce --list`` and ``vadd reproduce paper``: all studies of the paper."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.console import err_console, out_console, progress_bar
from vadd.cli.options import JsonOption, OverridesArgument, OverwriteOption, check_there
from vadd.cli.study_options import OutOption, Scale
from vadd.errors import Interrupted, UserError

INTERRUPTED = 130
DONE = "done.txt"
"""In the folder of a study that is finished: the command that it was made by."""


def show_list(asked: bool) -> None:
    if not asked:
        return
    from rich.padding import Padding

    from vadd.studies.catalogue import NOTE, catalogue

    with progress_bar() as progress:
        entries = list(catalogue(Path("runs"), progress))
    for entry in entries:
        first, *rest = entry.lines()
        out_console.print(first)
        for line in rest:
            out_console.print(Padding(line, (0, 0, 0, 4)))
    out_console.print(f"\n{NOTE}")
    raise typer.Exit


ListOption = Annotated[
    bool,
    typer.Option(
        "--list", callback=show_list, is_eager=True, help="Show every table and figure of the paper, and what it takes."
    ),
]


def paper_command(run: Callable[[list[str]], object]) -> Callable[..., None]:
    """The command ``paper``; ``run`` is given the words of each study's own command line."""

    def paper(
        overrides: OverridesArgument = None,
        out: OutOption = Path("runs/paper"),
        scale: Annotated[Scale, typer.Option(help="small: days on a laptop; paper: weeks on GPUs.")] = Scale.small,
        only: Annotated[str | None, typer.Option(help="These studies alone, like toys,mnist.")] = None,
        judge: Annotated[str | None, typer.Option(help="The language model that judges texts.")] = None,
        corpora: Annotated[Path | None, typer.Option(help="The folder with the zero-shot corpora.")] = None,
        json: JsonOption = None,
        overwrite: OverwriteOption = False,
    ) -> None:
        """All tables and figures of the paper, one after the other; run it again to go on where it stopped.

        A study that lacks something (data, a judge) says so and is passed over; the others are made.

        \b
        Examples:
          vadd reproduce --list
          vadd reproduce paper --only toys,speed
          vadd reproduce paper --scale paper --judge gpt2-large --corpora corpora/
        """
        check_there(corpora)
        from vadd.files import write_json
        from vadd.parallel import is_main
        from vadd.studies.catalogue import TARGETS, results_of
        from vadd.studies.ensure import check_overrides

        names = [target.name for target in TARGETS]
        chosen = names if only is None else [name.strip() for name in only.split(",")]
        for name in chosen:
            if name not in names:
                raise UserError(f"unknown study {name!r}; `vadd reproduce --list` shows them")
        # What is wrong for every study is one line; what does not fit one of them is told when it is passed over.
        check_overrides(overrides or [])
        failed: dict[str, str] = {}
        for name in chosen:
            words = _words(name, scale, out, judge, corpora, overrides or [])
            problem = _make(name, words, out, run)
            if problem is not None:
                err_console.print(f"{name} is passed over: {problem}", soft_wrap=True)
                failed[name] = problem
        if json is not None and is_main():
            made = [target for target in TARGETS if target.name in chosen and target.name not in failed]
            write_json(json, {target.name: results_of(target, out) for target in made})
        if failed:
            raise UserError(f"not made: {', '.join(failed)}; the reasons are above. All others are in {out}")

    return paper


def _words(
    name: str, scale: Scale, out: Path, judge: str | None, corpora: Path | None, overrides: list[str]
) -> list[str]:
    level = "cpu" if (name, scale) == ("toys", Scale.small) else scale.value
    # Zero-shot judges the runs of the study of text.
    words = [name, "--scale", level, "--out", str(out / ("text" if name == "zero-shot" else name))]
    words += ["--judge", judge] if judge is not None and name in ("text", "lm1b") else []
    words += ["--corpora", str(corpora)] if corpora is not None and name == "zero-shot" else []
    return [*words, *overrides]


def _make(name: str, words: list[str], out: Path, run: Callable[[list[str]], object]) -> str | None:
    """Why a study could not be made; None where it was, now or before."""
    from vadd.files import write_whole
    from vadd.parallel import is_main
    from vadd.studies.catalogue import TARGETS

    if name == "zero-shot" and "--corpora" not in words:
        return "it needs --corpora, a folder with copies of the corpora"
    command, done = shlex.join(words), out / name / DONE
    results = next(target for target in TARGETS if target.name == name).results(out)
    if done.is_file() and done.read_text() == command and results.is_file():
        err_console.print(f"{name}: made before", soft_wrap=True)
        return None
    err_console.print(f"vadd reproduce {command}", soft_wrap=True)
    try:
        # An interruption comes back as an exit code: typer catches it.
        if run(words) == INTERRUPTED:
            raise Interrupted(f"stopped in the study {name}")
    except UserError as error:
        return str(error)
    if is_main():
        done.parent.mkdir(parents=True, exist_ok=True)
        write_whole(done, command.encode())
    return None
