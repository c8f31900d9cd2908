"""``vadd sample``, ``vadd eval`` and ``vadd compare``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.common import (
    JsonOption,
    ParticlesOption,
    SamplesOption,
    StepsOption,
    check_json,
    out_console,
    parse_steps,
    progress_bar,
    refuse_existing,
)
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.data.dataset import Array, DiscreteDataset

RunArgument = Annotated[Path, typer.Argument(help="A run directory.", show_default=False)]


def sample(
    run: RunArgument,
    n: Annotated[
        int | None, typer.Option("-n", help="How many samples. [default: 1000; 64 for a picture of images]")
    ] = None,
    steps: Annotated[int, typer.Option(help="Sampling steps.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Where to: .npy, .csv, or .png for a picture.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    grid: Annotated[str | None, typer.Option(help="Step grid, uniform or cosine; by default the recipe's.")] = None,
    latent_policy: Annotated[str | None, typer.Option(help="resample or fixed; by default the recipe's.")] = None,
    trajectory: Annotated[
        Path | None,
        typer.Option(help="Also how the first 4 samples come about: .gif or .png for images, .npz for any data."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
) -> None:
    """Draw samples from a trained model.

    \b
    Examples:
      vadd sample runs/checkers -n 1000 --steps 1 --out points.npy
      vadd sample runs/checkers -n 100000 --steps 5 --out points.png
      vadd sample runs/checkers -n 5
      vadd sample runs/digits --steps 5 --out grid.png
      vadd sample runs/digits --steps 20 --trajectory denoising.gif
    """
    if n is not None and n < 1:
        raise UserError(f"-n must be at least 1, not {n}")
    if steps < 1:
        raise UserError(f"--steps must be at least 1, not {steps}")
    if out is not None:
        if out.suffix not in {".npy", ".csv", ".png"}:
            raise UserError(f"--out takes a file that ends in .npy, .csv or .png, not {out}")
        refuse_existing(out, overwrite)
    if trajectory is not None:
        if trajectory.suffix not in {".gif", ".png", ".npz"}:
            raise UserError(f"--trajectory takes a file that ends in .gif, .png or .npz, not {trajectory}")
        refuse_existing(trajectory, overwrite)
    from vadd.run import load

    loaded = load(run)
    if n is None:
        n = 64 if out is not None and out.suffix == ".png" and len(loaded.data.shape) == 3 else 1000
    with progress_bar() as tell:
        tokens = loaded.sample(
            n,
            steps=steps,
            seed=seed,
            grid=grid,  # type: ignore[arg-type]  # checked by the sampler, with a readable error
            latent_policy=latent_policy,  # type: ignore[arg-type]
            progress=partial(tell, what="samples", total=n),
        ).numpy()
    if trajectory is not None:
        _write_trajectory(loaded.trajectory(min(n, 4), steps=steps, seed=seed).numpy(), trajectory, loaded.data)
        out_console.print(f"how the samples come about: {trajectory}", soft_wrap=True)
    if out is None:
        for row in tokens[:20]:
            out_console.out(" ".join(map(str, row)))
        if n > 20:
            out_console.out(f"... {n - 20} more; write them all with --out FILE.npy")
        return
    _write(tokens, out, loaded.data.values, loaded.data.shape)
    out_console.print(f"{n} samples in {steps} steps: {out}", soft_wrap=True)


def _write_trajectory(states: "Array", out: Path, data: "DiscreteDataset") -> None:
    import numpy as np

    if out.suffix == ".npz":
        np.savez_compressed(out, states=states, mask=data.values)
        return
    from vadd.report.figures import save_figure
    from vadd.report.images import denoising_gif, denoising_strip

    if out.suffix == ".gif":
        denoising_gif(out, states, data.shape, data.values)
    else:
        save_figure(denoising_strip(states, data.shape, data.values), out)


def _write(tokens: "Array", out: Path, values: int, shape: tuple[int, ...]) -> None:
    import numpy as np

    if out.suffix == ".npy":
        np.save(out, tokens.reshape(-1, *shape))
    elif out.suffix == ".csv":
        np.savetxt(out, tokens, fmt="%d", delimiter=",")
    elif len(shape) == 3:
        from vadd.report.images import save_image, square_grid, tokens_to_images

        save_image(square_grid(tokens_to_images(tokens, shape, values)), out, scale=max(1, 64 // shape[0]))
    else:
        if tokens.shape[1] != 2:
            raise UserError(
                f"a picture is drawn of images and of examples with 2 positions; these have {tokens.shape[1]}: "
                "write them as .npy"
            )
        from vadd.evaluation import histogram
        from vadd.report.figures import histogram_panels, save_figure

        save_figure(histogram_panels({"": [(f"{len(tokens)} samples", histogram(tokens, values))]}), out)


def evaluate(
    run: RunArgument,
    steps: Annotated[
        str | None, typer.Option(help="Compare samples drawn in so many steps with the data. [default: 1,2,5,20]")
    ] = None,
    samples: SamplesOption = 100_000,
    bound: Annotated[
        str | None, typer.Option(help="Bound the likelihood of held-out examples, for the sampler with so many steps.")
    ] = None,
    particles: ParticlesOption = 64,
    proposals: Annotated[
        str, typer.Option(help="Where the particles come from; any choice is valid, some are tighter.")
    ] = "recognition,revealed,prior",
    delbo: Annotated[
        bool, typer.Option("--delbo", help="Also the paper's DELBO, which is not a likelihood bound (MDLM: the ELBO).")
    ] = False,
    draws: Annotated[int, typer.Option(min=1, help="Masks drawn for each example in the DELBO or ELBO.")] = 20,
    limit: Annotated[int | None, typer.Option(min=1, help="Judge by the first so many held-out examples.")] = None,
    grid: Annotated[
        str | None, typer.Option(help="Step grid of the bound, uniform or cosine. [default: the recipe's]")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Bound the likelihood of this .npy instead of the held-out part.")
    ] = None,
    fid: Annotated[
        bool, typer.Option("--fid", help="Judge images by FID (clean-fid protocol); `vadd data inception` first.")
    ] = False,
    inception: Annotated[
        Path | None, typer.Option(help="The same with this TorchScript InceptionV3.", show_default=False)
    ] = None,
    json: JsonOption = None,
) -> None:
    """Measure a model: the distance of its samples from the data, and bounds of the likelihood.

    \b
    Examples:
      vadd eval runs/checkers
      vadd eval runs/checkers --steps 1,2,5,20 --json checkers.json
      vadd eval runs/checkers --bound 1,2,4,8,16 --particles 64
      vadd eval runs/checkers --bound 1 --delbo --particles 1000 --limit 1000
      vadd eval runs/cifar10 --fid --steps 10,50 --samples 2000
    """
    if steps is None and bound is None and not delbo and data is None:
        steps = "1,2,5,20"
    counts = [] if steps is None else parse_steps(steps)
    check_json(json)
    from vadd.core import Particles
    from vadd.data import examples_from
    from vadd.evaluation import BoundSettings
    from vadd.evaluation import evaluate as measure
    from vadd.evaluation.inception import fetched_inception
    from vadd.report.tables import bound_table, divergence_table, latent_table
    from vadd.run import load
    from vadd.studies.comparison import write_json

    settings = None
    if bound is not None or delbo or data is not None:
        settings = BoundSettings(
            Particles(particles, tuple(proposals.split(","))),  # type: ignore[arg-type]  # checked on construction
            steps=[1] if bound is None else parse_steps(bound, "--bound"),
            delbo_draws=draws if delbo else 0,
            limit=limit,
            grid=grid,  # type: ignore[arg-type]  # checked by the step grid
        )
    if fid and inception is None:
        inception = fetched_inception()
    loaded = load(run)
    examples = None if data is None else examples_from(data)
    with progress_bar() as tell:
        report = measure(
            loaded, counts, samples, bounds=settings, examples=examples, inception=inception, progress=tell
        ).report
    if counts:
        divergence_table([report]).print(out_console)
    if settings is not None:
        bound_table([report]).print(out_console)
    if report["latent"] is not None:
        latent_table([report]).print(out_console)
    if json is not None:
        write_json(json, report)


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("runs/comparison"),
    steps: StepsOption = "1,2,5,20",
    samples: SamplesOption = 100_000,
    bound: Annotated[
        str, typer.Option(help="Steps at which the likelihood is bounded; 'none' leaves it out.")
    ] = "1,2,4,8,16",
    particles: ParticlesOption = 64,
    limit: Annotated[int | None, typer.Option(min=1, help="Held-out examples to bound the likelihood of.")] = 2000,
    json: JsonOption = None,
) -> None:
    """Compare runs: numbers, figures and one HTML page.

    \b
    Examples:
      vadd compare runs/baseline runs/checkers --out runs/report
      vadd compare runs/a runs/b runs/c --steps 1,4,16 --bound none --json numbers.json
    """
    counts = parse_steps(steps)
    check_json(json)
    bound_counts = [] if bound == "none" else parse_steps(bound, "--bound")
    from vadd.core import Particles
    from vadd.evaluation import BoundSettings
    from vadd.report.tables import bound_table, divergence_table
    from vadd.run import load
    from vadd.studies.comparison import compare as compare_runs
    from vadd.studies.comparison import write_json

    with progress_bar() as tell:
        comparison = compare_runs(
            [load(run) for run in runs],
            out,
            steps=counts,
            samples=samples,
            bounds=BoundSettings(Particles(particles), steps=bound_counts, limit=limit) if bound_counts else None,
            title="Comparison of " + " and ".join(run.name for run in runs),
            introduction="The same measurements for every run, by number of sampling steps.",
            commands=[f"vadd compare {' '.join(map(str, runs))} --out {out} --steps {steps} --bound {bound}"],
            progress=tell,
        )
    divergence_table(comparison.reports).print(out_console)
    if bound_counts:
        bound_table(comparison.reports).print(out_console)
    if json is not None:
        write_json(json, comparison.reports)
    out_console.print(f"report: {comparison.page}", soft_wrap=True)
