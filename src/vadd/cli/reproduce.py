"""``vadd reproduce``: a command for each study, made of the options that its definition names."""

import inspect
import shlex
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from rich.padding import Padding

from vadd.cli.commands import RESEARCH, PanelCommand
from vadd.cli.console import Narrator, err_console, out_console, show_results
from vadd.cli.options import JsonOption, OverridesArgument, OverwriteOption, check_run, check_there, parse_steps
from vadd.cli.syntax_sampling import JudgeOptions
from vadd.errors import Interrupted, UserError
from vadd.files import write_json, write_whole
from vadd.parsing import read_json
from vadd.studies.study import (
    NOTE,
    OF_THE_PAPER,
    STUDIES,
    Measuring,
    Request,
    Study,
    listing,
    results_file,
    study_named,
)

INTERRUPTED = 130
DONE = "done.txt"
"""In the folder of a study that is finished: the command that it was made by."""


def _option(kind: Any, help: str, *names: str, **settings: Any) -> Any:
    """Without a default: the study's own holds."""
    return Annotated[kind | None, typer.Option(*names, help=help, show_default=False, **settings)]


AT_SCALE = "[default: with --scale paper]"
_research = partial(_option, rich_help_panel=RESEARCH)
OPTIONS: dict[str, Any] = {
    **get_type_hints(JudgeOptions, include_extras=True),
    "steps": _option(str, "Numbers of sampling steps, like 1,5,20. [default: the study's]", metavar="T,T"),
    "samples": _option(int, "Samples for each of them. [default: the study's]", min=2, metavar="N"),
    "bound": _option(str, "Numbers of steps of the likelihood bounds. [default: the study's]"),
    "limit": _option(int, "Held-out examples for bounds, 0: all. [default: the study's; paper: all]", min=0),
    "particles": _research(int, "K, latents for each estimate. [default: the study's; paper: 1000]", min=1),
    "delbo_particles": _research(str, "K of the DELBO. [default: the study's]", metavar="K,K"),
    "draws": _research(int, "Pairs (t, x_t) an example, in ELBO and DELBO. [default: paper: 100]", min=1),
    "fit": _research(
        bool,
        "Choose accumulation, bfloat16 and checkpointing so that trainings fit into memory, proved by a trial step. "
        + AT_SCALE,
        "--fit/--no-fit",
    ),
    "float32": _research(
        bool,
        f"Also samples drawn in single precision, as in the paper's figure. {AT_SCALE}",
        "--float32/--no-float32",
    ),
    "recipe": _option(str, "Another recipe, a preset or a YAML file."),
    "data": _option(Path, "The data set's folder or file. [default: where `vadd data` puts it]"),
    "inception": _option(
        Path, "The TorchScript InceptionV3 for FID (`vadd data inception`).", metavar="FILE", callback=check_there
    ),
    "control": Annotated[bool, typer.Option("--control", help="Also the paper's latent with the shared one's masks.")],
    "timed_steps": Annotated[int, typer.Option("--steps", min=2, help="Steps that are timed, of each model.")],
    "corpora": Annotated[
        Path,
        typer.Option(help="The folder of the corpora: files called lambada..., lm1b..., ...", callback=check_there),
    ],
    "only": _option(str, "These corpora alone, like lambada,wikitext."),
    "runs": _option(list[Path], "Evaluate this run instead, and others named likewise.", "--run", callback=check_run),
    "models": _option(
        str,
        "Only these, like mdlm,vadd,ar; vadd has the paper's latent, vadd-one-z one z for all steps and a learned "
        "prior. [default: all of `vadd zoo`]",
    ),
    "minutes": _option(float, "Processor time of each training. [default: 1 to 2, by the data]", min=0.001),
}
"""Every option of a study, by the name that definitions use."""
DEFAULTS: dict[str, Any] = {
    **{field.name: field.default for field in fields(JudgeOptions)},
    "control": False,
    "timed_steps": 20,
    "corpora": inspect.Parameter.empty,
}
LISTS = {"steps": "--steps", "bound": "--bound", "delbo_particles": "--delbo-particles"}
MEASURED = {"bound": "bound_steps"} | {name: name for name in Measuring.model_fields}


def command_of(study: Study) -> Callable[..., None]:
    """The command of a study, with the options that it names."""
    choice = typer.Option(f"--{study.choice}", help=study.choice_help)
    out = f"Where the runs and the report go. [default: {_default_out(study, study.choice.upper())}]"
    options: dict[str, tuple[Any, Any]] = {
        "overrides": (OverridesArgument, None),
        "out": (_option(Path, out), None),
        "setting": (Annotated[Literal[tuple(study.settings)], choice], next(iter(study.settings))),
        **{name: (OPTIONS[name], DEFAULTS.get(name)) for name in study.options},
        "json": (JsonOption, None),
        "overwrite": (OverwriteOption, False),
    }
    if len(study.settings) == 1:
        del options["setting"]

    def command(**given: Any) -> None:
        run_study(study, given)

    command.__doc__ = study.help.replace("Examples:", "\b\nExamples:")  # lines are kept after \b
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in options.items()
        ]
    )
    command.__annotations__ = {name: kind for name, (kind, _) in options.items()}
    return command


def run_study(study: Study, given: dict[str, Any]) -> None:
    """Do it and show the tables."""
    json, _ = given.pop("json"), given.pop("overwrite")
    request = request_of(study, given)
    from vadd.studies.engine import reproduce as run

    result = run(study, request)
    show_results(result.tables, result.numbers, result.page, json)


