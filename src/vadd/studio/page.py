"""The page: a choice of runs, and a tab for each thing that can be done with them."""

from typing import Any

import gradio as gr

from vadd.studio.compare import Comparisons, compare_tab
from vadd.studio.draw import draw_tab
from vadd.studio.infill import infill_tab
from vadd.studio.latent import latent_tab
from vadd.studio.runs import OpenRuns
from vadd.studio.train import train_tab
from vadd.studio.trainings import Trainings

QUEUE_LENGTH = 32
AT_ONCE = 2
"""Requests that are worked on at a time; more wait in the queue."""

INTRODUCTION = """# vadd studio
A masked diffusion model starts from nothing but masks and reveals many positions at a time. **MDLM** draws those that
are revealed together independently of each other, so with few steps they do not fit together. **VADD** draws a latent z
first, and z makes them agree. Draw with one step and look."""


def theme() -> gr.themes.Base:
    """Fonts of the system: nothing is fetched from elsewhere."""
    fonts: dict[str, Any] = {
        "font": ["system-ui", "sans-serif"],
        "font_mono": ["ui-monospace", "DejaVu Sans Mono", "monospace"],
    }
    # Lines of help in a colour that can be read.
    names = ("block_info_text_color", "body_text_color_subdued")
    colours = {f"{name}{dark}": f"*neutral_{300 if dark else 600}" for name in names for dark in ("", "_dark")}
    return gr.themes.Default(primary_hue="blue", **fonts).set(**colours)


def build_page(runs: OpenRuns, trainings: Trainings) -> gr.Blocks:
    page: gr.Blocks
    with gr.Blocks(title="vadd studio", analytics_enabled=False, fill_width=True) as page:
        gr.Markdown(INTRODUCTION)
        names = runs.names()
        about = "For all tabs: up to three, side by side. If a run is still training, its newest checkpoint is used."
        chosen = gr.CheckboxGroup(names, value=names[:2], label="Runs", info=about, elem_id="runs")
        with gr.Tabs(selected="draw" if names else "train"):
            with gr.Tab("Draw", id="draw", elem_id="tab-draw"):
                draw_tab(page, runs, chosen)
            with gr.Tab("Infill", id="infill", elem_id="tab-infill") as infill:
                infill_tab(runs, chosen, infill)
            with gr.Tab("Latent", id="latent", elem_id="tab-latent") as latent:
                latent_tab(runs, chosen, latent)
            with gr.Tab("Compare", id="compare", elem_id="tab-compare"):
                compare_tab(Comparisons(runs, trainings.place), chosen)
            with gr.Tab("Train", id="train", elem_id="tab-train"):
                train_tab(page, runs, trainings, chosen)
    page.queue(max_size=QUEUE_LENGTH, default_concurrency_limit=AT_ONCE, api_open=False)
    return page
