"""Figures about texts: generative perplexity and diversity by number of steps."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from vadd.evaluation.metrics import TextMetrics
from vadd.evaluation.reports import RunReport
from vadd.report.figures import MODEL_COLOURS, label_step_axis

Panel = tuple[str, Callable[[TextMetrics], float | None]]

PERPLEXITY: Panel = ("generative perplexity", lambda metrics: metrics.gen_ppl)
BITS: Panel = ("the judge's bits per character", lambda metrics: metrics.judge_bits)
ENTROPY: Panel = ("entropy of a sample's tokens, nats", lambda metrics: metrics.sample_entropy)
DISTINCT: Panel = ("distinct-2", lambda metrics: metrics.distinct_2)


def text_by_steps(reports: Sequence[RunReport], names: Sequence[str]) -> Figure:
    """Generative perplexity (both axes logarithmic, two standard errors shaded), per token and in bits per character,
    and the entropy beside it, a line per run, real text dashed.

    Without a judge distinct-2 stands in the place of the perplexity.
    """
    found = [report.by_steps(TextMetrics) for report in reports]
    judged = any(metrics.gen_ppl is not None for by_steps in found for metrics in by_steps.values())
    panels = [PERPLEXITY, BITS, ENTROPY] if judged else [ENTROPY, DISTINCT]
    figure = Figure(figsize=(4.6 * len(panels), 3.9), layout="constrained")
    for axis, (title, number_of) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        for place, (name, by_steps) in enumerate(zip(names, found, strict=True)):
            points = {steps: value for steps, m in by_steps.items() if (value := number_of(m)) is not None}
            axis.plot(list(points), list(points.values()), marker="o", label=name, **_style(reports, place))
        if title == PERPLEXITY[0]:
            for place, by_steps in enumerate(found):
                _shade_errors(axis, by_steps, _style(reports, place)["color"])
            axis.set_yscale("log")
        real_texts = [report.real_text.metrics for report in reports if report.real_text is not None]
        for real in {number_of(metrics) for metrics in real_texts} - {None}:
            axis.axhline(real, linestyle="--", linewidth=1, color="grey", label="real text")
        label_step_axis(axis, (steps for by_steps in found for steps in by_steps), title)
        if title == PERPLEXITY[0]:  # within one power of ten there would be no number on the axis
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    return figure


def _shade_errors(axis: Axes, by_steps: dict[int, TextMetrics], colour: str) -> None:
    """Two standard errors of the generative perplexity, on a logarithmic axis."""
    known = {steps: (m.gen_ppl, m.gen_ppl_stderr or 0.0) for steps, m in by_steps.items() if m.gen_ppl is not None}
    values = np.array([value for value, _ in known.values()])
    spread = np.exp([2 * error / value for value, error in known.values()])
    axis.fill_between(list(known), values / spread, values * spread, color=colour, alpha=0.12, linewidth=0)


def _style(reports: Sequence[RunReport], number: int) -> dict[str, Any]:
    """A colour for each model, and dash-dotted where one latent is kept; a colour for each run where that is not
    enough to tell them apart.
    """
    kinds = [(report.model, report.one_latent) for report in reports]
    if len(set(kinds)) < len(kinds):
        return {"color": f"C{number}"}
    model, one_latent = kinds[number]
    return {"color": MODEL_COLOURS.get(model, f"C{number}"), "linestyle": "-." if one_latent else "-"}
