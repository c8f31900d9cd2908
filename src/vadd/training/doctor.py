"""Whether this installation computes as it should, in two minutes: devices, precision, torch.compile, processes.

The numbers of the CPU are the measure: all devices must come to them. Of several processes each looks at its own
device, and all must be able to talk to each other.
"""

import os
import platform
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from vadd.parallel import Processes, accelerator_device, check_half_precision, chosen_device, process_count
from vadd.recipe import Recipe, build_dataset, load_recipe
from vadd.run.directory import RunDirectory
from vadd.training.loop import Trainer
from vadd.version import __version__
from vadd.words import one_line, size_in_memory

NETWORKS: dict[str, dict[str, object]] = {
    "perceptron": {"kind": "mlp", "width": 64},
    "transformer": {"kind": "transformer", "width": 64, "blocks": 2, "heads": 4, "dropout": 0},
}
STEPS = 5
SINGLE, HALF = 0.01, 0.1
"""How far a loss may be from the CPU's, in nats per position: rounding differs, a wrong kernel differs by more."""
SIZE = 2048
"""Of the matrices whose product is timed; on a CPU a quarter of it."""
LINK_BYTES = 1 << 24
VERSIONS = f"vadd {__version__}, torch {torch.__version__}"


@dataclass(frozen=True)
class Finding:
    what: str
    ok: bool
    said: str


def examine(device: str | None = None, shared: Path | None = None) -> Iterator[Finding]:
    """One finding after the other. ``device`` is the only one to look at; ``shared`` a directory that all processes are
    said to see.
    """
    yield Finding("versions", True, f"{VERSIONS}, Python {platform.python_version()}")
    devices = [chosen_device(device)] if device is not None else found_devices()
    recipes = {name: _recipe(network) for name, network in NETWORKS.items()}
    expected = {name: _losses(recipe, torch.device("cpu")) for name, recipe in recipes.items()}
    for place in devices:
        yield _tried(str(place), lambda place=place: described(place))  # type: ignore[misc]
        for dtype in (torch.float32, torch.bfloat16):
            yield _tried(f"{place}: matrix product, {_name(dtype)}", lambda p=place, d=dtype: _product(p, d))  # type: ignore[misc]
        for name, recipe in recipes.items():
            if place.type != "cpu":
                yield _compared(f"{place}: training, {name}", recipe, place, expected[name], SINGLE)
            half = recipe.with_overrides(["training.precision=bfloat16"])
            yield _compared(f"{place}: training, {name}, bfloat16", half, place, expected[name], HALF)
        yield _tried(f"{place}: torch.compile", lambda place=place: _compiled(place))  # type: ignore[misc]
    if process_count() > 1:
        yield from between_processes(shared)
    else:
        said = "one; start it with torchrun to test how several talk to each other"
        yield Finding("processes", True, said)


def found_devices() -> list[torch.device]:
    """The CPU and all accelerators; of several processes each has its own."""
    accelerator = accelerator_device()
    if accelerator.type == "cpu":
        return [accelerator]
    if process_count() > 1:
        return [torch.device("cpu"), torch.device(accelerator.type, int(os.environ.get("LOCAL_RANK", "0")))]
    numbers = range(torch.accelerator.device_count())
    return [torch.device("cpu"), *(torch.device(accelerator.type, number) for number in numbers)]


def described(device: torch.device) -> str:
    if device.type == "cpu":
        return f"{torch.get_num_threads()} threads of {os.cpu_count()} processors"
    if device.type != "cuda":
        return "found"
    about = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    return f"{about.name}, {size_in_memory(free)} of {size_in_memory(total)} free"


def between_processes(shared: Path | None = None) -> Iterator[Finding]:
    processes = Processes()
    numbers = torch.full((4,), float(processes.index + 1), device=processes.device)
    whole = processes.count * (processes.count + 1) / 2
    found = float(processes.sum(numbers)[0])
    backend, hosts = dist.get_backend(), _gathered(platform.node(), processes)
    said = f"{processes.count} on {len(set(hosts))} hosts over {backend}: the sum is {found:g}, expected {whole:g}"
    yield Finding("processes", found == whole, said)
    versions = set(_gathered(VERSIONS, processes))
    yield Finding("processes: versions", len(versions) == 1, "the same" if len(versions) == 1 else "; ".join(versions))
    yield _tried("processes: link", lambda: _link(processes))
    if shared is not None:
        yield _shared_directory(shared, processes)


