"""``--trajectory``: how samples come about, in the form that fits the data and the file's name."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vadd.cli.options import check_out, output_option
from vadd.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from vadd.kinds.arrays import Array
    from vadd.report.trajectory import Token
    from vadd.run.run import Run

FORMATS = (".html", ".gif", ".png", ".npz")
RECORDED = 4
"""Of the samples or completions."""

TrajectoryOption = Annotated[
    Path | None,
    output_option(
        "--trajectory",
        help=f"Also how the first {RECORDED} come about: .html, a page with a slider; .gif; .png for images; .npz, the "
        "states.",
        show_default=False,
        callback=check_out(*FORMATS),
    ),
]


def refuse_strip(run: "Run", out: Path | None) -> None:
    """Also before the work."""
    if out is not None and out.suffix == ".png" and not is_images(run):
        raise UserError(f"a trajectory as .png is for images; write this one as .html, .gif or .npz, not {out}")


def write_trajectory(
    run: "Run", recorded: "Sequence[Tensor]", out: Path, extents: Sequence[slice] | None = None
) -> None:
    """States (steps + 1, n, N) of samples of ``run``, chunk by chunk, the value V for the mask. ``extents`` tells which
    part of each sample a page or an animation of text shows, by default the whole.
    """
    import numpy as np

    from vadd.report.trajectory import histories_of

    states = np.concatenate([part.numpy() for part in recorded], axis=1)
    if out.suffix == ".npz":
        np.savez_compressed(out, states=states, mask=run.model.vocab_size)
        return
    title = f"{run.directory.path.name}: {len(states) - 1} steps"
    if is_images(run):
        _write_images(states, run.shape, run.model.vocab_size, title, out)
        return
    histories = histories_of(states, run.kind)
    if extents is not None:
        histories = [row[extent] for row, extent in zip(histories, extents[: len(histories)], strict=True)]
    _write_tokens(histories, len(states) - 1, title, out)


def _write_images(states: "Array", shape: tuple[int, ...], values: int, title: str, out: Path) -> None:
    from vadd.report.figures import save_figure
    from vadd.report.images import denoising_gif, denoising_strip
    from vadd.report.trajectory import image_page

    if out.suffix == ".gif":
        denoising_gif(out, states, shape, values)
    elif out.suffix == ".png":
        save_figure(denoising_strip(states, shape, values), out)
    else:
        out.write_text(image_page(states, shape, values, title), encoding="utf-8")


def _write_tokens(histories: "list[list[Token]]", steps: int, title: str, out: Path) -> None:
    from vadd.report.text_animation import text_gif
    from vadd.report.trajectory import text_page

    if out.suffix == ".gif":
        text_gif(out, histories, steps)
    else:
        out.write_text(text_page(histories, steps, title), encoding="utf-8")


def is_images(run: "Run") -> bool:
    return run.kind.name == "image"
