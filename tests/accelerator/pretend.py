"""A device that behaves like a GPU, on a machine without one.

A :class:`PretendTensor` says that it lives on ``pretend:0`` and holds a tensor of the CPU. In :func:`pretend_device`
every operation passes through :class:`Pretend`, which computes it on the CPU and refuses what CUDA refuses: tensors of
two devices, generators of another device, different dtypes where values are written by index. It counts what costs
time on a GPU: reads by the host, which wait for the device, with the line that asked; uploads; and bytes, now and at
most. With a limit of memory it raises :class:`torch.OutOfMemoryError`; on request it has no float64, as Apple's have.
"""

import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

import vadd
from vadd.core import host

NAME = "pretend"
aten = torch.ops.aten
SOURCES = str(Path(vadd.__file__).parent)

WAITING = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.unique_dim.default,
    aten.unique_consecutive.default,
    aten.bincount.default,
    aten.repeat_interleave.Tensor,
    aten.equal.default,
    aten.is_nonzero.default,
}
"""The host needs their answer, or at least its size."""
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
WRITING = {
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
    aten.index_copy.default,
    aten.index_copy_.default,
    aten.index_add.default,
    aten.index_add_.default,
    aten.scatter.src,
    aten.scatter_.src,
    aten.scatter_add.default,
    aten.scatter_add_.default,
    aten.masked_scatter.default,
    aten.masked_scatter_.default,
}
"""Their first argument and the values written have one dtype."""
COPYING = {aten._to_copy.default, aten.copy_.default, aten.copy.default}


class PretendTensor(Tensor):
    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "PretendTensor":
        made = Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            device=torch.device(NAME, 0), requires_grad=False,
        )  # fmt: skip
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise RuntimeError(f"{func} on the pretend device, outside of `with pretend_device()`")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) not in memo:
            copied = self.detach().clone()
            is_parameter = isinstance(self, torch.nn.Parameter)
            memo[id(self)] = torch.nn.Parameter(copied, self.requires_grad) if is_parameter else copied
        return cast(Tensor, memo[id(self)])

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"PretendTensor({tuple(self.shape)}, {self.dtype})"


