"""The picture and the animation of README: MDLM beside VADD, both drawn with the same seed.

    python -m tools.readme_pictures MDLM-RUN VADD-RUN [--out docs/images]

one-step.png: samples of one step, side by side. few-steps.gif: all masked, then one step of VADD while MDLM takes
sixteen. Masked pixels are grey.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib import pyplot
from PIL import Image, ImageDraw

import vadd
from vadd.kinds.arrays import Array
from vadd.report.figures import save_figure
from vadd.report.images import as_pillow, draw, enlarged, image_grid, save_animation, tokens_to_images

COLUMNS, ROWS = 8, 4
STEPS = 16
SCALE, TITLE, GAP = 2, 28, 24
WHITE, BLACK, COLOURS = (255, 255, 255), (0, 0, 0), 16
FRAME, HOLD = 250, 4000
"""Milliseconds."""


def picture(run: vadd.Run, states: Array) -> Array:
    images = tokens_to_images(states, run.shape, run.kind.vocab_size, masks=True)
    return image_grid(images, COLUMNS)


def one_step(models: dict[str, vadd.Run], out: Path) -> None:
    figure, axes = pyplot.subplots(1, len(models), figsize=(10, 2.9), layout="constrained")
    for axis, (name, run) in zip(axes, models.items(), strict=True):
        draw(axis, picture(run, np.asarray(run.sample(COLUMNS * ROWS, steps=1, seed=0)).reshape(COLUMNS * ROWS, -1)))
        axis.set_title(f"{name}, one step")
    save_figure(figure, out)


def few_steps(mdlm: vadd.Run, model: vadd.Run, out: Path) -> None:
    slow = np.asarray(mdlm.trajectory(COLUMNS * ROWS, steps=STEPS, seed=0))
    fast = np.asarray(model.trajectory(COLUMNS * ROWS, steps=1, seed=0))
    frames = []
    for step, state in enumerate(slow):
        taken = min(step, 1)
        sides = [as_pillow(enlarged(picture(run, each), SCALE)) for run, each in ((mdlm, state), (model, fast[taken]))]
        frame = Image.new("RGB", (2 * sides[0].width + GAP, sides[0].height + TITLE), WHITE)
        writing = ImageDraw.Draw(frame)
        for left, side, name, done in zip(
            (0, sides[0].width + GAP),
            sides,
            ("MDLM", "VADD"),
            (f"{step} of {STEPS} steps", f"{taken} of 1 step"),
            strict=True,
        ):
            frame.paste(side, (left, TITLE))
            writing.text((left + 2, TITLE // 2), f"{name}: {done}", fill=BLACK, anchor="lm", font_size=16)
        frames.append(frame.quantize(COLOURS))
    save_animation(out, frames, [1000, *[FRAME] * (len(frames) - 2), HOLD])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mdlm", type=Path)
    parser.add_argument("vadd", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    chosen = parser.parse_args()
    mdlm, model = vadd.load(chosen.mdlm), vadd.load(chosen.vadd)
    one_step({"MDLM": mdlm, "VADD": model}, chosen.out / "one-step.png")
    few_steps(mdlm, model, chosen.out / "few-steps.gif")
