"""What a run holds on disk, read back to be compared with another one."""

from pathlib import Path

import torch

from vadd.run.checkpoint import TrainingState, read_checkpoint
from vadd.run.directory import RunDirectory


def some_state(step: int = 7) -> TrainingState:
    """A state with numbers that are easily lost: negative zero, infinity, NaN, a subnormal."""
    generator = torch.Generator().manual_seed(step)
    odd = torch.tensor([0.0, -0.0, float("inf"), float("nan"), 1e-42, 1 / 3])
    return TrainingState(
        step,
        {"a": torch.randn(3, 4, generator=generator).T, "odd": odd},
        {"a": torch.randn(4, 3, generator=generator)},
        {"step/a": torch.tensor(7.0), "exp_avg/a": torch.randn(2, generator=generator, dtype=torch.float64)},
        unlogged=(0.1, 1 / 3, 7.0),
        test_loss=2 / 3,
    )


def newest(path: Path) -> TrainingState:
    return read_checkpoint(RunDirectory(path).checkpoints()[-1])


def assert_same_state(one: TrainingState, two: TrainingState) -> None:
    """Bit for bit."""
    assert one.step == two.step
    for first, second in ((one.model, two.model), (one.ema, two.ema), (one.optimizer, two.optimizer)):
        assert first.keys() == second.keys()
        assert [name for name in first if not torch.equal(first[name], second[name])] == []


def log_of(path: Path, *, leave_out: str = "steps_per_second") -> list[dict[str, object]]:
    """The lines of metrics, without what depends on the machine."""
    records = RunDirectory(path).metrics()
    return [{key: value for key, value in record.items() if key != leave_out} for record in records]
