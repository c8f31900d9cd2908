"""Every model and every network trains, resumes, samples, completes and is evaluated on a device, with the numbers of
the CPU, and the host never waits for it where it need not.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vadd
from tests.accelerator.cases import CASES, Case
from tests.accelerator.pretend import NAME, Pretend, PretendTensor, pretend_device
from tests.helpers.tiny import tiny_recipe, train_in
from vadd.core.samplers import AdaptiveSampler
from vadd.models.transitions import TransitionSampler
from vadd.recipe import build_dataset
from vadd.recipe.counting import TrainingCost
from vadd.run.directory import RunDirectory
from vadd.training.loop import Trainer

READS_A_STEP = dict.fromkeys(CASES, 0)
"""Of a training step between two log lines."""
UPLOADS_A_STEP = dict.fromkeys(CASES, 1)
READS_A_BOUND = dict.fromkeys(CASES, 1) | {"genmd4": 2}
"""Of a batch; the learned schedules of GenMD4 are read once more."""
STEPS = 2


@pytest.fixture(autouse=True)
def steps_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many of them the time allows, which is counted for the networks that examples get by default, is left out."""
    monkeypatch.setattr("vadd.recipe.counting.training_cost", lambda *_, **__: TrainingCost(1e6, 1e6))


def weights(run: vadd.Run) -> list[torch.Tensor]:
    tensors = run.model.state_dict().values()
    return [tensor.held if isinstance(tensor, PretendTensor) else tensor for tensor in tensors]


def same(one: Any, other: Any) -> bool:
    """Arrays, texts or tables."""
    return bool(one.equals(other)) if hasattr(one, "equals") else bool(np.array_equal(one, other))


class Both:
    """A run on the CPU and the same on the device, there stopped after a step and resumed."""

    def __init__(self, case: Case, folder: Path, device: Pretend, **more: Any) -> None:
        self.device = device
        self.steps: list[tuple[int, int]] = []
        self.cpu = case.train(folder / "cpu", "cpu", **more)
        stopped = case.train(folder / NAME, NAME, on_step=lambda event: event.stop(), **more)
        assert stopped.step == 1
        self.there = vadd.train(None, folder / NAME, resume=True, progress=False, device=NAME, on_step=self._count)

    def _count(self, _: object) -> None:
        self.steps.append((self.device.read_count, self.device.upload_count))

    def with_equal_weights(self) -> None:
        """Training differs in the last bits, and Adam makes more of them."""
        self.there.model.load_state_dict(self.cpu.model.state_dict())

    def asked(self, method: str, *arguments: Any, **options: Any) -> tuple[Any, Counter[str], Counter[str]]:
        """The answer of both, which must agree, and what the device was read and sent for it."""
        expected = getattr(self.cpu, method)(*arguments, **options)
        self.device.reset()
        found = getattr(self.there, method)(*arguments, **options)
        assert same(found, expected), (method, options)
        return found, self.device.reads, self.device.uploads


@contextmanager
def both(name: str, folder: Path, **more: Any) -> Iterator[Both]:
    with pretend_device() as device:
        yield Both(CASES[name], folder, device, **more)


ALL_POLICIES = ("vadd", "table")
"""With every sampler; the others take turns."""


def sampler_options(name: str, run: vadd.Run) -> Iterator[dict[str, Any]]:
    for number, (chosen, sampler) in enumerate(run.model.samplers.items()):
        steps = sampler.default_steps(run.model.positions, STEPS)
        policies = ["resample", "fixed"] if run.model.latent.dim else ["resample"]
        for policy in policies if name in ALL_POLICIES else [policies[number % len(policies)]]:
            yield {"sampler": chosen, "steps": steps, "latent_policy": policy}


