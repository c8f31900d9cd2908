"""Results that were written to a file, as tables for a model card."""

import json
from pathlib import Path

from vadd.errors import UserError
from vadd.report.tables import bound_table, divergence_table, latent_table
from vadd.report.zero_shot import zero_shot_table
from vadd.runs.model_card import CardResults


def card_results(file: Path) -> CardResults:
    """What ``vadd eval --json`` wrote."""
    try:
        report = json.loads(file.read_text())
        tables = [divergence_table([report])] if report["results"] else []
        tables += [bound_table([report])] if "bounds" in report else []
        tables += [zero_shot_table(report)] if "zero_shot" in report else []
        tables += [latent_table([report])] if report.get("latent") else []
        written = "\n\n".join(table.to_markdown().strip() for table in tables)
        return CardResults(str(file), report["recipe"], report["model"], report.get("step"), written)
    except FileNotFoundError:
        raise UserError(f"there is no file {file}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{file} is not what `vadd eval --json` writes") from None
