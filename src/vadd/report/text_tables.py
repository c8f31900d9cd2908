"""Tables of what was measured in texts, and of the texts themselves."""

from collections.abc import Mapping, Sequence
from typing import Any

from vadd.report.tables import Cell, Table, divergence_table, report_names

SHOWN_CHARACTERS = 300

STATISTICS_NOTE = (
    "Entropy: of the token counts of each sample, in nats and in the run's own tokens, averaged; what repeats itself "
    "has a low one. distinct-2: distinct pairs of neighbouring words over all of them. The closer to real text the "
    "better, all of them at once."
)
WITHOUT_A_JUDGE = "No generative perplexity: that needs a judge, a causal language model."


def quality_table(reports: Sequence[Mapping[str, Any]]) -> Table:
    """How good the samples are, by whatever they were judged."""
    return text_table(reports) if all("real_text" in report for report in reports) else divergence_table(reports)


def text_table(reports: Sequence[Mapping[str, Any]]) -> Table:
    """One row per run and number of steps; last the same numbers of real text."""
    judged = any("judge" in report for report in reports)

    def cells(result: Mapping[str, Any]) -> list[Cell]:
        distinct = "-" if (share := result["distinct_2"]) is None else f"{share:.3f}"
        heard = [_perplexity(result), _bits(result)] if judged else []
        return [*heard, f"{result['sample_entropy']:.3f}", distinct]

    rows: list[list[Cell]] = [
        [name, result["steps"], *cells(result)]
        for name, report in zip(report_names(reports), reports, strict=True)
        for result in report["results"]
    ]
    for report in reports:
        real, several = report["real_text"], len({other["recipe"] for other in reports}) > 1
        row: list[Cell] = [f"{real['texts']} real texts" + (f" of {report['recipe']}" if several else ""), None]
        if [*row, *cells(real)] not in rows:
            rows.append([*row, *cells(real)])
    samples = " or ".join(dict.fromkeys(str(report["samples"]) for report in reports))
    note = f"{samples} samples for each number of steps. {judge_note(reports)}{_odd_texts(reports)} {STATISTICS_NOTE}"
    columns = ["run", "steps", *(["gen. PPL", "bits/char"] if judged else []), "entropy", "distinct-2"]
    return Table("Texts by number of steps", columns, rows, note)


def _perplexity(result: Mapping[str, Any]) -> str | None:
    value, error = result.get("gen_ppl"), result.get("gen_ppl_stderr")
    digits = 0 if value is not None and value >= 1000 else 1
    return None if value is None else f"{value:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def _bits(result: Mapping[str, Any]) -> str | None:
    value = result.get("judge_bits")
    return None if value is None else f"{value:.3f}"


def _odd_texts(reports: Sequence[Mapping[str, Any]]) -> str:
    """Where any were: texts without a token to score, and texts that the judge did not read to the end."""
    results = [result for report in reports for result in [*report["results"], report["real_text"]]]
    empty, cut = (sum(result.get(key, 0) for result in results) for key in ("empty_texts", "cut_texts"))
    told = f" Of all texts {empty} had no token to score and do not count in it." if empty else ""
    return told + (f" {cut} were longer and cut." if cut else "")


def judge_note(reports: Sequence[Mapping[str, Any]]) -> str:
    """Who judged, and by which convention."""
    judges = {report["judge"]["name"]: report["judge"] for report in reports if "judge" in report}
    return " ".join(map(_about, judges.values())) if judges else WITHOUT_A_JUDGE


def _about(judge: Mapping[str, Any]) -> str:
    return (
        f"Generative perplexity under {judge['name']} by the convention {judge['convention']}; the first token of a "
        f"text is {judge['first_token']}; texts are cut after {judge['max_length']} of its tokens. It compares only "
        "between numbers of the same judge and convention. Letters without sense fall into many of the judge's tokens, "
        "each easy to guess; the judge's bits per character do not depend on that."
    )


def side_by_side(texts: Mapping[str, Mapping[int, Sequence[str]]], number: int = 0) -> Table:
    """One sample of each run for each number of steps, by the run's name; all but its beginning is left out."""
    steps = sorted({count for by_steps in texts.values() for count in by_steps})
    rows: list[list[Cell]] = [
        [
            f"T = {count}",
            *(_beginning(by_steps[count][number]) if count in by_steps else None for by_steps in texts.values()),
        ]
        for count in steps
    ]
    return Table("Samples side by side", ["", *texts], rows, "The first sample of each, white space as single spaces.")


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS]} ..."
