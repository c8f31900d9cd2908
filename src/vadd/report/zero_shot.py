"""The table of corpora that a run on text has not learnt from."""

from collections.abc import Mapping
from typing import Any

from vadd.report.tables import PADS_NOTE, Cell, Table, perplexity_cell, report_names


def zero_shot_table(report: Mapping[str, Any]) -> Table:
    """One row per corpus: perplexity by each step bound, and by the ELBO or the paper's DELBO under its own name."""
    judged = [entry for entry in report["zero_shot"] if "skipped" not in entry]
    skipped = [entry for entry in report["zero_shot"] if "skipped" in entry]
    unit, last = judged[0]["unit"], judged[0]["bounds"][-1]
    in_characters = last["bits_per_character"] is not None
    known = [entry["read_as"] for entry in judged]
    rows: list[list[Cell]] = []
    for entry in judged:
        name, bound = entry["read_as"], entry["bounds"][-1]
        rows.append(
            [
                entry["corpus"] if name == "plain text" or known.count(name) > 1 else name,
                bound["examples"],
                bound["scored"],
                *map(perplexity_cell, _numbers(entry).values()),
                *([bound["bits_per_character"]] if in_characters else []),
            ]
        )
    columns = ["corpus", "sequences", f"{unit}s", *_numbers(judged[0])]
    notes = [f"Perplexity per {unit} ± standard error, over all sequences judged."]
    if in_characters:
        columns.append("bits per character")
        notes.append(f"Bits per character of the text by the bound at T = {last['steps']}.")
    notes += [PADS_NOTE] if "convention" in last else []
    notes += [f"Skipped {entry['corpus']}: {entry['skipped']}." for entry in skipped]
    return Table(f"Zero-shot perplexity of {report_names([report])[0]}", columns, rows, " ".join(notes))


def _numbers(entry: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    numbers = {f"step bound, T = {bound['steps']}": bound for bound in entry["bounds"]}
    if "elbo" in entry:
        numbers["ELBO"] = entry["elbo"]
    for found in entry.get("delbo_by_particles", ()):
        numbers[f"the paper's DELBO, K = {found['particles']}: not a likelihood bound"] = found
    return numbers
