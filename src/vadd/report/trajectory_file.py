"""How samples come about, as a file in the form that fits the data and the file's name."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vadd.errors import UserError
from vadd.kinds import Array, Kind
from vadd.report.figures import save_figure
from vadd.report.images import denoising_gif, denoising_strip
from vadd.report.text_animation import text_gif
from vadd.report.trajectory import histories_of, image_page, text_page


def check_trajectory(kind: Kind, out: Path | None) -> None:
    """Refuse a format that does not fit, before anything is drawn."""
    if out is not None and out.suffix == ".png" and kind.name != "image":
        raise UserError(f"a trajectory as .png is for images; write this one as .html, .gif or .npz, not {out}")


def write_trajectory(kind: Kind, states: Array, out: Path, name: str, extents: Sequence[slice] | None = None) -> None:
    """``states`` (steps + 1, n, N) of samples of the run ``name``, the value V for the mask. ``extents`` say which part
    of each sample a page or an animation of text shows, by default the whole.
    """
    steps, title = len(states) - 1, f"{name}: {len(states) - 1} steps"
    if out.suffix == ".npz":
        np.savez_compressed(out, states=states, mask=kind.vocab_size)
    elif kind.name == "image":
        if out.suffix == ".gif":
            denoising_gif(out, states, kind.shape, kind.vocab_size)
        elif out.suffix == ".png":
            save_figure(denoising_strip(states, kind.shape, kind.vocab_size), out)
        else:
            out.write_text(image_page(states, kind.shape, kind.vocab_size, title), encoding="utf-8")
    else:
        histories = histories_of(states, kind)
        if extents is not None:
            histories = [row[extent] for row, extent in zip(histories, extents[: len(histories)], strict=True)]
        if out.suffix == ".gif":
            text_gif(out, histories, steps)
        else:
            out.write_text(text_page(histories, steps, title), encoding="utf-8")
