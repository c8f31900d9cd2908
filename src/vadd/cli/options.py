"""Options that several commands have: alone, in groups, and what can be checked of them before torch is imported."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_type_hints

import typer

from vadd.errors import UserError
from vadd.words import parse_size

if TYPE_CHECKING:
    from vadd.run.directory import CheckpointName, PriorChoice
    from vadd.run.options import SamplingOptions
    from vadd.run.run import Run

Result = TypeVar("Result")


def grouped(command: Callable[..., Result]) -> Callable[..., Result]:
    """A command that takes options in groups: a parameter whose type is a dataclass becomes an option for each of its
    fields, and the command is given the dataclass, filled.
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups = {given.name: group for given in parameters if (group := _group(given)) is not None}
    flat = [option for given in parameters for option in _options_of(given)]

    @wraps(command)
    def flattened(**options: Any) -> Result:
        filled = {
            name: group(**{field.name: options.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        return command(**options, **filled)

    # Where typer looks for the options.
    flattened.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    flattened.__annotations__ = {option.name: option.annotation for option in flat}
    return flattened


def _group(parameter: Parameter) -> type[Any] | None:
    kind = parameter.annotation
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def _options_of(parameter: Parameter) -> list[Parameter]:
    group = _group(parameter)
    if group is None:
        return [parameter.replace(kind=Parameter.KEYWORD_ONLY)]
    types = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=types[field.name],
        )
        for field in fields(group)
    ]


RunArgument = Annotated[Path, typer.Argument(help="A run directory.", show_default=False)]
_recipe_argument = typer.Argument(help="A preset (see `vadd recipes`) or a YAML file.", show_default=False)
RecipeArgument = Annotated[str, _recipe_argument]
OptionalRecipeArgument = Annotated[str | None, _recipe_argument]
OverridesArgument = Annotated[
    list[str] | None,
    typer.Argument(help="Changes to the recipe, key=value; `vadd recipes RECIPE` shows every key.", show_default=False),
]
CheckpointOption = Annotated[
    str, typer.Option("--checkpoint", help="Whose averaged weights: latest, best or a step.", metavar="WHICH")
]
SamplesOption = Annotated[
    int | None,
    typer.Option(
        "--samples",
        help="Samples to compare with the data, for each number of steps. [default: 100000; texts: 256]",
        show_default=False,
    ),
]
TemperatureOption = Annotated[float, typer.Option("--temperature", help="Below 1 sharpens, 0 takes the likeliest.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="The first n of the samples it stands for are drawn.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]
LatentPolicyOption = Annotated[
    str | None,
    typer.Option(
        "--latent-policy",
        help="resample, a new z at each step, or fixed, one for all. [default: the recipe's; fixed with a flow prior]",
    ),
]
PriorOption = Annotated[
    str | None,
    typer.Option(
        "--prior",
        help="Where z comes from: fitted (what `vadd fit-prior` made, if it did), trained, flow or informed. "
        "[default: fitted]",
    ),
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write the numbers to this file.", metavar="FILE")]


EnergyOption = Annotated[
    Path | None,
    typer.Option(
        "--energy",
        help="An autoregressive run: candidates of each step are weighed by its likelihood (EDLM; not exact).",
        show_default=False,
    ),
]
EnergyCandidatesOption = Annotated[
    int | None,
    typer.Option(
        "--energy-candidates",
        help="With --energy: completions drawn at each step, one kept. [default: 8]",
        show_default=False,
    ),
]


def check_energy(energy: Path | None, candidates: int | None) -> None:
    if candidates is not None and energy is None:
        raise UserError("--energy-candidates goes with --energy AR_RUN, which weighs them")
    if candidates is not None and candidates < 1:
        raise UserError(f"--energy-candidates must be at least 1, not {candidates}")
    if energy is not None:
        check_run(energy)


def with_energy(run: "Run", energy: Path | None, candidates: int | None) -> "Run":
    """The run, with its candidates weighed by that of ``energy`` if there is one."""
    from vadd.run.run import load

    return run if energy is None else run.with_energy(load(energy), 8 if candidates is None else candidates)


@dataclass(frozen=True)
class DrawingOptions:
    """How to draw: the same for samples and completions."""

    steps: Annotated[
        int | None,
        typer.Option("--steps", help="Sampling steps. [default: the recipe's; first-hitting: one for each position]"),
    ] = None
    seed: SeedOption = 0
    sampler: Annotated[
        str | None,
        typer.Option(
            "--sampler",
            help="ancestral, parallel or first-hitting (the model's own distribution); confidence, margin, entropy or "
            "entropy-bounded (the surest first); remask or remask-rescaled (with second thoughts); euler is SEDD's, "
            "proposal EDLM's without its energy. [default: the recipe's]",
        ),
    ] = None
    grid: Annotated[
        str | None,
        typer.Option("--grid", help="Step grid: uniform, cosine, or the times, like 0,0.2,1. [default: the recipe's]"),
    ] = None
    latent_policy: LatentPolicyOption = None
    prior: PriorOption = None
    candidates: Annotated[
        int | None,
        typer.Option(
            "--candidates",
            help="Completions with one z: latents drawn for each, one kept by the likelihood of what is known. "
            "[default: the recipe's]",
        ),
    ] = None
    temperature: TemperatureOption = 1.0
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Draw from the k likeliest values only.", show_default=False)
    ] = None
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", help="Draw from the likeliest values that reach p only.", show_default=False),
    ] = None
    precision: Annotated[
        str, typer.Option("--precision", help="float64, or float32 as in the paper's text figure, which sharpens.")
    ] = "float64"
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            help="What the samples drawn at once may take, like 500MB or 2GB. [default: 268MB; on a GPU a quarter of "
            "what is free]",
            metavar="SIZE",
        ),
    ] = None

    energy: EnergyOption = None
    energy_candidates: EnergyCandidatesOption = None

    def check(self) -> None:
        """Refuse names that do not exist."""
        from vadd.recipe import Sampling

        check_energy(self.energy, self.energy_candidates)
        if self.steps is not None and self.steps < 1:
            raise UserError(f"--steps must be at least 1, not {self.steps}")
        for kind, key, name in (
            ("sampler", "sampler", self.sampler),
            ("step grid", "grid", parse_grid(self.grid)),
        ):
            if isinstance(name, str):
                check_name(kind, name, get_args(Sampling.model_fields[key].annotation))
        check_latent_policy(self.latent_policy)
        if self.candidates is not None and self.candidates < 1:
            raise UserError(f"--candidates must be at least 1, not {self.candidates}")
        parse_prior(self.prior)
        self.bytes_at_once()

    def bytes_at_once(self) -> int | None:
        return None if self.memory is None else parse_size(self.memory, "--memory")

    def sampling(self) -> "SamplingOptions":
        """The options as Python takes them."""
        from vadd.core import TokenSampler
        from vadd.core.token_sampler import DrawPrecision

        token_sampler = TokenSampler(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            precision=cast(DrawPrecision, self.precision),  # refused there if it is none
        )
        options = {
            "steps": self.steps,
            "seed": self.seed,
            "sampler": self.sampler,
            "grid": parse_grid(self.grid),
            "latent": self.latent_policy,
            "token_sampler": token_sampler,
            "candidates": self.candidates,
        }
        return cast("SamplingOptions", options)


