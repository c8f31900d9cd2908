"""``vadd reproduce``: a command for each study, made of the options that its definition names."""

import shlex
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.padding import Padding

from vadd.cli import checks
from vadd.cli.commands import RESEARCH, add_command, options_of
from vadd.cli.console import Narrator, err_console, out_console, show_results
from vadd.cli.options import Numbers, Overrides
from vadd.cli.syntax import Demo
from vadd.cli.syntax_sampling import JudgeOptions
from vadd.errors import Interrupted, UserError
from vadd.files import write_json, write_whole
from vadd.parsing import read_json
from vadd.studies.study import OF_THE_PAPER, STUDIES, Measuring, Request, Study, listing, study_named
from vadd.words import check_known

DONE = "done.txt"
"""In the folder of a study that is finished: the command that it was made by."""
OF_ALL = ("overrides", "out", "json", "overwrite")
LISTS = {"steps": "--steps", "bound": "--bound", "delbo_particles": "--delbo-particles"}
MEASURED = {"bound": "bound_steps"} | {name: name for name in Measuring.model_fields}


@dataclass(frozen=True, kw_only=True)
class StudyOptions(JudgeOptions, Numbers):
    """Every option of a study, by the name that definitions use. What is None is as the study says."""

    overrides: Overrides = None
    """Changes to the recipe, key=value; `vadd recipes RECIPE` shows every key."""
    out: Path | None = None
    """Where the runs and the report go. [default: a folder in runs/, called like the study]"""
    recipe: str | None = None
    """Another recipe, a preset or a YAML file."""
    data: Path | None = None
    """The data set's folder or file. [default: where `vadd data` puts it]"""
    inception: Annotated[Path | None, typer.Option(metavar="FILE"), checks.there] = None
    """The TorchScript InceptionV3 for FID (`vadd data inception`)."""
    steps: Annotated[str | None, typer.Option(metavar="T,T")] = None
    """Numbers of sampling steps, like 1,5,20. [default: the study's]"""
    samples: Annotated[int | None, typer.Option(min=2, metavar="N")] = None
    """Samples for each of them. [default: the study's]"""
    bound: str | None = None
    """Numbers of steps of the likelihood bounds. [default: the study's]"""
    limit: Annotated[int | None, typer.Option(min=0)] = None
    """Held-out examples for bounds, 0: all. [default: the study's; paper: all]"""
    particles: Annotated[int | None, typer.Option(min=1), RESEARCH] = None
    """K, latents for each estimate. [default: the study's; paper: 1000]"""
    delbo_particles: Annotated[str | None, typer.Option(metavar="K,K"), RESEARCH] = None
    """K of the DELBO. [default: the study's]"""
    draws: Annotated[int | None, typer.Option(min=1), RESEARCH] = None
    """Pairs (t, x_t) an example, in ELBO and DELBO. [default: paper: 100]"""
    fit: Annotated[bool | None, typer.Option("--fit/--no-fit"), RESEARCH] = None
    """Choose accumulation, bfloat16 and checkpointing so that trainings fit into memory, proved by a trial step.
    [default: with --scale paper]"""
    float32: Annotated[bool | None, typer.Option("--float32/--no-float32"), RESEARCH] = None
    """Also samples drawn in single precision, as in the paper's figure. [default: with --scale paper]"""
    control: bool = False
    """Also the paper's latent with the shared one's masks."""
    choose: Annotated[bool, typer.Option("--choose/--no-choose"), RESEARCH] = True
    """Choose weights, grid and length on training examples set aside. Each candidate takes as long as the training:
    three, one for models that allow integral weights alone, none for DDPM; z is N(0, I) in them."""
    seeds: Annotated[int, typer.Option(min=1)] = 1
    """Trainings of each row; tables show how far they are apart."""
    timed_steps: Annotated[int, typer.Option("--steps", min=2)] = 20
    """Steps that are timed, of each model."""
    corpora: Annotated[Path, checks.there]
    """The folder of the corpora: files called lambada..., lm1b..., ..."""
    only: str | None = None
    """These corpora alone, like lambada,wikitext."""
    runs: Annotated[list[Path] | None, typer.Option("--run"), checks.run] = None
    """Evaluate this run instead, and others named likewise."""
    models: str | None = None
    """Only these, like mdlm,vadd,ar; vadd has the paper's latent, vadd-one-z one z for all steps and a learned prior.
    [default: all of `vadd zoo`]"""
    minutes: Annotated[float | None, typer.Option(min=0.001)] = None
    """Processor time of each training, in the league at most. [default: the study's, 1 to 5]"""
    sets: str | None = None
    """Only these, like progressions,anes96. [default: all of the half]"""


OPTIONS = {option.name: option for option in options_of(StudyOptions)}


def add_study(app: typer.Typer, study: Study) -> None:
    """The command of a study, with the options that it names."""
    options = [OPTIONS[name] for name in (*OF_ALL, *study.options)]
    if len(study.settings) > 1:
        choice = typer.Option(f"--{study.choice}", help=study.choice_help)
        kind: Any = Annotated[Literal[tuple(study.settings)], choice]
        first = next(iter(study.settings))
        options.insert(2, Parameter("setting", Parameter.KEYWORD_ONLY, default=first, annotation=kind))
    help = study.help.replace("Examples:", "\b\nExamples:")  # lines are kept after \b
    add_command(app, study.name, help, options, partial(run_study, study))


