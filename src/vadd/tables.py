"""The two functions that SDGym asks of a custom synthesizer, so that its benchmarks run on this package.

from sdgym import create_single_table_synthesizer
from vadd.tables import get_trained_synthesizer, sample_from_synthesizer

Vadd = create_single_table_synthesizer(
    display_name="vadd",
    get_trained_synthesizer_fn=get_trained_synthesizer,
    sample_from_synthesizer_fn=sample_from_synthesizer,
)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from vadd.errors import UserError
from vadd.run.run import Run
from vadd.training.train import train

NAMES = ("id", "email", "phone_number", "ssn", "name", "address", "unknown")
"""Types of SDV's metadata whose values name a row, or a person, and say nothing else: they are not learnt."""


@dataclass(frozen=True)
class Synthesizer:
    """A trained run, and what the table had besides."""

    run: Run
    columns: tuple[str, ...]
    """In their order."""
    named: dict[str, Any]
    """Columns that were not learnt, and the type of their cells."""


def get_trained_synthesizer(data: Any, metadata: Any = None, **settings: Any) -> Synthesizer:
    """Train on the DataFrame ``data``. Of SDV's ``metadata``, an object or a dictionary, the types of the columns and
    the primary key are read: names of rows are left out. ``settings`` are those of :func:`vadd.train`.
    """
    if not hasattr(data, "columns") or len(data) == 0:
        raise UserError("a synthesizer learns from a DataFrame with at least one row")
    described = columns_of(metadata)
    unknown = [name for name in described if name not in data.columns]
    if unknown:
        raise UserError(f"the metadata describe the column {unknown[0]!r}, which the table does not have")
    left_out = [name for name, kind in described.items() if kind in NAMES]
    learnt = data.drop(columns=left_out)
    if learnt.shape[1] == 0:
        raise UserError("every column of the table names its row: nothing is left to learn")
    with TemporaryDirectory() as place:
        run = train(learnt, place, overwrite=True, **{"progress": False, **settings})
    return Synthesizer(run, tuple(data.columns), {name: data[name].dtype for name in left_out})


def sample_from_synthesizer(synthesizer: Synthesizer, num_samples: int, **options: Any) -> Any:
    """``num_samples`` rows as a DataFrame with the columns of the training data; columns that name a row are numbered.
    ``options`` are those of :meth:`vadd.Run.sample_frame`.
    """
    frame = synthesizer.run.sample_frame(num_samples, **{"steps": 1, **options})
    for name, kind in synthesizer.named.items():
        numbers = range(num_samples)
        frame[name] = list(numbers) if kind.kind in "iuf" else [f"{name}-{number}" for number in numbers]
    return frame[list(synthesizer.columns)]


def columns_of(metadata: Any) -> dict[str, str]:
    """The type of each column in SDV's metadata, of one table or of several of which there is one."""
    content = metadata.to_dict() if hasattr(metadata, "to_dict") else metadata or {}
    if not isinstance(content, Mapping):
        raise UserError(f"metadata are a dictionary, or an object of SDV, not {type(metadata).__name__}")
    tables = content.get("tables")
    if tables:
        if len(tables) > 1:
            raise UserError(f"the metadata describe {len(tables)} tables; a synthesizer here learns one")
        (content,) = tables.values()
    described = {str(name): str(about.get("sdtype")) for name, about in content.get("columns", {}).items()}
    key = content.get("primary_key")
    return described | ({str(key): "id"} if isinstance(key, str) else {})
