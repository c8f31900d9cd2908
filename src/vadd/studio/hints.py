"""The line of help of what has none of its own: buttons, pictures to paint on, files."""

import gradio as gr
from markupsafe import Markup


def hint(text: str) -> None:
    gr.HTML(str(Markup("<p>{}</p>").format(text)), elem_classes="hint", padding=False)
