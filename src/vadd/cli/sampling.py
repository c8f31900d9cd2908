"""``vadd sample``."""

from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.common import RunArgument, out_console, progress_bar, refuse_existing
from vadd.cli.trajectories import TrajectoryOption, check_trajectory, refuse_strip, write_trajectory
from vadd.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from vadd.data.dataset import Array
    from vadd.run import Run

PLAIN_FORMATS = (".npy", ".csv", ".png")
TEXT_FORMATS = (".npy", ".csv", ".txt", ".jsonl")


def sample(
    run: RunArgument,
    n: Annotated[
        int | None, typer.Option("-n", help="How many samples. [default: 1000; 64 for a picture of images; 8 texts]")
    ] = None,
    steps: Annotated[int, typer.Option(help="Sampling steps.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to: .npy, .csv, or .png for a picture; text also .txt or .jsonl.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    grid: Annotated[str | None, typer.Option(help="Step grid, uniform or cosine; by default the recipe's.")] = None,
    latent_policy: Annotated[str | None, typer.Option(help="resample or fixed; by default the recipe's.")] = None,
    trajectory: TrajectoryOption = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
) -> None:
    """Draw samples from a trained model.

    \b
    Examples:
      vadd sample runs/checkers -n 1000 --steps 1 --out points.npy
      vadd sample runs/checkers -n 100000 --steps 5 --out points.png
      vadd sample runs/checkers -n 5
      vadd sample runs/digits --steps 5 --out grid.png
      vadd sample runs/digits --steps 20 --trajectory denoising.gif
      vadd sample runs/book -n 8 --steps 32 --trajectory denoising.html
    """
    if n is not None and n < 1:
        raise UserError(f"-n must be at least 1, not {n}")
    if steps < 1:
        raise UserError(f"--steps must be at least 1, not {steps}")
    if out is not None:
        if out.suffix not in PLAIN_FORMATS + TEXT_FORMATS:
            raise UserError(f"--out takes a file that ends in .npy, .csv or .png, for text .txt or .jsonl, not {out}")
        refuse_existing(out, overwrite)
    check_trajectory(trajectory, overwrite)
    from vadd.evaluation.evaluate import plural
    from vadd.run import load

    loaded = load(run)
    refuse_strip(loaded, trajectory)
    is_text = loaded.tokenizer is not None
    if out is not None and out.suffix not in (TEXT_FORMATS if is_text else PLAIN_FORMATS):
        kinds = ".npy, .csv, .txt or .jsonl" if is_text else ".npy, .csv or .png"
        raise UserError(f"the samples of this run can be written as {kinds}, not to {out}")
    if n is None:
        picture = out is not None and out.suffix == ".png" and len(loaded.data.shape) == 3
        n = 64 if picture else 8 if is_text else 1000
    with progress_bar() as tell:
        tokens = loaded.sample(
            n,
            steps=steps,
            seed=seed,
            grid=grid,  # type: ignore[arg-type]  # checked by the sampler, with a readable error
            latent_policy=latent_policy,  # type: ignore[arg-type]
            progress=partial(tell, what="samples", total=n),
        )
    if trajectory is not None:
        write_trajectory(loaded, loaded.trajectory(min(n, 4), steps=steps, seed=seed).numpy(), trajectory)
        out_console.print(f"how the samples come about: {trajectory}", soft_wrap=True)
    if out is None:
        shown = tokens[:20]
        for line in _numbered(loaded.texts(shown)) if is_text else (" ".join(map(str, row)) for row in shown.tolist()):
            out_console.out(line, highlight=False)
        if n > 20:
            out_console.out(f"... {n - 20} more; write them all with --out FILE{'.txt' if is_text else '.npy'}")
        return
    if out.suffix in {".txt", ".jsonl"}:
        _write_texts(loaded, tokens, out)
    else:
        _write(tokens.numpy(), out, loaded.model.values, loaded.data.shape)
    out_console.print(f"{plural(n, 'sample')} in {plural(steps, 'step')}: {out}", soft_wrap=True)


def _numbered(texts: list[str]) -> list[str]:
    return [f"--- {number} ---\n{text}\n" for number, text in enumerate(texts, start=1)]


def _write_texts(run: "Run", tokens: "Tensor", out: Path) -> None:
    """Texts under numbers, or for programs one JSON object a line, with the ids that the tokenizer is known by."""
    texts = run.texts(tokens)
    if out.suffix == ".txt":
        out.write_text("\n".join(_numbered(texts)), encoding="utf-8")
        return
    assert run.tokenizer is not None
    ids = run.tokenizer.to_ids(tokens.numpy()).tolist()
    rows = (dumps({"text": text, "ids": row}, ensure_ascii=False) for text, row in zip(texts, ids, strict=True))
    out.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def _write(tokens: "Array", out: Path, values: int, shape: tuple[int, ...]) -> None:
    import numpy as np

    if out.suffix == ".npy":
        np.save(out, tokens.reshape(-1, *shape))
    elif out.suffix == ".csv":
        np.savetxt(out, tokens, fmt="%d", delimiter=",")
    elif len(shape) == 3:
        from vadd.report.images import save_image, square_grid, tokens_to_images

        save_image(square_grid(tokens_to_images(tokens, shape, values)), out, scale=max(1, 64 // shape[0]))
    else:
        if tokens.shape[1] != 2:
            raise UserError(
                f"a picture is drawn of images and of examples with 2 positions; these have {tokens.shape[1]}: "
                "write them as .npy"
            )
        from vadd.evaluation import histogram
        from vadd.report.figures import histogram_panels, save_figure

        save_figure(histogram_panels({"": [(f"{len(tokens)} samples", histogram(tokens, values))]}), out)
