"""Many samples in bounded memory: chunk by chunk, in one process or several, always the same ones.

A seed stands for an endless list of samples, of which ``n`` takes the first. Row r has the random numbers of its block
of 64 (:mod:`vadd.core.randomness`), so neither the chunks nor the number of processes nor ``n`` changes it.
The network's arithmetic may: floating-point sums depend on how many sequences a call holds, in the last bit. A draw by
inversion notices only if its uniform number falls into a gap of that size, some 1e-7 in float32. Temperature 0 and
samplers that order positions by how sure they are notice where two are equal to that precision, as all positions of a
transformer are while everything is masked. With chunks of equal size, as in one and several processes, the samples are
the same bit for bit.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from vadd.core import Drawing, Model, Noise, Samples, TokenSampler, step_grid
from vadd.core.randomness import BLOCK, SAMPLING, step_generator
from vadd.errors import UserError
from vadd.parallel import Processes
from vadd.progress import Progress, silent
from vadd.run.infilling import latents_that_fit
from vadd.run.options import SamplingOptions


def fitting(model: Model, defaults: SamplingOptions, given: Mapping[str, Any]) -> SamplingOptions:
    """The ``defaults`` with the options that were ``given``, with the model's own sampler of that name and a number of
    steps that it can take.
    """
    options = defaults.changed(given)
    sampler, steps, grid, name = options.sampler, options.steps, options.grid, ""
    if isinstance(sampler, str):
        name = sampler
        if sampler not in model.samplers:
            names = ", ".join(model.samplers)
            raise UserError(f"this model does not have the sampler {sampler!r}; choose from {names}")
        sampler = model.samplers[sampler]
    if given.get("grid") is not None and not sampler.uses_grid:
        raise UserError(f"the sampler {options.sampler_name} has no grid of times; leave the grid out")
    times = None if isinstance(grid, str) or not sampler.uses_grid else grid
    if given.get("steps") is None:
        steps = sampler.default_steps(model.positions, steps) if times is None else len(times) - 1
    sampler.check(model.positions, steps)
    if times is not None:
        step_grid(steps, times)  # refuses times that do not fit
    chosen = options.model_copy(update={"sampler": sampler, "steps": steps})
    chosen._sampler_name = name
    return chosen


def draw(
    model: Model,
    options: SamplingOptions,
    start: int | Tensor,
    rows: range,
    *,
    record: int = 0,
    on_step: Callable[[int], object] | None = None,
) -> Samples:
    """The samples number ``rows`` of the seed, on the CPU, with the states of those before number ``record``."""
    blocks = range(rows.start // BLOCK, -(-rows.stop // BLOCK))
    generators = [step_generator(options.seed, SAMPLING, block) for block in blocks]
    noise = Noise(generators, len(rows), first=rows.start % BLOCK)
    z = None if options.z is None else options.z[rows.start : rows.stop]
    begun = len(rows) if isinstance(start, int) else start[rows.start : rows.stop]
    # Asked of all sequences, not of these rows: a row's random numbers do not depend on its chunk.
    something_known = isinstance(start, Tensor) and bool((start != model.mask_value).any())
    fits = z is None and options.latent_policy == "fixed" and options.candidates > 1
    if fits and isinstance(begun, Tensor) and something_known:
        z = latents_that_fit(model, begun, options.candidates, noise)
    how = Drawing(
        sampler=options.sampler,
        grid=options.grid,
        latent_policy=options.latent_policy,
        z=z,
        token_sampler=TokenSampler(
            temperature=options.temperature, top_k=options.top_k, top_p=options.top_p, precision=options.precision
        ),
        record=max(0, min(record, rows.stop) - rows.start),
        on_step=on_step,
    )
    drawn = model.sample(begun, options.steps, noise, how)
    trajectory = None if drawn.trajectory is None else drawn.trajectory.cpu()
    return Samples(drawn.tokens.cpu(), drawn.evaluations, drawn.sequences, trajectory)


def stream(
    model: Model,
    options: SamplingOptions,
    start: int | Tensor,
    size: int,
    *,
    record: int = 0,
    processes: Processes | None = None,
    progress: Progress = silent,
) -> Iterator[Samples]:
    """Samples in chunks of ``size``; see :meth:`vadd.run.run.Run.stream`."""
    n = start if isinstance(start, int) else len(start)
    done, firsts = 0, range(0, n, size)

    def drawn(first: int) -> Samples:
        rows, step = range(first, min(first + size, n)), 0

        def report_step(_evaluations: int) -> None:
            # Samples are done all at once with their chunk; a part of its steps counts as a part of its samples.
            nonlocal step
            step += 1
            progress("samples", done + len(rows) * step // (options.steps + 1), n)

        return draw(model, options, start, rows, record=record, on_step=report_step)

    for part in map(drawn, firsts) if processes is None else _divided(processes, firsts, drawn, (n, model.positions)):
        done += len(part.tokens)
        progress("samples", done, n)
        yield part


def _divided(
    processes: Processes, firsts: range, drawn: Callable[[int], Samples], shape: tuple[int, int]
) -> Iterator[Samples]:
    """Each process draws its own chunks; they come out in the main one, trajectories only of those it drew itself."""
    trajectories: dict[int, Tensor | None] = {}

    def work(first: int) -> list[Tensor]:
        samples = drawn(first)
        trajectories[first] = samples.trajectory
        return [torch.tensor([samples.evaluations, samples.sequences]), samples.tokens]

    def shapes(first: int) -> list[torch.Size]:
        return [torch.Size([2]), torch.Size([min(firsts.step, shape[0] - first), shape[1]])]

    # Not strict: in all processes but the main one nothing comes out.
    for first, (counts, tokens) in zip(firsts, processes.in_order(firsts, work, shapes), strict=False):
        evaluations, sequences = counts.tolist()
        yield Samples(tokens, evaluations, sequences, trajectories.get(first))
