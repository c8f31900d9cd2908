"""What studies that are no comparison of samples leave behind: a page, its tables as Markdown, the numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vadd.files import write_json
from vadd.parallel import is_main
from vadd.report.page import PageSection, write_page


def publish(out: Path, title: str, introduction: str, sections: Sequence[PageSection], numbers: Any) -> Path:
    """``out/report.html``, ``tables.md`` and ``results.json``, written by the main process."""
    page = out / "report.html"
    if is_main():
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "results.json", numbers)
        tables = [table.to_markdown() for section in sections for table in section.tables]
        (out / "tables.md").write_text("\n".join(tables))
        write_page(page, title, introduction, sections)
    return page
