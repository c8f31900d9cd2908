"""Make the trained models that are part of the package anew.

    python tools/make_pretrained.py [NAME ...] [--runs DIR]

Every model is a preset, its changes and a seed; the training, the fit of its priors and the numbers of its card follow
from them. A finished run of that recipe in DIR/NAME is taken as it is. Weights are written in float16, and the numbers
are those of the written weights.
"""

import argparse
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import vadd
from vadd.core import Particles
from vadd.evaluation import BoundSettings, evaluate
from vadd.files import write_json
from vadd.recipe import Recipe, load_recipe, recipe_for
from vadd.report.results import card_results
from vadd.run.directory import RunDirectory
from vadd.run.export import export
from vadd.studies.published_scores import file_in, molecules
from vadd.training.prior import fit_prior

RUNS = Path("runs/pretrained")
HOME = Path(__file__).parents[1] / "src" / "vadd" / "pretrained"
RESULTS = "results.json"


def census_names() -> list[str]:
    """Of the package `names`: the first and last names of the US census of 1990, each once."""
    files = [file_in("names", f"dist.{part}") for part in ("male.first", "female.first", "all.last")]
    lines = [line for file in files for line in file.read_text().splitlines()]
    return list(dict.fromkeys(line.split()[0].title() for line in lines))


TEXTS: dict[str, tuple[str, Callable[[], Sequence[str]]]] = {
    "qm9": ("qm9pack", lambda: molecules().train),
    "names": ("names", census_names),
}
"""The package that holds the texts of a model, and what reads them; qm9pack needs pandas for that."""
OF_TEXTS = "what vadd.train chooses for these texts"
MODELS: dict[str, tuple[str, ...]] = {
    "checkerboard": ("checkerboard", "training.steps=3000", "network.width=96"),
    "fair": ("table", "network.width=128"),
    "mnist": (
        "mnist-small",
        "diffusion.weighting=integral",
        "latent.flow.steps=2632",
        "training.steps=1738",
        "training.evaluate_every=1738",
        "training.checkpoint_every=347",
        "training.keep_checkpoints=1",
    ),
    "mnist-mdlm": (
        "mnist-small",
        "model=mdlm",
        "about=Binarised MNIST at 32 x 32 without a latent, to stand beside mnist; with a twentieth of its weights",
        "network.channels=6",
        "network.width=128",
        "diffusion.weighting=integral",
        "training.steps=3000",
        "training.evaluate_every=3000",
        "training.checkpoint_every=600",
        "training.keep_checkpoints=1",
    ),
    "qm9": (
        OF_TEXTS,
        "about=Molecules of QM9 as SMILES, at most 28 symbols; z is drawn position after position",
        "training.steps=4500",
    ),
    "names": (
        OF_TEXTS,
        "about=First and last names of the US census of 1990; z is drawn position after position",
        "network.denoiser.width=48",
        "network.denoiser.blocks=1",
        "network.recognizer.width=24",
        "latent.autoregressive.width=80",
        "latent.autoregressive.components=52",
        "training.steps=3000",
    ),
    "pydocs": ("pydocs", "network.denoiser.width=64", "training.steps=1200"),
}
"""The preset of each, and what is changed."""
NOT_SHIPPED = ("pydocs",)
"""Made when they are asked for: the texts are no words yet."""
CONDITIONAL = ("fair",)
"""Those with a prior p(z | what is known), for completions."""
MOST_BYTES = 12_000_000
"""Of all together."""
STEPS, SAMPLES, EXAMPLES = (1, 2, 5), 2000, 200


def recipe_of(name: str, runs: Path = RUNS) -> Recipe:
    preset, *changes = MODELS[name]
    if preset != OF_TEXTS:
        return load_recipe(preset).with_overrides(changes)
    texts = runs / f"{name}.txt"
    texts.parent.mkdir(parents=True, exist_ok=True)
    texts.write_text("\n".join(TEXTS[name][1]()))
    return recipe_for(texts).with_overrides(changes)


def finished(name: str, runs: Path) -> Path:
    """The run of a model, trained if it is not there."""
    place, recipe = runs / name, recipe_of(name, runs)
    if not RunDirectory(place).is_run():
        vadd.train(recipe, place)
    run = vadd.load(place)
    if run.recipe != recipe or run.step != recipe.training.steps:
        raise SystemExit(f"{place} is not a finished run of the recipe of {name}")
    fitted = run.directory.checkpoint(recipe.training.steps)
    wanted = ("flow", "conditional") if recipe.has_latent and recipe.latent.prior == "flow" else ()
    for kind in wanted:
        if not (fitted / f"prior-{kind}.safetensors").exists() and (kind == "flow" or name in CONDITIONAL):
            fit_prior(vadd.load(place, prior="trained"), kind)  # type: ignore[arg-type]
    return place


def measured(folder: Path) -> dict[str, object]:
    """What `vadd eval FOLDER --bound 1,2,5 --limit 200` measures."""
    bounds = BoundSettings(Particles(64), STEPS, limit=EXAMPLES)
    return {**evaluate(vadd.load(folder), STEPS, SAMPLES, bounds=bounds).report.to_json(), "run": folder.name}


def make(name: str, runs: Path) -> None:
    source, target = RunDirectory(finished(name, runs)), HOME / name
    with tempfile.TemporaryDirectory() as place:
        half = Path(place) / name
        export(source, half, half=True)
        results = Path(place) / RESULTS
        with contextlib.chdir(runs):  # where the data of a model of texts are
            write_json(results, measured(half))
        whole = Path(place) / "whole"
        export(source, whole, results=card_results(results), half=True)
        shutil.copy(results, whole)
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(whole, target)
    print(f"{target}: {sum(file.stat().st_size for file in target.iterdir()):,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*MODELS, []], default=[])
    parser.add_argument("--runs", type=Path, default=RUNS)
    given = parser.parse_args()
    for name in given.names or [each for each in MODELS if each not in NOT_SHIPPED]:
        make(name, given.runs)
    size = sum(file.stat().st_size for file in HOME.rglob("*") if file.is_file())
    if size > MOST_BYTES:
        raise SystemExit(f"the models take {size:,} bytes together, more than {MOST_BYTES:,}")


if __name__ == "__main__":
    main()
