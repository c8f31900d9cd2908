"""Every table and figure of the paper: which study makes it, what that needs, and whether it was made here."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from vadd.building import example_format
from vadd.planning.counting import model_on_meta, training_cost
from vadd.progress import Progress, silent
from vadd.recipe import Training, load_recipe, validate
from vadd.report.tables import Cell, Table
from vadd.words import duration

RATE = 50e12
"""FLOP per second that one device is assumed to reach."""
COUNTED = 4
"""Examples; the arithmetic for one is the same for all, but for the masks."""


@dataclass(frozen=True)
class Target:
    name: str
    """Of the study, ``vadd reproduce NAME``."""
    shows: str
    """What it makes of the paper."""
    needs: str
    recipes: tuple[str, ...] = ()
    """That are trained at the paper's scale, with both models."""
    place: str = ""
    """Where its results lie below the directory of the studies; by default a folder of its name."""


TARGETS = (
    Target(
        "toys",
        "the table of JS and NLL of the toys; the figures of their samples by model and by number of steps",
        "nothing",
        ("checkerboard-paper", "swissroll-paper", "circles-paper"),
    ),
    Target(
        "mnist",
        "bits per dimension of binarized MNIST; its samples; its training and test curves",
        "vadd data mnist; a GPU",
        ("mnist",),
    ),
    Target(
        "cifar10",
        "FID by number of steps, DDPM's beside; samples of CIFAR-10; its training and test curves",
        "vadd data cifar10; vadd data inception; GPUs",
        ("cifar10",),
    ),
    Target(
        "cifar10-2m",
        "bits per dimension of CIFAR-10, which the paper has after 2M iterations",
        "vadd data cifar10; vadd data inception; GPUs",
        ("cifar10-2m",),
    ),
    Target(
        "lm1b",
        "perplexities on One Billion Word",
        "lm1b and the bert-base-uncased tokenizer, from the hub or by --data; GPUs",
        ("lm1b",),
    ),
    Target(
        "text",
        "perplexities on OpenWebText by K; generative perplexities in float32 (figure) and float64 (table); samples",
        "openwebtext and the gpt2 tokenizer, from the hub or by --data; --judge gpt2-large; GPUs",
        ("openwebtext",),
    ),
    Target(
        "zero-shot",
        "zero-shot perplexities on six corpora",
        "the runs of `text`; --corpora DIR with copies of the corpora; a GPU",
        place="text/zero-shot",
    ),
    Target("recognition", "the remark that a recognition model without x_t collapses", "vadd data mnist; a GPU"),
    Target("speed", "training speed in iterations per second", "a GPU"),
)


def planned_hours(target: Target) -> float:
    """Hours of arithmetic of its trainings at the paper's scale, on one device at :data:`RATE`."""
    flops = 0.0
    for name in target.recipes:
        for model in ("mdlm", "vadd"):
            recipe = load_recipe(name).with_overrides([f"model={model}"])
            each = _flops_of_example(recipe.model_copy(update={"name": "counted", "training": Training()}).to_yaml())
            flops += each * recipe.training.batch * recipe.training.steps
    return flops / RATE / 3600


@cache
def _flops_of_example(content: str) -> float:
    """Of a recipe as YAML; the length of a training does not matter."""
    recipe = validate(yaml.safe_load(content), "a recipe")
    return training_cost(model_on_meta(recipe, example_format(recipe)), recipe, COUNTED).flops


def results_of(target: Target, root: Path) -> Any:
    """The numbers that a study has left below ``root``."""
    return json.loads((root / (target.place or target.name) / "results.json").read_text())


def made_here(target: Target, root: Path) -> str:
    """At what scale its results lie below ``root``, by what they say of themselves."""
    try:
        reports = [dict(report) for report in results_of(target, root)]
    except FileNotFoundError:
        return "no"
    except (OSError, ValueError, TypeError):
        return "damaged"
    if not reports:
        return "no"
    # What has nothing to be unlike (a speed) is the paper's if it is of the paper's recipe.
    papers = all(
        not report.get("unlike_it") and (report.get("published_recipe") or report["recipe"]) in _published(target)
        for report in reports
    )
    steps = sorted({count for report in reports if (count := report.get("training_steps") or report.get("steps"))})
    listed = ", ".join(f"{count:,}" for count in steps)
    return ("paper's recipe" if papers else "small") + (f", {listed} steps" if listed else "")


def _published(target: Target) -> Sequence[str]:
    return target.recipes or ("openwebtext",)


def catalogue(root: Path, progress: Progress = silent) -> Table:
    """What ``vadd reproduce --list`` shows."""
    rows: list[list[Cell]] = []
    for number, target in enumerate(TARGETS):
        progress(f"planning {target.name}", number, len(TARGETS))
        hours = duration(3600 * planned_hours(target)) if target.recipes else None
        rows.append([target.name, target.shows, target.needs, hours, made_here(target, root)])
    note = (
        "vadd reproduce NAME makes a small version on a laptop, --scale paper the paper's. Time: arithmetic of both "
        f"models' trainings at the paper's scale on one device that reaches {RATE:.0e} FLOP/s, evaluation left out; "
        "`vadd plan RECIPE` says more. The figure of generative perplexities has no printed numbers."
    )
    columns = ["NAME", "of the paper", "needs at --scale paper", "time", f"made in {root}"]
    return Table("Tables and figures of the paper", columns, rows, note)
