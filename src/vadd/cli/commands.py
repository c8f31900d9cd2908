"""Commands that are imported when they are called, and help in panels."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

COMMON, SAMPLER, LATENT, OUTPUT, RESEARCH = "Common", "Sampler", "Latent", "Output", "Research"
PANELS = (COMMON, SAMPLER, LATENT, OUTPUT, RESEARCH)


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

    lazy: Mapping[str, tuple[str, str]] = {}
    """Name -> ("module:function", help)."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict.fromkeys(self.lazy)  # type: ignore[arg-type]  # names: for suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.lazy:
            return None
        module, _, function = self.lazy[cmd_name][0].partition(":")
        return as_command(cmd_name, getattr(import_module(module), function))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in self.lazy.items()])


def as_command(name: str, command: Any) -> Any:
    """A function, or a :class:`typer.Typer` with commands of its own, as click runs it."""
    if not isinstance(command, typer.Typer):
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, cls=PanelCommand)(command)
        command = app
    made = typer.main.get_command(command)
    made.name = name
    return made
