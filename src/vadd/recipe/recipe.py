"""A recipe: everything that defines a run, typed and validated.

On the command line any key can be overridden by its dotted name, ``training.batch=512``.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_origin

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from vadd.core import MaskDraw
from vadd.data import Data, DiscreteDataset
from vadd.errors import UserError
from vadd.kinds import Kind, TextKind
from vadd.networks import MlpSettings, Network
from vadd.networks.pretrained import model_file
from vadd.parsing import LARGEST_INTEGER, parse_yaml
from vadd.progress import Progress, silent
from vadd.recipe.latent import LatentSection
from vadd.recipe.models import MODELS, ModelName, masked_diffusion, with_model
from vadd.recipe.sections import Diffusion, MaskDrawName, Sampling, Training
from vadd.settings import Section, explained
from vadd.words import plural, suggestion

DELETED = (("latent", "heard_from"), ("diffusion", "partly_explained"))
"""Sections and keys that this version does not have; 0.2.0 wrote a 0 for each of them."""


def upgraded(content: Mapping[str, Any]) -> dict[str, Any]:
    """``content`` with today's keys and values; what is not a recipe of 0.2.0 stays as it is."""
    new = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for section, key in DELETED:
        values = new.get(section)
        if isinstance(values, dict) and (value := values.pop(key, 0)):
            raise UserError(f"{section}.{key}={value} is a setting of version 0.2.0: use `pip install vadd==0.2.0`")
    latent = new.get("latent")
    if isinstance(latent, dict) and latent.get("prior") == "informed":
        latent["prior"] = "conditional"
    data = new.get("data")
    # All keys of a table but this one: a run from before it was there, which models every column.
    if isinstance(data, dict) and data.get("kind") == "table" and {"labels", "missing", "test_fraction"} <= set(data):
        data.setdefault("dependent", False)
    return new


LONGEST_NAME = 100
SHOWN_MISTAKES = 5


