"""The demonstration, and the paper's two-dimensional experiments (its section 5.1): Figures 1 and 2 and the table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from vadd.core import Particles
from vadd.evaluation import BoundSettings, RunReport
from vadd.evaluation.metrics import DistributionDistance
from vadd.progress import Progress
from vadd.report.page import PageSection
from vadd.report.tables import Cell, Table, model_label
from vadd.studies.comparison import Comparison, compare
from vadd.studies.ensure import both_models, ensure_trained
from vadd.studies.paper import TOYS

ToyName = Literal["checkerboard", "swissroll", "circles"]
TOY_NAMES: tuple[ToyName, ...] = ("checkerboard", "swissroll", "circles")
STEPS = (1, 2, 5, 10, 20)
SAMPLES = 100_000
TOY_PARTICLES = 128

DEMO_OVERRIDES = ("training.steps=2000", "training.checkpoint_every=500")


def demo(toy: ToyName, out: Path, progress: Progress) -> Comparison:
    """MDLM and VADD on one toy, trained for a minute or so each."""
    runs = [ensure_trained(recipe, out / f"{toy}-{recipe.model}") for recipe in both_models(toy, DEMO_OVERRIDES)]
    return compare(
        runs,
        out,
        steps=(1, 2, 5, 20),
        samples=SAMPLES,
        bounds=BoundSettings(Particles(64), steps=(1, 2, 4, 8), limit=2000),
        title=f"What the latent variable buys: {toy}",
        introduction=(
            "Both models learn the same points with the same network and as many steps. MDLM draws the two "
            "coordinates of a point independently whenever it reveals them together; VADD draws a latent first, and "
            "the coordinates agree. One step is enough."
        ),
        commands=[f"vadd demo --toy {toy}"],
        progress=progress,
    )


def reproduce_toys(out: Path, scale: Literal["cpu", "paper"], progress: Progress) -> Comparison:
    """All three data sets, both models; at scale ``paper`` with the appendix's own recipe of 195,312 iterations."""
    suffix = "-paper" if scale == "paper" else ""
    runs = [
        ensure_trained(recipe, out / f"{toy}-{recipe.model}")
        for toy in TOY_NAMES
        for recipe in both_models(toy + suffix)
    ]
    return compare(
        runs,
        out,
        steps=STEPS,
        samples=SAMPLES,
        bounds=BoundSettings(Particles(TOY_PARTICLES), steps=(1, 2, 4, 8, 16), limit=4000),
        title="Two-dimensional toys: MDLM and VADD beside the paper",
        introduction=(
            "Three distributions on a 100 x 100 grid, learned from 100,000 points and compared by 100,000 samples, as "
            "in the paper. The paper's 'JS' exceeds ln 2, so it is not the Jensen-Shannon divergence; paper_js is "
            "the quantity that reproduces it."
        ),
        commands=["vadd reproduce toys" + (" --scale paper" if scale == "paper" else "")],
        first_sections=lambda reports: [PageSection("Beside the paper", tables=[paper_table(reports)])],
        progress=progress,
    )


def paper_table(reports: Sequence[RunReport]) -> Table:
    rows: list[list[Cell]] = []
    for report in reports:
        toy = report.recipe.removesuffix("-paper")
        by_steps = report.by_steps(DistributionDistance)
        one, five, theirs = by_steps[1], by_steps[5], TOYS[toy, report.model]
        rows.append(
            [
                f"{toy} {model_label(report.model)}",
                one.paper_js,
                theirs.js_1,
                five.paper_js,
                theirs.js_5,
                one.paper_js_floor,
                one.jsd_exact,
            ]
        )
    return Table(
        "paper_js of 100,000 samples, ours beside the paper's",
        ["", "T = 1", "paper", "T = 5", "paper", "our floor", "jsd exact, T = 1"],
        rows,
        "The floor is paper_js between two independent samples of the data. The paper gives none; its own rescaling of "
        "the data is not stated, so its floors may differ from ours for swissroll and circles.",
    )
