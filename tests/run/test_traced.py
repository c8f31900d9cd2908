"""Samplers in files: the very samples of the run, from its random numbers, by torch.export and by onnxruntime alone."""

import json
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import vadd
from tests.helpers.commands import Command
from vadd.core.host import SAMPLING, step_generator
from vadd.core.tracing import TracedPrior, TracedSampler
from vadd.errors import UserError
from vadd.recipe import build_model, load_recipe
from vadd.run.directory import RunDirectory
from vadd.run.run import Run
from vadd.run.sampling import SamplingOptions
from vadd.run.standalone import BLOCK, Generator, Sampler
from vadd.run.traced import about, inner_latent, trace_needed

SERVE = Path(__file__).parents[2] / "examples" / "serve.py"
ROWS = 70
"""More than a block of random numbers."""
NO_PRIOR = "latent.prior=normal"
DIGITS = ("digits", NO_PRIOR, "network.width=16", "network.denoiser.blocks=1", "network.recognizer.blocks=1")
COPIES = ("copies", "network.heads=2", "latent.particles=1")
PAIRS = ("latent.prior=autoregressive", "network.pairs=true", "latent.autoregressive.pairs=true")
SHORT = ("network.kind=short-transformer", "latent.kind=shared", "latent.per=position", "latent.dim=2")
CASES: dict[str, tuple[Sequence[str], dict[str, Any]]] = {
    "perceptron, a new z at each step": (("checkerboard", "network.width=16"), {"steps": 3}),
    "no latent, cosine grid": ((*DIGITS, "model=mdlm"), {"steps": 4, "grid": "cosine"}),
    "labels, a prior trained with the model": (
        (*DIGITS, "data.labels=true", "latent.prior=autoregressive", "latent.dim=2", "latent.autoregressive.width=8"),
        {"steps": 1},
    ),
    "codes": (("checkerboard", "network.width=16", "latent.codes=3"), {"steps": 2}),
    "a label, guided": ((*DIGITS, "data.labels=true"), {"steps": 2, "label": "3", "guidance": 2.0}),
    "pyramid, parallel": (
        ("digits", NO_PRIOR, "network.kind=pyramid", "network.channels=4", "network.width=16"),
        {"steps": 2, "sampler": "parallel"},
    ),
    "unet": (
        ("digits", NO_PRIOR, "network.kind=unet", "network.embedding=8", "network.blocks=1", "network.groups=2"),
        {},
    ),
    "transformer, first-hitting": (
        (
            *COPIES,
            "data.positions=3",
            "network.kind=transformer",
            "network.size=tiny",
            "network.width=16",
            "network.blocks=1",
        ),
        {"sampler": "first-hitting"},
    ),
    "short transformer, top-k": ((*COPIES, *SHORT, *PAIRS), {"steps": 2, "top_k": 2}),
    "table": (
        ("table", "network.width=16", "network.rank_functions=3"),
        {"steps": 2, "temperature": 0.7, "top_p": 0.9},
    ),
}
ONNX = ("labels, a prior trained with the model", "pyramid, parallel")


def untrained(changes: Sequence[str], folder: Path) -> Run:
    """A run whose weights are anything but at rest, fitted prior included."""
    torch.manual_seed(0)
    recipe = load_recipe(changes[0]).with_overrides(changes[1:])
    kind = recipe.data.example_kind() if recipe.data.kind != "table" else vadd.recipe.build_dataset(recipe).kind
    model = build_model(recipe, kind)
    if recipe.has_latent and recipe.latent.prior == "flow":
        model = model.with_prior(recipe.latent.build_prior(recipe.network, kind, conditional=False))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    run = Run(RunDirectory(folder), model.eval().requires_grad_(False), recipe, kind)
    return run if recipe.name == "checkerboard" else run.with_sampling(latent_policy="fixed")


class ModuleSession:
    """What onnxruntime offers, by a module."""

    def __init__(self, module: Any, **inputs: bool) -> None:
        self.module, self.inputs = module, inputs

    def get_inputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name, there in self.inputs.items() if there]

    def run(self, _: None, given: dict[str, Any]) -> list[Any]:
        assert given.keys() == {name for name, there in self.inputs.items() if there}
        with torch.no_grad():
            named = {name: torch.from_numpy(given[name]) if there else None for name, there in self.inputs.items()}
            return [self.module(**named).numpy()]


def stand_in(run: Run, options: SamplingOptions, folder: Path, **programs: Any) -> SimpleNamespace:
    """An onnxruntime whose sessions are those of ``programs``, or of the modules that they are traced from."""
    model = run.model if options.label is None else run.model.labelled(run.kind.label_number(options.label), 2.0)
    inner, dim = inner_latent(model.latent), model.latent.dim
    has_prior = trace_needed(model)
    facts = {"shape": run.shape, "prior": has_prior, **about(model, options)}
    (folder / "sampler.json").write_text(json.dumps(facts))
    sampler = programs.get("sampler") or TracedSampler(model, options.steps, options.drawing)
    prior = programs.get("prior") or TracedPrior(model.latent, model.positions, model.mask_value)
    sessions = {
        "sampler": ModuleSession(sampler, values=True, levels=options.steps > 1, z=dim > 0),
        "prior": ModuleSession(prior, noise=hasattr(inner, "prior"), choice=inner is not model.latent),
    }
    return SimpleNamespace(InferenceSession=lambda file: sessions[Path(file).stem])


