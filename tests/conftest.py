"""What the tests of the upper floors share: tiny recipes, tiny trained runs, and the command line as a function."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

# Some virtual machines announce AMX and then refuse its instructions: half precision would end the tests by a signal.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import numpy as np
import pytest
import torch
from xdist.remote import Producer  # type: ignore[import-untyped]

from tests.helpers.commands import Command, Finished
from tests.helpers.files import do_not_wait_for_the_disk
from tests.helpers.model_runs import ModelRuns
from tests.helpers.scheduling import ByFile, long_first
from tests.helpers.tiny import TINY_ARRAY, tiny_recipe, train_in
from vadd.cli import main
from vadd.recipe import recipe_for

do_not_wait_for_the_disk()
# Shells start what runs in the background with Ctrl-C ignored; the children of tests would ignore it too.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What was imported stays: a garbage collection need not look through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    long_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    return ByFile(config, log)


def of_the_session(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that is the same for all workers."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def data_in_a_temporary_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing that tests fetch or cache goes to the user's own data directory. All workers share it, with the
    classifiers that evaluations train.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VADD_DATA", str(of_the_session(tmp_path_factory, "data")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """Networks this small are faster on one thread, and the machine may be shared."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def vadd_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 30 steps on a checkerboard of 8 x 8 values. Tests read it; whoever damages takes a copy."""
    path = tmp_path_factory.mktemp("runs") / "vadd"
    assert train_in(path, tiny_recipe()).finished
    return path


@pytest.fixture(scope="session")
def mdlm_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "mdlm"
    assert train_in(path, tiny_recipe("model=mdlm")).finished
    return path


@pytest.fixture(scope="session")
def codes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An .npy of 300 examples of shape (2, 3): every row is 0 1 2, 1 2 3 or 2 3 0, the same twice."""
    first = np.random.default_rng(0).integers(0, 3, 300)
    row = (first[:, None] + np.arange(3)) % 4
    path = tmp_path_factory.mktemp("data") / "codes.npy"
    np.save(path, np.stack([row, row], axis=1))
    return path


@pytest.fixture(scope="session")
def array_run(tmp_path_factory: pytest.TempPathFactory, codes_file: Path) -> Path:
    """A finished run of 30 steps on examples of 6 values, whose distribution is not known."""
    path = tmp_path_factory.mktemp("runs") / "codes"
    assert train_in(path, recipe_for(codes_file).with_overrides(TINY_ARRAY)).finished
    return path


@pytest.fixture(scope="session")
def model_runs(tmp_path_factory: pytest.TempPathFactory) -> ModelRuns:
    """``model_runs["sedd"]``: one run of every model, the same for all workers of a session."""
    return ModelRuns(of_the_session(tmp_path_factory, "model-runs"))


@pytest.fixture
def vadd_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """``vadd_command("eval", run)`` does what ``vadd eval RUN`` does, in this process."""

    def run(*arguments: object) -> Finished:
        monkeypatch.setattr(sys, "argv", ["vadd", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Finished(int(ended.value.code or 0), said.out, said.err)

    return run
