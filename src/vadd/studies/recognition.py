"""The paper's remark that a recognition model which ignores x_t collapses, as an ablation that one can run."""

from collections.abc import Sequence
from pathlib import Path

from vadd.errors import UserError
from vadd.evaluation import RunReport
from vadd.progress import Progress
from vadd.recipe import TextData, load_recipe
from vadd.report.page import PageSection
from vadd.report.tables import Cell, Table
from vadd.studies import images
from vadd.studies.beside import BITS, BITS_PER_TOKEN, likelihood_table
from vadd.studies.comparison import Comparison, compare
from vadd.studies.ensure import COMPARED, check_overrides, ensure_all_trained
from vadd.studies.measuring import Changes, Measuring, Scale, as_the_paper, command_line

RECIPES: dict[Scale, str] = {"small": "digits-per-state", "paper": "mnist"}
STEPS = (1, 2, 5)
MEASURING: dict[Scale, Measuring] = {
    "small": Measuring(steps=STEPS, samples=5000, bound_steps=STEPS, particles=64, draws=10, limit=297),
    "paper": as_the_paper(STEPS, 10_000, STEPS),
}
BLIND = "-blind"


def reproduce_recognition(
    out: Path,
    scale: Scale,
    progress: Progress,
    *,
    recipe: str | None = None,
    data: Path | None = None,
    overrides: Sequence[str] = (),
    changes: Changes | None = None,
    fit: bool = False,
) -> Comparison:
    """VADD twice: with r(z | x0, x_t), as the paper has it, and with r(z | x0)."""
    check_overrides(overrides, (*COMPARED, "latent.kind"))
    measuring = MEASURING[scale].changed(changes or {})
    sighted = load_recipe(recipe or RECIPES[scale])
    if not sighted.has_latent or sighted.latent.kind != "per-state":
        raise UserError(f"{sighted.name} does not have the paper's latent, of which this is: latent.kind is per-state")
    key = "data.path" if isinstance(sighted.data, TextData) else "data.directory"
    sighted = sighted.with_overrides([*([] if data is None else [f"{key}={data.resolve()}"]), *overrides])
    blind = sighted.with_overrides(["latent.kind=blind", f"name={sighted.name}{BLIND}"])
    runs = ensure_all_trained([(recipe, out / recipe.name) for recipe in (sighted, blind)], fit=fit)
    return compare(
        runs,
        out,
        steps=measuring.steps,
        samples=measuring.samples,
        bounds=measuring.bounds(),
        title="A recognition model with x_t and without",
        introduction=(
            "The same network, latent, batches and steps; in the second row the recognition model is shown everything "
            "masked in place of x_t. The paper found that its latent then collapses: it says nothing of the data."
        ),
        commands=[command_line("recognition", scale, overrides, changes, recipe=recipe)],
        first_sections=lambda reports: [PageSection("Side by side", tables=recognition_tables(reports))],
        progress=progress,
    )


def recognition_tables(reports: Sequence[RunReport]) -> list[Table]:
    """What the latent of each says, and what that is worth: bits that say how they were found."""
    rows: list[list[Cell]] = []
    for report in reports:
        assert report.latent is not None
        active = f"{report.latent.active_units} of {report.latent.dimensions}"
        rows.append([_name(report), active, f"{report.latent.kl_all_masked:.3f}", f"{report.latent.kl_average:.3f}"])
    note = "KL in nats: what the latent says of an example. The paper's remark is of text, and has no numbers."
    latents = Table("Recognition with x_t and without", ["", "active", "KL at t = 1", "KL on average"], rows, note)
    text = any(report.likelihood is not None and report.likelihood.unit is not None for report in reports)
    unit, title = (BITS_PER_TOKEN, "Bits per token of held-out text") if text else (BITS, images.BITS_TITLE)
    return [latents, likelihood_table(title, reports, unit, name_of=_name)]


def _name(report: RunReport) -> str:
    return "without x_t" if report.recipe.endswith(BLIND) else "with x_t"
