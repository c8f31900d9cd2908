"""``vadd sample``."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.common import (
    CheckpointOption,
    RunArgument,
    err_console,
    out_console,
    parse_checkpoint,
    progress_bar,
    refuse_existing,
)
from vadd.cli.options import (
    LatentPolicyOption,
    OverwriteOption,
    PrecisionOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
)
from vadd.cli.trajectories import TrajectoryOption, check_trajectory, refuse_strip, write_trajectory
from vadd.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from vadd.generation.options import SamplingOptions, SamplingSettings
    from vadd.parallel import Processes
    from vadd.runs.run import Run

FORMATS = (".npy", ".csv", ".png", ".txt", ".jsonl")
SHOWN = 20
"""Samples that are printed where no file is named."""
RECORDED = 4
"""Samples of which the trajectory is written."""


def sample(
    run: RunArgument,
    n: Annotated[
        int | None, typer.Option("-n", help="How many samples. [default: 1000; 64 for a picture of images; 8 texts]")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Sampling steps. [default: 1; first-hitting: one for each position]")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to: .npy, .csv, or .png for a picture; text also .txt or .jsonl.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first n of the samples it stands for are drawn.")] = 0,
    sampler: Annotated[
        str | None,
        typer.Option(
            help="ancestral, parallel, first-hitting (these follow the model's own distribution), confidence, margin, "
            "entropy, entropy-bounded, remask, remask-rescaled. [default: the recipe's]"
        ),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(help="Step grid: uniform, cosine, or the times, like 0,0.2,1. [default: the recipe's]"),
    ] = None,
    latent_policy: LatentPolicyOption = None,
    temperature: TemperatureOption = 1.0,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    precision: PrecisionOption = "float64",
    checkpoint: CheckpointOption = "latest",
    trajectory: TrajectoryOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Draw samples from a trained model.

    Any number of them, in memory that does not grow with it; started with torchrun, on several devices.

    \b
    Examples:
      vadd sample runs/checkers -n 1000 --steps 1 --out points.npy
      vadd sample runs/checkers -n 100000 --steps 5 --out points.png
      vadd sample runs/checkers -n 5
      vadd sample runs/digits --steps 5 --out grid.png
      vadd sample runs/digits --steps 8 --sampler parallel --checkpoint best --out grid.png
      vadd sample runs/digits --steps 20 --trajectory denoising.gif
      vadd sample runs/book -n 8 --steps 32 --temperature 0.9 --top-p 0.95 --trajectory denoising.html
      vadd sample runs/book --grid 0,0.1,0.4,1
      torchrun --nproc-per-node 4 -m vadd sample runs/book -n 5000 --steps 64 --out texts.jsonl
    """
    if n is not None and n < 1:
        raise UserError(f"-n must be at least 1, not {n}")
    if steps is not None and steps < 1:
        raise UserError(f"--steps must be at least 1, not {steps}")
    if out is not None:
        if out.suffix not in FORMATS:
            raise UserError(f"--out takes a file that ends in .npy, .csv or .png, for text .txt or .jsonl, not {out}")
        refuse_existing(out, overwrite)
    check_trajectory(trajectory, overwrite)
    times = parse_grid(grid)
    import torch

    from vadd.cli.sample_files import check_format
    from vadd.core import TokenSampler
    from vadd.generation.options import SamplingOptions, resolve
    from vadd.parallel import Processes, leave, process_count
    from vadd.runs.run import load
    from vadd.words import plural

    token_sampler = TokenSampler(temperature=temperature, top_k=top_k, top_p=top_p, precision=precision)  # type: ignore[arg-type]
    processes = Processes() if process_count() > 1 else None
    loaded = load(run, None if processes is None else processes.device, checkpoint=parse_checkpoint(checkpoint))
    refuse_strip(loaded, trajectory)
    is_text = loaded.tokenizer is not None
    if n is None:
        picture = out is not None and out.suffix == ".png" and len(loaded.shape) == 3
        n = 64 if picture else 8 if is_text else 1000
    options: SamplingOptions = {
        "steps": steps,
        "seed": seed,
        "sampler": sampler,
        "grid": times,  # type: ignore[typeddict-item]  # checked by the sampler, with a readable error
        "latent": latent_policy,  # type: ignore[typeddict-item]
        "token_sampler": token_sampler,
    }
    settings = resolve(loaded.model, loaded.recipe.sampling, **options)  # refused before a file is begun
    if out is not None:
        check_format(loaded, out, n)
    drawn = _draw(loaded, n, options, out, processes, record=0 if trajectory is None else RECORDED)
    if trajectory is not None and drawn.states:
        write_trajectory(loaded, torch.cat(drawn.states, dim=1).numpy(), trajectory)
        out_console.print(f"how the samples come about: {trajectory}", soft_wrap=True)
    leave()
    for line in drawn.shown:
        out_console.out(line, highlight=False)
    if out is None and n > SHOWN:
        out_console.out(f"... {n - SHOWN} more; write them all with --out FILE{'.txt' if is_text else '.npy'}")
    told = [
        f"{plural(n, 'sample')} in {plural(settings.steps, 'step')}" + ("" if out is None else f": {out}"),
        f"{drawn.seconds:.1f} s, {n / drawn.seconds:.3g} samples/s",
        f"{plural(drawn.evaluations, 'evaluation')} of the network, {plural(drawn.sequences, 'sequence')} shown to it",
        *_inexact(settings, sampler or loaded.recipe.sampling.sampler),
    ]
    # Where samples are printed they have the output for themselves.
    (err_console if out is None else out_console).print("; ".join(told), soft_wrap=True)


