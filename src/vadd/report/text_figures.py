"""Figures about texts: generative perplexity and diversity by number of steps."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from vadd.report.figures import MODEL_COLOURS, label_step_axis

PANELS = {
    "gen_ppl": "generative perplexity",
    "judge_bits": "the judge's bits per character",
    "sample_entropy": "entropy of a sample's tokens, nats",
    "distinct_2": "distinct-2",
}


def text_by_steps(reports: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Figure:
    """Generative perplexity (both axes logarithmic, two standard errors shaded), per token and in bits per character,
    and the entropy beside it, a line per run, real text dashed.

    Without a judge distinct-2 stands in the place of the perplexity.
    """
    judged = any(result.get("gen_ppl") is not None for report in reports for result in report["results"])
    metrics = ["gen_ppl", "judge_bits", "sample_entropy"] if judged else ["sample_entropy", "distinct_2"]
    figure = Figure(figsize=(4.6 * len(metrics), 3.9), layout="constrained")
    for axis, metric in zip(figure.subplots(1, len(metrics)), metrics, strict=True):
        for number, (name, report) in enumerate(zip(names, reports, strict=True)):
            found = [result for result in report["results"] if result.get(metric) is not None]
            steps, values = [result["steps"] for result in found], [result[metric] for result in found]
            style = _style(reports, number)
            axis.plot(steps, values, marker="o", label=name, **style)
            if metric == "gen_ppl":
                spread = np.exp([2 * (result["gen_ppl_stderr"] or 0.0) / result["gen_ppl"] for result in found])
                low, high = np.array(values) / spread, np.array(values) * spread
                axis.fill_between(steps, low, high, color=style["color"], alpha=0.12, linewidth=0)
        for real in {report["real_text"].get(metric) for report in reports} - {None}:
            axis.axhline(real, linestyle="--", linewidth=1, color="grey", label="real text")
        if metric == "gen_ppl":
            axis.set_yscale("log")
        label_step_axis(axis, (result["steps"] for report in reports for result in report["results"]), PANELS[metric])
        if metric == "gen_ppl":  # within one power of ten there would be no number on the axis
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
            axis.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    return figure


def _style(reports: Sequence[Mapping[str, Any]], number: int) -> dict[str, Any]:
    """A colour for each model, and dash-dotted where one latent is kept; a colour for each run where that is not
    enough to tell them apart.
    """
    kinds = [(report["model"], report.get("latent_policy") == "fixed") for report in reports]
    if len(set(kinds)) < len(kinds):
        return {"color": f"C{number}"}
    model, one_latent = kinds[number]
    return {"color": MODEL_COLOURS.get(model, f"C{number}"), "linestyle": "-." if one_latent else "-"}
