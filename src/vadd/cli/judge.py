"""``vadd judge``, and the options of the language model that scores texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from vadd.cli.console import err_console, out_console, progress_bar
from vadd.cli.options import JsonOption, OverwriteOption, check_there, grouped, research_option
from vadd.errors import UserError
from vadd.files import write_json

if TYPE_CHECKING:
    from vadd import Run
    from vadd.evaluation.language_judge import LanguageJudge
    from vadd.progress import Progress

HINT = (
    "no generative perplexity without a judge: add --judge with a causal language model, a folder of safetensors, a "
    ".gguf file or a name on the hub like gpt2-large"
)


@dataclass(frozen=True)
class JudgeOptions:
    """The language model that scores texts."""

    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            help="Texts: also their generative perplexity under this causal language model, a folder, a .gguf file or "
            "a name on the hub.",
            show_default=False,
            metavar="MODEL",
        ),
    ] = None
    convention: Annotated[
        Literal["corpus", "sedd"],
        research_option(
            "--convention", help="Generative perplexity of all texts together, or the mean of each text's own."
        ),
    ] = "corpus"

    def open(self, runs: "Sequence[Run]", progress: "Progress") -> "LanguageJudge | None":
        """The judge for these runs; without one a hint, where they are all text."""
        from vadd.evaluation.language_judge import LanguageJudge
        from vadd.parallel import default_device

        if self.judge is None:
            if all(run.kind.name == "text" for run in runs):
                err_console.print(HINT, soft_wrap=True)
            return None
        for run in runs:  # before the judge is loaded, which takes long
            if run.kind.name != "text":
                raise UserError(f"--judge is for runs on text; {run.directory.path} is not one")
        return LanguageJudge.open(self.judge, self.convention, device=default_device(), progress=progress)


@grouped
def judge(
    files: Annotated[
        list[Path],
        typer.Argument(help="Texts: .txt, .jsonl, .csv, or folders of .txt.", show_default=False, callback=check_there),
    ],
    *,
    documents: Annotated[
        Literal["line", "paragraph", "file"],
        typer.Option(help="What a text is in a .txt; rows of .jsonl and .csv are texts."),
    ] = "line",
    field: Annotated[str, typer.Option(help="The key or column that holds the text.")] = "text",
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many texts of each file.")] = None,
    judging: JudgeOptions,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Score texts from any source: generative perplexity, bits per character, variety.

    \b
    Examples:
      vadd judge samples.txt --judge gpt2-large
      vadd judge ours.txt theirs.jsonl --judge judge.gguf --limit 256
      vadd judge stories/ --documents file
    """
    from vadd.evaluation.texts import judge_texts, read_texts
    from vadd.report.text_tables import judged_texts_table

    with progress_bar() as progress:
        texts = {path: read_texts(path, documents, field, limit) for path in files}
        language = judging.open((), progress)
        scored = [judge_texts(path.name, read, language, progress) for path, read in texts.items()]
    judged_texts_table(scored).print(out_console)
    if json is not None:
        write_json(json, [one.to_json() for one in scored])