class Pretend(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The device while it is in use."""

    def __init__(self, limit: int | None = None, *, float64: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.limit, self.float64 = limit, float64
        self.live = self.peak = 0
        self._storages: dict[int, int] = {}
        """How many tensors hold each piece of memory."""
        self._references: dict[int, weakref.ref[Tensor]] = {}
        self.reset()

    def reset(self) -> None:
        """Count anew; what is held stays held."""
        self.reads: Counter[str] = Counter()
        self.uploads: Counter[str] = Counter()
        self.peak = self.live

    @property
    def read_count(self) -> int:
        return self.reads.total()

    @property
    def upload_count(self) -> int:
        return self.uploads.total()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_device: list[Tensor] = [tensor for tensor in tensors if isinstance(tensor, PretendTensor)]
        target = kwargs.get("device")
        if not on_device and (target is None or torch.device(target).type != NAME):
            return func(*args, **kwargs)
        if func in COPYING:
            return self._copy(func, args, kwargs)
        self._check(func, tensors, on_device, args, kwargs)
        if func in WAITING or (func in INDEXING and any(_is_mask(index) for index in args[1])):
            self.reads[asking_line()] += 1
        if target is not None:
            if torch.device(target).type == NAME:
                kwargs["device"] = torch.device("cpu")
            elif func is not aten._pin_memory.default:
                raise RuntimeError(f"{func} reads a tensor of {NAME} and makes one of {target}")
        kwargs.pop("pin_memory", None)
        return self._compute(func, args, kwargs)

    def _compute(self, func: Any, args: Any, kwargs: Any) -> Any:
        known: dict[int, Tensor] = {}

        def unwrapped(leaf: Any) -> Any:
            return leaf.held if isinstance(leaf, PretendTensor) else leaf

        result = func(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs))

        def wrapped(leaf: Any) -> Any:
            if isinstance(leaf, Tensor):
                known.setdefault(id(leaf), self.put(leaf))
                return known[id(leaf)]
            return leaf

        original = kwargs if "device" not in kwargs else {**kwargs, "device": torch.device(NAME, 0)}
        answer = tree_map(wrapped, result)
        return return_and_correct_aliasing(func, args, original, answer)  # type: ignore[no-untyped-call]

    def put(self, held: Tensor) -> PretendTensor:
        """A tensor of the CPU that counts as one of the device."""
        if held.dtype == torch.float64 and not self.float64:
            raise TypeError(f"{asking_line()}: this device has no float64")
        storage = held.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key not in self._storages:
            if self.limit is not None and self.live + size > self.limit:
                raise torch.OutOfMemoryError(
                    f"out of memory: {self.live:,} of {self.limit:,} bytes are in use, {size:,} more wanted"
                )
            self._storages[key] = 0
            self.live += size
            self.peak = max(self.peak, self.live)
        self._storages[key] += 1
        made = PretendTensor(held)
        number = id(made)

        def forget(_: object) -> None:
            self._references.pop(number, None)
            self._storages[key] -= 1
            if not self._storages[key]:
                del self._storages[key]
                self.live -= size

        self._references[number] = weakref.ref(made, forget)
        return made

    def _copy(self, func: Any, args: Any, kwargs: Any) -> Any:
        if func is aten._to_copy.default:
            source, target = args[0], torch.device(kwargs.get("device") or args[0].device)
            kwargs = {**kwargs, "device": torch.device("cpu")}
            kwargs.pop("pin_memory", None)
            held = source.held if isinstance(source, PretendTensor) else source
            copied = aten._to_copy.default(held, **kwargs)
            self._count(source, target)
            return self.put(copied) if target.type == NAME else copied
        destination, source, *rest = args
        self._count(source, destination.device)
        held, written = (each.held if isinstance(each, PretendTensor) else each for each in (source, destination))
        func(written, held, *rest, **kwargs)
        return destination

    def _count(self, source: Tensor, target: torch.device) -> None:
        if isinstance(source, PretendTensor) and target.type != NAME:
            self.reads[asking_line()] += 1
        elif not isinstance(source, PretendTensor) and target.type == NAME:
            self.uploads[asking_line()] += 1

    def _check(self, func: Any, tensors: list[Tensor], on_device: list[Tensor], args: Any, kwargs: Any) -> None:
        for tensor in tensors:
            # CUDA passes a single number of the host on to its kernels.
            if not isinstance(tensor, PretendTensor) and on_device and tensor.ndim:
                raise RuntimeError(
                    f"{func}: expected all tensors to be on the same device, but found {NAME}:0 and {tensor.device}, "
                    f"{tuple(tensor.shape)}, at {asking_line()}"
                )
        if kwargs.get("generator") is not None:
            raise RuntimeError(f"{func}: a generator of the CPU cannot draw on {NAME}, at {asking_line()}")
        if func in WRITING:
            written = next(each for each in reversed(args) if isinstance(each, Tensor))
            if written.dtype != args[0].dtype:
                raise RuntimeError(f"{func}: {args[0].dtype} and {written.dtype} differ, at {asking_line()}")


def _is_mask(index: Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def asking_line() -> str:
    """The innermost line of the package on the way to here."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith(SOURCES):
        frame = frame.f_back
    if frame is None:
        return "outside of the package"
    return f"{frame.f_code.co_filename[len(SOURCES) + 1 :]}:{frame.f_lineno}"


class Module:
    """What torch asks of a device besides its operations."""

    available = False
    device: Pretend | None = None

    def is_available(self) -> bool:
        return self.available

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Its random numbers are those of the CPU, which is seeded as well."""

    def get_rng_state(self, device: object = None) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: object = None) -> None:
        torch.set_rng_state(state)

    def synchronize(self, device: object = None) -> None: ...

    def empty_cache(self) -> None: ...

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        assert self.device is not None
        total = self.device.limit or 1 << 34
        return total - self.device.live, total

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


@cache
def _module() -> Module:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    module = Module()
    _setup_privateuseone_for_python_backend(NAME, backend_module=module)
    _register_autocast()
    return module


_libraries: list[Any] = []


def _register_autocast() -> None:
    """The operations that autocast computes in half precision on CPU and CUDA; a new device begins with none."""
    make: Any = torch.library.Library
    others = make("_", "IMPL", "AutocastPrivateUse1")
    others.fallback(torch.library.fallthrough_kernel)
    library = make("aten", "IMPL", "AutocastPrivateUse1")
    off = torch._C.DispatchKeySet(cast(Any, torch._C.DispatchKey).AutocastPrivateUse1)
    for name in (
        "linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "conv1d", "conv2d", "scaled_dot_product_attention",
    ):  # fmt: skip
        packet = getattr(aten, name)
        operation = packet.default

        def lower(*args: Any, operation: Any = operation, **kwargs: Any) -> Any:
            wanted = torch.get_autocast_dtype(NAME)

            def cast_down(leaf: Any) -> Any:
                single = isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.dtype != torch.float64
                return leaf.to(wanted) if single else leaf

            with torch._C._ExcludeDispatchKeyGuard(off):
                return operation(*tree_map(cast_down, args), **tree_map(cast_down, kwargs))

        library.impl(operation, lower)
    _libraries.extend((others, library))


@contextmanager
def pretend_device(limit: int | None = None, *, float64: bool = True) -> Iterator[Pretend]:
    """``torch.device("pretend")`` exists inside, and is what torch calls the accelerator."""
    module = _module()
    device = Pretend(limit, float64=float64)
    module.available, module.device = True, device
    missing = host.WITHOUT_FLOAT64
    host.WITHOUT_FLOAT64 = missing if float64 else missing | {NAME}
    try:
        # Backward passes in this thread: so lines that ask are found there as well.
        with torch.autograd.set_multithreading_enabled(False), device:
            yield device
    finally:
        module.available, module.device = False, None
        host.WITHOUT_FLOAT64 = missing
