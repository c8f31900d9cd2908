"""``vadd compare``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.comparisons import show_comparison
from vadd.cli.console import progress_bar
from vadd.cli.judging import PARTICLES, JudgeOptions
from vadd.cli.options import JsonOption, OverwriteOption, SamplesOption, check_json, check_run, grouped, parse_steps
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.evaluation import BoundSettings
    from vadd.run.run import Run


@grouped
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    *,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("runs/comparison"),
    steps: Annotated[
        str, typer.Option(help="Numbers of sampling steps, separated by commas.", metavar="T,T,...")
    ] = "1,2,5,20",
    samples: SamplesOption = None,
    bound: Annotated[
        str, typer.Option(help="Steps at which the likelihood is bounded; 'none' leaves it out.")
    ] = "1,2,4,8,16",
    particles: Annotated[int, typer.Option(help="Latents drawn for each likelihood estimate.")] = PARTICLES,
    limit: Annotated[int | None, typer.Option(min=1, help="Held-out examples to bound the likelihood of.")] = 2000,
    judging: JudgeOptions,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Compare runs: numbers, figures and one HTML page.

    \b
    Examples:
      vadd compare runs/baseline runs/checkers --out runs/report
      vadd compare runs/a runs/b runs/c --steps 1,4,16 --bound none --json numbers.json
    """
    counts = parse_steps(steps)
    bound_counts = [] if bound == "none" else parse_steps(bound, "--bound")
    check_json(json, overwrite)
    for run in runs:
        check_run(run)
    from vadd.parallel import Processes, leave
    from vadd.report.tables import bound_table
    from vadd.report.text_tables import quality_table
    from vadd.run.run import load
    from vadd.studies.comparison import compare as compare_runs

    Processes()
    loaded = [load(run) for run in runs]
    refuse_different_data(loaded)
    with progress_bar() as progress:
        comparison = compare_runs(
            loaded,
            out,
            steps=counts,
            samples=samples,
            bounds=_settings(bound_counts, particles, limit),
            language=judging.open(loaded, progress),
            title="Comparison of " + " and ".join(run.name for run in runs),
            introduction="The same measurements for every run, by number of sampling steps.",
            progress=progress,
        )
    tables = [quality_table(comparison.reports)]
    if bound_counts:
        tables.append(bound_table(comparison.reports))
    show_comparison(comparison, tables, json)
    leave()


READING = frozenset({"tokenizer", "tokenizer_path", "vocabulary", "length", "wrap", "documents", "field"})
SIZES = frozenset({"train_size", "test_size", "test_fraction"})
"""Keys of the section ``data`` in which runs on the same data may differ."""


def refuse_different_data(runs: "Sequence[Run]") -> None:
    """Numbers compare only where they are about the same thing."""
    first = runs[0]
    for other in runs[1:]:
        if first.fingerprint is not None and first.fingerprint == other.fingerprint:
            continue
        ours, theirs = (_source_of_data(run, first.is_exported or other.is_exported) for run in (first, other))
        different = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
        if different:
            told = "; ".join(f"{key} is {ours.get(key)!r} and {theirs.get(key)!r}" for key in different)
            names = f"{first.directory.path} and {other.directory.path}"
            raise UserError(f"{names} have learned from different data: {told}")


def _source_of_data(run: "Run", name_only: bool) -> dict[str, object]:
    """``name_only`` where paths were left out of an export."""
    section = run.recipe.data
    if section.kind == "given":  # made in Python; every run keeps its own copy
        return {"data.kind": "given", "shape": run.format.shape, "vocab_size": run.format.vocab_size}
    content = {key: value for key, value in section.model_dump(mode="json").items() if key not in READING | SIZES}
    if content.get("path") and name_only:
        content["path"] = Path(str(content["path"])).name
    return {f"data.{key}": value for key, value in content.items()}


def _settings(steps: list[int], particles: int, limit: int | None) -> "BoundSettings | None":
    from vadd.core import Particles
    from vadd.evaluation import BoundSettings

    return BoundSettings(Particles(particles), steps=steps, limit=limit) if steps else None
