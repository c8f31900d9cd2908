"""What ``vadd eval``, ``vadd compare`` and ``vadd reproduce text`` share about language models that judge text."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from vadd.cli.common import err_console
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.evaluation.language_judge import LanguageJudge
    from vadd.progress import Progress
    from vadd.runs.run import Run

HINT = (
    "no generative perplexity without a judge: add --judge with a causal language model, a folder of safetensors, a "
    ".gguf file or a name on the hub like gpt2-large"
)


class ConventionName(StrEnum):
    corpus = "corpus"
    sedd = "sedd"


JudgeOption = Annotated[
    str | None,
    typer.Option(
        "--judge",
        help="Texts: also their generative perplexity under this causal language model, a folder, a .gguf file or a "
        "name on the hub.",
        show_default=False,
        metavar="MODEL",
    ),
]
ConventionOption = Annotated[
    ConventionName,
    typer.Option("--convention", help="Generative perplexity of all texts together, or the mean of each text's own."),
]


def open_judge(
    judge: str | None, convention: ConventionName, runs: "Sequence[Run]", progress: "Progress"
) -> "LanguageJudge | None":
    """The judge for these runs, or how to get one where they are all text and none was named."""
    if judge is None:
        if all(run.tokenizer is not None for run in runs):
            err_console.print(HINT, soft_wrap=True)
        return None
    for run in runs:  # before the judge is loaded, which takes long
        if run.tokenizer is None:
            raise UserError(f"--judge is for runs on text; {run.directory.path} is not one")
    from vadd.evaluation.language_judge import LanguageJudge
    from vadd.parallel import default_device

    return LanguageJudge.open(judge, convention.value, device=default_device(), progress=progress)
