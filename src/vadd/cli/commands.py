"""Commands whose options are known without the modules that do the work: those are imported when a command is called.

A command is a dataclass of options (:mod:`vadd.cli.syntax`, :mod:`vadd.cli.syntax_sampling`), whose docstring is its
help, and a function that is given it, filled.
"""

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from importlib import import_module
from inspect import Parameter
from typing import Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

COMMON, INPUT, SAMPLER, LATENT = "Common", "Input", "Sampler", "Latent"
OUTPUT, RESEARCH = "Output", "Research"
PANELS = (COMMON, INPUT, SAMPLER, LATENT, OUTPUT, RESEARCH)


@dataclass(frozen=True)
class Lazy:
    about: str
    """One line for the list of commands."""
    options: str | None = None
    """ "module:Class"; without it the parameters of the function are the options."""
    function: str | None = None
    """ "module:function", by default both are called like the command. A module without a dot is one of vadd.cli."""

    def command(self, name: str) -> Any:
        """As click runs it."""
        same = name.replace("-", "_")
        function = f"{same}:{same}" if self.function is None else self.function
        if self.options is None:
            return as_command(name, _named(function))
        options = _named(self.options)

        def call(**given: Any) -> None:
            _named(function)(options(**given))

        call.__doc__ = options.__doc__
        parameters = options_of(options)
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # where typer looks
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return as_command(name, call)


def options_of(group: type[Any]) -> list[Parameter]:
    """A parameter for each field of a dataclass."""
    types = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=types[field.name],
        )
        for field in fields(group)
    ]


def as_command(name: str, command: Any) -> Any:
    """A function, or a :class:`typer.Typer` with commands of its own."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    if not isinstance(command, typer.Typer):
        app.command(name, cls=PanelCommand)(command)
        return typer.main.get_command(app)
    app.add_typer(command, name=name)
    return typer.main.get_group(app).commands[name]


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module if "." in module else f"vadd.cli.{module}"), attribute)


class LazyGroup(TyperGroup):
    """Knows its commands by name and one line of help."""

    lazy: ClassVar[Mapping[str, Lazy]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(self.lazy, TyperCommand(None))  # names alone, for suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.lazy[cmd_name].command(cmd_name) if cmd_name in self.lazy else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.about) for name, command in self.lazy.items()])


def lazy_group(commands: Mapping[str, Lazy]) -> type[LazyGroup]:
    return type("Commands", (LazyGroup,), {"lazy": commands})


class PanelCommand(TyperCommand):
    """Shows options under the names of their panels; those without one are the first panel."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{panel: [] for panel in PANELS}}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            panel = getattr(parameter, "rich_help_panel", None) or COMMON
            if record is not None:
                sections["Arguments" if parameter.param_type_name == "argument" else panel].append(record)
        panels = [title for title, records in sections.items() if records and title != "Arguments"]
        for title, records in sections.items():
            if records:
                with formatter.section("Options" if panels == [title] else title):
                    formatter.write_dl(records)
