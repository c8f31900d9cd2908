"""One sample, and one bound, can be followed in one sitting: how many of our functions and files run."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import vadd

PACKAGE = str(Path(vadd.__file__).parent)
FUNCTIONS, FILES = 25, 8
BOUND_FILES, BOUND_PACKAGES = 15, 5


def calls_of(action: Callable[[], object], until: CodeType | None = None) -> list[tuple[str, str]]:
    """File and function of every call, each once; up to the first call of ``until``."""
    calls: dict[tuple[str, str], None] = {}
    reached = False

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal reached
        reached = reached or frame.f_code is until
        own = frame.f_code.co_filename.startswith(PACKAGE) and not frame.f_code.co_name.startswith("<")
        if event == "call" and not reached and own:  # comprehensions are no functions
            calls[frame.f_code.co_filename.removeprefix(PACKAGE), frame.f_code.co_qualname] = None

    action()  # what is imported or measured once is not counted
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    assert reached or until is None
    return list(calls)


def test_a_sample_reaches_its_network_through_few_functions(vadd_run: Path) -> None:
    run = vadd.load(vadd_run)
    network = getattr(run.model.denoiser, "forward").__code__  # noqa: B009
    functions = calls_of(lambda: run.sample(4, steps=2), network)
    assert len(functions) <= FUNCTIONS, "\n".join(" ".join(call) for call in functions)
    files = dict.fromkeys(file for file, _ in functions)
    assert len(files) <= FILES, "\n".join(files)


def test_a_bound_stays_in_few_files_and_packages(vadd_run: Path) -> None:
    run = vadd.load(vadd_run)
    files = dict.fromkeys(file for file, _ in calls_of(lambda: run.bound(2, limit=5)))
    assert len(files) <= BOUND_FILES, "\n".join(files)
    packages = {Path(file).parts[1] for file in files if len(Path(file).parts) > 2}
    assert len(packages) <= BOUND_PACKAGES, packages
