"""Single steps: in parts, in half precision, compiled, and those that must not be taken."""

import math
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from tests.helpers.runs import log_of, newest
from tests.helpers.tiny import tiny_recipe, train_in
from vadd import parallel
from vadd.core import MaskedDiffusion, Objective
from vadd.core.compiling import PARTS
from vadd.errors import UserError
from vadd.parallel import Processes
from vadd.recipe import Recipe, Training, build_dataset
from vadd.run.directory import RunDirectory
from vadd.training.loop import Trainer, train
from vadd.training.optimizer import Stepper


def trainer(path: Path, *overrides: str) -> Trainer:
    recipe = tiny_recipe("training.trackers=[]", *overrides)
    RunDirectory(path).create(recipe)
    return Trainer(recipe, RunDirectory(path), build_dataset(recipe))


@pytest.mark.parametrize("particles", [1, 4])
@pytest.mark.parametrize("parts", [2, 8])
def test_a_batch_in_parts_gives_the_same_gradient(tmp_path: Path, particles: int, parts: int) -> None:
    """To rounding: the losses and the gradients to 1e-6."""
    whole, divided = (
        trainer(tmp_path / str(count), f"latent.particles={particles}", f"training.accumulate={count}")
        for count in (1, parts)
    )
    one, other = whole.step(3), divided.step(3)
    for name in ("loss", "reconstruction", "kl"):
        assert getattr(other, name).item() == pytest.approx(getattr(one, name).item(), rel=1e-6, abs=1e-6)
    for mine, theirs in zip(whole.model.parameters(), divided.model.parameters(), strict=True):
        assert mine.grad is not None
        assert theirs.grad is not None
        assert float((mine.grad - theirs.grad).abs().max()) < 1e-6


def test_training_in_parts_ends_at_the_same_numbers(vadd_run: Path, tmp_path: Path) -> None:
    train_in(tmp_path / "parts", tiny_recipe("training.accumulate=4"))
    for ours, theirs in zip(log_of(tmp_path / "parts"), log_of(vadd_run), strict=True):
        assert ours.pop("split") == theirs.pop("split")
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)


def test_half_precision_learns_and_keeps_weights_logits_and_losses_single(tmp_path: Path) -> None:
    """The loss falls by as much as in float32, to a tenth; the state is float32."""
    paths = {}
    for precision in ("float32", "bfloat16"):
        paths[precision] = tmp_path / precision
        changes = ("training.steps=80", "training.batch=64", "training.learning_rate=1e-2", "training.log_every=8")
        train_in(paths[precision], tiny_recipe(*changes, f"training.precision={precision}", "training.trackers=[]"))
    ends = {}
    for precision, path in paths.items():
        losses = [float(line["loss"]) for line in RunDirectory(path).metrics() if line["split"] == "train"]
        ends[precision] = losses[0] - losses[-1]
    assert ends["float32"] > 0.1
    assert ends["bfloat16"] == pytest.approx(ends["float32"], rel=0.1)
    state = newest(paths["bfloat16"])
    assert {tensor.dtype for part in (state.model, state.ema, state.optimizer) for tensor in part.values()} == {
        torch.float32
    }


def test_a_processor_that_cannot_do_what_it_announces_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "HALF_PRECISION", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    parallel.check_half_precision.cache_clear()
    with pytest.raises(UserError, match="ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16"):
        train_in(tmp_path / "run", tiny_recipe("training.precision=bfloat16"))
    assert not (tmp_path / "run").exists()


def test_in_half_precision_the_networks_work_in_half_and_the_evidence_is_single(tmp_path: Path) -> None:
    seen: list[torch.dtype] = []
    half = trainer(tmp_path / "run", "training.precision=bfloat16")
    assert isinstance(half.model.denoiser, nn.Module)
    half.model.denoiser.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    result = half.step(0)
    assert seen == [torch.bfloat16]
    assert {result.loss.dtype, result.reconstruction.dtype, result.kl.dtype} == {torch.float32}


def test_a_compiler_that_fails_costs_speed_and_not_the_run(
    vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: nn.Module, **_: Any) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError("no compiler here\nand a long story")

        self._compiled_call_impl = fail

    monkeypatch.setattr(nn.Module, "compile", broken)
    assert train_in(tmp_path / "run", tiny_recipe("training.compile=true")).finished
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    (warning,) = [line for line in warnings if not line.startswith("warning: posterior collapse at step")]
    assert warning.endswith("uncompiled, torch.compile failed: RuntimeError: no compiler here")
    assert log_of(tmp_path / "run") == log_of(vadd_run)


