"""A recipe: everything that defines a run, typed and validated.

On the command line any key can be overridden by its dotted name, ``training.batch=512``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_origin

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from vadd.errors import UserError
from vadd.networks import MlpSettings, Network
from vadd.parsing import parse_yaml
from vadd.recipe.data import Data
from vadd.recipe.diffusion import Diffusion, MaskDrawName
from vadd.recipe.latent import LatentSection
from vadd.recipe.models import MODELS, ModelName, with_model
from vadd.recipe.sampling import Sampling
from vadd.recipe.training import Training
from vadd.recipe.upgrade import upgraded
from vadd.settings import Section
from vadd.words import plural, shortened, suggestion

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

    @property
    def has_latent(self) -> bool:
        """Whether the section ``latent`` counts."""
        return MODELS[self.model].latent

    @property
    def mask_draw(self) -> MaskDrawName:
        """How training draws masks: what the recipe says, or what goes with its latent."""
        shared = self.has_latent and self.latent.kind == "shared"
        return self.diffusion.mask_draw or ("steps" if shared else "exact-count")

    @model_validator(mode="after")
    def _network_fits_the_model(self) -> "Recipe":
        kinds = MODELS[self.model].network_kinds
        if kinds and self.network.kind not in kinds:
            raise ValueError(
                f"model={self.model} goes with network.kind={' or '.join(kinds)}, not {self.network.kind}; "
                f"`vadd train RECIPE model={self.model}` brings one along"
            )
        return self

    @model_validator(mode="after")
    def _energy_has_a_proposal(self) -> "Recipe":
        if self.model == "edlm" and self.training.start_from is None:
            raise ValueError(
                "model=edlm learns an energy for a finished masked run: name it with --start-from RUN; to take the "
                "energy from an autoregressive run, no training is needed: vadd sample RUN --energy AR_RUN"
            )
        return self

    @model_validator(mode="after")
    def _diffusion_fits_the_model(self) -> "Recipe":
        for key, allowed in MODELS[self.model].needs.items():
            if (value := getattr(self.diffusion, key)) not in allowed:
                raise ValueError(
                    f"model={self.model} goes with diffusion.{key}={' or '.join(allowed)}, not {value}; "
                    f"`vadd train RECIPE model={self.model}` brings it along"
                )
        return self

    @model_validator(mode="after")
    def _noise_fits(self) -> "Recipe":
        if self.diffusion.noise == "mask":
            return self
        if MODELS[self.model].settings.get("diffusion", {}).get("noise", "mask") == "mask":
            raise ValueError("diffusion.noise=uniform goes with model=udlm or model=vadd-uniform")
        if self.diffusion.schedule != "linear" or self.mask_draw not in ("levels", "steps"):
            raise ValueError(
                "diffusion.noise=uniform goes with diffusion.schedule=linear and diffusion.mask_draw=levels or steps"
            )
        if not self.network.sees_time:
            raise ValueError("diffusion.noise=uniform needs a network that sees t: time_features above 0")
        return self

    @model_validator(mode="after")
    def _codes_can_be_told_apart(self) -> "Recipe":
        if self.has_latent and self.latent.codes:
            if self.network.kind == "short-transformer":
                raise ValueError("latent.codes does not go with network.kind=short-transformer, which divides z")
            # Its one linear map of the codes would start at zero: all alike, with equal gradients for ever.
            if self.network.kind == "mlp" and self.training.start_from is not None:
                raise ValueError("latent.codes does not go with training.start_from and network.kind=mlp")
        return self

    @model_validator(mode="after")
    def _labels_fit(self) -> "Recipe":
        if not getattr(self.data, "labels", False):
            return self
        if self.has_latent and self.latent.codes:
            raise ValueError(f"data.labels needs latent.codes=0, not {self.latent.codes}")
        return self

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, width=120)

    def with_overrides(self, overrides: Iterable[str]) -> "Recipe":
        """A copy with dotted keys replaced: ``["training.batch=512", "model=mdlm"]``. A model brings its settings
        (:mod:`vadd.recipe.models`), whatever its place in the list.
        """
        values: list[tuple[str, Any]] = []
        for override in overrides:
            key, equals, text = override.partition("=")
            if not equals:
                raise UserError(f"{override!r} is not of the form key=value")
            values.append((key, parse_value(text)))
        return self.with_values(values)

    def with_values(self, values: Iterable[tuple[str, Any]]) -> "Recipe":
        """The same with values as they are."""
        values = list(values)
        content = self.model_dump(mode="json")
        for key, value in values:
            if key == "model" and value != self.model:
                content = with_model(content, str(value))
            if key == "network.kind" and value != self.network.kind:  # what the other kind was told says nothing here
                content["network"] = {"kind": value}
        content = _with_defaults(content)
        known = _known_keys(content)
        for key, value in values:
            if key not in known:
                section = key.partition(".")[0]
                if section in ("data", "network") and key in (name for name, _ in _all_fields(Recipe)):
                    raise UserError(f"{key} does not go with {section}.kind={content[section]['kind']}")
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


def _known_keys(content: Mapping[str, Any]) -> list[str]:
    mappings = [key for key, annotation in _all_fields(Recipe) if get_origin(annotation) is dict]
    return [*(key for key, _ in flatten(content)), *mappings]


def _with_defaults(content: Mapping[str, Any]) -> dict[str, Any]:
    """With all keys that a recipe of this content has; what is no recipe stays as it is, for others to complain of."""
    try:
        return Recipe.model_validate(content).model_dump(mode="json")
    except ValidationError:
        return dict(content)


def validate(content: Mapping[str, Any], source: str) -> Recipe:
    """A recipe from its ``content``, that of earlier versions included; errors begin with ``source``."""
    content = upgraded(content)
    switches = {key for key, annotation in _all_fields(Recipe) if annotation is bool}
    for key, value in flatten(content):
        if isinstance(value, bool) and key not in switches:  # pydantic would take true for the number 1
            raise UserError(f"{source}: {key} does not take {str(value).lower()}")
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        mistakes = error.errors()
        more = len(mistakes) - SHOWN_MISTAKES
        shown = [_explain(mistake) for mistake in mistakes[:SHOWN_MISTAKES]]
        shown += [f"and {plural(more, 'mistake')} more"] if more > 0 else []
        raise UserError(f"{source}: {'; '.join(shown)}") from None


def _explain(error: Any) -> str:
    # pydantic puts the kind of a section into the location; it is not part of the key.
    known = [name for name, _ in _all_fields(Recipe)]
    if not error["loc"]:  # about several sections, and all there is to say
        return str(error["ctx"]["error"])
    section, *inner = error["loc"]
    kind, *names = inner if section in ("data", "network") and inner else ("", *inner)
    key = ".".join(map(str, (section, *names)))
    if error["type"] == "extra_forbidden":
        if key in known:  # of another kind of data or network
            return f"{key} does not go with {section}.kind={kind}"
        return f"unknown key {shortened(repr(key))}{suggestion(key, known)}"
    if error["type"] == "missing":
        return f"{key} is missing"
    if error["type"] == "value_error":  # one of our own, which says all there is to say
        return f"{key}: {error['ctx']['error']}"
    return f"{key}: {error['msg'].lower()}, not {shortened(repr(error['input']))}"


def _all_fields(section: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key a recipe can have, with its type."""
    for name, field in section.model_fields.items():
        annotation = field.annotation
        members = getattr(annotation, "__args__", ()) or (annotation,)
        yield prefix + name, annotation
        for member in members:
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
    before, after = dict(flatten(old.model_dump(mode="json"))), dict(flatten(new.model_dump(mode="json")))
    keys = [*before, *(key for key in after if key not in before)]
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