class Recipe(Section):
    name: str
    about: str = ""
    model: ModelName = "vadd"
    seed: int = Field(0, ge=0, lt=2**63)
    data: Data
    network: Network = Field(MlpSettings(), discriminator="kind")
    latent: LatentSection = LatentSection()
    diffusion: Diffusion = Diffusion()
    training: Training = Training()
    sampling: Sampling = Sampling()

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if name != name_from(name):
            raise ValueError(
                f"a name has 1 to {LONGEST_NAME} printable characters, no / or \\, and does not begin with a dot"
            )
        return name

    @field_validator("about")
    @classmethod
    def _one_line(cls, about: str) -> str:
        return " ".join(about.split())

    @model_validator(mode="after")
    def _sections_fit(self) -> "Recipe":
        for problem in self._conflicts():
            raise ValueError(problem)
        return self

    def _conflicts(self) -> Iterator[str]:
        """What one section says against another."""
        model, network, diffusion = MODELS[self.model], self.network, self.diffusion
        needs = {f"diffusion.{key}": (getattr(diffusion, key), values) for key, values in model.needs.items()}
        if model.network_kinds:
            needs["network.kind"] = (network.kind, model.network_kinds)
        for key, (value, allowed) in needs.items():
            if value not in allowed:
                yield (
                    f"model={self.model} needs {key}={' or '.join(allowed)}, not {value}; "
                    f"`vadd train RECIPE model={self.model}` brings it along"
                )
        if self.model == "edlm" and self.training.start_from is None:
            yield (
                "model=edlm learns an energy for a finished masked run: name it with --start-from RUN; to take the "
                "energy from an autoregressive run, no training is needed: vadd sample RUN --energy AR_RUN"
            )
        if diffusion.noise == "uniform":
            if model.settings.get("diffusion", {}).get("noise") != "uniform":
                yield "diffusion.noise=uniform needs model=udlm or model=vadd-uniform"
            if diffusion.schedule != "linear" or self.mask_draw not in ("levels", "steps"):
                yield "diffusion.noise=uniform needs diffusion.schedule=linear and diffusion.mask_draw=levels or steps"
            if not network.sees_time:
                yield "diffusion.noise=uniform needs a network that sees t: time_features above 0"
        if getattr(self.data, "known", None) and (model.build is not masked_diffusion or diffusion.noise != "mask"):
            yield f"data.known needs a model that masks, as model=mdlm and model=vadd do, not {self.model}"
        if self.has_latent and self.latent.codes:
            if network.divides_latent:
                yield f"latent.codes cannot be combined with network.kind={network.kind}, which divides z"
            # Its one linear map of the codes would start at zero: all alike, with equal gradients for ever.
            if network.kind == "mlp" and self.training.start_from is not None:
                yield "latent.codes cannot be combined with training.start_from and network.kind=mlp"
            if getattr(self.data, "labels", False):
                yield f"data.labels needs latent.codes=0, not {self.latent.codes}"

    @property
    def has_latent(self) -> bool:
        """Whether the section ``latent`` is used."""
        return MODELS[self.model].latent

    @property
    def mask_draw(self) -> MaskDrawName:
        """How training draws masks: what the recipe says, or what suits its latent."""
        shared = self.has_latent and self.latent.kind == "shared"
        return self.diffusion.mask_draw or ("steps" if shared else "exact-count")

    @property
    def weighs_masks(self) -> bool:
        """Whether ``diffusion.weighting`` changes anything."""
        return MODELS[self.model].chosen_steps and self.mask_draw not in ("steps", "levels")

    def build_mask_draw(self) -> MaskDraw:
        return self.diffusion.build_mask_draw(self.mask_draw)

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, width=120)

    def with_overrides(self, overrides: Iterable[str]) -> "Recipe":
        """A copy with dotted keys replaced: ``["training.batch=512", "model=mdlm"]``. ``model`` also sets the keys that
        the model needs (:mod:`vadd.recipe.models`), wherever it stands in the list.
        """
        pairs = [override.partition("=") for override in overrides]
        for key, equals, _ in pairs:
            if not equals:
                raise UserError(f"{key!r} is not of the form key=value")
        return self.with_values((key, parse_value(text)) for key, _, text in pairs)

    def with_values(self, values: Iterable[tuple[str, Any]]) -> "Recipe":
        """A copy with dotted keys replaced by values of Python: ``[("training.batch", 512)]``."""
        values = list(values)
        content = self.model_dump(mode="json")
        for key, value in values:
            if key == "model" and value != self.model:
                content = with_model(content, str(value))
            if key == "network.kind" and value != self.network.kind:  # the settings of another kind mean nothing here
                content["network"] = {"kind": value}
        content = _with_defaults(content)
        content["latent"] |= _latent_that_follows(content["latent"], dict(values))
        known = _known_keys(content)
        for key, value in values:
            if key not in known:
                section = key.partition(".")[0]
                if section in ("data", "network") and key in dict(_all_fields(Recipe)):
                    raise UserError(f"{key} does not exist for {section}.kind={content[section]['kind']}")
                raise UserError(f"unknown key {key!r}{suggestion(key, known)}")
            *sections, last = key.split(".")
            target = content
            for section in sections:
                target = target[section]
            target[last] = value
        return validate(content, self.name)

    def keys(self) -> list[str]:
        """Every dotted key that this recipe has a value for."""
        return _known_keys(self.model_dump(mode="json"))


def build_dataset(recipe: Recipe, *, kind: Kind | None = None, progress: Progress = silent) -> DiscreteDataset:
    """The data of a recipe; text is read with the tokenizer of ``kind`` if one is given, else with the recipe's."""
    tokenizer = kind.tokenizer if isinstance(kind, TextKind) else None
    return recipe.data.load(recipe.seed, tokenizer, progress)


def _known_keys(content: Mapping[str, Any]) -> list[str]:
    mappings = [key for key, annotation in _all_fields(Recipe) if get_origin(annotation) is dict]
    return [*dict(flatten(content)), *mappings]


def _with_defaults(content: Mapping[str, Any]) -> dict[str, Any]:
    """With all keys that a recipe of this content has; mistakes are left to the validation that follows."""
    try:
        return Recipe.model_validate(content).model_dump(mode="json")
    except ValidationError:
        return dict(content)


def _latent_that_follows(latent: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, str]:
    """Codes, or a z of each state's own, take the place of one z for all states and of the prior that is trained with
    it, unless those are ``given`` too.
    """
    if not given.get("latent.codes") and given.get("latent.kind") != "per-state":
        return {}
    replaced = {"kind": ("shared", "per-state"), "prior": ("autoregressive", "normal")}
    if given.get("latent.codes"):
        replaced["per"] = ("position", "example")
    return {key: new for key, (old, new) in replaced.items() if latent.get(key) == old and f"latent.{key}" not in given}