def _default_out(study: Study, setting: str) -> Path:
    return Path("runs") / (f"{study.name}-{setting}" if study.engine == "baselines" else study.folder)


def request_of(study: Study, given: dict[str, Any]) -> Request:
    setting = given.pop("setting", next(iter(study.settings)))
    narrator = Narrator()
    values = {name: value for name, value in given.items() if value is not None}
    for name, flag in LISTS.items():
        if name in values:
            values[name] = tuple(parse_steps(values[name], flag))
    if "particles" in values:  # means those of the DELBO too
        values.setdefault("delbo_particles", (values["particles"],))
    for name in ("only", "models"):
        if name in values:
            values[name] = values[name].split(",")
    judging = {name: values.pop(name) for name in ("judge", "convention") if name in values}
    measuring = {field: values.pop(name) for name, field in MEASURED.items() if name in values}
    for name in ("fit", "float32"):
        if name in study.options:
            values.setdefault(name, setting == "paper")
    return Request(
        setting=setting,
        out=values.pop("out", _default_out(study, setting)),
        overrides=values.pop("overrides", ()),
        measuring=measuring,
        judge=judging.get("judge"),
        open_judge=partial(JudgeOptions(**judging).open, (), narrator),
        progress=narrator,
        **values,
    )


def show_list(asked: bool) -> None:
    if not asked:
        return
    for heading, lines in listing(Path("runs")):
        out_console.print(heading)
        for line in lines:
            out_console.print(Padding(line, (0, 0, 0, 4)))
    out_console.print(f"\n{NOTE}")
    raise typer.Exit


reproduce = typer.Typer(help="Repeat the paper's experiments and put the results beside its own.", no_args_is_help=True)


@reproduce.callback()
def options(
    listed: Annotated[
        bool,
        typer.Option(
            "--list",
            callback=show_list,
            is_eager=True,
            help="Show every table and figure of the paper, and what it takes.",
        ),
    ] = False,
) -> None:
    """Options of all studies."""


for _name in STUDIES:
    reproduce.command(_name, cls=PanelCommand)(command_of(study_named(_name)))


@reproduce.command(cls=PanelCommand)
def paper(
    overrides: OverridesArgument = None,
    out: Annotated[Path, typer.Option(help="Where the runs and the report go.")] = Path("runs/paper"),
    scale: Annotated[
        Literal["small", "paper"], typer.Option(help="small: days on a laptop; paper: weeks on GPUs.")
    ] = "small",
    only: Annotated[str | None, typer.Option(help="These studies alone, like toys,mnist.")] = None,
    judge: Annotated[str | None, typer.Option(help="The language model that evaluates texts.")] = None,
    corpora: Annotated[
        Path | None, typer.Option(help="The folder with the zero-shot corpora.", callback=check_there)
    ] = None,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """All tables and figures of the paper, one after the other; run it again to go on where it stopped.

    A study that lacks something (data, a judge) says so and is skipped; the others are made.

    \b
    Examples:
      vadd reproduce --list
      vadd reproduce paper --only toys,speed
      vadd reproduce paper --scale paper --judge gpt2-large --corpora corpora/
    """
    chosen = OF_THE_PAPER if only is None else [name.strip() for name in only.split(",")]
    for name in chosen:
        if name not in OF_THE_PAPER:
            raise UserError(f"unknown study {name!r}; `vadd reproduce --list` shows them")
    from vadd.parallel import is_main
    from vadd.studies.trainings import check_overrides

    check_overrides(overrides or [])  # what is wrong for every study is one error
    failed: list[str] = []
    for study in map(study_named, chosen):
        setting = scale if scale in study.settings else next(iter(study.settings))
        words = [study.name, "--scale", setting, "--out", str(out / study.folder)]
        for option, value in (("judge", judge), ("corpora", corpora)):
            words += [f"--{option}", str(value)] if value is not None and option in study.options else []
        problem = _problem(study, [*words, *(overrides or [])], out, write=is_main())
        if problem is not None:
            err_console.print(f"{study.name} is skipped: {problem}", soft_wrap=True)
            failed.append(study.name)
    if json is not None and is_main():
        files = {name: results_file(study_named(name), out) for name in chosen if name not in failed}
        write_json(json, {name: read_json(file) for name, file in files.items()})
    if failed:
        raise UserError(f"not made: {', '.join(failed)}; the reasons are above. All others are in {out}")


def _problem(study: Study, words: list[str], out: Path, *, write: bool) -> str | None:
    """Why a study could not be made; None where it was, now or before."""
    if "corpora" in study.options and "--corpora" not in words:
        return "it needs --corpora, a folder with copies of the corpora"
    command, done = shlex.join(words), out / study.name / DONE
    if done.is_file() and done.read_text() == command and results_file(study, out).is_file():
        err_console.print(f"{study.name}: made before", soft_wrap=True)
        return None
    err_console.print(f"vadd reproduce {command}", soft_wrap=True)
    try:
        # An interruption comes back as an exit code: typer catches it.
        if reproduce(words, standalone_mode=False) == INTERRUPTED:
            raise Interrupted(f"stopped in the study {study.name}")
    except UserError as error:
        return str(error)
    if write:
        done.parent.mkdir(parents=True, exist_ok=True)
        write_whole(done, command.encode())
    return None
