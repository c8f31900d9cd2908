"""Every table and figure of the paper: which study makes it, what that needs, and whether it was made here."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from vadd.progress import Progress, silent
from vadd.recipe import Recipe, Training, load_recipe, validate
from vadd.recipe.building import example_format
from vadd.recipe.counting import model_on_meta, sampling_flops, training_cost
from vadd.studies import images, text, toys
from vadd.studies.measuring import Measuring
from vadd.words import duration

RATE = 50e12
"""FLOP per second that one device is assumed to reach."""
COUNTED = 4
"""Examples; the arithmetic for one is the same for all, but for the masks."""


@dataclass(frozen=True)
class Target:
    name: str
    """Of the study, ``vadd reproduce NAME``."""
    numbers: str
    """Of the tables and figures that it makes, counted as they stand in the paper."""
    shows: str
    needs: str
    recipes: tuple[str, ...] = ()
    """That are trained at the paper's scale."""
    rows: tuple[str, ...] = ("model=mdlm", "model=vadd")
    """What each of them is trained with."""
    measuring: Measuring | None = None
    """At the paper's scale."""
    examples: int = 0
    """Of the test set; of OpenWebText about as many."""
    options: str = ""
    """That its command needs."""
    place: str = ""
    """Where its results lie below the directory of the studies; by default a folder of its name."""

    def trainings(self) -> Iterator[Recipe]:
        for name in self.recipes:
            for row in self.rows:
                yield load_recipe(name).with_overrides([row])

    def results(self, root: Path, suffix: str = "") -> Path:
        study, *inside = (self.place or self.name).split("/")
        return root.joinpath(study + suffix, *inside, "results.json")


TARGETS = (
    Target(
        "toys",
        "Table 1, Figures 1, 5, 6",
        "JS and NLL of the toys; their samples by model and by number of steps",
        "nothing",
        ("checkerboard-paper", "swissroll-paper", "circles-paper"),
        measuring=toys.MEASURING["paper"],
        examples=10_000,
    ),
    Target(
        "mnist",
        "Table 2 (MNIST), Figures 3, 7, 8 (MNIST)",
        "bits per dimension of binarized MNIST; its samples; its training and test curves",
        "vadd data mnist; a GPU",
        ("mnist",),
        measuring=images.MNIST["paper"],
        examples=10_000,
    ),
    Target(
        "cifar10",
        "Tables 3, 7, Figures 8 (CIFAR-10), 9",
        "FID by number of steps, DDPM's quoted beside; samples of CIFAR-10; its training and test curves",
        "vadd data cifar10; vadd data inception; GPUs",
        ("cifar10",),
        measuring=images.CIFAR10["paper"],
        examples=10_000,
    ),
    Target(
        "cifar10-2m",
        "Table 2 (CIFAR-10)",
        "bits per dimension of CIFAR-10, which the paper has after 2M iterations",
        "vadd data cifar10; vadd data inception; GPUs",
        ("cifar10-2m",),
        measuring=images.CIFAR10["paper"],
        examples=10_000,
    ),
    Target(
        "lm1b",
        "Table 5",
        "perplexities on One Billion Word",
        "lm1b and the bert-base-uncased tokenizer, from the hub or by --data; GPUs",
        ("lm1b",),
        measuring=text.MEASURING["lm1b"]["paper"],
        examples=306_688,
    ),
    Target(
        "text",
        "Tables 8, 9, Figures 4, 10 to 13",
        "perplexities on OpenWebText by K; generative perplexities in float32 (figure) and float64 (table); samples",
        "openwebtext and the gpt2 tokenizer, from the hub or by --data; the judge; GPUs",
        ("openwebtext",),
        options="--judge gpt2-large",
        measuring=text.MEASURING["text"]["paper"],
        examples=110_000,
    ),
    Target(
        "zero-shot",
        "Table 6",
        "zero-shot perplexities on six corpora",
        "the runs of `text`; a folder with copies of the corpora; a GPU",
        options="--corpora DIR",
        place="text/zero-shot",
    ),
    Target("speed", "Table 4", "training speed in iterations per second", "a GPU"),
)


def planned_hours(target: Target) -> float:
    """Hours of arithmetic of its trainings at the paper's scale, on one device at :data:`RATE`."""
    flops = sum(
        _flops(recipe).training * recipe.training.batch * recipe.training.steps for recipe in target.trainings()
    )
    return flops / RATE / 3600