def parse_prior(name: str | None) -> "PriorChoice":
    """As :func:`vadd.run.run.load` takes it."""
    match name:
        case None:
            return "fitted"
        case "fitted" | "trained" | "flow" | "informed":
            return name
    raise UserError(f"--prior takes fitted, trained, flow or informed, not {name!r}")


def check_latent_policy(name: str | None) -> None:
    from vadd.recipe import Sampling

    if name is not None:
        check_name("latent policy", name, get_args(Sampling.model_fields["latent_policy"].annotation))


def refuse_latent_policy(run: "Run", name: str | None) -> None:
    """A policy for a model that has no latent."""
    if name is not None and run.model.latent.absent:
        raise UserError(f"{run.directory.path} has no latent; leave --latent-policy out")


def check_name(kind: str, name: str, known: Sequence[str]) -> None:
    from vadd.recipe import suggestion

    if name not in known:
        raise UserError(f"unknown {kind} {name!r}{suggestion(name, known)}; choose from {', '.join(known)}")


def parse_grid(text: str | None) -> str | list[float] | None:
    """ "0,0.2,1" -> the times; a name stays as it is."""
    if text is None or "," not in text:
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--grid takes uniform, cosine or times like 0,0.2,1; not {text!r}") from None


def parse_steps(text: str, option: str = "--steps") -> list[int]:
    """ "1,2,5" -> [1, 2, 5]."""
    try:
        steps = [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{option} takes whole numbers separated by commas, like 1,2,5; not {text!r}") from None
    if min(steps) < 1:
        raise UserError(f"{option} takes numbers of at least 1, not {min(steps)}")
    return sorted(set(steps))


def parse_checkpoint(text: str) -> "CheckpointName":
    """ "latest", "best" or a step, as :func:`vadd.run.run.load` takes them."""
    match text:
        case "latest" | "best":
            return text
        case _ if text.isdecimal():
            return int(text)
    raise UserError(f"--checkpoint takes latest, best or a step, not {text!r}")


def check_run(path: Path) -> None:
    """Whether it can be a run, an exported model or a name on the hub; loading it will tell more."""
    from vadd.run.exported import check_model

    check_model(path)


def check_out(file: Path | None, overwrite: bool) -> None:
    """Before the work, not after: nothing is lost, and the file can be written."""
    if file is None:
        return
    if file.exists() and not overwrite:
        raise UserError(f"{file} exists; name another file or add --overwrite")
    if not file.parent.is_dir():
        raise UserError(f"there is no directory {file.parent} to write {file.name} into")


def check_json(file: Path | None, overwrite: bool) -> None:
    """Before hours of work, not after: can the numbers be written there, and nothing is lost?"""
    if file is not None and (file.is_dir() or not file.parent.is_dir()):
        raise UserError(f"--json: cannot write a file {file}")
    check_out(file, overwrite)


def check_there(*paths: Path | None) -> None:
    """Files and folders that are to be read."""
    for path in paths:
        if path is None:
            continue
        if not path.exists():
            raise UserError(f"there is no file {path}")
        if not path.is_file() and not path.is_dir():
            raise UserError(f"{path} is neither a regular file nor a folder; copy what comes out of it to a file")