def run_study(study: Study, given: dict[str, Any]) -> None:
    """Do it and show the tables."""
    json, _ = given.pop("json"), given.pop("overwrite", None)
    request = request_of(study, given)
    from vadd.studies.engine import reproduce as run

    result = run(study, request)
    show_results(result.tables, result.numbers, result.page, json)


def request_of(study: Study, given: dict[str, Any]) -> Request:
    setting = given.pop("setting", next(iter(study.settings)))
    narrator = Narrator()
    values = {name: value for name, value in given.items() if value is not None}
    for name, flag in LISTS.items():
        if name in values:
            values[name] = tuple(checks.parse_steps(values[name], flag))
    if "particles" in values:  # means those of the DELBO too
        values.setdefault("delbo_particles", (values["particles"],))
    for name in ("only", "models", "sets"):
        if name in values:
            values[name] = values[name].split(",")
    judging = {name: values.pop(name) for name in ("judge", "convention") if name in values}
    measuring = {field: values.pop(name) for name, field in MEASURED.items() if name in values}
    for name in ("fit", "float32"):
        if name in study.options:
            values.setdefault(name, setting == "paper")
    place = f"{study.name}-{setting}" if study.engine == "baselines" else study.folder
    return Request(
        setting=setting,
        out=values.pop("out", Path("runs") / place),
        overrides=values.pop("overrides", ()),
        measuring=measuring,
        judge=judging.get("judge"),
        open_judge=partial(JudgeOptions(**judging).open, (), narrator),
        progress=narrator,
        **values,
    )


def demo(options: Demo) -> None:
    run_study(study_named("demo"), {"out": options.out, "setting": options.toy, "json": options.json})


def show_list(asked: bool) -> None:
    if not asked:
        return
    for heading, lines in listing(Path("runs")):
        out_console.print(heading)
        for line in lines:
            out_console.print(Padding(line, (0, 0, 0, 4)))
    raise typer.Exit


reproduce = typer.Typer(help="Repeat the paper's experiments and put the results beside its own.", no_args_is_help=True)


LIST_HELP = "Show every table and figure of the paper, and what it takes."


@reproduce.callback()
def options(
    listed: Annotated[bool, typer.Option("--list", callback=show_list, is_eager=True, help=LIST_HELP)] = False,
) -> None:
    """Options of all studies."""


@dataclass(frozen=True, kw_only=True)
class Paper(Numbers):
    """All tables and figures of the paper, one after the other; run it again to go on where it stopped.

    A study that lacks something (data, a judge) says so and is skipped; the others are made.

    \b
    Examples:
      vadd reproduce --list
      vadd reproduce paper --only toys,speed
      vadd reproduce paper --scale paper --judge gpt2-large --corpora corpora/
    """

    overrides: Overrides = None
    """Changes to the recipe, key=value; `vadd recipes RECIPE` shows every key."""
    out: Path = Path("runs/paper")
    """Where the runs and the report go."""
    scale: Literal["small", "paper"] = "small"
    """small: days on a laptop; paper: weeks on GPUs."""
    only: str | None = None
    """These studies alone, like toys,mnist."""
    judge: str | None = None
    """The language model that evaluates texts."""
    corpora: Annotated[Path | None, checks.there] = None
    """The folder with the zero-shot corpora."""


def paper(options: Paper) -> None:
    chosen = OF_THE_PAPER if options.only is None else [name.strip() for name in options.only.split(",")]
    check_known("unknown study", chosen, OF_THE_PAPER)
    from vadd.studies.trainings import check_overrides

    check_overrides(options.overrides or [])  # what is wrong for every study is one error
    failed: list[str] = []
    for study in map(study_named, chosen):
        if (problem := _problem(study, options)) is not None:
            err_console.print(f"{study.name} is skipped: {problem}", soft_wrap=True)
            failed.append(study.name)
    if options.json is not None:
        files = {name: study_named(name).results(options.out) for name in chosen if name not in failed}
        write_json(options.json, {name: read_json(file) for name, file in files.items()})
    if failed:
        raise UserError(f"not made: {', '.join(failed)}; the reasons are above. All others are in {options.out}")


def _problem(study: Study, options: Paper) -> str | None:
    """Why a study could not be made; None where it was, now or before."""
    setting = options.scale if options.scale in study.settings else next(iter(study.settings))
    given: dict[str, Any] = {name: getattr(options, name) for name in ("judge", "corpora") if name in study.options}
    if "corpora" in given and options.corpora is None:
        return "it needs --corpora, a folder with copies of the corpora"
    words = [study.name, "--scale", setting, "--out", str(options.out / study.folder)]
    for name, value in given.items():
        words += [] if value is None else [f"--{name}", str(value)]
    command, done = shlex.join([*words, *(options.overrides or [])]), options.out / study.name / DONE
    if done.is_file() and done.read_text() == command and study.results(options.out).is_file():
        err_console.print(f"{study.name}: made before", soft_wrap=True)
        return None
    err_console.print(f"vadd reproduce {command}", soft_wrap=True)
    given |= {"setting": setting, "out": options.out / study.folder, "overrides": options.overrides, "json": None}
    try:
        run_study(study, given)
    except UserError as error:
        return str(error)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(f"stopped in the study {study.name}") from None
    from vadd.parallel import is_main

    if is_main():
        done.parent.mkdir(parents=True, exist_ok=True)
        write_whole(done, command.encode())
    return None


for _name in STUDIES:
    add_study(reproduce, study_named(_name))
add_command(reproduce, "paper", Paper.__doc__ or "", options_of(Paper), lambda given: paper(Paper(**given)))
