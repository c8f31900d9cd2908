"""``vadd judge``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from vadd.cli.console import out_console, progress_bar
from vadd.cli.judging import JudgeOptions
from vadd.cli.options import JsonOption, OverwriteOption, check_json, check_there, grouped


class DocumentKind(StrEnum):
    line = "line"
    paragraph = "paragraph"
    file = "file"


@grouped
def judge(
    files: Annotated[
        list[Path], typer.Argument(help="Texts: .txt, .jsonl, .csv, or folders of .txt.", show_default=False)
    ],
    *,
    documents: Annotated[
        DocumentKind, typer.Option(help="What a text is in a .txt; rows of .jsonl and .csv are texts.")
    ] = DocumentKind.line,
    field: Annotated[str, typer.Option(help="The key or column that holds the text.")] = "text",
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many texts of each file.")] = None,
    judging: JudgeOptions,
    json: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Judge texts that exist, whoever wrote them: generative perplexity, bits per character, variety.

    \b
    Examples:
      vadd judge samples.txt --judge gpt2-large
      vadd judge ours.txt theirs.jsonl --judge judge.gguf --limit 256
      vadd judge stories/ --documents file
    """
    check_json(json, overwrite)
    check_there(*files)
    from vadd.evaluation.texts import judge_texts, read_texts
    from vadd.files import write_json
    from vadd.report.text_tables import judged_texts_table

    with progress_bar() as progress:
        texts = {path: read_texts(path, documents.value, field, limit) for path in files}
        language = judging.open((), progress)
        found = [judge_texts(path.name, read, language, progress) for path, read in texts.items()]
    judged_texts_table(found).print(out_console)
    if json is not None:
        write_json(json, [one.to_json() for one in found])
