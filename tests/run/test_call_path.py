"""One sample can be followed in one sitting: how many of our functions and files run before the network is called."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import vadd

PACKAGE = str(Path(vadd.__file__).parent)
FUNCTIONS, FILES = 34, 13


def test_a_sample_reaches_its_network_through_few_functions(vadd_run: Path) -> None:
    run = vadd.load(vadd_run)
    run.sample(1, steps=2)  # what is imported or measured once is not counted
    calls: list[tuple[str, str]] = []
    network = getattr(run.model.denoiser, "forward").__code__  # noqa: B009
    reached = False

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal reached
        reached = reached or frame.f_code is network
        own = frame.f_code.co_filename.startswith(PACKAGE) and not frame.f_code.co_name.startswith("<")
        if event == "call" and not reached and own:  # comprehensions are no functions
            calls.append((frame.f_code.co_filename.removeprefix(PACKAGE), frame.f_code.co_qualname))

    sys.setprofile(count)
    try:
        run.sample(1, steps=2)
    finally:
        sys.setprofile(None)
    assert reached
    functions = list(dict.fromkeys(calls))
    assert len(functions) <= FUNCTIONS, "\n".join(" ".join(call) for call in functions)
    files = dict.fromkeys(file for file, _ in functions)
    assert len(files) <= FILES, "\n".join(files)
