"""What moves under the hand: answered at once, beside Gradio's queue, behind the same gate."""

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from vadd.studio.latent import SLIDERS, How, dimensions_of, moved, point_card, point_of_example, with_latent
from vadd.studio.opened import OpenRuns
from vadd.studio.problems import problem

MOST_STEPS = 32


class Place(BaseModel, allow_inf_nan=False):
    """Where the sliders stand, and the example that says the other dimensions of z."""

    run: str
    example: int
    steps: Annotated[int, Field(ge=1, le=MOST_STEPS)]
    temperature: Annotated[float, Field(ge=0, le=10)]
    values: Annotated[list[float], Field(max_length=SLIDERS)]


def live_routes(runs: OpenRuns) -> APIRouter:
    router = APIRouter()

    @router.post("/live/latent")
    def latent(place: Place) -> HTMLResponse:
        try:
            run = with_latent(runs, place.run)
            z = moved(point_of_example(run, place.example).tolist(), dimensions_of(run).numbers, place.values)
            return HTMLResponse(point_card(run, z, How(place.steps, place.temperature)))
        except Exception as error:
            return HTMLResponse(problem(error), 400)

    return router
