"""The training loop: draw a batch, mask it, weigh the evidence, step.

Every random number is a function of (seed, step), see :mod:`vadd.training.randomness`; a run that was stopped and
resumed ends where an undisturbed one does.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from accelerate.utils import is_tensorboard_available
from torch import Tensor

from vadd.build import build_mask_draw, build_model
from vadd.core import ExactCount, MaskedDiffusion, Objective, apply_mask, kl_warmup, latent_health, objective
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.recipe import Recipe
from vadd.run import RunDirectory
from vadd.training.checkpoint import (
    TrainingState,
    optimizer_tensors,
    read_checkpoint,
    restore_optimizer,
    write_checkpoint,
)
from vadd.training.display import TrainingDisplay
from vadd.training.ema import Ema
from vadd.training.interrupt import StopRequest
from vadd.training.metrics import append_metrics, forget_after
from vadd.training.optimizer import build_optimizer, learning_rate
from vadd.training.randomness import MASKS, TEST, ShuffledBatches, step_generator

TEST_EXAMPLES = 2048


@dataclass(frozen=True)
class Outcome:
    step: int
    finished: bool
    """False when the training was interrupted; a checkpoint of ``step`` was written all the same."""
    seconds: float


def train(recipe: Recipe, directory: RunDirectory, data: DiscreteDataset, *, resume: bool = False) -> Outcome:
    """Train what ``recipe`` describes on its ``data``; the directory must have been made by ``RunDirectory.create``.

    With ``resume`` the training goes on from the newest checkpoint, or from the start where there is none yet.
    """
    return Trainer(recipe, directory, data, resume=resume).run()


class Trainer:
    def __init__(self, recipe: Recipe, directory: RunDirectory, data: DiscreteDataset, *, resume: bool = False) -> None:
        self.recipe, self.directory, self.settings = recipe, directory, recipe.training
        trackers = ["tensorboard"] if is_tensorboard_available() else None
        self.accelerator = Accelerator(log_with=trackers, project_dir=directory.path)
        self.data = data
        if data.tokenizer is not None and self.accelerator.is_main_process:
            directory.keep_tokenizer(data.tokenizer)
        self.model: MaskedDiffusion = build_model(recipe, data.shape, data.values)
        self.model.to(self.accelerator.device)
        self.optimizer = build_optimizer(self.model, self.settings)
        self.ema = Ema(self.model, self.settings.ema)
        self.draw_mask = build_mask_draw(recipe.diffusion)
        self.batches = ShuffledBatches(len(self.data.train), self.settings.batch, recipe.seed)
        self.start = self._restore() if resume and directory.checkpoints() else 0
        forget_after(directory.metrics_file, self.start)
        self.wrapped, self.stepper = self.accelerator.prepare(self.model, self.optimizer)
        self.accelerator.init_trackers("tensorboard")

    def _restore(self) -> int:
        state = read_checkpoint(self.directory.latest_checkpoint())
        self.model.load_state_dict(state.model)
        self.ema.averaged.load_state_dict(state.ema)
        restore_optimizer(self.model, self.optimizer, state.optimizer)
        return state.step

    def run(self) -> Outcome:
        started, window = time.perf_counter(), Window()
        title = f"{self.recipe.name} {self.recipe.model}"
        step = self.start
        with StopRequest() as stop, TrainingDisplay(title, self.start, self.settings.steps) as display:
            while step < self.settings.steps and not stop.asked:
                window.add(self.step(step))
                step += 1
                display.advance(step)
                if step % self.settings.log_every == 0 or step == self.settings.steps:
                    self._log(step, window, display)
                if step % self.settings.evaluate_every == 0 or step == self.settings.steps:
                    self._evaluate(step, window, display)
                if step % self.settings.checkpoint_every == 0 and step < self.settings.steps:
                    self.save(step)
        if step > self.start or not self.directory.checkpoints():
            self.save(step)
        self.accelerator.end_training()
        return Outcome(step, step >= self.settings.steps, time.perf_counter() - started)

    def step(self, step: int) -> Objective:
        """One optimisation step. All the mathematics of training is in these lines."""
        x0 = self.data.train[self.batches[step]].to(self.accelerator.device, torch.int64)
        generator = step_generator(self.recipe.seed, MASKS, step)
        torch.manual_seed(generator.initial_seed())  # dropout uses the global generator
        masking = self.draw_mask(len(x0), self.data.positions, self.model.schedule, generator)
        batch = apply_mask(x0, masking.to(x0.device), self.model.mask_value)
        kl_weight = kl_warmup(step, round(self.settings.kl_warmup * self.settings.steps))
        result = objective(self.wrapped(batch, kl_weight, generator), batch.masking)
        self.stepper.zero_grad(set_to_none=True)
        self.accelerator.backward(result.loss)
        if self.settings.clip is not None:
            self.accelerator.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, self.settings)
        self.stepper.step()
        self.ema.update(step)
        return result

    @torch.no_grad()
    def test_objective(self, x0: Tensor) -> Objective:
        """The objective of the averaged weights on held-out examples, at full KL weight, always with the same masks."""
        generator = step_generator(self.recipe.seed, TEST)
        masking = ExactCount()(len(x0), self.data.positions, self.model.schedule, generator)
        batch = apply_mask(x0, masking.to(x0.device), self.model.mask_value)
        return objective(self.ema.averaged(batch, 1.0, generator), batch.masking)

    def save(self, step: int) -> None:
        if not self.accelerator.is_main_process:
            return
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            raise UserError(f"the weights are not finite at step {step}; {self._advice()}")
        state = TrainingState(
            step,
            self.model.state_dict(),
            self.ema.averaged.state_dict(),
            optimizer_tensors(self.model, self.optimizer),
        )
        write_checkpoint(self.directory.checkpoint(step), state)
        for old in self.directory.checkpoints()[: -self.settings.keep_checkpoints]:
            for file in old.iterdir():
                file.unlink()
            old.rmdir()

    def _advice(self) -> str:
        kept = self.directory.checkpoints()
        where = f"the last good checkpoint is {kept[-1]}" if kept else "there is no checkpoint yet"
        return f"lower training.learning_rate or set training.clip; {where}"

    def _log(self, step: int, window: "Window", display: TrainingDisplay) -> None:
        loss, reconstruction, kl = window.close()
        if not math.isfinite(loss):
            raise UserError(f"the loss is {loss} at step {step}; {self._advice()}")
        display.show(window.speed, reconstruction, kl)
        self._record(
            step,
            "train",
            loss=loss,
            reconstruction=reconstruction,
            kl=kl,
            kl_weight=kl_warmup(step - 1, round(self.settings.kl_warmup * self.settings.steps)),
            learning_rate=learning_rate(step - 1, self.settings),
            steps_per_second=window.speed,
        )

    def _evaluate(self, step: int, window: "Window", display: TrainingDisplay) -> None:
        with window.paused():
            held_out = self.data.test[:TEST_EXAMPLES].to(self.accelerator.device, torch.int64)
            result = self.test_objective(held_out)
            health = latent_health(self.ema.averaged, held_out, step_generator(self.recipe.seed, TEST))
        display.note(
            step, window.speed, result.reconstruction.item(), result.kl.item(), health.verdict if health else ""
        )
        self._record(
            step, "test", loss=result.loss.item(), reconstruction=result.reconstruction.item(), kl=result.kl.item()
        )
        if health is not None:
            self._record(
                step,
                "latent",
                kl_all_masked=health.kl_all_masked,
                kl_average=health.kl_average,
                active_units=health.active_units,
                dimensions=health.dimensions,
            )

    def _record(self, step: int, split: str, **values: float) -> None:
        if self.accelerator.is_main_process:
            append_metrics(self.directory.metrics_file, {"step": step, "split": split, **values})
            self.accelerator.log({f"{split}/{name}": value for name, value in values.items()}, step=step)


class Window:
    """Means and speed since the last log line. Values stay on the device until they are read."""

    def __init__(self) -> None:
        self.speed = 0.0
        self._restart()

    def _restart(self) -> None:
        self._steps: list[Tensor] = []
        self._since = time.perf_counter()

    def add(self, result: Objective) -> None:
        self._steps.append(torch.stack([result.loss.detach(), result.reconstruction, result.kl]))

    def close(self) -> tuple[float, float, float]:
        loss, reconstruction, kl = torch.stack(self._steps).mean(0).tolist()
        self.speed = len(self._steps) / (time.perf_counter() - self._since)
        self._restart()
        return loss, reconstruction, kl

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave out the time spent inside."""
        began = time.perf_counter()
        yield
        self._since += time.perf_counter() - began
