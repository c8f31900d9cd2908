"""``vadd plan``."""

from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.common import JsonOption, check_json, out_console
from vadd.cli.showing import duration, print_columns
from vadd.files import write_json
from vadd.recipe import load_recipe

if TYPE_CHECKING:
    from vadd.planning.plan import Plan


def plan(
    recipe: Annotated[str, typer.Argument(help="A preset (see `vadd recipes`) or a YAML file.", show_default=False)],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            help="Changes to the recipe, key=value; `vadd recipes RECIPE` shows every key.", show_default=False
        ),
    ] = None,
    devices: Annotated[int, typer.Option(metavar="N", help="Devices that train together.")] = 1,
    flops: Annotated[
        float | None,
        typer.Option(
            metavar="RATE",
            help="FLOP per second that one device really reaches, like 50e12. [default: a matrix product's, measured "
            "here]",
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Tell what a training will take: parameters, FLOPs, memory, disk and hours. Nothing is allocated or written.

    \b
    Examples:
      vadd plan digits
      vadd plan cifar10 --devices 8 --flops 60e12
      vadd plan mnist training.batch=512 network.checkpointing=true --json plan.json
    """
    check_json(json)
    chosen = load_recipe(recipe).with_overrides(overrides or [])
    from vadd.planning.plan import make_plan

    found = make_plan(chosen, devices=devices, rate=flops)
    _show(found, measured=flops is None)
    if json is not None:
        write_json(json, found.to_json())


def _show(plan: "Plan", *, measured: bool) -> None:
    shape = " x ".join(map(str, plan.shape))
    parts = f" in {plan.accumulate} parts" if plan.accumulate > 1 else ""
    out_console.out(
        f"{plan.recipe} {plan.model}: examples of {shape} with {plan.vocab_size} values, "
        f"{plan.steps:,} steps of batch {plan.batch}{parts}"
    )
    parameters = plan.parameters
    out_console.out("\nparameters")
    _rows(
        ["denoiser, all that sampling uses", f"{parameters.denoiser:,}"],
        ["recognition model", f"{parameters.recognition:,}"],
        ["trained", f"{parameters.trained:,}"],
    )
    out_console.out("\nFLOPs (matrix products, convolutions, attention; a multiplication with an addition is two)")
    _rows(
        ["optimisation step, forward and backward", f"{plan.flops_per_step:.3e}"],
        ["whole training", f"{plan.flops_per_step * plan.steps:.3e}"],
        ["sampling, per sample and step", f"{plan.flops_per_sample:.3e}"],
    )
    kind = "each device" if plan.devices > 1 else "the device"
    out_console.out(f"\nmemory of {kind} in training")
    header = ["", *(f"{memory.precision}, {memory.layout}" for memory in plan.memory)]
    names = {
        "weights": "weights",
        "gradients": "gradients",
        "moments": "moments of Adam",
        "averaged": "averaged weights",
        "gathered": "gathered for a moment",
        "copies": "copies in bfloat16",
        "activations": "activations, an estimate",
        "total": "together",
    }
    rows = [[shown, *(_bytes(getattr(memory, name)) for memory in plan.memory)] for name, shown in names.items()]
    _rows(header, *(row for row in rows if any(cell != "0" for cell in row[1:])))
    out_console.out("\ndisk")
    _rows(
        ["one checkpoint", _bytes(plan.checkpoint_bytes)],
        [f"at most {plan.checkpoints_kept} of them", _bytes(plan.checkpoints_kept * plan.checkpoint_bytes)],
    )
    source = "measured here; a training reaches a part of it" if measured else "as given"
    times = f"{plan.devices} devices x " if plan.devices > 1 else ""
    out_console.out(
        f"\ntime at {times}{plan.rate:.3g} FLOP/s ({source}): {duration(3600 * plan.hours)}, "
        f"{plan.hours:,.2f} hours of arithmetic alone"
    )


def _rows(*rows: list[str]) -> None:
    print_columns(rows, right=frozenset(range(1, len(rows[0]))), indent="  ")


def _bytes(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:,.4g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return str(count)
