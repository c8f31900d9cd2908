"""The training loop: draw a batch, mask it, weigh the evidence, step.

Every random number is a function of (seed, step), see :mod:`vadd.core.host`; a run that was stopped and
resumed ends where an undisturbed one does. All of them are drawn for the whole batch in every process, and each process
takes its rows: the result does not depend on the number of processes, nor on the parts in which a batch is processed.
"""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vadd.core import Model, Objective, kl_warmup, objective
from vadd.core.health import REMEDIES, RESTARTED_WEIGHTS
from vadd.core.host import MASKS, ShuffledBatches, seed_dropout, step_generator
from vadd.core.masking import BatchPart, Masking
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.networks import CustomNetworks
from vadd.parallel import Processes, check_half_precision, held_by_main_process, is_main, one_line_for_lost_processes
from vadd.progress import warn
from vadd.recipe import Recipe, build_model
from vadd.recipe.counting import checkpoint_bytes
from vadd.recipe.plan import available_memory
from vadd.run.checkpoint import Archive, TrainingState
from vadd.run.directory import RunDirectory
from vadd.run.run import Run
from vadd.training.display import TrainingDisplay
from vadd.training.events import Callbacks, CheckpointEvent, EvaluationEvent, StepEvent, StopRequest
from vadd.training.metrics import HeldOutResult, RunningMeans, TrainingLog, evaluate_held_out
from vadd.training.optimizer import Ema, Stepper, learning_rate, shard, whole_state
from vadd.training.prior import seconds_to_fit
from vadd.training.start import check_state, compile_networks, freeze, read_pretrained, saved_state, start_from
from vadd.words import size_in_memory, why_too_large

SOME = 1000
"""Examples that are compared before a training."""


@dataclass(frozen=True)
class Outcome:
    step: int
    finished: bool
    """False when the training was interrupted; a checkpoint of ``step`` was written all the same."""
    seconds: float
    stopped: bool
    """Whether a stop was requested, be it in the last step."""
    collapsed: bool = False
    """Whether z did not depend on the data at the last evaluation."""


def train(
    recipe: Recipe,
    directory: RunDirectory,
    data: DiscreteDataset,
    *,
    resume: bool = False,
    silent: bool = False,
    **options: Any,
) -> Outcome:
    """Train what ``recipe`` describes on its ``data``; the directory must have been made by ``RunDirectory.create``.

    With ``silent`` no progress is shown; the other ``options`` are those of :class:`Trainer`. With ``resume`` it
    continues from the newest checkpoint that is whole, or else from the start; the recipe may then differ where
    :func:`~vadd.recipe.may_change_on_resume` allows it, and replaces the run's.
    """
    with held_by_main_process(directory.lock), one_line_for_lost_processes():
        try:
            return Trainer(recipe, directory, data, resume=resume, **options).run(silent=silent)
        except BaseException:
            if not resume and is_main():
                directory.remove_unstarted()
            raise