@pytest.mark.parametrize("case", CASES)
def test_the_module_that_is_traced_draws_the_samples_of_the_run(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, given = CASES[case]
    run = untrained(changes, tmp_path)
    expected = run.sample(ROWS, seed=3, **given)
    # Networks take the ways that can be traced, without the time that tracing takes.
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
    monkeypatch.setitem(sys.modules, "onnxruntime", stand_in(run, run.options(**given), tmp_path))
    drawn = Sampler(tmp_path)(ROWS, seed=3)
    assert drawn.shape == (ROWS, *run.shape)
    assert np.array_equal(drawn.reshape(ROWS, -1), expected.numpy())
    assert len(np.unique(drawn.reshape(ROWS, -1), axis=0)) > 10, "not one sample again and again"


def test_torch_export_draws_the_samples_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = untrained(CASES["codes"][0], tmp_path)
    run.export_sampler(tmp_path, "pt2", steps=2)
    programs = {name: torch.export.load(tmp_path / f"{name}.pt2").module() for name in ("sampler", "prior")}
    monkeypatch.setitem(sys.modules, "onnxruntime", stand_in(run, run.options(steps=2), tmp_path, **programs))
    sampler = Sampler(tmp_path)
    for rows in (1, 3, ROWS):
        assert np.array_equal(sampler(rows, seed=3), run.sample(rows, seed=3, steps=2).numpy())


@pytest.mark.parametrize("case", ONNX)
def test_onnxruntime_draws_the_samples_of_the_run(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    changes, options = CASES[case]
    run = untrained(changes, tmp_path)
    run.export_sampler(tmp_path, **options)
    sampler = Sampler(tmp_path)
    for rows in (1, ROWS):
        assert np.array_equal(sampler(rows, seed=3).reshape(rows, -1), run.sample(rows, seed=3, **options).numpy())
    if "labels" in case:
        labelled = run.sample(8, seed=4, label="2", **options)
        assert np.array_equal(sampler(8, seed=4, label=2).reshape(8, -1), labelled.numpy())
        z = torch.randn(8, run.model.latent.dim, generator=torch.Generator().manual_seed(0))
        assert np.array_equal(sampler(8, z=z.numpy()).reshape(8, -1), run.sample(8, z=z, **options).numpy())
        monkeypatch.setattr(sys, "argv", ["serve.py", str(tmp_path)])
        served = runpy.run_path(str(SERVE), run_name="served")["application"]
        answers: list[str] = []
        body = served({"QUERY_STRING": "n=2&seed=4"}, lambda status, _: answers.append(status))
        assert json.loads(body[0])["samples"] == sampler(2, seed=4).tolist()
        served({"QUERY_STRING": "n=many"}, lambda status, _: answers.append(status))
        assert [answer[:3] for answer in answers] == ["200", "400"]
        script = "import sys; sys.modules['torch'] = None; sys.argv[1:] = ['-n', '5', '--out', 'five.npy']; " + (
            "import runpy; runpy.run_path('sample.py', run_name='__main__')"
        )
        subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
        assert np.array_equal(np.load(tmp_path / "five.npy"), sampler(5))


def test_random_numbers_are_those_of_pytorch() -> None:
    """Uniform ones bit for bit; normal ones to the precision of single-precision logarithms and cosines."""
    ours, theirs = Generator(7, 2), step_generator(7, SAMPLING, 2)
    for size in (1, 5):
        uniform = torch.rand(BLOCK, size, generator=theirs, dtype=torch.float64)
        assert np.array_equal(ours.uniform(BLOCK * size), uniform.flatten().numpy())
        normal = torch.randn(BLOCK, size, generator=theirs)
        assert np.allclose(ours.normal(BLOCK * size), normal.flatten().numpy(), rtol=0, atol=5e-6)


def test_what_cannot_be_written_down_is_refused(
    vadd_command: Command, vadd_run: Path, model_runs: Any, tmp_path: Path
) -> None:
    planned = "choose from ancestral, parallel, first-hitting"
    mistakes = (
        (vadd_run, ("--sampler", "confidence"), f"so a file cannot hold its steps; {planned}"),
        (vadd_run, ("--sampler", "remask"), planned),
        (vadd_run, ("--steps", "65"), "at most 64, not 65"),
        (model_runs["sedd"], (), "only masked models (MDLM, VADD) can be traced"),
    )
    for run, options, said in mistakes:
        done = vadd_command("export", run, tmp_path / "new", "--torch-export", *options)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert said in done.err
        assert not (tmp_path / "new").exists(), "nothing is left behind"
    run = vadd.load(vadd_run)
    for wrong in ({"precision": "float32"}, {"z": torch.zeros(1, 2)}):
        with pytest.raises(UserError, match=r"leave (precision=float32|z) out"):
            run.export_sampler(tmp_path / "new", "pt2", **wrong)
    for option, said in (("--steps=2", "--onnx or --torch-export"), ("--private", "is for --push")):
        assert said in vadd_command("export", vadd_run, tmp_path / "new", option).err


def test_without_the_packages_one_line_names_them(vadd_run: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("vadd.run.traced.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'vadd\[onnx\]'"):
        vadd.load(vadd_run).export_sampler(tmp_path / "new")


def test_the_command_writes_weights_and_sampler(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    out, again = tmp_path / "model", tmp_path / "sampler"
    assert vadd_command("export", vadd_run, out, "--torch-export", "--steps", 2).code == 0
    assert vadd_command("export", out, again, "--torch-export", "--steps", 2).code == 0
    files = {"sampler.pt2", "sampler.json"}
    assert {file.name for file in again.iterdir()} == files, "of an exported model the sampler alone"
    assert {file.name for file in out.iterdir()} == files | {
        "model.safetensors",
        "recipe.yaml",
        "config.json",
        "README.md",
    }
    about = json.loads((out / "sampler.json").read_text())
    assert (about["steps"], about["sampler"], about["shape"], about["values"]) == (2, "ancestral", [2], 8)
    assert vadd.load(out).kind == vadd.load(vadd_run).kind
