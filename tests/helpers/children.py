"""Trainings and samplings in processes of their own: to be killed, to be measured, or to work together.

The children are forked from a server that has imported everything and run nothing, so each starts in an instant.
"""

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# What trainings, samplings and studies import when they need it: here, once for all children.
import accelerate  # noqa: F401
import sklearn.datasets
import sklearn.decomposition  # noqa: F401
import torch
import torch._dynamo
import torch.distributed as dist
import torch.distributed.fsdp
import torch.utils.tensorboard

import vadd.report.samples
import vadd.report.trajectory  # with matplotlib
import vadd.studies.engine  # noqa: F401
from tests.helpers.files import do_not_wait_for_the_disk
from tests.helpers.tiny import train_or_resume
from vadd.core import Objective, Samples
from vadd.kinds import kind_of
from vadd.parallel import leave
from vadd.recipe import Recipe, build_model
from vadd.run import checkpoint
from vadd.run import run as memory
from vadd.run.directory import RunDirectory
from vadd.run.run import Run
from vadd.training.loop import Trainer

do_not_wait_for_the_disk()
# The server starts in the working directory of the first test that needs it, and has to find this module from there.
root = str(Path(__file__).parents[2])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])


def reporting_training(path: Path, recipe: Recipe, steps: Connection) -> None:
    """Tells the number of every step before taking it."""
    undisturbed = Trainer.step

    def reported(self: Trainer, step: int) -> Objective:
        steps.send(step)
        return undisturbed(self, step)

    Trainer.step = reported  # type: ignore[method-assign]
    train_or_resume(path, recipe)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_training(path: Path, recipe: Recipe, place: str, call: int, after: bool) -> None:
    """Dies before, or right after, the ``call``-th use of a function that writing checkpoints uses, counted from 1."""
    owner: Any = {"rename": Path, "_keep_only": checkpoint.Archive}.get(place, checkpoint)
    undisturbed: Callable[..., Any] = getattr(owner, place)
    calls = 0

    def disturbed(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            die()
        result = undisturbed(*arguments, **named)
        if calls == call:
            die()
        return result

    setattr(owner, place, disturbed)
    train_or_resume(path, recipe)


def writing_samples(recipe: Recipe, out: Path, n: int, undrawn: int, answer: Connection) -> None:
    """``n`` digits and, into the same file, some that cost nothing to draw; tells the peak memory in bytes."""
    torch.set_num_threads(1)
    format = kind_of((8, 8, 1), 2)
    run = Run(RunDirectory("nowhere"), build_model(recipe, format).eval().requires_grad_(False), recipe, format)
    write_samples(run, n, out)

    def zeros(model: object, options: object, start: object, rows: range, **_: object) -> Samples:
        return Samples(torch.zeros(len(rows), 64, dtype=torch.int64), 1, len(rows))

    if undrawn:
        setattr(memory, "draw", zeros)  # noqa: B010
        write_samples(run, undrawn, out)
    answer.send(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def write_samples(run: Run, n: int, out: Path) -> None:
    from vadd.kinds.files import npy_file

    with npy_file(out, (n, run.model.positions)) as write:
        for part in run.stream(n):
            write(part.tokens.numpy())


def sampling_command(rows: int, *arguments: object) -> None:
    """``vadd sample`` in chunks of ``rows``."""
    from vadd.cli import main  # here, where it can see which of the processes it is in

    torch.set_num_threads(1)
    memory.CPU_ROWS = rows
    sys.argv = ["vadd", "sample", *map(str, arguments)]
    with suppress(SystemExit):
        main()


def member(work: Callable[..., None], arguments: Sequence[Any], rank: int, processes: int, meeting_point: str) -> None:
    """One of several processes that do ``work`` together; they meet in a file and talk over the loopback interface."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "GLOO_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }
    if processes == 1:
        work(*arguments)
        return
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=processes)
    work(*arguments)
    leave()


def together(processes: int, work: Callable[..., None], *arguments: Any, seconds: float = 600) -> None:
    """Do ``work`` in ``processes`` processes that train as one."""
    with tempfile.TemporaryDirectory() as place:
        members = [
            CONTEXT.Process(target=member, args=(work, arguments, rank, processes, f"{place}/meeting"))
            for rank in range(processes)
        ]
        for one in members:
            one.start()
        deadline = time.monotonic() + seconds
        while any(one.is_alive() for one in members) and not any(one.exitcode for one in members):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        for one in members:  # where one has failed, the others would wait for it
            one.kill()
            one.join()
        assert [one.exitcode for one in members] == [0] * processes


def command(
    arguments: Sequence[object], said: Path, limits: Mapping[int, int], environment: Mapping[str, str] | None = None
) -> None:
    """``vadd`` under limits of :mod:`resource`; what it prints goes into the file ``said``."""
    os.environ |= environment or {}
    from vadd.cli import main  # as above

    torch.set_num_threads(1)
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, resource.RLIM_INFINITY))
    descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.argv = ["vadd", *map(str, arguments)]
    main()
