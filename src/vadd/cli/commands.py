"""Commands that are imported when they are called, and help in panels."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

COMMON, INPUT, SAMPLER, LATENT = "Common", "Input", "Sampler", "Latent"
OUTPUT, RESEARCH = "Output", "Research"
PANELS = (COMMON, INPUT, SAMPLER, LATENT, OUTPUT, RESEARCH)


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


class LazyGroup(TyperGroup):
    """Knows the names and one line of help of its commands; their modules are imported when they are called."""

    about: ClassVar[Mapping[str, str]]
    elsewhere: ClassVar[Mapping[str, str]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(self.about, TyperCommand(None))  # names alone, for suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.about:
            return None
        name = cmd_name.replace("-", "_")
        module, _, function = self.elsewhere.get(cmd_name, f"vadd.cli.{name}:{name}").partition(":")
        return as_command(cmd_name, getattr(import_module(module), function))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.about.items()))


def lazy_group(about: Mapping[str, str], elsewhere: Mapping[str, str]) -> type[LazyGroup]:
    """The class of a group whose commands have these names and help; ``elsewhere`` has "module:function" where that
    is not vadd.cli.NAME:NAME.
    """
    return type("Commands", (LazyGroup,), {"about": about, "elsewhere": elsewhere})


def as_command(name: str, command: Any) -> Any:
    """A function, or a :class:`typer.Typer` with commands of its own, as click runs it."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    if not isinstance(command, typer.Typer):
        app.command(name, cls=PanelCommand)(command)
        return typer.main.get_command(app)
    app.add_typer(command, name=name)
    return typer.main.get_group(app).commands[name]