def test_compiled_networks_take_the_same_steps(vadd_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced but not translated to machine code, which would take long; the numbers are those of plain training. The
    denoiser is compiled for a few sizes, the recognition model for one.
    """
    compiled = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda self, **named: compiled(self, backend="eager", **named))
    torch._dynamo.reset()
    counters.clear()
    assert train_in(tmp_path / "run", tiny_recipe("training.compile=true", "training.steps=30")).finished
    assert counters["stats"]["unique_graphs"] <= PARTS + 1
    assert not counters["graph_break"]
    torch._dynamo.reset()
    assert newest(tmp_path / "run").model.keys() == newest(vadd_run).model.keys()
    for ours, theirs in zip(log_of(tmp_path / "run"), log_of(vadd_run), strict=True):
        assert ours.pop("split") == theirs.pop("split")
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["gradient", "loss"])
def test_a_step_that_is_not_finite_touches_nothing(optimizer: str, clip: float | None, bad: float, where: str) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    settings = Training.model_validate({"optimizer": optimizer, "clip": clip, "weight_decay": 0.1})
    stepper = Stepper(model, settings, Processes())

    def backward() -> torch.Tensor:
        stepper.zero_grad()
        loss: torch.Tensor = model(torch.ones(4, 3)).square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    assert float(stepper.step(0, backward())) == 1
    before = {name: value.clone() for name, value in (*model.state_dict().items(), *stepper.tensors())}
    loss = backward()
    if where == "gradient":
        assert model.weight.grad is not None
        model.weight.grad[1, 2] = bad
    else:
        loss = loss * bad
    assert float(stepper.step(1, loss)) == 0
    after = {name: value.clone() for name, value in (*model.state_dict().items(), *stepper.tensors())}
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert float(stepper.step(2, backward())) == 1
    assert not torch.equal(model.weight, before["weight"])


def spoil(monkeypatch: pytest.MonkeyPatch, steps: range) -> None:
    """The loss, and with it the gradient, is infinite at these steps."""
    undisturbed = MaskedDiffusion.log_likelihood
    now = [0]
    step = Trainer.step

    def counted(self: Trainer, number: int) -> Objective:
        now[0] = number
        return step(self, number)

    def spoiled(self: MaskedDiffusion, *arguments: Any, **named: Any) -> torch.Tensor:
        result = undisturbed(self, *arguments, **named)
        return result * float("inf") if now[0] in steps and result.requires_grad else result

    monkeypatch.setattr(Trainer, "step", counted)
    monkeypatch.setattr(MaskedDiffusion, "log_likelihood", spoiled)


def train_lines(path: Path) -> list[dict[str, Any]]:
    return [line for line in RunDirectory(path).metrics() if line["split"] == "train"]


def test_skipped_steps_are_counted_and_the_rest_is_averaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines at 5, 10, ...: two steps of the first and all of the second window are skipped, less than ten in a row."""
    spoil(monkeypatch, range(3, 11))
    path = tmp_path / "run"
    assert train_in(path, tiny_recipe("training.trackers=[]")).finished
    lines = train_lines(path)
    assert [line["skipped"] for line in lines] == [2, 5, 1, 0, 0, 0]
    assert [math.isnan(line["loss"]) for line in lines] == [False, True, False, False, False, False]
    assert '"loss": null' in RunDirectory(path).metrics_file.read_text()
    state = newest(path)
    assert {float(value) for name, value in state.optimizer.items() if name.startswith("step/")} == {22.0}
    assert all(bool(weight.isfinite().all()) for part in (state.model, state.ema) for weight in part.values())


def test_too_many_skipped_steps_in_a_row_end_the_training_with_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil(monkeypatch, range(12, 16))
    path = tmp_path / "run"
    with pytest.raises(UserError, match=r"at step 20 .* not finite 4 times in a row; .*step-00000010"):
        train_in(path, tiny_recipe("training.nonfinite_patience=4", "training.trackers=[]"))
    assert newest(path).step == 10
    monkeypatch.undo()
    recipe = tiny_recipe("training.trackers=[]")
    assert train(recipe, RunDirectory(path), build_dataset(recipe), resume=True).finished


def test_time_brings_a_checkpoint_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which every step takes a minute; checkpoints every 7 minutes and at the end."""
    minutes = [0.0]
    step = Trainer.step

    def slow(self: Trainer, number: int) -> Objective:
        minutes[0] += 1
        return step(self, number)

    monkeypatch.setattr(Trainer, "step", slow)
    monkeypatch.setattr(time, "perf_counter", lambda: 60 * minutes[0])
    recipe: Recipe = tiny_recipe(
        "training.checkpoint_minutes=7",
        "training.checkpoint_every=1000",
        "training.evaluate_every=1000",
        "training.log_every=1000",
        "training.keep_checkpoints=99",
        "training.trackers=[]",
    )
    train_in(tmp_path / "run", recipe)
    assert [path.name[-2:] for path in RunDirectory(tmp_path / "run").checkpoints()] == ["07", "14", "21", "28", "30"]
