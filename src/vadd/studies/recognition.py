"""The paper's remark that a recognition model which ignores x_t collapses, as an ablation that one can run."""

from collections.abc import Sequence
from pathlib import Path

from vadd.evaluation import RunReport
from vadd.progress import Progress
from vadd.recipe import load_recipe
from vadd.report.page import PageSection
from vadd.report.tables import Cell, Table, latent_table
from vadd.studies.beside import kinship_notes
from vadd.studies.comparison import Comparison, compare
from vadd.studies.ensure import COMPARED, check_overrides, ensure_trained
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
    data: Path | None = None,
    overrides: Sequence[str] = (),
    changes: Changes | None = None,
    fit: bool = False,
) -> Comparison:
    """VADD twice: with r(z | x0, x_t), as the paper has it, and with r(z | x0)."""
    check_overrides(overrides, (*COMPARED, "latent.kind"))
    place = [] if data is None else [f"data.directory={data.resolve()}"]
    measuring = MEASURING[scale].changed(changes or {})
    sighted = load_recipe(RECIPES[scale]).with_overrides([*place, *overrides])
    blind = sighted.with_overrides(["latent.kind=blind", f"name={sighted.name}{BLIND}"])
    runs = [ensure_trained(recipe, out / recipe.name, fit=fit) for recipe in (sighted, blind)]
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
        commands=[command_line("recognition", scale, overrides, changes)],
        first_sections=lambda reports: [
            PageSection("Side by side", tables=[recognition_table(reports), latent_table(reports)])
        ],
        progress=progress,
    )


def recognition_table(reports: Sequence[RunReport]) -> Table:
    rows: list[list[Cell]] = []
    for report in reports:
        likelihood, latent = report.likelihood, report.latent
        assert likelihood is not None
        assert latent is not None
        bits = [f"{found.bpd:.4f}" for found in (*likelihood.bounds, *likelihood.delbos)]
        active = f"{latent.active_units} of {latent.dimensions}"
        name = "without x_t" if report.recipe.endswith(BLIND) else "with x_t"
        rows.append([name, active, f"{latent.kl_all_masked:.3f}", f"{latent.kl_average:.3f}", *bits])
    first = reports[0].likelihood
    assert first is not None
    columns = ["", "active", "KL at t = 1", "KL on average", *(f"bits, T = {bound.steps}" for bound in first.bounds)]
    columns += [f"DELBO, K = {found.particles}" for found in first.delbos]
    draws = first.delbos[0].draws if first.delbos else 0
    notes = [
        f"Bits per dimension of {first.bounds[0].examples} held-out examples: step bounds with K = "
        f"{first.bounds[0].particles}, and the DELBO with {draws} masks each, which is not a likelihood bound. KL in "
        "nats: what the latent says of an example."
    ]
    return Table("Recognition with x_t and without", columns, rows, " ".join([*notes, *kinship_notes(reports)]))