HOW_IT_IS_COMPUTED = ("precision", "accumulate", "compile", "sharding")
WHAT_IT_WRITES = (
    "nonfinite_patience",
    "log_every",
    "evaluate_every",
    "checkpoint_every",
    "checkpoint_minutes",
    "keep_checkpoints",
    "trackers",
)
COMPUTING = (*(f"training.{key}" for key in HOW_IT_IS_COMPUTED), "network.checkpointing")
"""Rounding apart, a training learns the same with any of them: they are there so that it fits and ends in time."""
CHANGES_NO_LEARNING = frozenset({*COMPUTING, *(f"training.{key}" for key in WHAT_IT_WRITES)})


def same_learning(key: str) -> bool:
    """Whether a dotted key decides only how a run is computed, what it writes and how it is sampled."""
    return key in {*CHANGES_NO_LEARNING, "about", "latent.prior"} or key.startswith(("sampling.", "latent.flow."))


def may_change_on_resume(key: str) -> bool:
    """What a resumed run may do otherwise than before. With another length the learning rate and the KL weight follow
    the schedules of that length from the resumed step on.
    """
    return same_learning(key) or key == "training.steps"


def parse_value(text: str) -> Any:
    """A value as written on the command line. YAML, except that 1e-3 is a number as everybody expects."""
    try:
        return float(text) if "e" in text.lower() else parse_yaml(text)
    except ValueError:
        try:
            return parse_yaml(text)
        except ValueError:
            return text


def name_from(text: str) -> str:
    """The name of a recipe, and so of a folder, from whatever a file is called; a good name stays as it is."""
    plain = "".join("-" if character in "/\\" or not character.isprintable() else character for character in text)
    return plain.lstrip(".")[:LONGEST_NAME] or "unnamed"
