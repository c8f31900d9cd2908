"""The tests themselves: one module can be moved or deleted without breaking another."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent


def imported(path: Path) -> set[str]:
    """The names from tests that a file imports anywhere; relative ones begin with a dot."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] in ("tests", "")}


def test_what_tests_share_is_in_the_helpers() -> None:
    names = {str(path.relative_to(TESTS)): imported(path) for path in sorted(TESTS.rglob("*.py"))}
    assert "tests.helpers.exact.seeded" in names["core/test_objective.py"]
    shared = ("tests.helpers.", "tests.accelerator.pretend.", "tests.accelerator.cases.")
    others = {path: [name for name in found if not name.startswith(shared)] for path, found in names.items()}
    assert {path: found for path, found in others.items() if found} == {}
