"""What `vadd reproduce --list` says of the studies of the paper. Needs no torch."""

import json
from collections.abc import Iterator
from pathlib import Path

from vadd.studies.study import OF_THE_PAPER, Study, study_named
from vadd.words import duration

RATE = 50e12
"""FLOP per second that one device is assumed to reach."""
PAPERS = "paper's recipe"


def results_file(study: Study, root: Path, suffix: str = "") -> Path:
    first, *inside = (study.place or study.name).split("/")
    return root.joinpath(first + suffix, *inside, "results.json")


def made_here(study: Study, root: Path) -> str:
    """The scale of the results below ``root``: where the study writes them, where ``vadd reproduce paper`` does, and
    where the examples of ``--scale paper`` do. The paper's scale comes first.
    """
    files = (results_file(study, root), results_file(study, root / "paper"), results_file(study, root, "-paper"))
    scales = [_scale_of(study, file) for file in files if file.is_file()]
    return min(scales, key=lambda scale: not scale.startswith(PAPERS), default="no")


def _scale_of(study: Study, file: Path) -> str:
    """By what the reports say of themselves; keys in which the rows of the study differ do not count."""
    try:
        reports = [dict(report) for report in json.loads(file.read_text())]
    except (OSError, ValueError, TypeError):
        return "damaged"
    if not reports:
        return "no"
    recipes = study.settings["paper"].recipes
    compared = tuple(change.partition("=")[0] + "=" for entry in study.entries for change in entry.changes)
    papers = all(
        (report.get("published_recipe") or report.get("recipe")) in recipes
        and all(key.startswith(compared) for key in report.get("unlike_it") or ())
        for report in reports
    )
    steps = sorted({count for report in reports if (count := report.get("training_steps") or report.get("steps"))})
    listed = ", ".join(f"{count:,}" for count in steps)
    return (PAPERS if papers else "small") + (f", {listed} steps" if listed else "")


def listing(root: Path) -> Iterator[tuple[str, list[str]]]:
    """A heading and lines for each study of the paper."""
    for study in map(study_named, OF_THE_PAPER):
        times = zip(("training", "evaluation"), study.hours, strict=True)
        needs = [f"needs {study.needs}", *(f"{what} {duration(3600 * hours)}" for what, hours in times if hours)]
        lines = [
            f"{study.artefacts} of the paper",
            f"vadd reproduce {study.name} --scale paper{study.paper_options}",
            "; ".join(needs),
            f"made here: {made_here(study, root)}",
        ]
        yield f"{study.name}: {study.shows}", lines


NOTE = (
    "Without --scale paper each makes a small version on a laptop. Times: arithmetic of all trainings at the paper's "
    f"scale on one device that reaches {RATE:.0e} FLOP/s, and of evaluating them with the paper's 1000 latents and 100 "
    "masks for each example of the whole test set (--limit, --particles and --draws make that shorter); language "
    "models and Inception are left out, and zero-shot takes what its corpora take. `vadd plan RECIPE` says more. Made "
    "here: below runs/, where the commands write unless --out says otherwise, in runs/paper and in runs/NAME-paper. "
    "Figure 2 shows the network; the curves of Figure 4 have no printed numbers."
)
