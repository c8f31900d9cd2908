"""Where the files are that tests read; tests/fixtures/README.md tells what they are."""

import os
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[1] / "fixtures"
VERSION_0_2_0 = FIXTURES / "version-0.2.0"
CORPORA = FIXTURES / "corpora"


def official_data(name: str) -> Path:
    """A folder of the real files of others, or the test is skipped."""
    root = os.environ.get("VADD_TEST_DATA")
    if not root:
        pytest.skip("this is about the official files themselves; VADD_TEST_DATA can name a folder with them")
    place = Path(root) / name
    if not place.is_dir():
        pytest.skip(f"VADD_TEST_DATA is set, but there is no folder {place}")
    return place


def inception_network() -> Path:
    """The network of the FID, or the test is skipped."""
    network = os.environ.get("VADD_INCEPTION")
    if not network:
        pytest.skip("this is about the Inception network itself; VADD_INCEPTION can name its file")
    return Path(network)
