"""``vadd fit-prior``."""

from typing import TYPE_CHECKING, Annotated

import typer

import vadd
from vadd.cli.console import out_console, progress_bar
from vadd.cli.options import CheckpointOption, RunArgument, parse_checkpoint
from vadd.run.directory import RunDirectory

if TYPE_CHECKING:
    from vadd.training.prior import FittedPrior


def fit_prior(
    run: RunArgument,
    conditional: Annotated[
        bool, typer.Option("--conditional", help="Fit p(z | x_t), which reads what is known, for completions.")
    ] = False,
    steps: Annotated[
        int | None, typer.Option(help="Of the fit. [default: latent.flow.steps of the recipe]", show_default=False)
    ] = None,
    checkpoint: CheckpointOption = "latest",
) -> None:
    """Learn the prior of a trained model's latent: where z comes from when sampling. The model is not touched.

    What a recognition model writes is not distributed like N(0, I); samples from there fall into the hole between the
    two. A flow that is fitted to what it writes closes it. Samples, completions and bounds then use it, with one z for
    all steps, and so do exported models. An interrupted fit goes on when the command is repeated.

    \b
    Examples:
      vadd fit-prior runs/digits
      vadd fit-prior runs/digits --conditional
      vadd sample runs/digits --steps 5 --out better.png
    """
    which = parse_checkpoint(checkpoint)
    RunDirectory.open(run)  # an exported model cannot be changed
    from vadd.training.prior import fit_prior as fit

    loaded = vadd.load(run, checkpoint=which, prior="trained")
    with progress_bar() as progress:
        fitted = fit(loaded, "conditional" if conditional else "flow", steps=steps, progress=progress)
    show_fitted(fitted)


def show_fitted(fitted: "FittedPrior") -> None:
    out_console.print(
        f"{fitted.name} prior: KL of the recognition model, everything masked, held-out examples: "
        f"{fitted.kl_normal:.2f} nats to N(0, I), {fitted.kl:.2f} to the prior; {fitted.seconds:.0f} s",
        soft_wrap=True,
    )