def planned_evaluation_hours(target: Target) -> float:
    """The same of what is measured: samples, step bounds, and the ELBO or the DELBO."""
    flops = 0.0
    if (measuring := target.measuring) is not None:
        bounds = measuring.bounds()
        for recipe in target.trainings():
            latents, in_delbo = (bounds.particles.count, sum(bounds.delbo_counts)) if recipe.has_latent else (1, 1)
            of_example = sum(bounds.steps) * latents + measuring.draws * in_delbo
            shown = measuring.samples * sum(measuring.steps) + target.examples * of_example
            flops += shown * _flops(recipe).denoiser
    return flops / RATE / 3600


@dataclass(frozen=True)
class _Flops:
    """Of one example."""

    training: float
    denoiser: float


def _flops(recipe: Recipe) -> _Flops:
    return _counted(recipe.model_copy(update={"name": "counted", "about": "", "training": Training()}).to_yaml())


@cache
def _counted(content: str) -> _Flops:
    """Of a recipe as YAML; the length of a training does not matter."""
    recipe = validate(yaml.safe_load(content), "a recipe")
    model = model_on_meta(recipe, example_format(recipe))
    return _Flops(training_cost(model, recipe, COUNTED).flops, sampling_flops(model))


def results_of(target: Target, root: Path) -> Any:
    """The numbers that a study has left below ``root``."""
    return json.loads(target.results(root).read_text())


def made_here(target: Target, root: Path) -> str:
    """At what scale its results lie below ``root``, by what they say of themselves: where the study puts them, where
    ``vadd reproduce paper`` does, and where the examples of ``--scale paper`` do. The paper's scale comes first.
    """
    places = (target.results(root), target.results(root / "paper"), target.results(root, "-paper"))
    found = [_made(target, file) for file in places if file.is_file()]
    return min(found, key=lambda made: not made.startswith(PAPERS), default="no")


PAPERS = "paper's recipe"


def _made(target: Target, file: Path) -> str:
    try:
        reports = [dict(report) for report in json.loads(file.read_text())]
    except (OSError, ValueError, TypeError):
        return "damaged"
    if not reports:
        return "no"
    papers = all(_is_papers(target, report) for report in reports)
    steps = sorted({count for report in reports if (count := report.get("training_steps") or report.get("steps"))})
    listed = ", ".join(f"{count:,}" for count in steps)
    return (PAPERS if papers else "small") + (f", {listed} steps" if listed else "")


def _is_papers(target: Target, report: dict[str, Any]) -> bool:
    """What has nothing to be unlike (a speed) is the paper's if it is of the paper's recipe; what a study compares is
    no difference.
    """
    compared = tuple(row.partition("=")[0] + "=" for row in target.rows)
    unlike = [key for key in report.get("unlike_it") or () if not key.startswith(compared)]
    published = report.get("published_recipe") or report.get("recipe")
    return not unlike and published in (target.recipes or ("openwebtext",))


@dataclass(frozen=True)
class Entry:
    """What ``vadd reproduce --list`` shows of a study."""

    target: Target
    training: str | None
    judging: str | None
    made: str

    def lines(self) -> list[str]:
        target = self.target
        times = {"training": self.training, "judging": self.judging}
        told = [f"{name} {time}" for name, time in times.items() if time is not None]
        options = f" {target.options}" if target.options else ""
        return [
            f"{target.name}: {target.shows}",
            f"{target.numbers} of the paper",
            f"vadd reproduce {target.name} --scale paper{options}",
            "; ".join([f"needs {target.needs}", *told]),
            f"made here: {self.made}",
        ]


def catalogue(root: Path, progress: Progress = silent) -> Iterator[Entry]:
    for number, target in enumerate(TARGETS):
        progress(f"planning {target.name}", number, len(TARGETS))
        times = [planned_hours(target), planned_evaluation_hours(target)]
        training, judging = (duration(3600 * hours) if hours else None for hours in times)
        yield Entry(target, training, judging, made_here(target, root))


NOTE = (
    "Without --scale paper each makes a small version on a laptop. Times: arithmetic of all trainings at the paper's "
    f"scale on one device that reaches {RATE:.0e} FLOP/s, and of judging them with the paper's 1000 latents and 100 "
    "masks for each example of the whole test set (--limit, --particles and --draws make that shorter); language "
    "models and Inception are left out, and zero-shot takes what its corpora take. `vadd plan RECIPE` says more. Made "
    "here: below runs/, where the commands put it unless told otherwise, in runs/paper and in runs/NAME-paper. "
    "Figure 2 shows the network; the curves of Figure 4 have no printed numbers."
)
