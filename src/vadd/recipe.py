"""Recipes: everything that defines a run, typed and validated.

A recipe is a YAML file. Presets lie in ``vadd/recipes``; a recipe may extend another and state only what differs. On
the command line any key can be overridden by its dotted name, ``training.batch=512``.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError

from vadd.errors import UserError
from vadd.sections import (
    MAY_CHANGE_ON_RESUME,
    ArrayData,
    Cifar10Data,
    CopiesData,
    Data,
    Diffusion,
    DigitsData,
    FolderData,
    GaussianLatentSpec,
    MlpNetwork,
    MnistData,
    Network,
    ResidualNetwork,
    Sampling,
    Section,
    ShortTransformerNetwork,
    TextData,
    ToyData,
    Training,
    TransformerNetwork,
    UnetNetwork,
)

__all__ = [
    "MAY_CHANGE_ON_RESUME",
    "ArrayData",
    "Cifar10Data",
    "CopiesData",
    "Data",
    "Diffusion",
    "DigitsData",
    "FolderData",
    "GaussianLatentSpec",
    "MlpNetwork",
    "MnistData",
    "Network",
    "Recipe",
    "ResidualNetwork",
    "Sampling",
    "ShortTransformerNetwork",
    "TextData",
    "ToyData",
    "Training",
    "TransformerNetwork",
    "UnetNetwork",
    "differences",
    "flatten",
    "load_recipe",
    "parse_value",
    "recipe_names",
    "suggestion",
    "validate",
]


class Recipe(Section):
    name: str
    about: str = ""
    model: Literal["vadd", "mdlm"] = "vadd"
    seed: int = Field(0, ge=0, lt=2**63)
    data: Data
    network: Network = MlpNetwork()
    latent: GaussianLatentSpec = GaussianLatentSpec()
    diffusion: Diffusion = Diffusion()
    training: Training = Training()
    sampling: Sampling = Sampling()

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, width=120)

    def with_overrides(self, overrides: Iterable[str]) -> "Recipe":
        """A copy with dotted keys replaced: ``["training.batch=512", "model=mdlm"]``."""
        content = self.model_dump(mode="json")
        known = dict(flatten(content))
        for override in overrides:
            key, equals, text = override.partition("=")
            if not equals:
                raise UserError(f"{override!r} is not of the form key=value")
            if key not in known:
                raise UserError(f"unknown key {key!r}{suggestion(key, known)}")
            *sections, last = key.split(".")
            target = content
            for section in sections:
                target = target[section]
            target[last] = parse_value(text)
        return validate(content, self.name)


def recipe_names() -> list[str]:
    files = resources.files("vadd").joinpath("recipes").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def load_recipe(name_or_path: str) -> Recipe:
    """A preset by name, or a recipe of the user's by path."""
    return validate(_read(name_or_path, ()), name_or_path)


def _read(name_or_path: str, seen: tuple[str, ...]) -> dict[str, Any]:
    if name_or_path in seen:
        raise UserError(f"recipe {name_or_path} extends itself")
    if name_or_path in recipe_names():
        text = resources.files("vadd").joinpath("recipes", f"{name_or_path}.yaml").read_text()
    elif Path(name_or_path).suffix in {".yaml", ".yml"}:
        try:
            text = Path(name_or_path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
            raise UserError(f"cannot read the recipe {name_or_path}: {reason}") from None
    elif (Path(name_or_path) / "recipe.yaml").is_file():
        raise UserError(f"{name_or_path} is a directory; its recipe is {Path(name_or_path) / 'recipe.yaml'}")
    else:
        raise UserError(
            f"unknown recipe {name_or_path!r}{suggestion(name_or_path, recipe_names())}; see `vadd recipes`"
        )
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{name_or_path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise UserError(f"{name_or_path} is not a recipe: it should be a mapping of keys to values")
    content.setdefault("name", Path(name_or_path).stem)
    base = content.pop("extends", None)
    if base is None:
        return content
    if Path(str(base)).suffix:  # a file that is extended lies beside the one that extends it
        base = Path(name_or_path).parent / str(base)
    return _merge(_read(str(base), (*seen, name_or_path)), content)


def _merge(base: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        both_sections = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both_sections else value
    return merged


def validate(content: Mapping[str, Any], source: str) -> Recipe:
    switches = {key for key, annotation in _all_fields(Recipe) if annotation is bool}
    for key, value in flatten(content):
        if isinstance(value, bool) and key not in switches:  # pydantic would take true for the number 1
            raise UserError(f"{source}: {key} does not take {str(value).lower()}")
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise UserError(f"{source}: {'; '.join(_explain(e) for e in error.errors())}") from None


def _explain(error: Any) -> str:
    # pydantic puts the tag of a discriminated union into the location; it is not part of the key.
    tags = {"toy", "copies", "array", "digits", "mnist", "cifar10", "folder", "text"}
    tags |= {"mlp", "residual", "unet", "transformer"}
    key = ".".join(str(part) for part in error["loc"] if part not in tags)
    if error["type"] == "extra_forbidden":
        known = [name for name, _ in _all_fields(Recipe)]
        if key in known:  # of another kind of data or network
            section, kind, *_ = error["loc"]
            return f"{key} does not go with {section}.kind={kind}"
        return f"unknown key {key!r}{suggestion(key, known)}"
    return (
        f"{key}: {error['msg'].lower()}, not {error['input']!r}" if error["type"] != "missing" else f"{key} is missing"
    )


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
            yield prefix + key, value


def differences(old: Recipe, new: Recipe) -> dict[str, tuple[Any, Any]]:
    """Dotted keys in which two recipes differ, with both values."""
    before, after = dict(flatten(old.model_dump(mode="json"))), dict(flatten(new.model_dump(mode="json")))
    keys = [*before, *(key for key in after if key not in before)]
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def parse_value(text: str) -> Any:
    """A value as written on the command line. YAML, except that 1e-3 is a number as everybody expects."""
    try:
        return float(text) if "e" in text.lower() else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text


def suggestion(name: str, known: Iterable[str]) -> str:
    """ ", did you mean ...?" with the nearest of the known names, or nothing."""
    candidates = list(known)
    near = difflib.get_close_matches(name, candidates, n=1, cutoff=0.5)
    near = near or [key for key in candidates if key.rsplit(".", 1)[-1] == name][:1]
    return f", did you mean {near[0]!r}?" if near else ""