def _gathered(word: str, processes: Processes) -> list[str]:
    words: list[str] = [""] * processes.count
    dist.all_gather_object(words, word)
    return words


def _link(processes: Processes) -> str:
    numbers = torch.ones(LINK_BYTES // 4, device=processes.device)
    processes.sum(numbers)
    began, rounds = time.perf_counter(), 3
    for _ in range(rounds):
        numbers = processes.sum(numbers) / processes.count
    assert float(numbers[0]) == 1
    seconds = (time.perf_counter() - began) / rounds
    return f"a sum of {size_in_memory(LINK_BYTES)} takes {1000 * seconds:.1f} ms, {LINK_BYTES / seconds / 1e9:.2f} GB/s"


def _shared_directory(shared: Path, processes: Processes) -> Finding:
    """The main process writes a file there, and all others must find it."""
    (name,) = set(_gathered(f"vadd-{uuid.uuid4().hex}" if processes.is_main else "", processes)) - {""}
    if processes.is_main:
        shared.mkdir(parents=True, exist_ok=True)
        (shared / name).touch()
    dist.barrier()
    seen = _gathered("" if (shared / name).exists() else platform.node(), processes)
    if processes.is_main:
        (shared / name).unlink()
    missing = sorted(set(seen) - {""})
    said = f"{shared} is seen by all" if not missing else f"{shared} is not shared: {', '.join(missing)} see another"
    return Finding("processes: shared directory", not missing, said)


def _tried(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, True, look())
    except Exception as error:  # whatever a driver or a compiler says
        return Finding(what, False, one_line(f"{type(error).__name__}: {error}"))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _product(device: torch.device, dtype: torch.dtype) -> str:
    if dtype == torch.bfloat16:
        check_half_precision(device)
    size = SIZE // 4 if device.type == "cpu" else SIZE
    a = torch.full((size, size), 1 / size, dtype=dtype, device=device)
    assert float((a @ a).sum()) == size  # exact: all terms are powers of two
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < 1:
        for _ in range(5):
            b = a @ a
        float(b[0, 0])  # the device must have done it
        count += 5
    return f"{2 * size**3 * count / (time.perf_counter() - began) / 1e9:,.0f} GFLOP/s"


def _compiled(device: torch.device) -> str:
    network = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)).to(device)
    x = torch.ones(16, 64, device=device)
    plain, began = network(x).detach(), time.perf_counter()
    difference = float((torch.compile(network)(x).detach() - plain).abs().max())
    if difference > 1e-3:
        raise RuntimeError(f"a compiled network differs by {difference:.2g} from itself")
    return f"works, after {time.perf_counter() - began:.0f} s"


def _recipe(network: Mapping[str, object]) -> Recipe:
    changes = ("data.vocab_size=16", "data.train_size=512", "data.test_size=64", "training.batch=64")
    chosen = [f"network.{key}={value}" for key, value in network.items()]
    return load_recipe("checkerboard").with_overrides(["model=mdlm", *chosen, *changes])


def _losses(recipe: Recipe, device: torch.device) -> list[float]:
    """Of the first steps of a training."""
    with tempfile.TemporaryDirectory() as place:
        directory = RunDirectory(Path(place) / "run")
        directory.create(recipe)
        trainer = Trainer(recipe, directory, build_dataset(recipe), device=device)
        return [float(trainer.step(step).loss.detach()) for step in range(STEPS)]


def _compared(what: str, recipe: Recipe, device: torch.device, expected: list[float], allowed: float) -> Finding:
    worst = 0.0

    def look() -> str:
        nonlocal worst
        worst = max(abs(one - other) for one, other in zip(_losses(recipe, device), expected, strict=True))
        return f"losses of {STEPS} steps differ from the CPU's by {worst:.2g} nats at most"

    found = _tried(what, look)
    return replace(found, ok=found.ok and worst <= allowed)
