"""Which tests go to which worker: those of a file to one, so that what they share is made once."""

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

TOGETHER = ("tests/studio/", "tests/attacks/")
"""Folders whose files share what takes seconds to make: a studio and a browser; runs of every kind."""
LONG = (
    "tests/training/test_hosts.py",
    "tests/test_notebooks.py",
    "tests/test_examples.py",
    "tests/studies/test_baselines.py",
    "tests/training/test_learning.py",
    "tests/training/test_faults.py",
)
"""Files that take longest. They go first, so that no worker has one of them left when the others are done."""


def together(nodeid: str) -> str:
    """The folder or file all of whose tests go to one worker."""
    file = nodeid.split("::", 1)[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def long_first(items: list[pytest.Item]) -> None:
    first = (*TOGETHER, *LONG)
    items.sort(key=lambda item: first.index(found) if (found := together(item.nodeid)) in first else len(first))


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # long_first has said what goes first

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)
