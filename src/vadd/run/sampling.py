"""Many samples in bounded memory: chunk by chunk, in one process or several, always the same ones.

A seed stands for an endless list of samples, of which ``n`` takes the first. Row r is given random numbers by its block
of 64 (:mod:`vadd.core.noise`), so neither the chunks nor the number of processes nor ``n`` changes what it is given.
The network's arithmetic may: floating-point sums depend on how many sequences a call holds, in the last bit. A draw by
inversion notices only if its uniform number falls into a gap of that size, some 1e-7 in float32. Temperature 0 and
samplers that order positions by how sure they are notice where two are equal to that precision, as all positions of a
transformer are while everything is masked. With chunks of equal size, as in one and several processes, the samples are
the same bit for bit.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from vadd.core import MaskedDiffusion, Noise, Samples, sample
from vadd.core.noise import BLOCK
from vadd.core.randomness import SAMPLING, step_generator
from vadd.core.sampling import given_latents
from vadd.errors import UserError
from vadd.parallel import Processes
from vadd.progress import Progress, silent
from vadd.run.infilling import latents_that_fit
from vadd.run.options import SamplingSettings


def noise_for(seed: int, rows: range) -> Noise:
    """The random numbers of the samples number ``rows`` of a seed."""
    blocks = range(rows.start // BLOCK, -(-rows.stop // BLOCK))
    generators = [step_generator(seed, SAMPLING, block) for block in blocks]
    return Noise(generators, len(rows), first=rows.start % BLOCK)


def check_start(model: MaskedDiffusion, settings: SamplingSettings, start: int | Tensor) -> int:
    """How many samples there will be; refuses what cannot be drawn before anything is."""
    n = start if isinstance(start, int) else len(start)
    if n < 1:
        raise UserError(f"the number of samples must be at least 1, not {n}")
    if isinstance(settings.latent, Tensor):
        given_latents(model, settings.latent, n)
    return n


def draw(
    model: MaskedDiffusion,
    settings: SamplingSettings,
    start: int | Tensor,
    rows: range,
    *,
    record: int = 0,
    on_step: Callable[[int], object] = lambda evaluations: None,
) -> Samples:
    """The samples number ``rows`` of the seed, on the CPU, with the states of those before number ``record``."""
    noise = noise_for(settings.seed, rows)
    latent = settings.latent[rows.start : rows.stop] if isinstance(settings.latent, Tensor) else settings.latent
    begun = len(rows) if isinstance(start, int) else start[rows.start : rows.stop]
    # Asked of all sequences, not of these rows: what a row is given does not depend on its chunk.
    something_known = isinstance(start, Tensor) and bool((start != model.mask_value).any())
    if isinstance(begun, Tensor) and something_known and latent == "fixed" and settings.candidates > 1:
        latent = latents_that_fit(model, begun, settings.candidates, noise)
    drawn = sample(
        model,
        begun,
        settings.steps,
        noise,
        sampler=settings.sampler,
        grid=settings.grid,
        latent=latent,
        token_sampler=settings.token_sampler,
        record=max(0, min(record, rows.stop) - rows.start),
        on_step=on_step,
    )
    trajectory = None if drawn.trajectory is None else drawn.trajectory.cpu()
    return Samples(drawn.tokens.cpu(), drawn.evaluations, drawn.sequences, trajectory)


def stream(
    model: MaskedDiffusion,
    settings: SamplingSettings,
    start: int | Tensor,
    size: int,
    *,
    record: int = 0,
    processes: Processes | None = None,
    progress: Progress = silent,
) -> Iterator[Samples]:
    """Samples in chunks of ``size``; see :meth:`vadd.run.run.Run.stream`."""
    n = start if isinstance(start, int) else len(start)
    done = 0

    def rows_from(first: int) -> range:
        return range(first, min(first + size, n))

    def drawn(first: int) -> Samples:
        rows, step = rows_from(first), 0

        def report_step(_evaluations: int) -> None:
            # Samples are done all at once with their chunk; a part of its steps counts as a part of its samples.
            nonlocal step
            step += 1
            progress("samples", done + len(rows) * step // (settings.steps + 1), n)

        return draw(model, settings, start, rows, record=record, on_step=report_step)

    firsts = range(0, n, size)
    for part in map(drawn, firsts) if processes is None else _divided(processes, firsts, drawn, model, rows_from):
        done += len(part.tokens)
        progress("samples", done, n)
        yield part


def _divided(
    processes: Processes,
    firsts: range,
    drawn: Callable[[int], Samples],
    model: MaskedDiffusion,
    rows_from: Callable[[int], range],
) -> Iterator[Samples]:
    """Each process draws its own chunks; they come out in the main one, trajectories only of those it drew itself."""
    mine: dict[int, Tensor | None] = {}

    def work(first: int) -> list[Tensor]:
        samples = drawn(first)
        mine[first] = samples.trajectory
        return [torch.tensor([samples.evaluations, samples.sequences]), samples.tokens]

    def shapes(first: int) -> list[torch.Size]:
        return [torch.Size([2]), torch.Size([len(rows_from(first)), model.positions])]

    # Not strict: in all processes but the main one nothing comes out.
    for first, (counts, tokens) in zip(firsts, processes.in_order(firsts, work, shapes), strict=False):
        evaluations, sequences = counts.tolist()
        yield Samples(tokens, evaluations, sequences, mine.get(first))