@dataclass
class Drawn:
    """What there is to tell of the samples."""

    shown: list[str] = field(default_factory=list)
    evaluations: int = 0
    sequences: int = 0
    seconds: float = 0.0
    states: "list[Tensor]" = field(default_factory=list)
    """How the first samples came about."""


def _draw(
    run: "Run", n: int, options: "SamplingOptions", out: Path | None, processes: "Processes | None", record: int
) -> Drawn:
    """The samples into the file, or the first of them to be shown; of a team, the main process does that."""
    from vadd.cli.sample_files import sample_file

    drawn, began = Drawn(), time.perf_counter()
    with ExitStack() as stack:
        is_main = processes is None or processes.is_main
        file = stack.enter_context(sample_file(run, out, n)) if out is not None and is_main else None
        tell = stack.enter_context(progress_bar())

        for part in run.stream(n, record=record, processes=processes, progress=tell, **options):
            drawn.evaluations += part.evaluations
            drawn.sequences += part.sequences
            if part.trajectory is not None:
                drawn.states.append(part.trajectory)
            if file is not None:
                file.write(part.tokens.numpy())
            elif len(drawn.shown) < SHOWN:
                few = part.tokens[: SHOWN - len(drawn.shown)]
                drawn.shown += _lines(run, few, first=len(drawn.shown) + 1)
    drawn.seconds = time.perf_counter() - began
    return drawn


def parse_grid(text: str | None) -> str | list[float] | None:
    """ "0,0.2,1" -> the times; a name stays as it is."""
    if text is None or "," not in text:
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--grid takes uniform, cosine or times like 0,0.2,1; not {text!r}") from None


def _inexact(settings: "SamplingSettings", sampler: str) -> list[str]:
    """Why the samples do not follow the model's own distribution, if they do not."""
    values = settings.token_sampler
    reasons = {
        f"the sampler {sampler}": not settings.sampler.exact,
        f"temperature {values.temperature:g}": values.temperature != 1,
        f"top-k {values.top_k}": values.top_k is not None,
        f"top-p {values.top_p}": values.top_p is not None,
        "float32 draws (parity mode)": values.precision == "float32",
    }
    return [] if settings.exact else ["not exact: " + ", ".join(why for why, holds in reasons.items() if holds)]


def _lines(run: "Run", tokens: "Tensor", first: int) -> list[str]:
    """Samples to be printed, numbered from ``first`` if they are texts."""
    from vadd.cli.sample_files import numbered

    if run.tokenizer is not None:
        return numbered(run.texts(tokens), first)
    return [" ".join(map(str, row)) for row in tokens.tolist()]
