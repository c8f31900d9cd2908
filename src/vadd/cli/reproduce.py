"""``vadd reproduce``: one command for each study."""

import typer

from vadd.cli import reproduce_images as of_images
from vadd.cli import reproduce_text as of_text
from vadd.cli import reproduce_toys as of_toys
from vadd.cli.reproduce_all import ListOption, paper_command
from vadd.cli.reproduce_baselines import baselines
from vadd.cli.reproduce_latents import latents

reproduce = typer.Typer(help="Repeat the paper's experiments and put the results beside its own.", no_args_is_help=True)


@reproduce.callback()
def options(listed: ListOption = False) -> None:
    """What every study understands."""


reproduce.command("toys")(of_toys.toys)
reproduce.command("validity")(of_toys.validity)
reproduce.command("mnist")(of_images.mnist)
reproduce.command("latents")(latents)
reproduce.command("cifar10")(of_images.cifar10)
reproduce.command("cifar10-2m")(of_images.cifar10_2m)
reproduce.command("baselines")(baselines)
reproduce.command("text")(of_text.text)
reproduce.command("lm1b")(of_text.lm1b)
reproduce.command("zero-shot")(of_text.zero_shot)
reproduce.command("speed")(of_text.speed)
reproduce.command("paper")(paper_command(lambda words: reproduce(words, standalone_mode=False)))
