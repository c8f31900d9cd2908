"""Commands whose options are known without the modules that do the work: those are imported when a command is called.

A command is a dataclass of options in :mod:`vadd.cli.syntax`, called like the command, and a function that is given it,
filled. The docstring of the class is the help of the command, the one below a field that of the option.
"""

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import Parameter
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import ParameterInfo

from vadd.cli.console import end_by_closed_pipe
from vadd.errors import Interrupted, UserError
from vadd.words import listed

COMMON, INPUT, SAMPLER, LATENT = "Common", "Input", "Sampler", "Latent"
OUTPUT, RESEARCH = "Output", "Research"
PANELS = (COMMON, INPUT, SAMPLER, LATENT, OUTPUT, RESEARCH)
USAGE_ERROR: Any = typer.BadParameter.__base__  # typer has no name for it
EXAMPLES = "\b\nExamples:"
"""Where they begin in the help; lines are kept after the first character."""


class Only(tuple[str, ...]):
    """A mark of an option that does something only beside one of these others."""

    def __new__(cls, *names: str) -> "Only":
        return super().__new__(cls, names)


def check_used(options: Any) -> None:
    """Refuse what was given and would do nothing."""
    given = {field.name for field in fields(options) if getattr(options, field.name) != field.default}
    for name, annotation in get_type_hints(type(options), include_extras=True).items():
        for mark in get_args(annotation)[1:]:
            if isinstance(mark, Only) and name in given and given.isdisjoint(mark):
                raise UserError(f"{flag(name)} is for {listed([flag(other) for other in mark])}")


def flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Lazy:
    about: str
    """One line for the list of commands."""
    function: str | None = None
    """ "module:function" of vadd.cli, by default both are called like the command."""

    def command(self, name: str) -> Any:
        """As click runs it: with the options of the class of its name, or a :class:`typer.Typer` of commands."""
        same = name.replace("-", "_")
        module, _, function = (self.function or f"{same}:{same}").partition(":")
        options = getattr(import_module("vadd.cli.syntax"), same.title().replace("_", ""), None)
        app = typer.Typer(add_completion=False, rich_markup_mode=None)

        def loaded() -> Any:
            return getattr(import_module(f"vadd.cli.{module}"), function)

        if options is None:
            app.add_typer(loaded(), name=name)
            return typer.main.get_group(app).commands[name]

        def work(given: dict[str, Any]) -> None:
            filled = options(**given)
            check_used(filled)
            loaded()(filled)

        add_command(app, name, options.__doc__, options_of(options), work)
        return typer.main.get_command(app)


def add_command(
    app: typer.Typer, name: str, help: str, options: Sequence[Parameter], work: Callable[[dict[str, Any]], None]
) -> None:
    """``work`` is called with the values of the ``options`` by their names."""

    def call(**given: Any) -> None:
        work(given)

    about, title, examples = inspect.cleandoc(help).partition(EXAMPLES)
    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # where typer looks
    call.__annotations__ = {option.name: option.annotation for option in options}
    app.command(name, cls=PanelCommand, help=about, epilog=title + examples)(call)


def options_of(group: type[Any]) -> list[Parameter]:
    """A parameter for each field of a dataclass. Besides what typer knows, an annotation may hold the panel of the
    help, a string, a function that checks the value, and :class:`Only`.
    """
    types, helps = get_type_hints(group, include_extras=True), dict[str, str]()
    for base in filter(is_dataclass, reversed(group.__mro__)):
        helps |= _docstrings(base.__module__)[base.__qualname__]
    return [_parameter(field, types[field.name], helps[field.name]) for field in fields(group)]


def _parameter(field: Field[Any], annotation: Any, help: str) -> Parameter:
    kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    info = copy(next((mark for mark in marks if isinstance(mark, ParameterInfo)), typer.Option()))
    info.help = help
    for mark in marks:
        if isinstance(mark, str):
            info.rich_help_panel = mark
        elif callable(mark):
            info.callback = mark
    if Path in (kind, *get_args(kind)) or list[Path] in get_args(kind):
        info.parser = _path
    if kind is bool and not info.param_decls:  # without its opposite, --no-...
        info.param_decls = (flag(field.name),)
    default = Parameter.empty if field.default is MISSING else field.default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def _path(text: str) -> Path:
    """An empty name, as an unset variable of a shell gives it, would be the working directory."""
    if not text:
        raise typer.BadParameter("an empty name is no path")
    return Path(text)


@cache
def _docstrings(module: str) -> dict[str, dict[str, str]]:
    """By class and field. Python itself keeps that of the class alone."""
    helps: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(import_module(module))).body:
        if isinstance(node, ast.ClassDef):
            helps[node.name] = {}
            for field, below in pairwise(node.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(help))):
                        helps[node.name][name] = inspect.cleandoc(help).replace("\n", " ")
    return helps


class LazyGroup(TyperGroup):
    """Knows its commands by name and one line of help."""

    lazy: ClassVar[Mapping[str, Lazy]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(self.lazy, TyperCommand(None))  # names alone, for suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.lazy[cmd_name].command(cmd_name) if cmd_name in self.lazy else None

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        try:
            return super().make_context(*arguments, **settings)
        except KeyboardInterrupt:  # typer would end without a word
            raise Interrupted from None

    def invoke(self, ctx: Any) -> Any:
        """What typer would say or pass over in its own way is said as everything else is."""
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as error:
            message = error.format_message().replace("Value error, ", "")
            if "\n" in message:  # the whole help, where a command of a group is missing
                raise
            # typer forgets the context where an option lacks some of its values.
            where = error.ctx.command_path if error.ctx else f"vadd {ctx.invoked_subcommand}"
            raise UserError(f"{message.rstrip('.')}; see {where} --help") from None
        except KeyboardInterrupt:
            raise Interrupted from None
        except BrokenPipeError:
            end_by_closed_pipe()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.about) for name, command in self.lazy.items()])


class PanelCommand(TyperCommand):
    """Shows options under the names of their panels, those without one in the first."""

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
