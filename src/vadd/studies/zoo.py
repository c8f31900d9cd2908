"""The models that `vadd reproduce baselines` compares: their recipes, and what is asked of each once it is trained."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vadd.errors import UserError
from vadd.evaluation import BoundSettings
from vadd.evaluation.likelihood import measure_bounds
from vadd.evaluation.reports import NegativeLogLikelihood
from vadd.progress import Progress
from vadd.recipe import COMPARED_ONLY, MODELS, Recipe, differences, load_recipe
from vadd.report.table import model_label
from vadd.run.directory import MANIFEST, PRIORS
from vadd.run.run import Run
from vadd.studies.choosing import chosen_words
from vadd.studies.ddpm import Ddpm, check_installed, weights_of
from vadd.studies.equal_time import processor_seconds
from vadd.studies.study import Request, Study
from vadd.studies.trainings import check_overrides
from vadd.words import suggestion

FIRST = ("mdlm", "vadd")
POSITIONS_AT_ONCE, FEWEST_AT_ONCE = 4096, 4
"""Positions in a batch of AR, at most, and sequences, at least: a transformer takes long for a position, and small
batches learn more in little time.
"""


@dataclass(frozen=True)
class ZooModel:
    key: str
    """As ``--models`` names it."""
    label: str
    recipe: Recipe


def labels_of(study: Study, setting: str) -> dict[str, str]:
    """Labels by the names of ``--models``, in the order of the tables. EDLM is two of these together."""
    zoo = study.settings[setting].zoo
    variants = {} if zoo is None else {key: f"VADD, {key[5:].replace('-', ' ')}" for key in zoo.variants}
    others = [str(name) for name in MODELS if name not in (*FIRST, "edlm")]
    return {key: variants.get(key, model_label(key)) for key in (*FIRST, *variants, *others, *COMPARED_ONLY)}


def models_of(study: Study, request: Request) -> tuple[list[ZooModel], dict[str, str]]:
    """The requested models (by default all) that can take part, and why others cannot, by label. A model that the user
    names must be able to.
    """
    check_overrides(request.overrides, study.fixed)
    labels = labels_of(study, request.setting)
    for key in request.models:
        if key not in labels:
            raise UserError(f"unknown model {key!r}{suggestion(key, labels)}; choose from {', '.join(labels)}")
    models: list[ZooModel] = []
    absent: dict[str, str] = {}
    for key in dict.fromkeys(request.models or labels):
        try:
            model = ZooModel(key, labels[key], _recipe(key, study, request))
        except UserError as error:
            # An error of the first, MDLM, is one of the request.
            if request.models or not models:
                raise
            absent[labels[key]] = str(error)
            continue
        twin = next((other for other in models if _same_training(other, model)), None)
        if twin is None:
            models.append(model)
        else:
            absent[model.label] = f"under this recipe the same training as {twin.label}, whose rows stand for both"
    return models, absent


def _recipe(key: str, study: Study, request: Request) -> Recipe:
    setting = study.settings[request.setting]
    assert setting.zoo is not None
    variant = setting.zoo.variants.get(key)
    entry, model = (setting.entries[0], key) if variant is None else (variant, "vadd")
    model = "mdlm" if key in COMPARED_ONLY else model
    recipe = load_recipe(entry.recipe).with_overrides([f"model={model}", *entry.changes, *request.overrides])
    if key in COMPARED_ONLY:
        if recipe.data.example_kind().name != "image":
            raise UserError(f"{model_label(key)} is for images; --data {request.setting} has none")
        check_installed()
    batch_is_chosen = any(override.startswith("training.batch=") for override in request.overrides)
    if MODELS[recipe.model].chosen_steps or batch_is_chosen:
        return recipe
    most = max(FEWEST_AT_ONCE, POSITIONS_AT_ONCE // recipe.data.example_kind().positions)
    return recipe.with_values([("training.batch", min(recipe.training.batch, most))])


def _same_training(one: ZooModel, other: ZooModel) -> bool:
    """Whether two models, under this recipe, are the same class with the same settings (as MDLM and RADD often are)."""
    if {one.key, other.key} & {*COMPARED_ONLY}:
        return False
    first, second = (each.recipe.with_values([("diffusion.mask_draw", each.recipe.mask_draw)]) for each in (one, other))
    same_class = MODELS[first.model].build is MODELS[second.model].build and first.has_latent == second.has_latent
    return same_class and set(differences(first, second)) <= {"model", "name", "about"}


@dataclass(frozen=True)
class Trained:
    """A trained model: a run or the continuous model of diffusers."""

    run: Run | Ddpm
    wanted: Sequence[int]
    """Numbers of sampling steps."""
    energy: Run | None = None
    """What weighs its samples, if anything does."""
    proposal: str | None = None
    """The model whose bounds stand for its own, by name."""

    @property
    def about(self) -> dict[str, Any]:
        """What the rows say of it."""
        run = self.run
        if isinstance(run, Ddpm):
            about = {"model": "ddpm", "training_steps": run.training_steps, "training_seconds": run.training_seconds}
            return {**about, "parameters": weights_of(run.network), "exact_sampler": False}
        return {
            "model": run.recipe.model,
            "training_steps": run.recipe.training.steps,
            "training_seconds": processor_seconds(run.directory.path),
            "chosen": chosen_words(run.directory.path),
            "parameters": weights_of(run.model),
            "exact_sampler": run.model.samplers["ancestral"].exact,
        }

    @property
    def checksum(self) -> str:
        """Of all weights and priors."""
        runs = [run for run in (self.run, self.energy) if run is not None]
        places = [run.place if isinstance(run, Ddpm) else run.directory.checkpoint(run.step or 0) for run in runs]
        files = [place / name for place in places for name in (MANIFEST, PRIORS)]
        return hashlib.sha256(b"".join(file.read_bytes() for file in files if file.is_file())).hexdigest()

    @property
    def costly(self) -> bool:
        """Whether a sample takes many times as long as that of a masked model in a few steps."""
        if isinstance(self.run, Ddpm):
            return False
        return not self.run.model.samplers["ancestral"].exact or not MODELS[self.run.recipe.model].chosen_steps

    def bound(self, settings: BoundSettings, progress: Progress) -> NegativeLogLikelihood | None:
        """None for DDPM: a density of continuous images is not comparable with probabilities of discrete ones."""
        if isinstance(self.run, Ddpm):
            return None
        return measure_bounds(self.run, self.run.data.test, settings, progress).bounds[0]
