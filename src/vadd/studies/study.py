"""What a study is, and what the user may ask of it. The studies themselves are the YAML files in ``definitions``: the
trainings that each compares, how their runs are sampled, what is measured, which tables are made, and the numbers that
the paper published. Nothing here needs torch.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from vadd.progress import Progress, silent
from vadd.words import duration

if TYPE_CHECKING:
    from vadd.evaluation.language_models import LanguageJudge


OF_THE_PAPER = ("toys", "mnist", "cifar10", "cifar10-2m", "lm1b", "text", "zero-shot", "recognition", "speed")
STUDIES = (*OF_THE_PAPER, "validity", "latents", "baselines", "league")
PARTICLES, DRAWS = 1000, 100
"""The paper's estimates of VADD: K latents for each of so many pairs (t, x_t)."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Measuring(_Data):
    """What is measured of every model."""

    steps: tuple[int, ...] = ()
    """Numbers of sampling steps."""
    samples: int = 0
    """For each number of steps."""
    bound_steps: tuple[int, ...] = ()
    """Numbers of steps of the likelihood bounds."""
    particles: int = 64
    """K of the step bounds."""
    delbo_particles: tuple[int, ...] = ()
    """K of the DELBO; by default that of the step bounds."""
    draws: int = 0
    """Pairs (t, x_t) for each example, in the ELBO and the DELBO; 0 leaves them out."""
    limit: int = 0
    """Held-out examples; 0: the whole test set."""
    choose_proposals: bool = False


class Entry(_Data):
    """One training of a study."""

    recipe: str = ""
    changes: tuple[str, ...] = ()
    folder: str = "{name}-{model}"
    """Below ``--out``, by what the recipe says."""
    time_ratio: float = 1.0
    """How many steps it makes in the time of one step of the others, where the network is small enough for a CPU."""
    control: bool = False
    """Trained only on request."""


class View(_Data):
    """One way to sample a trained model: a row of the tables."""

    latent_policy: Literal["resample", "fixed"] | None = None
    prior: Literal["fitted", "flow", "trained"] = "fitted"
    """``fitted`` is a flow only where it is better than N(0, I); ``flow`` is one whatever it is worth."""
    float32: bool = False


class Choice(_Data):
    """What is chosen for every model of a table, all by the same rule (:mod:`vadd.studies.choosing`)."""

    values: dict[str, tuple[Any, ...]] = {}
    """Keys of the recipe, and the values that are tried; each combination is a training."""
    grids: tuple[Literal["uniform", "cosine"], ...] = ("uniform",)
    lengths: int = 1
    """Of the training: so many parts of the whole, evenly."""
    set_aside: int = 500
    """Training examples that decide, at most."""
    steps: tuple[int, ...]
    """Numbers of steps of the bounds, whose mean decides."""
    particles: int = 16


class Zoo(_Data):
    """How all models of the zoo are compared on one data set."""

    minutes: float
    """Processor time of each training."""
    variants: dict[str, Entry]
    """VADD with other latents than the paper's, by the names of ``--models``."""
    energy_steps: tuple[int, ...] = (1,)
    """Those of the steps that are also weighed by an energy, which takes a hundred times as long."""
    candidates: int = 8
    """Of the rows that are weighed by an energy."""
    costly_samples: int | None = None
    """Of models whose samples take long, where that is fewer."""


class Setting(_Data):
    """What a study trains and measures at one scale, or on one data set."""

    recipes: tuple[str, ...] = ()
    """Each is trained with the changes of every entry of the study."""
    entries: tuple[Entry, ...] = ()
    measuring: Measuring = Measuring()
    zoo: Zoo | None = None
    sets: tuple[str, ...] = ()
    """Of :data:`vadd.studies.league_sets.SETS`."""
    minutes: float = 5
    """Processor time of the default on each of these sets, at most."""


class Quoted(_Data):
    """A likelihood of the paper's tables."""

    name: str
    """The row, as the paper calls it."""
    value: float
    model: Literal["mdlm", "vadd"] | None = None
    """Trained by the paper; None where it quotes others."""
    particles: int = PARTICLES
    detail: str | None = None
    """Parameters or iterations, whichever column its table has."""
    examples: str | None = None
    """How many were evaluated, where that is known."""

    @property
    def which(self) -> tuple[str, int | None, int | None]:
        """What the number is, K and masks. The paper calls its DELBO a bound, which it is not."""
        if self.model == "vadd":
            return "DELBO, not a likelihood bound", self.particles, DRAWS
        return "ELBO" if self.model else "as its authors report", None, None


class Published(_Data):
    """The paper's numbers."""

    recipe: str = ""
    """Numbers compare where the data are those of this recipe."""
    likelihoods: dict[str, tuple[Quoted, ...]] = {}
    """By data set."""
    by_steps: dict[str, dict[int, float]] = {}
    """FID, generative perplexity or JS, by model and number of sampling steps."""
    samples: int = 0
    """Of which ``by_steps`` was computed."""
    judge: str = ""
    rows: dict[str, tuple[float | None, ...]] = {}
    columns: tuple[str, ...] = ()


