"""The page: a choice of runs, and a tab for everything that can be done with them."""

from importlib import resources

import gradio as gr

from vadd.studio.compare import Comparisons, compare_page
from vadd.studio.draw_page import draw_page
from vadd.studio.infill_page import infill_page
from vadd.studio.latent_page import latent_page
from vadd.studio.opened import OpenRuns
from vadd.studio.train import train_page
from vadd.studio.trainings import Trainings

QUEUE_LENGTH = 32
AT_ONCE = 2
"""Draws that run at a time; more wait in the queue."""

INTRODUCTION = """# vadd studio
A masked diffusion model starts from nothing but masks and reveals many positions at a time. **MDLM** draws those that
are revealed together independently of each other, so with few steps they do not fit together. **VADD** draws a latent z
first, and z makes them agree. Draw with one step and look."""


def theme() -> gr.themes.Base:
    """Fonts of the system: nothing is fetched from elsewhere."""
    calm = gr.themes.Default(
        primary_hue="blue",
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "DejaVu Sans Mono", "monospace"],
    )
    # The lines of help are there to be read.
    return calm.set(
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_300",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_300",
    )


def style() -> str:
    return resources.files("vadd").joinpath("studio", "style.css").read_text()


def build_page(runs: OpenRuns, trainings: Trainings) -> gr.Blocks:
    page: gr.Blocks
    with gr.Blocks(title="vadd studio", analytics_enabled=False, fill_width=True) as page:
        gr.Markdown(INTRODUCTION)
        names = runs.names()
        chosen = gr.CheckboxGroup(
            names,
            value=names[:2],
            label="Runs",
            info="Up to three, side by side. A run that is still training is followed.",
            elem_id="runs",
        )
        with gr.Tabs(selected="draw" if names else "train"):
            with gr.Tab("Draw", id="draw"):
                draw = draw_page(runs, chosen)
            with gr.Tab("Infill", id="infill") as infill:
                infill_page(runs, infill)
            with gr.Tab("Latent", id="latent") as latent:
                latent_page(runs, latent)
            with gr.Tab("Compare", id="compare"):
                compare_page(Comparisons(runs, trainings.place), chosen)
            with gr.Tab("Train", id="train"):
                watch = train_page(runs, trainings, chosen)
        page.load(**watch)
        if names:
            page.load(**draw)
    page.queue(max_size=QUEUE_LENGTH, default_concurrency_limit=AT_ONCE)
    return page
