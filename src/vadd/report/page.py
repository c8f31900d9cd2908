"""One self-contained HTML page: text, tables and figures, nothing loaded from elsewhere."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from jinja2 import Environment

from vadd.report.table import Table
from vadd.version import __version__


@dataclass(frozen=True)
class PageSection:
    heading: str
    text: str = ""
    figures: Sequence[tuple[str, Path]] = ()
    """(alternative text, PNG file); the page holds a copy."""
    tables: Sequence[Table] = ()
    commands: Sequence[str] = field(default_factory=tuple)
    """The commands that made what the section shows."""


def rendered(template: str, **values: object) -> str:
    """A template of this package, filled in."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["data_uri"] = png_data_uri
    source = resources.files("vadd").joinpath("report", template).read_text()
    return environment.from_string(source).render(version=__version__, **values)


def write_page(path: Path, title: str, introduction: str, sections: Sequence[PageSection]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rendered("page.html", title=title, introduction=introduction, sections=sections))
    return path


def png_data_uri(picture: Path | bytes) -> str:
    content = picture if isinstance(picture, bytes) else picture.read_bytes()
    return "data:image/png;base64," + base64.b64encode(content).decode()
