"""``vadd fit-prior``."""

import vadd
from vadd.cli.console import out_console
from vadd.cli.options import parse_checkpoint
from vadd.cli.syntax import FitPrior
from vadd.progress import progress_bar
from vadd.run.directory import RunDirectory
from vadd.run.priors import PriorRecord
from vadd.training.prior import fit_prior as fit


def fit_prior(options: FitPrior) -> None:
    RunDirectory.open(options.run)  # an exported model cannot be changed
    run = vadd.load(options.run, checkpoint=parse_checkpoint(options.checkpoint), prior="trained")
    with progress_bar() as progress:
        fitted = fit(run, "conditional" if options.conditional else "flow", steps=options.steps, progress=progress)
    show_fitted(fitted)


def show_fitted(fitted: PriorRecord) -> None:
    out_console.print(
        f"{fitted.name} prior: KL of the recognition model, everything masked, held-out examples: "
        f"{fitted.kl_normal:.2f} nats to N(0, I), {fitted.kl:.2f} to the prior; {fitted.seconds or 0:.0f} s"
        + ("" if fitted.helps else f". It is worse than N(0, I) and is not used, unless with --prior {fitted.name}"),
        soft_wrap=True,
    )
