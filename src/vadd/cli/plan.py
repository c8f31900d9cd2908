"""``vadd plan`` and ``vadd zoo``."""

from collections.abc import Sequence

from vadd.cli.console import out_console, print_columns
from vadd.cli.syntax import Plan as Options
from vadd.cli.syntax import Zoo
from vadd.errors import refuse_if
from vadd.parsing import read_json
from vadd.recipe import COMPARED_ONLY, EVERY_MODEL, differences, load_recipe
from vadd.recipe.plan import Plan, make_plan
from vadd.run.directory import EXPORTED_CONFIG, RECIPE, shipped_models
from vadd.words import check_known, size_in_memory


def plan(options: Options) -> None:
    recipe = load_recipe(options.recipe).with_overrides(options.overrides or [])
    planned = make_plan(recipe, devices=options.devices, rate=options.flops)
    _show(planned, measured=options.flops is None)
    options.write(planned.to_json())


def _show(plan: Plan, *, measured: bool) -> None:
    shape = " x ".join(map(str, plan.shape))
    parts = f" in {plan.accumulate} parts" if plan.accumulate > 1 else ""
    out_console.out(
        f"{plan.recipe} {plan.model}: examples of {shape} with {plan.vocab_size} values, "
        f"{plan.steps:,} steps of batch {plan.batch}{parts}"
    )
    sections = {
        "parameters": [
            ["denoiser, all that sampling uses", f"{plan.parameters.denoiser:,}"],
            ["recognition model", f"{plan.parameters.recognition:,}"],
            ["trained", f"{plan.parameters.trained:,}"],
        ],
        "FLOPs (matrix products, convolutions, attention; a multiplication with an addition is two)": [
            ["optimisation step, forward and backward", f"{plan.flops_per_step:.3e}"],
            ["whole training", f"{plan.flops_per_step * plan.steps:.3e}"],
            ["sampling, per sample and step", f"{plan.flops_per_sample:.3e}"],
        ],
        f"memory of {'each' if plan.devices > 1 else 'the'} device in training": _memory(plan),
        "disk": [
            ["one checkpoint", size_in_memory(plan.checkpoint_bytes)],
            [f"at most {plan.checkpoints_kept} of them", size_in_memory(plan.checkpoints_kept * plan.checkpoint_bytes)],
        ],
    }
    for title, rows in sections.items():
        out_console.out(f"\n{title}")
        print_columns(rows, right=range(1, len(rows[0])), indent="  ")
    if plan.rate is None:
        out_console.out(f"\ntime on {plan.devices} devices: add --flops RATE, what one of them reaches, like 50e12")
        return
    times = f"{plan.devices} devices x " if plan.devices > 1 else ""
    source = "measured here, other devices: --flops RATE" if measured else "as given"
    out_console.out(f"\ntime of arithmetic alone: {plan.time}, at {times}{plan.rate:.3g} FLOP/s ({source})")
    out_console.out("a training reaches a part of it")


def _memory(plan: Plan) -> list[list[str]]:
    """A column for each precision and layout, a row for everything that takes some."""
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
    header = ["", *(f"{memory.precision}, {memory.layout}" for memory in plan.memory)]
    counts = {shown: [getattr(memory, name) for memory in plan.memory] for name, shown in names.items()}
    return [header, *([shown, *map(size_in_memory, sizes)] for shown, sizes in counts.items() if any(sizes))]


SMALLEST, SMALLEST_IMAGES = "checkerboard", "digits"
"""The recipes that every model, and every model of images alone, learns in minutes."""


def zoo(options: Zoo) -> None:
    name = options.name
    if options.pretrained:
        refuse_if((name is not None, "--pretrained lists all models of the package; leave the name out"))
        _show_pretrained(options)
        return
    names = list(EVERY_MODEL) if name is None else [name]
    check_known("unknown model", names, EVERY_MODEL)
    shown = []
    for key in names:
        facts = {field: getattr(EVERY_MODEL[key], field) for field in ("label", "about", "paper", "latent")}
        shown.append({"model": key, "recipe": SMALLEST_IMAGES if key in COMPARED_ONLY else SMALLEST, **facts})
    options.write(shown)
    if name is None:
        _show_names([(key, model.about, model.paper) for key, model in EVERY_MODEL.items()])
        out_console.out(f"\nThe smallest training of each: vadd train {SMALLEST} model=NAME. Other data: vadd recipes")
    else:
        _show_model(name)


def _show_pretrained(options: Zoo) -> None:
    """The models of the package, by what their folders say of themselves."""
    shown, rows = [], []
    for name, folder in shipped_models().items():
        shape, recipe = read_json(folder / EXPORTED_CONFIG)["shape"], load_recipe(str(folder / RECIPE))
        size = sum(file.stat().st_size for file in folder.iterdir())
        shown.append({"name": name, "model": recipe.model, "shape": shape, "bytes": size, "about": recipe.about})
        facts = f"{recipe.model}, examples of {' x '.join(map(str, shape))}, {size_in_memory(size)}"
        rows.append((name, recipe.about, facts))
    options.write(shown)
    _show_names(rows)
    out_console.out(f"\nTry: vadd sample {rows[0][0]} -n 5 --steps 1")


def _show_names(rows: Sequence[tuple[str, str, str]]) -> None:
    """Each with what it is and, in a line below, more."""
    width = max(len(name) for name, _, _ in rows)
    for name, about, below in rows:
        out_console.out(f"{name:{width}}  {about}")
        out_console.out(f"{'':{width}}  {below}", style="dim")


def _show_model(name: str) -> None:
    """One model, and what it changes in a recipe."""
    model = EVERY_MODEL[name]
    out_console.out(f"{model.label}: {model.about}\n{model.paper}")
    if name in COMPARED_ONLY:
        command = f"vadd reproduce baselines --data {SMALLEST_IMAGES} --models mdlm,vadd,{name}"
        out_console.out(f"{command}    # pip install 'vadd[{name}]'")
        return
    out_console.out(f"vadd train {SMALLEST} model={name}{model.options}")
    plain = load_recipe(SMALLEST).with_overrides(["model=mdlm"])
    # An energy cannot be learnt without the run that it is for.
    recipe = plain.with_overrides([f"model={name}", *(["training.start_from=RUN"] if model.options else [])])
    keys = recipe.keys()
    for key, (_, value) in differences(plain, recipe).items():
        if key in keys:  # another network lacks some
            out_console.out(f"  {key}: {value}")
