"""What z does, dimension by dimension: what the page "Latent" shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor

from vadd.core import TokenSampler
from vadd.errors import UserError
from vadd.evaluation.latent_paths import JUDGED, decode, encode, informative_dimensions
from vadd.evaluation.likelihood import has_latent
from vadd.run.run import Run
from vadd.studio.infill import held_out
from vadd.studio.opened import OpenRuns, alone
from vadd.studio.views import ImageView, PointView, View, card, cards, view_of

SLIDERS = 6
SPAN = 3.0
"""The sliders and the map go from -span to span; N(0, I) is hardly ever further out."""
MAP = 9
PATH = 8
POINTS = 500
"""Draws that show what one z does to a point."""


@dataclass(frozen=True)
class Dimensions:
    """Those that carry most, by the KL of the recognition model on held-out examples."""

    numbers: list[int]
    nats: list[float]
    among: int
    """So many has z, without the places of labels beside it."""


@dataclass(frozen=True)
class How:
    """How a z is shown."""

    steps: int
    temperature: float

    @property
    def token_sampler(self) -> TokenSampler:
        return TokenSampler(temperature=self.temperature)


_known: "WeakKeyDictionary[Run, Dimensions]" = WeakKeyDictionary()


def dimensions_of(run: Run) -> Dimensions:
    if run not in _known:
        with alone(run):
            numbers = informative_dimensions(run, SLIDERS)
            posterior = run.model.encode(run.data.test[:JUDGED])
        assert posterior is not None
        nats = posterior.kl_to_standard_normal().mean(0)
        _known[run] = Dimensions(numbers, [float(nats[number]) for number in numbers], len(nats))
    return _known[run]


_begun: "WeakKeyDictionary[Run, tuple[int, Tensor]]" = WeakKeyDictionary()


def point_of_example(run: Run, number: int) -> Tensor:
    """(d,). The last one is known: whoever moves a slider asks for it again and again."""
    known = _begun.get(run)
    if known is None or known[0] != number:
        with alone(run):
            known = _begun[run] = (number, encode(run, torch.from_numpy(held_out(run, number))[None])[0])
    return known[1]


def moved(centre: Sequence[float], numbers: Sequence[int], values: Sequence[float]) -> Tensor:
    """The centre with some of its dimensions set, (d,)."""
    z = torch.tensor(centre, dtype=torch.float32)
    for number, value in zip(numbers, values, strict=False):
        z[number] = value
    return z


def show_point(run: Run, z: Tensor, how: How) -> Markup:
    """What this z gives: one sample, or, where examples are points, where they fall."""
    view = view_of(run)
    if isinstance(view, PointView):
        many = z.expand(POINTS, -1)
        drawn = run.sample(POINTS, z=many, steps=how.steps, temperature=how.temperature)
        return view.show(drawn.numpy())
    return view.show(decode(run, z[None], steps=how.steps, token_sampler=how.token_sampler).numpy())


def show_path(run: Run, z: Tensor, how: How) -> Markup:
    """What the points (n, d) give, one after the other."""
    view: View = view_of(run)
    if isinstance(view, PointView):
        return Markup('<div class="cards small">{}</div>').format(
            Markup("").join(card(f"{n + 1}", show_point(run, one, how)) for n, one in enumerate(z))
        )
    tokens = decode(run, z, steps=how.steps, token_sampler=how.token_sampler).numpy()
    return view.row(tokens, len(tokens)) if isinstance(view, ImageView) else view.show(tokens)


def map_of(run: Run, centre: Sequence[float], dimensions: Dimensions, how: How) -> str:
    """A picture of the plane of the first two dimensions, the second upwards; nothing where examples are no images."""
    view = view_of(run)
    if not isinstance(view, ImageView) or len(dimensions.numbers) < 2:
        return ""
    from vadd.report.images import image_grid
    from vadd.report.trajectory import png_uri

    # Each picture stands in the middle of its part of the map.
    places = (np.arange(MAP) + 0.5) / MAP * 2 * SPAN - SPAN
    points = [moved(centre, dimensions.numbers[:2], (x, y)) for y in places[::-1] for x in places]
    tokens = decode(run, torch.stack(points), steps=how.steps, token_sampler=how.token_sampler)
    return png_uri(image_grid(view.images(tokens.numpy()), MAP))


def point_card(run: Run, z: Tensor, how: How) -> str:
    return cards([card("this z", show_point(run, z, how))])


def with_latent(runs: OpenRuns, name: str | None) -> Run:
    if name is None:
        raise UserError("choose a run")
    run = runs.get(name)
    if not has_latent(run):
        raise UserError(f"{name} has no latent: it is a model without one (MDLM)")
    return run