class Study(_Data):
    name: str
    help: str
    """Of its command."""
    settings: dict[str, Setting]
    """By the value of the option ``choice``; the first is the default."""
    choice: str = "scale"
    choice_help: str = ""
    options: tuple[str, ...] = ()
    """Of its command, besides those that all have."""
    entries: tuple[Entry, ...] = (Entry(changes=("model=mdlm",)), Entry(changes=("model=vadd",)))
    views: tuple[tuple[View, ...], ...] = ((View(),),)
    """Groups: within a group the views of each training follow one another."""
    fixed: tuple[str, ...] = ()
    """Keys of the recipe in which its rows differ, besides those of all studies."""
    choose: Choice | None = None
    """What is chosen for every model instead of being taken from its recipe."""
    needs_inception: bool = False
    only_text: bool = False
    engine: Literal["comparison", "zero-shot", "speed", "baselines", "league"] = "comparison"
    title: str
    introduction: str = ""
    tables: tuple[str, ...] = ()
    """Of :data:`vadd.studies.tables.TABLES`, for the page."""
    terminal: tuple[str, ...] = ()
    """The same for the terminal; by default those of the page."""
    published: Published = Published()
    artefacts: str = ""
    """The paper's tables and figures that it makes; empty for studies that are not the paper's."""
    shows: str = ""
    needs: str = ""
    paper_options: str = ""
    """That its command needs at the paper's scale."""
    hours: tuple[float, float] = (0.0, 0.0)
    """Of training and of evaluation at the paper's scale, see :data:`vadd.studies.study.RATE`."""
    place: str = ""
    """Where its results are, below the directory of the studies; by default a folder of its name."""

    @property
    def folder(self) -> str:
        """Where its runs are; zero-shot evaluates those of the study of text."""
        return (self.place or self.name).partition("/")[0]

    def entries_of(self, setting: str) -> list[Entry]:
        chosen = self.settings[setting]
        crossed = [each.model_copy(update={"recipe": name}) for name in chosen.recipes for each in self.entries]
        return [*chosen.entries, *crossed]


@cache
def study_named(name: str) -> Study:
    return Study(name=name, **_definition(name))


def _definition(name: str) -> dict[str, Any]:
    file = resources.files("vadd").joinpath("studies", "definitions", f"{name}.yaml")
    content = yaml.safe_load(file.read_text())
    base = content.pop("extends", None)
    return content if base is None else {**_definition(base), **content}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the user asks of a study; what is left out is as the study says."""

    out: Path
    setting: str
    overrides: Sequence[str] = ()
    measuring: Mapping[str, Any] = field(default_factory=dict)
    """Fields of :class:`Measuring`."""
    fit: bool = False
    """Choose how to compute so that trainings fit into memory."""
    recipe: str | None = None
    data: Path | None = None
    inception: Path | None = None
    judge: str | None = None
    open_judge: "Callable[[], LanguageJudge | None]" = lambda: None
    """Loads the judge of texts; called once the recipes are known to be right."""
    float32: bool = False
    control: bool = False
    choose: bool = True
    """Choose what the study leaves open; else recipes are taken as they are."""
    seeds: int = 1
    """Trainings of each row."""
    corpora: Path | None = None
    only: Sequence[str] | None = None
    runs: Sequence[Path] = ()
    models: Sequence[str] = ()
    sets: Sequence[str] = ()
    minutes: float | None = None
    timed_steps: int = 20
    progress: Progress = silent


RATE = 50e12
"""FLOP per second that one device is assumed to reach."""
PAPERS = "paper's recipe"


def results_file(study: Study, root: Path, suffix: str = "") -> Path:
    first, *inside = (study.place or study.name).split("/")
    return root.joinpath(first + suffix, *inside, "results.json")


def made_here(study: Study, root: Path) -> str:
    """The scale of the results below ``root``: where the study writes them, where ``vadd reproduce paper`` does, and
    where the examples of ``--scale paper`` do. The paper's scale comes first.
    """
    files = (results_file(study, root), results_file(study, root / "paper"), results_file(study, root, "-paper"))
    scales = [_scale_of(study, file) for file in files if file.is_file()]
    return min(scales, key=lambda scale: not scale.startswith(PAPERS), default="no")


def _scale_of(study: Study, file: Path) -> str:
    """By what the reports say of themselves; keys in which the rows of the study differ do not count."""
    try:
        reports = [dict(report) for report in json.loads(file.read_text())]
    except (OSError, ValueError, TypeError):
        return "damaged"
    if not reports:
        return "no"
    recipes = study.settings["paper"].recipes
    compared = tuple(change.partition("=")[0] + "=" for entry in study.entries for change in entry.changes)
    papers = all(
        (report.get("published_recipe") or report.get("recipe")) in recipes
        and all(key.startswith(compared) for key in report.get("unlike_it") or ())
        for report in reports
    )
    steps = sorted({count for report in reports if (count := report.get("training_steps") or report.get("steps"))})
    listed = ", ".join(f"{count:,}" for count in steps)
    return (PAPERS if papers else "small") + (f", {listed} steps" if listed else "")


def listing(root: Path) -> Iterator[tuple[str, list[str]]]:
    """A heading and lines for each study of the paper."""
    for study in map(study_named, OF_THE_PAPER):
        times = zip(("training", "evaluation"), study.hours, strict=True)
        needs = [f"needs {study.needs}", *(f"{what} {duration(3600 * hours)}" for what, hours in times if hours)]
        lines = [
            f"{study.artefacts} of the paper",
            f"vadd reproduce {study.name} --scale paper{study.paper_options}",
            "; ".join(needs),
            f"made here: {made_here(study, root)}",
        ]
        yield f"{study.name}: {study.shows}", lines


NOTE = (
    "Without --scale paper each makes a small version on a laptop. Times: arithmetic of all trainings at the paper's "
    f"scale on one device that reaches {RATE:.0e} FLOP/s, and of evaluating them with the paper's 1000 latents and 100 "
    "masks for each example of the whole test set (--limit, --particles and --draws make that shorter); language "
    "models and Inception are left out, and zero-shot takes what its corpora take. `vadd plan RECIPE` says more. Made "
    "here: below runs/, where the commands write unless --out says otherwise, in runs/paper and in runs/NAME-paper. "
    "Figure 2 shows the network; the curves of Figure 4 have no printed numbers."
)
