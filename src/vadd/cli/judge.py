"""``vadd judge``, and the language model that scores texts in other commands."""

from collections.abc import Sequence

from vadd.cli.console import err_console, out_console
from vadd.cli.syntax_sampling import Judge, JudgeOptions
from vadd.errors import UserError
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.zero_shot import evaluate_texts, read_texts
from vadd.files import write_json
from vadd.parallel import default_device
from vadd.progress import Progress, progress_bar
from vadd.report.tables import files_table
from vadd.run.run import Run

HINT = (
    "no generative perplexity without a judge: add --judge with a causal language model, a folder of safetensors, a "
    ".gguf file or a name on the hub like gpt2-large"
)


def judge(options: Judge) -> None:
    with progress_bar() as progress:
        texts = {path: read_texts(path, options.documents, options.field, options.limit) for path in options.files}
        language = open_judge(options, (), progress)
        scored = [evaluate_texts(path.name, read, language, progress) for path, read in texts.items()]
    files_table(scored).print(out_console)
    if options.json is not None:
        write_json(options.json, [one.to_json() for one in scored])


def open_judge(options: JudgeOptions, runs: Sequence[Run], progress: Progress) -> LanguageJudge | None:
    """The judge for these runs; without one a hint, where they are all text."""
    others = [run.directory.path for run in runs if run.kind.name != "text"]
    if options.judge is None:
        if not others:
            err_console.print(HINT, soft_wrap=True)
        return None
    if others:  # before the judge is loaded, which takes long
        raise UserError(f"--judge is for runs on text; {others[0]} is not one")
    return LanguageJudge.open(options.judge, options.convention, device=default_device(), progress=progress)
