"""What all settings have in common, those of recipes and the arguments of Python functions: how they are checked."""

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from vadd.errors import UserError
from vadd.parsing import LARGEST_INTEGER
from vadd.words import shortened, suggestion

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")
Checked = TypeVar("Checked")

LONGEST_INTEGER = 200
"""Bits of an integer that a message repeats."""

Fraction = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Layers = Annotated[int, Field(gt=0, le=1000)]
"""Layers are built one by one, for a plan too: billions would never end."""

# Of arguments of functions that are checked.
Count = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
CountOrZero = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
Counts = Annotated[Sequence[Count], Field(min_length=1)]
Place = Annotated[str | Path, Field()]


class Section(BaseModel):
    """Frozen, and strict about names: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
"""How pydantic's limits are called in messages."""
EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "path": "a path",
    "too_short": "at least one value",
}
"""What pydantic's types of errors, by their beginning, say was expected."""


def checked(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Refuse arguments that do not fit what ``Annotated`` says of them, and unknown names, with our own error."""
    signature = inspect.signature(function)
    adapters = {
        name: TypeAdapter(parameter.annotation, config=ConfigDict(arbitrary_types_allowed=True, defer_build=True))
        for name, parameter in signature.parameters.items()
        if any(get_origin(part) is Annotated for part in (parameter.annotation, *get_args(parameter.annotation)))
    }
    what = function.__qualname__.removesuffix(".__init__").rsplit(".", 1)[-1]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        if not takes_any and (unknown := kwargs.keys() - signature.parameters.keys()):
            raise UnknownOptionError(min(unknown), what, list(signature.parameters))
        given = signature.bind(*args, **kwargs)
        for name in adapters.keys() & given.arguments.keys():
            value = given.arguments[name]
            plain = value.tolist() if type(value).__module__ == "numpy" else value
            try:
                given.arguments[name] = adapters[name].validate_python(plain)
            except ValidationError as error:
                first, *_, last = [*error.errors(), *error.errors()]
                raise UserError(explained(first if isinstance(plain, list | tuple) else last, name, value)) from None
        try:
            return cast(Callable[..., Returned], function)(*given.args, **given.kwargs)
        except UnknownOptionError as error:  # of what the function hands on
            raise UnknownOptionError(error.name, error.what, [*error.known, *signature.parameters]) from None

    return call


def checked_fields(made: type[Checked]) -> type[Checked]:
    """A dataclass that refuses values which do not fit what ``Annotated`` says of its fields."""
    made.__init__ = checked(made.__init__)  # type: ignore[method-assign]
    return made


def represented(value: Any) -> str:
    """The beginning of its representation, in one line."""
    if isinstance(value, int) and value.bit_length() > LONGEST_INTEGER:
        return f"a number of about {round(value.bit_length() * math.log10(2)):,} digits"  # Python writes at most 4,300
    return shortened(" ".join(repr(value).split()))


class UnknownOptionError(UserError):
    def __init__(self, name: str, what: str, known: Sequence[str]) -> None:
        super().__init__(unknown_option(name, what, known))
        self.name, self.what, self.known = name, what, known


def unknown_option(name: str, what: str, known: Iterable[str]) -> str:
    return f"unknown option {represented(name)} of {what}{suggestion(name, known)}"


def explained(error: Any, name: str, value: Any) -> str:
    """What pydantic says is wrong with the ``value`` of the option ``name``."""
    kind, limits, shown = error["type"], error.get("ctx", {}), represented(value)
    if kind == "value_error":
        said = str(limits["error"])
        return said if name in said else f"{name}: {said}"
    if kind == "literal_error":
        choices = [text.strip("'") for text in limits["expected"].replace(" or ", ", ").split(", ")]
        return f"unknown {name} {shown}{suggestion(str(value), choices)}; choose from {', '.join(choices)}"
    for key, words in LIMITS.items():
        if key in limits:
            limit = f"{limits[key]:,}" if isinstance(limits[key], int) else f"{limits[key]:g}"
            return f"{name} must be {words} {limit}, not {shown}"
    for beginning, expected in EXPECTED.items():
        if kind.startswith(beginning):
            return f"{name} takes {expected}, not {shown}"
    return f"{name}: {error['msg'].lower()}, not {shown}"
