"""Samples of up to three runs side by side, from the same seed, and how they came about: what the page "Draw" shows."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import gradio as gr
import torch

from vadd.errors import UserError
from vadd.kinds.arrays import Array
from vadd.progress import Progress, named, silent
from vadd.run.run import Run
from vadd.studio.opened import OpenRuns, alone
from vadd.studio.views import card, cards, view_of
from vadd.words import plural

SIDE_BY_SIDE = 3
MOST_STEPS = 1024


class Choices(TypedDict):
    """How to draw, as the page says it; None is the recipe's."""

    steps: int
    count: int
    sampler: str | None
    grid: str | None
    latent_policy: str | None
    temperature: float
    seed: int
    label: str | None


@dataclass(frozen=True)
class Drawn:
    """Samples of one run, and the states of the first of them."""

    name: str
    tokens: Array
    states: Array
    note: str


def draw(run: Run, name: str, choices: Choices, progress: Progress = silent) -> Drawn:
    """As ``vadd sample`` draws them."""
    view = view_of(run)
    count, steps = choices["count"], choices["steps"]
    if not 1 <= count <= view.most:
        raise UserError(f"between 1 and {view.most} samples of {name} are drawn here, not {count}")
    if not 1 <= steps <= MOST_STEPS:
        raise UserError(f"between 1 and {MOST_STEPS} steps are taken here, not {steps}")
    if choices["seed"] < 0:
        raise UserError(f"a seed is 0 or more, not {choices['seed']}")
    label = choices["label"] if choices["label"] in (run.kind.labels or ()) else None
    options: dict[str, Any] = {
        **{key: choices[key] or None for key in ("sampler", "grid", "latent_policy")},
        **{key: choices[key] for key in ("steps", "seed", "temperature")},
        "label": label,
    }
    with alone(run):
        began = time.perf_counter()
        parts = list(run.stream(count, record=view.recorded(count, steps), progress=progress, **options))
        seconds = time.perf_counter() - began
    evaluations = sum(part.evaluations for part in parts)
    tokens = torch.cat([part.tokens for part in parts]).numpy()
    states = torch.cat([part.trajectory for part in parts if part.trajectory is not None], dim=1).numpy()
    of_label = "" if label is None else f"label {label} · "
    evaluated = f"{plural(evaluations, 'evaluation')} of the network"
    note = f"{of_label}{plural(steps, 'step')} · {evaluated} · {seconds:.3f} s"
    return Drawn(name, tokens, states, note)


def draw_all(runs: OpenRuns, names: Sequence[str], choices: Choices, progress: Progress = silent) -> list[Drawn]:
    if len(names) > SIDE_BY_SIDE:
        raise UserError(f"at most {SIDE_BY_SIDE} runs side by side; {len(names)} are chosen")
    return [draw(runs.get(name), name, choices, named(progress, name)) for name in names]


def title_of(run: Run, name: str) -> str:
    from vadd.report.table import model_label

    return f"{name} · {model_label(run.recipe.model)}"


def show(runs: OpenRuns, drawn: Sequence[Drawn]) -> str:
    opened = [(runs.get(one.name), one) for one in drawn]
    return cards([card(title_of(run, one.name), view_of(run).show(one.tokens), one.note) for run, one in opened])


def show_step(runs: OpenRuns, drawn: Sequence[Drawn], step: int) -> str:
    """All runs at the same step of their trajectories."""
    shown = []
    for one in drawn:
        run, last = runs.get(one.name), len(one.states) - 1
        state = one.states[min(step, last)]
        masked = int((state == run.model.mask_value).sum())
        note = f"step {min(step, last)} of {last} · {masked:,} of {state.size:,} positions masked"
        shown.append(card(title_of(run, one.name), view_of(run).show_state(one.states, min(step, last)), note))
    return cards(shown)


def write_files(runs: OpenRuns, drawn: Sequence[Drawn]) -> list[str]:
    """Pictures, animations, numbers and texts, in a folder that goes with the studio."""
    if not drawn:
        raise UserError("draw something first")
    folder = Path(tempfile.mkdtemp(prefix="files-", dir=gr.utils.get_upload_folder()))
    written = []
    for one in drawn:
        stem = folder / f"{one.name.replace('/', '-')}-{len(one.states) - 1}-steps"
        written += view_of(runs.get(one.name)).write(one.tokens, one.states, stem)
    return [str(file) for file in written]


@dataclass(frozen=True)
class Limits:
    positions: int
    count: int
    most: int


def limits_of(runs: OpenRuns, names: Sequence[str]) -> Limits:
    """What the sliders may be set to: the smallest that goes for all runs."""
    abouts = [runs.about(name) for name in names]
    if not abouts:
        return Limits(2, 1, 2)
    return Limits(
        max(2, min(MOST_STEPS, max(about.kind.positions for about in abouts))),
        min(about.view.count for about in abouts),
        min(about.view.most for about in abouts),
    )


def labels_of(runs: OpenRuns, names: Sequence[str]) -> list[str]:
    """Those that at least one of the runs can draw samples of."""
    return list(dict.fromkeys(label for name in names for label in runs.about(name).kind.labels or ()))
