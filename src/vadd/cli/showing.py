"""Numbers for people and for programs, where neither torch nor matplotlib should be waited for."""

from collections.abc import Sequence

from vadd.cli.common import out_console


def print_columns(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), indent: str = "") -> None:
    """Aligned and never broken, so that lines can be searched and piped; the columns ``right`` end evenly."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:{'>' if n in right else '<'}{widths[n]}}" for n, cell in enumerate(row)]
        out_console.out(indent + "  ".join(cells).rstrip())


def duration(seconds: float) -> str:
    """In two units at most: 42 s, 17 min, 3 h 05 min, 12 d 4 h."""
    minutes = round(seconds / 60)
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest:02} min" if hours < 48 else f"{hours // 24:,} d {hours % 24} h"
