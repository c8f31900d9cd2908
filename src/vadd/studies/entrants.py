"""Who takes part in `vadd reproduce baselines`, and with which recipe."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vadd.errors import UserError
from vadd.recipe import COMPARED_ONLY, MODELS, Recipe, differences, load_recipe, suggestion
from vadd.recipe.building import example_format
from vadd.report.tables import model_label
from vadd.studies.baseline_rows import Absent
from vadd.studies.ddpm import check_installed
from vadd.studies.ensure import COMPARED, check_overrides

BaselineData = Literal["toys", "digits", "mnist", "cifar10", "text"]
IMAGES = ("digits", "mnist", "cifar10")


@dataclass(frozen=True)
class Variant:
    """VADD with another latent than the paper's."""

    key: str
    """As ``--models`` names it."""
    label: str
    recipe: str
    changes: tuple[str, ...] = ()


def one_z(recipe: str, *changes: str) -> Variant:
    """One z for all steps and a learned prior."""
    return Variant("vadd-one-z", "VADD, one z", recipe, changes)


@dataclass(frozen=True)
class Setting:
    """What is compared on one kind of data."""

    recipe: str
    variants: tuple[Variant, ...]
    minutes: float
    """Processor time of each training."""
    samples: int
    steps: tuple[int, ...]
    limit: int
    """Held-out examples whose likelihood is bounded."""
    particles: int = 64
    candidates: int = 8
    """Of the energy's rows."""
    energy_steps: tuple[int, ...] = (1,)
    """Those of ``steps`` that are also weighed by an energy, which takes a hundred times as long."""
    costly_samples: int | None = None
    """Of models whose samples take long, where that is fewer."""
    changes: tuple[str, ...] = ()
    """To all recipes."""


SHARED = ("latent.kind=shared", "latent.particles=1", "latent.prior=flow", "sampling.latent_policy=fixed")
CODES = Variant("vadd-codes", "VADD, codes", "checkerboard-codes")
SETTINGS: dict[BaselineData, Setting] = {
    "toys": Setting(
        "checkerboard", (one_z("checkerboard", *SHARED), CODES), 1.0, 20_000, (1, 2, 5, 20), 500, energy_steps=(1, 2)
    ),
    "digits": Setting("digits-per-state", (one_z("digits"),), 1.0, 1_000, (1, 2, 5, 20), 200, energy_steps=(1, 5)),
    "mnist": Setting(
        "mnist-per-state",
        (one_z("mnist-small"),),
        1.5,
        500,
        (1, 5, 20),
        50,
        particles=16,
        candidates=4,
        costly_samples=100,
        changes=("training.batch=64",),
    ),
    "cifar10": Setting(
        "cifar10-per-state",
        (one_z("cifar10-small"),),
        2.0,
        200,
        (1, 5, 20),
        20,
        particles=16,
        candidates=2,
        costly_samples=50,
    ),
    "text": Setting(
        "text8-per-state", (one_z("text8-small"),), 2.0, 64, (1, 4, 16, 64), 32, particles=16, energy_steps=(1, 4)
    ),
}
TRAINED = ("mdlm", "vadd", *(name for name in MODELS if name not in ("mdlm", "vadd", "edlm")))
"""EDLM is two of these together."""
FIXED = (
    *COMPARED,
    *(f"training.{key}" for key in ("steps", "evaluate_every", "checkpoint_every", "keep_checkpoints")),
    "latent.flow.steps",
    "latent.flow.examples",
)
POSITIONS_AT_ONCE, FEWEST_AT_ONCE = 4096, 4
"""Positions in a batch of AR, at most, and sequences, at least: a transformer takes long for a position, and small
batches learn more in little time.
"""


@dataclass(frozen=True)
class Entrant:
    key: str
    """As ``--models`` names it."""
    label: str
    recipe: Recipe

    @property
    def folder(self) -> str:
        return f"{self.recipe.name}-{self.key}"


def takes_part(setting: Setting) -> dict[str, str]:
    """Labels by the names of ``--models``, in the order of the tables."""
    first, second, *others = TRAINED
    variants = {variant.key: variant.label for variant in setting.variants}
    before, after = ({key: model_label(key) for key in keys} for keys in ((first, second), (*others, *COMPARED_ONLY)))
    return before | variants | after


def entrants_of(
    data: BaselineData, setting: Setting, models: Sequence[str], overrides: Sequence[str]
) -> tuple[list[Entrant], list[Absent]]:
    """Those of the ``models`` (by default all) that can take part, and why the others cannot. Somebody who names a
    model is refused at once where it cannot.
    """
    check_overrides(overrides, FIXED)
    labels = takes_part(setting)
    for key in models:
        if key not in labels:
            raise UserError(f"unknown model {key!r}{suggestion(key, labels)}; choose from {', '.join(labels)}")
    found: list[Entrant] = []
    absent: list[Absent] = []
    for key in dict.fromkeys(models or labels):
        try:
            entrant = Entrant(key, labels[key], _recipe(key, data, setting, overrides))
        except UserError as error:
            # What is wrong with the first, MDLM, is wrong with what was asked for.
            if models or not found:
                raise
            absent.append(Absent(labels[key], str(error)))
            continue
        twin = next((other for other in found if _same_training(other, entrant)), None)
        if twin is None:
            found.append(entrant)
        else:
            absent.append(
                Absent(entrant.label, f"under this recipe the same training as {twin.label}, whose rows stand for both")
            )
    return found, absent


def _recipe(key: str, data: BaselineData, setting: Setting, overrides: Sequence[str]) -> Recipe:
    if key in COMPARED_ONLY:
        if data not in IMAGES:
            raise UserError(f"{model_label(key)} is for images; --data {data} has none")
        check_installed()
    variant = next((each for each in setting.variants if each.key == key), None)
    base, model = (setting.recipe, "mdlm" if key in COMPARED_ONLY else key)
    changes: tuple[str, ...] = ()
    if variant is not None:
        base, model, changes = variant.recipe, "vadd", variant.changes
    recipe = load_recipe(base).with_overrides([f"model={model}", *changes, *setting.changes, *overrides])
    batch_is_asked_for = any(override.startswith("training.batch=") for override in overrides)
    if MODELS[recipe.model].chosen_steps or batch_is_asked_for:
        return recipe
    fitting = max(FEWEST_AT_ONCE, POSITIONS_AT_ONCE // example_format(recipe).positions)
    return recipe.with_values([("training.batch", min(recipe.training.batch, fitting))])


def _same_training(one: Entrant, other: Entrant) -> bool:
    """Whether two models, under this recipe, are the same class with the same settings (as MDLM and RADD often are)."""
    if {one.key, other.key} & {*COMPARED_ONLY}:
        return False
    first, second = (each.recipe.with_values([("diffusion.mask_draw", each.recipe.mask_draw)]) for each in (one, other))
    same_class = MODELS[first.model].build is MODELS[second.model].build and first.has_latent == second.has_latent
    return same_class and set(differences(first, second)) <= {"model", "name", "about"}
