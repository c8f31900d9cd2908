"""Samplers in files that run without this package: ONNX and torch.export.

mine/
    sampler.onnx or .pt2    (values, levels, z) -> samples, see vadd.core.tracing
    prior.onnx or .pt2      (noise, choice) -> z, where the latent has a prior, labels or codes
    sampler.json            steps, shape, and the random numbers that a sample takes, in their order
    sample.py               for ONNX: draws the samples of a seed with onnxruntime and NumPy alone
"""

import copy
import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vadd.core import CodedLatent, GaussianLatent, LabelledLatent, Latent, Model, StandardNormal
from vadd.core.tracing import TracedPrior, TracedSampler, check_traceable
from vadd.errors import refuse_if
from vadd.files import whole_path, write_json, writing
from vadd.run.sampling import SamplingOptions

Format = Literal["onnx", "pt2"]
MOST_STEPS = 64
"""A file holds every step by itself."""
NEEDED = ("onnx", "onnxscript")


def check_sampler(model: Model, options: SamplingOptions, format: Format) -> None:
    """Refuse, before anything is written, a sampler that cannot be."""
    lacking = format == "onnx" and not all(map(find_spec, NEEDED))
    many = f"a file of a sampler holds every step by itself: at most {MOST_STEPS}, not {options.steps}"
    refuse_if(
        (lacking, "an ONNX file needs the packages onnx and onnxscript: pip install 'vadd[onnx]'"),
        (options.z is not None, "z is an input of the file; leave z out"),
    )
    check_traceable(model, options.drawing)
    refuse_if((options.steps > MOST_STEPS, many))


def trace_sampler(model: Model, options: SamplingOptions) -> torch.export.ExportedProgram:
    """(values, levels, z) -> samples, for any number of rows; see :class:`~vadd.core.tracing.TracedSampler`."""
    steps, positions, dim = options.steps, model.positions, model.latent.dim
    sampler = TracedSampler(model, steps, options.drawing)
    rows = 2  # one row would be taken for a constant
    values = torch.full((rows, steps, positions), 0.5, dtype=torch.float64)
    levels = values[:, 0] if steps > 1 else None
    z = torch.zeros(rows, steps, dim) if new_z(options) else torch.zeros(rows, dim)
    return traced(sampler, values=values, levels=levels, z=z if dim else None)


def trace_prior(model: Model) -> torch.export.ExportedProgram | None:
    """(noise, choice) -> z; None where z is the noise itself, or where there is no z."""
    latent, inner = model.latent, inner_latent(model.latent)
    if not trace_needed(model):
        return None
    noise = torch.zeros(2, inner.prior.noise_dim) if isinstance(inner, GaussianLatent) else None
    choice = None if inner is latent else torch.zeros(2, dtype=torch.int64)
    return traced(TracedPrior(latent, model.positions, model.mask_value), noise=noise, choice=choice)


def trace_needed(model: Model) -> bool:
    """Whether z is more than the noise itself."""
    latent = model.latent
    return latent.dim > 0 and not (isinstance(latent, GaussianLatent) and isinstance(latent.prior, StandardNormal))


def traced(module: nn.Module, **inputs: Tensor | None) -> torch.export.ExportedProgram:
    rows = torch.export.Dim("rows", min=1)
    shapes = {name: None if tensor is None else {0: rows} for name, tensor in inputs.items()}
    on_cpu = copy.deepcopy(module).cpu().eval().requires_grad_(False)
    with torch.no_grad(), without_messages():
        return torch.export.export(on_cpu, (), inputs, dynamic_shapes=shapes, strict=False)


def write_sampler(model: Model, options: SamplingOptions, folder: Path, format: Format, facts: dict[str, Any]) -> None:
    """Into the ``folder``; ``facts`` (shape and the like) join those of the sampler in sampler.json."""
    check_sampler(model, options, format)
    programs = {"sampler": trace_sampler(model, options), "prior": trace_prior(model)}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name, program in programs.items():
            if program is not None:
                with whole_path(folder / f"{name}.{format}") as part, without_messages():
                    write_program(program, part, "samples" if name == "sampler" else "z")
        write_json(folder / "sampler.json", {**facts, **about(model, options), "prior": programs["prior"] is not None})
        if format == "onnx":
            shutil.copy(Path(__file__).with_name("standalone.py"), folder / "sample.py")


def write_program(program: torch.export.ExportedProgram, file: Path, output: str) -> None:
    if file.suffix == ".pt2":
        torch.export.save(program, file)
        return
    torch.onnx.export(
        program,
        f=str(file),
        dynamo=True,
        verbose=False,
        external_data=False,
        output_names=[output],
        custom_translation_table=translations(),
    )


def translations() -> Any:
    """Operations that the exporter does not know, or writes down as ones that onnxruntime does not."""
    op: Any = import_module("onnxscript").opset18

    def searchsorted(sorted_sequence: Any, self: Any, out_int32: bool = False, right: bool = False, **_: Any) -> Any:
        ends, levels = op.Unsqueeze(sorted_sequence, [-2]), op.Unsqueeze(self, [-1])
        below = op.LessOrEqual(ends, levels) if right else op.Less(ends, levels)
        return op.ReduceSum(op.Cast(below, to=7), [-1], keepdims=0)

    def sort(self: Any, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
        return op.TopK(self, op.Gather(op.Shape(self), [dim]), axis=dim, largest=int(descending), sorted=1)

    def erf(self: Any) -> Any:  # for which onnxruntime has no double precision
        return op.CastLike(op.Erf(op.Cast(self, to=1)), self)

    aten = torch.ops.aten
    return {aten.searchsorted.Tensor: searchsorted, aten.sort.stable: sort, aten.erf.default: erf}


def about(model: Model, options: SamplingOptions) -> dict[str, Any]:
    """What a program must know that draws the numbers: their names, distributions and sizes in the order of the draws
    of :class:`~vadd.core.sampling.Walk`, and the cumulative shares of labels or codes.
    """
    latent, inner, positions = model.latent, inner_latent(model.latent), model.positions
    ends = latent.shares if isinstance(latent, LabelledLatent) else None
    draws: list[tuple[str, str, int]] = []
    if isinstance(latent, LabelledLatent):
        draws.append(("choice", "uniform", 1))
    draws.append(("levels", "uniform", positions))
    one_z = [("noise", "normal", inner.prior.noise_dim)] if isinstance(inner, GaussianLatent) else []
    if isinstance(latent, CodedLatent):
        ends = latent.probabilities().cpu()
        one_z.append(("choice", "uniform", 1))
    for step in range(options.steps):
        draws += one_z if step == 0 or new_z(options) else []
        draws.append(("values", "uniform", positions))
    return {
        "format": 1,
        "steps": options.steps,
        "sampler": options.sampler_name,
        "dim": latent.dim,
        "new_z": new_z(options),
        "label": latent.given if isinstance(latent, LabelledLatent) else None,
        "shares": [] if ends is None else ends.cumsum(0).tolist(),
        "draws": draws,
    }


def new_z(options: SamplingOptions) -> bool:
    """Whether each step has a z of its own; a single step needs no such distinction."""
    return options.latent_policy == "resample" and options.steps > 1


def inner_latent(latent: Latent) -> Latent:
    """The one of z, beside labels or codes."""
    return latent.inner if isinstance(latent, LabelledLatent | CodedLatent) else latent


@contextmanager
def without_messages() -> Iterator[None]:
    """Exporters talk about their own insides."""
    names = ("torch.__trace", "torch.onnx", "torch.onnx._internal.exporter._registration", "onnxscript", "onnx_ir")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
