"""``vadd demo``."""

from vadd.cli.reproduce import run_study
from vadd.cli.syntax import Demo
from vadd.studies.study import study_named


def demo(options: Demo) -> None:
    run_study(study_named("demo"), {"out": options.out, "setting": options.toy, "json": options.json})
