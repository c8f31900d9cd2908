"""``vadd infill``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.common import RunArgument, out_console, progress_bar, refuse_existing
from vadd.cli.options import (
    GridOption,
    LatentPolicyOption,
    OverwriteOption,
    PrecisionOption,
    SamplerOption,
    SeedOption,
    StepCountOption,
    TemperatureOption,
    TopKOption,
    TopPOption,
    check_sampler,
)
from vadd.cli.trajectories import TrajectoryOption, check_trajectory, refuse_strip, write_trajectory
from vadd.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from vadd.cli.infill_tasks import Task

RECORDED = 4
"""Of the completions, where a trajectory is asked for."""


class Half(StrEnum):
    top = "top"
    bottom = "bottom"
    left = "left"
    right = "right"


def infill(
    run: RunArgument,
    text: Annotated[
        str | None,
        typer.Option(help=r"A text with gaps of two or more underscores; \_ is an ordinary one.", show_default=False),
    ] = None,
    gap: Annotated[
        int | None,
        typer.Option(
            help="Tokens in each gap. [default: one for each underscore where tokens are characters or bytes, else 3]"
        ),
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="A text to go on with.", show_default=False)] = None,
    suffix: Annotated[str | None, typer.Option(help="A text to lead to.", show_default=False)] = None,
    length: Annotated[
        int | None,
        typer.Option(help="Tokens of prefix, gap and suffix together. [default: all that the model has room for]"),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Many texts with gaps, one in each line.", show_default=False)
    ] = None,
    image: Annotated[
        Path | None, typer.Option(help="An image in the model's size: .png, or .npy for several.", show_default=False)
    ] = None,
    from_data: Annotated[
        str | None, typer.Option(help="Instead: held-out images by their numbers, like 0,5,7.", show_default=False)
    ] = None,
    mask: Annotated[
        Path | None, typer.Option(help="An image in the same size: white is filled, black kept.", show_default=False)
    ] = None,
    keep: Annotated[
        Half | None, typer.Option(help="Instead of a mask: the half to be kept.", show_default=False)
    ] = None,
    array: Annotated[
        Path | None, typer.Option(help="Any examples as .npy, -1 where there is something to fill.", show_default=False)
    ] = None,
    n: Annotated[int, typer.Option("-n", help="Completions of each.")] = 4,
    steps: StepCountOption = None,
    sampler: SamplerOption = None,
    temperature: TemperatureOption = 1.0,
    top_k: TopKOption = None,
    top_p: TopPOption = None,
    precision: PrecisionOption = "float64",
    grid: GridOption = None,
    latent_policy: LatentPolicyOption = None,
    seed: SeedOption = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to: text .txt or .jsonl, images .png or .npy, arrays .npy or .csv.", show_default=False
        ),
    ] = None,
    trajectory: TrajectoryOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Fill what is missing in texts, images or arrays; what is given stays.

    A text shorter than the model's sequences stands at their beginning; the model writes on to their end, and what it
    writes there is not shown. Where a sequence is one padded document, a text is the whole of it.

    \b
    Examples:
      vadd infill runs/book --text "The ____ of the ____" -n 8
      vadd infill runs/book --prefix "Once upon a time" --steps 64
      vadd infill runs/book --file prompts.txt --out filled.jsonl
      vadd infill runs/mnist --from-data 0,1,2 --keep top --out halves.png
      vadd infill runs/mnist --image seven.png --mask hole.png --out filled.png
      vadd infill runs/mine --array unfinished.npy --out filled.npy
    """
    if n < 1:
        raise UserError(f"-n must be at least 1, not {n}")
    if out is not None:
        refuse_existing(out, overwrite)
    check_trajectory(trajectory, overwrite)
    ends = prefix is not None or suffix is not None
    sources = {
        "--text": text is not None,
        "--prefix or --suffix": ends,
        "--file": file is not None,
        "--image": image is not None,
        "--from-data": from_data is not None,
        "--array": array is not None,
    }
    given = [name for name, there in sources.items() if there]
    if len(given) != 1:
        told = f"{' and '.join(given)} exclude each other" if given else "what is to be filled?"
        raise UserError(f"{told}; give one of {', '.join(sources)}")
    if given[0] not in {"--image", "--from-data"} and (mask is not None or keep is not None):
        raise UserError("--mask and --keep are for --image and --from-data")
    if mask is not None and keep is not None:
        raise UserError("--mask and --keep exclude each other")
    if length is not None and not ends:
        raise UserError("--length is for --prefix and --suffix")
    if gap is not None and text is None and file is None:
        raise UserError("--gap is for --text and --file")

    import torch

    from vadd.cli import infill_tasks as tasks
    from vadd.generation.infilling import masked_starts
    from vadd.generation.options import SamplingOptions, resolve
    from vadd.runs.run import load
    from vadd.words import plural

    token_sampler = check_sampler(sampler, temperature, top_k, top_p, precision)
    loaded = load(run)
    refuse_strip(loaded, trajectory)
    task: Task
    if text is not None:
        task = tasks.text_task(loaded, text, gap)
    elif ends:
        task = tasks.ends_task(loaded, prefix or "", suffix or "", length)
    elif file is not None:
        task = tasks.file_task(loaded, file, gap)
    elif array is not None:
        task = tasks.number_task(loaded, array)
    else:
        task = tasks.picture_task(loaded, image, from_data, mask, None if keep is None else keep.value)
    if out is not None and out.suffix not in task.formats:
        raise UserError(f"these completions can be written as {' or '.join(task.formats)}, not to {out}")
    if out is None and task.needs_file:
        raise UserError(f"these completions need a file: --out FILE{' or '.join(task.formats)}")
    total = n * len(task.x)
    options: SamplingOptions = {
        "steps": steps,
        "seed": seed,
        "sampler": sampler,
        "grid": grid,  # type: ignore[typeddict-item]  # checked by the sampler, with a readable error
        "latent": latent_policy,  # type: ignore[typeddict-item]
        "token_sampler": token_sampler,
    }
    settings = resolve(loaded.model, loaded.recipe.sampling, **options)
    starts = masked_starts(loaded.model, loaded.shape, task.x, None, n)
    drawn: list[Tensor] = []
    states: list[Tensor] = []
    with progress_bar() as tell:
        for part in loaded.stream(starts, record=0 if trajectory is None else RECORDED, progress=tell, **options):
            drawn.append(part.tokens)
            states += [] if part.trajectory is None else [part.trajectory]
    filled = torch.cat(drawn).view(len(task.x), n, -1)
    if trajectory is not None:
        shown = torch.cat(states, dim=1).numpy()
        write_trajectory(loaded, shown, trajectory, [task.extents[row // n] for row in range(shown.shape[1])])
        out_console.print(f"how the completions come about: {trajectory}", soft_wrap=True)
    if out is None:
        task.show(filled.numpy())
    else:
        task.write(filled.numpy(), out)
        out_console.print(f"{plural(total, 'completion')} in {plural(settings.steps, 'step')}: {out}", soft_wrap=True)
