"""Results that were written to a file, as tables for a model card."""

from pathlib import Path

from vadd.errors import UserError
from vadd.evaluation.reports import RunReport
from vadd.parsing import read_json
from vadd.report.tables import bound_table, latent_table
from vadd.report.text_tables import quality_table
from vadd.report.zero_shot import zero_shot_table
from vadd.run.model_card import CardResults


def card_results(file: Path) -> CardResults:
    """What ``vadd eval --json`` wrote."""
    try:
        report = RunReport.from_json(read_json(file))
        tables = [quality_table([report])] if report.results else []
        tables += [] if report.likelihood is None else [bound_table([report])]
        tables += [] if report.zero_shot is None else [zero_shot_table(report)]
        tables += [] if report.latent is None else [latent_table([report])]
        written = "\n\n".join(table.to_markdown().strip() for table in tables)
    except FileNotFoundError:
        raise UserError(f"there is no file {file}") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise UserError(f"{file} is not what `vadd eval --json` writes") from None
    return CardResults(str(file), report.recipe, report.model, report.step, written)