@pytest.mark.parametrize("name", CASES)
def test_runs_are_those_of_the_cpu_and_nobody_waits(name: str, tmp_path: Path) -> None:
    with both(name, tmp_path) as runs:
        for one, other in zip(weights(runs.there), weights(runs.cpu), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=5e-4)
        (reads, uploads), (more_reads, more_uploads) = runs.steps
        assert more_reads - reads == READS_A_STEP[name]
        assert more_uploads - uploads == UPLOADS_A_STEP[name]
        trained = [tensor.clone() for tensor in weights(runs.there)]
        exported = vadd.load(runs.there.export(tmp_path / "exported"), device=NAME)
        assert all(map(torch.equal, weights(exported), trained))
        runs.with_equal_weights()
        for options in sampler_options(name, runs.cpu):
            drawn, asked, _ = runs.asked("sample", 5, seed=3, **options)
            sampler = runs.cpu.model.samplers[options["sampler"]]
            looks = options["steps"] if isinstance(sampler, AdaptiveSampler | TransitionSampler) else 0
            assert asked.total() <= 1 + looks, (options, asked)  # the samples themselves are read once
        steps = runs.cpu.model.samplers["ancestral"].default_steps(runs.cpu.model.positions, STEPS)
        begun = drawn.index_fill(1, torch.arange(drawn.shape[1] // 2, drawn.shape[1]), -1)
        runs.asked("infill", begun, count=2, steps=steps)
        one, other = (run.evaluate((steps,), samples=5).to_json()["results"] for run in (runs.there, runs.cpu))
        assert one == other
        expected = runs.cpu.bound((steps,), particles=4, limit=8)
        runs.device.reset()
        found = runs.there.bound((steps,), particles=4, limit=8)
        assert found.bounds[steps].nats == pytest.approx(expected.bounds[steps].nats, abs=1e-4)
        assert runs.device.read_count <= READS_A_BOUND[name], runs.device.reads


PATHS = {"confidence": 1, "margin": 1, "entropy": 1, "entropy-bounded": 1 + STEPS, "remask": 1 + STEPS}
"""Reads of a batch, for samplers whose likelihood is one along paths."""


@pytest.mark.parametrize("name", ["vadd", "mdlm", "texts"])
def test_likelihoods_along_paths_are_those_of_the_cpu(name: str, tmp_path: Path) -> None:
    with both(name, tmp_path) as runs:
        runs.with_equal_weights()
        for sampler, most in PATHS.items():
            options: dict[str, Any] = {"particles": 4, "limit": 8, "sampler": sampler, "latent_policy": "resample"}
            expected = runs.cpu.bound((STEPS,), **options).bounds[STEPS]
            runs.device.reset()
            found = runs.there.bound((STEPS,), **options).bounds[STEPS]
            assert found.nats == pytest.approx(expected.nats, abs=1e-4)
            assert runs.device.read_count <= most, (sampler, runs.device.reads)


@pytest.mark.parametrize("name", CASES)
def test_half_precision_trains_as_on_the_cpu(name: str, tmp_path: Path) -> None:
    with both(name, tmp_path, **{"training.precision": "bfloat16"}) as runs:
        for one, other in zip(weights(runs.there), weights(runs.cpu), strict=True):
            # A weight moves by at most the learning rate a step, in whichever direction rounding turns it.
            torch.testing.assert_close(one, other, rtol=0.02, atol=0.02)
        one, other = (
            line["loss"]
            for run in (runs.there, runs.cpu)
            for line in run.directory.metrics()
            if line["split"] == "test"
        )
        assert one == pytest.approx(other, rel=0.02)


def test_completions_tables_and_labels_are_those_of_the_cpu(tmp_path: Path) -> None:
    blank = np.array([[2, -1, -1, 1, -1, -1], [-1, -1, -1, -1, -1, -1]])
    with both("labels", tmp_path / "labels") as runs:
        runs.with_equal_weights()
        runs.asked("sample", 4, label="1", guidance=2.0, steps=2)
        for policy in ("resample", "fixed"):
            runs.asked("infill", blank, steps=2, count=2, latent_policy=policy, candidates=4)
    with both("conditional", tmp_path / "conditional") as runs:
        for policy in ("resample", "fixed"):
            runs.asked("infill", blank, steps=2, count=2, latent_policy=policy, candidates=4)
    with both("table", tmp_path / "table") as runs:
        for policy in ("resample", "fixed"):
            runs.asked("sample_frame", 4, ["word=x", "number>=0"], steps=2, latent_policy=policy, candidates=2)


def test_a_flow_is_drawn_and_evaluated_without_a_look(tmp_path: Path) -> None:
    with both("flow", tmp_path) as runs:
        prior: Any = runs.there.model.latent.prior
        x = torch.full((3, 6), runs.there.model.mask_value).to(NAME)
        noise = torch.randn(2, 3, prior.noise_dim).to(NAME)
        runs.device.reset()
        prior.log_prob(prior.from_noise(noise, x), x)
        assert not runs.device.reads


@pytest.mark.parametrize("name", ["vadd", "texts"])
def test_a_resumed_training_ends_where_an_undisturbed_one_does(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    with pretend_device():
        whole = case.train(tmp_path / "whole", NAME)
        case.train(tmp_path / "parts", NAME, on_step=lambda event: event.stop() if event.step == 1 else None)
        parts = vadd.train(None, tmp_path / "parts", resume=True, progress=False, device=NAME)
        for one, other in zip(weights(parts), weights(whole), strict=True):
            assert torch.equal(one, other)


def test_an_energy_of_another_run_weighs_candidates_on_a_device(tmp_path: Path) -> None:
    with both("mdlm", tmp_path / "mdlm") as masked, both("ar", tmp_path / "ar") as causal:
        masked.there.model.load_state_dict(masked.cpu.model.state_dict())
        causal.there.model.load_state_dict(causal.cpu.model.state_dict())
        expected = masked.cpu.with_energy(causal.cpu, candidates=3).sample(4, steps=2)
        weighed = masked.there.with_energy(causal.there, candidates=3)
        causal.device.reset()
        assert same(weighed.sample(4, steps=2), expected)
        assert causal.device.read_count == 1


def test_an_energy_is_learnt_on_a_device(tmp_path: Path) -> None:
    assert train_in(tmp_path / "mdlm", tiny_recipe("model=mdlm", "training.steps=2")).finished
    recipe = tiny_recipe("model=edlm", f"training.start_from={tmp_path / 'mdlm'}")
    drawn = []
    with pretend_device() as device:
        for place in ("cpu", NAME):
            directory = RunDirectory(tmp_path / place)
            directory.create(recipe)
            trainer = Trainer(recipe, directory, build_dataset(recipe), device=torch.device(place))
            trainer.step(0)
            device.reset()
            trainer.step(1)
            assert (device.read_count, device.upload_count) == (0, 1 if place == NAME else 0)
            drawn.append(trainer.model.eval().sample(6, 2, torch.Generator().manual_seed(0)).tokens.cpu())
            assert device.read_count == (1 if place == NAME else 0)
    assert torch.equal(*drawn)


def test_a_device_without_float64_trains_and_samples(tmp_path: Path) -> None:
    case = CASES["flow"]
    cpu = case.train(tmp_path / "cpu", "cpu")
    with pretend_device(float64=False):
        there = case.train(tmp_path / NAME, NAME)
        there.model.load_state_dict(cpu.model.state_dict())
        assert same(there.sample(5, steps=2), cpu.sample(5, steps=2))
        bounds = [run.bound((2,), particles=4, limit=8).bounds[2].nats for run in (there, cpu)]
        assert bounds[0] == pytest.approx(bounds[1], abs=1e-3)
