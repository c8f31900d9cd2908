"""What a study is, and what the user may ask of it. The studies themselves are the YAML files in ``definitions``: the
trainings that each compares, how their runs are sampled, what is measured, which tables are made, and the numbers that
the paper published. Nothing here needs torch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from vadd.progress import Progress, silent
from vadd.report.notes import NOTES
from vadd.words import duration

if TYPE_CHECKING:
    from vadd.evaluation.language_models import LanguageJudge


OF_THE_PAPER = ("toys", "mnist", "cifar10", "cifar10-2m", "lm1b", "text", "zero-shot", "recognition", "speed")
STUDIES = (*OF_THE_PAPER, "validity", "latents", "baselines", "league", "public")
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
    brackets: tuple[int, ...] = ()
    """Numbers of steps of intervals, bounds from both sides."""
    paths: int = 16
    conventions: bool = False
    """What the field calls likelihoods."""
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
    """What is chosen for every model of a table, all by the same rule (:mod:`vadd.studies.equal_time`)."""

    values: dict[str, tuple[Any, ...]] = {}
    """Keys of the recipe, and the values that are tried; each combination is a training."""
    grids: tuple[Literal["uniform", "cosine"], ...] = ("uniform",)
    lengths: int = 1
    """Of the training: so many parts of the whole, evenly."""
    steps: tuple[int, ...]
    """Numbers of steps of the bounds, whose mean decides."""
    particles: int = 16
    set_aside: int = 500
    """Training examples that decide, at most; a setting of large examples has its own number."""


class Setting(_Data):
    """What a study trains and measures at one scale, or on one data set."""

    recipes: tuple[str, ...] = ()
    """Each is trained with the changes of every entry of the study."""
    entries: tuple[Entry, ...] = ()
    measuring: Measuring = Measuring()
    minutes: float = 5
    """Processor time of each training of the zoo, and of the default on each set of the league, at most."""
    variants: dict[str, Entry] = {}
    """VADD with other latents than the paper's, by the names of ``--models``."""
    energy_steps: tuple[int, ...] = (1,)
    """Those of the steps that are also weighed by an energy, which takes a hundred times as long."""
    set_aside: int | None = None
    """In place of that of the study's choice."""
    candidates: int = 8
    """Of the rows that are weighed by an energy."""
    costly_samples: int | None = None
    """Of models whose samples take long, where that is fewer."""
    sets: tuple[str, ...] = ()
    """Of :data:`vadd.studies.league_sets.SETS`."""


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
    shipped: tuple[str, ...] = ()
    """Models of the package, whose samples in one step are drawn before anything is trained, and head the page."""
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

    def results(self, root: Path) -> Path:
        return root / (self.place or self.name) / "results.json"

    def entries_of(self, setting: str) -> list[Entry]:
        chosen = self.settings[setting]
        crossed = [each.model_copy(update={"recipe": name}) for name in chosen.recipes for each in self.entries]
        return [*chosen.entries, *crossed]


@cache
def study_named(name: str) -> Study:
    def definition(name: str) -> dict[str, Any]:
        file = resources.files("vadd").joinpath("studies", "definitions", f"{name}.yaml")
        content = yaml.safe_load(file.read_text())
        return {**definition(content.pop("extends")), **content} if "extends" in content else content

    return Study(name=name, **definition(name))


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


def made_here(study: Study, root: Path) -> str:
    """Where results are: where the study writes them, where ``vadd reproduce paper`` does, and where the examples of
    ``--scale paper`` do.
    """
    first, *inside = (study.place or study.name).split("/")
    places = [Path(root, *parts, *inside) for parts in ((first,), ("paper", first), (f"{first}-paper",))]
    return ", ".join(str(place) for place in places if (place / "results.json").is_file()) or "no"


def listing(root: Path) -> Iterator[tuple[str, list[str]]]:
    """A heading and lines for each study of the paper, and a note."""
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
    yield f"\n{NOTES['listing'].format(rate=RATE)}", []
