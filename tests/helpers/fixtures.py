"""Where the committed files are that tests read; tests/fixtures/README.md tells where they come from."""

from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures"
VERSION_0_1_0 = FIXTURES / "version-0.1.0"