def with_tokenizer_of_network(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """A language model of the library transformers reads text with its own tokenizer."""
    data, network = content.get("data"), content.get("network")
    if not isinstance(data, dict) or not isinstance(network, dict) or network.get("kind") != "transformers":
        return content
    if data.get("kind") != "text" or data.get("tokenizer") == "file" or not network.get("model"):
        return content
    own = {"tokenizer": "file", "tokenizer_path": str(model_file(str(network["model"]), "tokenizer.json"))}
    return {**content, "data": {**data, **own}}


def validate(content: Mapping[str, Any], source: str) -> Recipe:
    """A recipe from its ``content``, also that of version 0.2.0; errors begin with ``source``."""
    content = upgraded(content)
    switches = {key for key, annotation in _all_fields(Recipe) if annotation is bool}
    for key, value in flatten(content):
        if isinstance(value, bool) and key not in switches:  # pydantic would take true for the number 1
            raise UserError(f"{source}: {key} does not take {str(value).lower()}")
    content = with_tokenizer_of_network(content)
    try:
        recipe = Recipe.model_validate(content)
    except ValidationError as error:
        mistakes = error.errors()
        more = len(mistakes) - SHOWN_MISTAKES
        shown = [_explain(mistake) for mistake in mistakes[:SHOWN_MISTAKES]]
        shown += [f"and {plural(more, 'mistake')} more"] if more > 0 else []
        raise UserError(f"{source}: {'; '.join(shown)}") from None
    for key, value in flatten(recipe.model_dump()):
        if type(value) is int and abs(value) > LARGEST_INTEGER:
            raise UserError(f"{source}: {key}: integers have at most 64 bits")
    return recipe


def _explain(error: Any) -> str:
    known = dict(_all_fields(Recipe))
    if not error["loc"]:  # about several sections, and names them
        return str(error["ctx"]["error"])
    section, *inner = error["loc"]
    # pydantic puts the kind of a section into the location; it is not part of the key.
    kind, *names = inner if section in ("data", "network") and inner else ("", *inner)
    key = ".".join(map(str, (section, *names)))
    if error["type"] == "extra_forbidden":
        if key in known:
            return f"{key} does not exist for {section}.kind={kind}"
        return f"unknown key {key!r}{suggestion(key, known)}"
    return f"{key} is missing" if error["type"] == "missing" else explained(error, key, error["input"])


def _all_fields(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key a recipe can have, with its type."""
    for name, field in section.model_fields.items():
        annotation = field.annotation
        yield prefix + name, annotation
        for member in getattr(annotation, "__args__", ()) or (annotation,):
            if isinstance(member, type) and issubclass(member, BaseModel):
                yield from _all_fields(member, f"{prefix}{name}.")


def flatten(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values, sections opened."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def differences(old: Recipe, new: Recipe) -> dict[str, tuple[Any, Any]]:
    """Dotted keys in which two recipes differ, with both values."""
    before, after = (dict(flatten(recipe.model_dump(mode="json"))) for recipe in (old, new))
    return {key: (before.get(key), after.get(key)) for key in before | after if before.get(key) != after.get(key)}


DEVICES = ("precision", "accumulate", "compile", "sharding")
COMPUTING = (*(f"training.{key}" for key in DEVICES), "network.checkpointing")
"""Chosen so that a training fits and ends in time; apart from rounding it learns the same with any of them."""
RECORDS = ("log_every", "evaluate_every", "checkpoint_every", "checkpoint_minutes", "keep_checkpoints", "trackers")
UNLEARNT = ("about", "latent.prior", "training.nonfinite_patience")
SAME_LEARNING = {*COMPUTING, *UNLEARNT, *(f"training.{key}" for key in RECORDS)}


def same_learning(key: str) -> bool:
    """Whether a dotted key decides only how a run is computed, what it writes and how it is sampled."""
    return key in SAME_LEARNING or key.startswith(("sampling.", "latent.flow."))


def may_change_on_resume(key: str) -> bool:
    """Whether a resumed run may have another value. With another length the learning rate and the KL weight follow the
    schedules of that length from the resumed step on.
    """
    return same_learning(key) or key == "training.steps"


def parse_value(text: str) -> Any:
    """A value as written on the command line: YAML, except that 1e-3 is a number."""
    for read in (float, parse_yaml) if "e" in text.lower() else (parse_yaml,):
        with suppress(ValueError):
            return read(text)
    return text


def name_from(text: str) -> str:
    """The name of a recipe, and so of a folder, from that of a file; a good name stays as it is."""
    plain = "".join("-" if character in "/\\" or not character.isprintable() else character for character in text)
    return plain.lstrip(".")[:LONGEST_NAME] or "unnamed"