class Trainer:
    """``callbacks`` are given events and may stop it; ``networks`` are trained in place of the recipe's."""

    def __init__(
        self,
        recipe: Recipe,
        directory: RunDirectory,
        data: DiscreteDataset,
        *,
        resume: bool = False,
        callbacks: Callbacks = Callbacks(),  # noqa: B008  # frozen
        networks: CustomNetworks | None = None,
        device: torch.device | None = None,
    ) -> None:
        self.recipe, self.directory, self.settings, self.data = recipe, directory, recipe.training, data
        self.stop_request = StopRequest()
        self.processes = Processes(device)
        self.device = self.processes.device
        if self.settings.precision == "bfloat16":
            check_half_precision(self.device)
        if self.processes.is_main:
            data.kind.save(directory.path, data.fingerprint())
        self.parts = self.processes.share(self.settings.batch, self.settings.accumulate)
        self.batches = ShuffledBatches(len(data.train), self.settings.batch, recipe.seed)
        self.draw_mask = recipe.build_mask_draw()
        self.archive = Archive(directory)
        state = saved_state(self.archive, self.settings.steps) if resume else None
        self.start = 0 if state is None else state.step
        self.processes.check_shared(directory.recipe_file, str(self.start))
        self.model: Model = build_model(recipe, data.kind, networks)
        if self.settings.start_from is not None:
            if state is None:  # a resumed training has its own weights; what it started from may be gone by now
                start_from(self.model, recipe, data.kind)
            if self.settings.freeze:
                freeze(self.model)
        elif state is None:
            read_pretrained(self.model, recipe, data.train)
        self.model.to(self.device)
        self.ema = Ema(self.model, self.settings.ema)
        if state is not None:
            check_state(state, self.model, directory.path)
            # Before the weights are divided among processes: checkpoints hold whole tensors.
            self.model.load_state_dict(state.model)
            self.ema.averaged.load_state_dict(state.ema)
        sharded = self.processes.count > 1 and (self.settings.sharding == "full" or self.processes.asked_to_shard)
        if sharded:
            for model in (self.model, self.ema.averaged):
                shard(model, self.device, self.processes.count)
        self.stepper = Stepper(self.model, self.settings, self.processes)
        if state is not None:
            self.stepper.restore(state.optimizer)
        self.wrapped = self.model if sharded else self.processes.wrap(self.model)
        self.means = RunningMeans(self.processes, () if state is None else state.unlogged)
        self.collapsed = False
        some = data.train[:SOME]
        self.alike = bool((some == some[:1]).all())
        self.kl_restarts = () if state is None else state.kl_restarts
        self.log = TrainingLog(recipe, directory)
        self.averaged_run = Run(directory, self.ema.averaged, recipe, data.kind)
        self.callbacks = callbacks if self.processes.is_main else Callbacks()
        if self.settings.compile:
            compile_networks(self.model, self.trial, self.processes)

    def run(self, *, silent: bool = False) -> Outcome:
        started = self._saved_at = time.perf_counter()
        self._open()
        title = f"{self.recipe.name} {self.recipe.model}"
        silent = silent or not self.processes.is_main
        fit = 0.0 if silent else seconds_to_fit(self.recipe, self.data.kind, self.device)
        display = TrainingDisplay(title, self._about(), self.start, self.settings.steps, fit=fit, silent=silent)
        try:
            with self.stop_request as stop, display:
                step, stopped = self._steps(stop, display)
        finally:
            self.archive.close()
            self.log.finish()
        return Outcome(step, step >= self.settings.steps, time.perf_counter() - started, stopped, self.collapsed)

    def _about(self) -> str:
        shape = " x ".join(map(str, self.data.shape))
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        return (
            f"{len(self.data.train):,} examples of {shape} with {self.data.vocab_size:,} values, "
            f"{len(self.data.test):,} held out; {parameters:,} parameters; {self.settings.steps:,} steps of batch "
            f"{self.settings.batch}; {size_in_memory(checkpoint_bytes(self.model))} a checkpoint"
        )

    def _steps(self, stop: StopRequest, display: TrainingDisplay) -> tuple[int, bool]:
        """Up to the last step, or to the one in which a stop was requested, and whether it was; either way its state is
        saved.
        """
        step, stopping, saved = self.start, False, True
        while step < self.settings.steps and not stopping:
            result = self.step(step)
            step += 1
            display.advance(step)
            if self.callbacks.on_step is not None:
                speed = self.means.speed
                self.callbacks.on_step(StepEvent(**self._moment(step), steps_per_second=speed, _objective=result))
            last = step == self.settings.steps
            if step % self.settings.log_every == 0 or last:
                self._log(step)
            evaluated = None
            if step % self.settings.evaluate_every == 0 or last:
                evaluated = self._evaluate(step, display)
            self.archive.check()
            # All processes must stop or save at the same step: saving puts tensors together from all of them.
            stopping, due = self.processes.any(stop.asked, self._save_is_due(step, evaluated))
            if due or stopping or last:
                called = self.callbacks.on_checkpoint is not None  # with a checkpoint that is written, at its step
                saved = self.save(step, evaluated, wait=stopping or last or called)
                if saved and self.callbacks.on_checkpoint is not None:
                    path, loss = self.directory.checkpoint(step), None if evaluated is None else evaluated.loss
                    self.callbacks.on_checkpoint(CheckpointEvent(**self._moment(step), path=path, loss=loss))
                stopping = stopping if not saved else self.processes.any(stop.asked)[0]
        if not saved:
            raise UserError("the last checkpoint could not be written; free some space and go on with --resume")
        return step, stopping

    def _open(self) -> None:
        """Prepare the directory; from here on it belongs to this training."""
        if self.processes.is_main:
            before = self.directory.recipe().training.steps
            if self.start and before != self.settings.steps:
                warn(
                    f"training.steps was {before} and is {self.settings.steps}: from step {self.start} on the learning "
                    "rate and the KL weight follow the schedules of the new length"
                )
            if self.alike:
                warn(f"the first {min(SOME, len(self.data.train)):,} examples are all alike: there is nothing to learn")
            self.directory.write_recipe(self.recipe)
            self.archive.sweep()
            self.log.open(self.start)

    def step(self, step: int) -> Objective:
        """One optimisation step. All the mathematics of training is in these lines and those of ``_backward``."""
        seed_dropout(self.recipe.seed, step, self.processes.index, self.device)
        indices = self.batches[step]
        generator = step_generator(self.recipe.seed, MASKS, step)
        masking = self.draw_mask(self.settings.batch, self.data.positions, self.model.schedule, generator)
        if self.data.train_known is not None:
            masking = masking.sparing(self.data.train_known[indices])
        results = self._gradients(step, indices, masking, generator)
        result = results[0] if len(results) == 1 else Objective.mean(results)
        applied = self.stepper.step(step, result.loss)
        self.ema.update(step, applied)
        self.means.add(result, applied)
        return result

    def _gradients(self, step: int, indices: Tensor, masking: Masking, generator: torch.Generator) -> list[Objective]:
        """The objectives of the parts of a batch. Where the device has not enough memory for them, of smaller parts:
        other processes may take what was there before.
        """
        while True:
            self.stepper.zero_grad()
            results: list[Objective] = []
            try:
                # Every part gets a copy of the generator: each draws the noise of the whole batch and takes its own
                # rows of it. Only the last part's backward pass averages the gradients over the processes.
                for rows in self.parts[:-1]:
                    with self.processes.without_sync(self.wrapped):
                        results.append(self._backward(step, indices, masking, rows, generator.clone_state()))
                return [*results, self._backward(step, indices, masking, self.parts[-1], generator.clone_state())]
            except (MemoryError, RuntimeError) as error:
                size = self.settings.batch // len(self.parts)
                if self.processes.count > 1 or size == 1 or why_too_large(error) is None:
                    raise
            # Out here nothing holds on to what was computed.
            smaller = len(self.parts) * next(divisor for divisor in range(2, size + 1) if size % divisor == 0)
            warn(f"not enough memory in step {step + 1}: from here on as with training.accumulate={smaller}")
            self.parts = self.processes.share(self.settings.batch, smaller)

    def _backward(
        self, step: int, indices: Tensor, masking: Masking, rows: slice, generator: torch.Generator
    ) -> Objective:
        """The objective of some rows of the batch; their share of the gradient is added to what is there."""
        labels = None
        if self.data.label_names is not None and self.data.train_labels is not None:
            labels = self.data.train_labels[indices[rows]]
        part = BatchPart(rows, len(indices))
        batch = self.model.batch(self.data.train[indices[rows]], masking[rows], part, labels, generator)
        with self._autocast():
            evidence = self.wrapped(batch, self._kl_weight(step), generator)
        result = objective(evidence, self.data.positions)
        # Gradients of the parts add up, and the loss is a mean over the batch.
        (result.loss / len(self.parts)).backward()  # type: ignore[no-untyped-call]
        return result

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16")

    def _kl_weight(self, step: int) -> float:
        start, limit = 0, self.settings.kl_weight
        if self.kl_restarts:
            start, limit = self.kl_restarts[-1], min(limit, RESTARTED_WEIGHTS[len(self.kl_restarts) - 1])
        warmup = round(self.settings.kl_warmup * self.settings.steps)
        return limit * kl_warmup(step - start, warmup, self.settings.kl_power)

    def trial(self) -> None:
        """One pass forward and back that changes nothing."""
        x0 = self.data.train[self.batches[0][self.parts[0]]]
        generator = step_generator(self.recipe.seed, MASKS, 0)
        masking = self.draw_mask(len(x0), self.data.positions, self.model.schedule, generator)
        batch = self.model.batch(x0, masking)
        with self._autocast():
            evidence = self.model(batch, 1.0, generator)
        objective(evidence, self.data.positions).loss.backward()  # type: ignore[no-untyped-call]
        self.stepper.zero_grad()

    def _save_is_due(self, step: int, evaluated: HeldOutResult | None) -> bool:
        """The main process decides: every so many steps or minutes, and when the held-out objective is the best yet."""
        if not self.processes.is_main:
            return False
        return (
            step % self.settings.checkpoint_every == 0
            or time.perf_counter() - self._saved_at >= 60 * self.settings.checkpoint_minutes
            or (evaluated is not None and self.archive.improves(step, evaluated.loss))
        )

    def save(self, step: int, evaluated: HeldOutResult | None = None, *, wait: bool = True) -> bool:
        """Write a checkpoint, with the evaluation of this step; False where the disk refused it. If not to ``wait``,
        from a copy while the training goes on, where the host has the memory for one.
        """
        # Before anything is written: a checkpoint full of NaN would push a good one out.
        # Asked once, not of every tensor.
        finite = bool(torch.stack([parameter.isfinite().all() for parameter in self.stepper.parts()]).all())
        if self.processes.any(not finite)[0]:
            raise UserError(f"the weights are not finite at step {step}; {self._advice()}")
        # All processes take part in putting whole tensors together; only the main one keeps them.
        keep = self.processes.is_main
        wait = wait or available_memory(torch.device("cpu")) < 2 * checkpoint_bytes(self.model)
        model, ema, optimizer = (
            {name: tensor if wait else tensor.detach().to("cpu", copy=True) for name, tensor in tensors if keep}
            for tensors in (whole_state(self.model), whole_state(self.ema.averaged), self.stepper.tensors())
        )
        unlogged = self.means.unlogged()
        saved = True
        if keep:
            self.log.check_place()
            self.log.metrics.flush_to_disk()
            test_loss = None if evaluated is None else evaluated.loss
            state = TrainingState(step, model, ema, optimizer, unlogged, test_loss, self.kl_restarts)
            saved = self.archive.save(state, keep=self.settings.keep_checkpoints, wait=wait)
        self._saved_at = time.perf_counter()
        return not self.processes.any(not saved)[0]

    def _advice(self) -> str:
        self.archive.wait()
        kept = self.directory.checkpoints()
        where = f"the last good checkpoint is {kept[-1]}" if kept else "there is no checkpoint yet"
        return f"lower training.learning_rate or set training.clip; {where}"

    def _log(self, step: int) -> None:
        means = self.means.close()
        if (count := self.means.most_skipped_in_a_row) >= self.settings.nonfinite_patience:
            problem = f"at step {step} the loss or its gradient was not finite {count} times in a row"
            raise UserError(f"{problem}; {self._advice()}")
        # Steps are counted from 0: these are the values that the last step was taken with.
        weight, rate = self._kl_weight(step - 1), learning_rate(step - 1, self.settings)
        self.log.add(step, "train", **means, kl_weight=weight, learning_rate=rate, steps_per_second=self.means.speed)

    def _evaluate(self, step: int, display: TrainingDisplay) -> HeldOutResult:
        """The averaged weights on held-out examples."""
        with self.means.paused():
            rows, test = self.recipe.network.rows_at_once, self.data.test
            labels = None if self.data.label_names is None else self.data.test_labels
            about = {"labels": labels, "known": self.data.test_known}
            result = evaluate_held_out(self.ema.averaged, test, self.recipe.seed, rows, self.processes, **about)
            display.note(result.loss, result.health.verdict if result.health else "")
            # Early evaluations say little: the KL is still being warmed up, and averaged weights lag behind.
            if result.health is not None and 10 * step >= self.settings.steps:
                if result.health.collapsed and not self.alike:
                    self._answer_collapse(step)
                self.collapsed = result.health.collapsed and not self.alike
            self.log.add_held_out(step, result)
            if self.callbacks.on_evaluation is not None:
                objective, run = result.objective, self.averaged_run
                event = EvaluationEvent(**self._moment(step), health=result.health, _objective=objective, _run=run)
                self.callbacks.on_evaluation(event)
        return result

    def _answer_collapse(self, step: int) -> None:
        """Start the KL warm-up again where the recipe allows it and enough steps are left; else say what to change."""
        problem, tried = f"posterior collapse at step {step}: z does not depend on the data", len(self.kl_restarts)
        warmup = self.settings.kl_warmup * self.settings.steps
        patient = not tried or step >= self.kl_restarts[-1] + warmup
        if self.settings.remedies and tried < len(RESTARTED_WEIGHTS) and step + warmup <= self.settings.steps:
            if patient:
                self.kl_restarts += (step,)
                weight = min(self.settings.kl_weight, RESTARTED_WEIGHTS[tried])
                warn(f"{problem}. The KL warm-up starts again, up to a weight of {weight:g}")
        elif not self.collapsed:
            warn(f"{problem}. Try: {REMEDIES}")

    def _moment(self, step: int) -> dict[str, Any]:
        """What every event says."""
        return {"step": step, "steps": self.settings.steps, "_stop": self.stop_request.ask}
