"""How much memory one more sequence takes in a network, measured."""

from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vadd.core import Model, Noise
from vadd.models import Autoregressive


@torch.no_grad()
def bytes_per_row(model: Model) -> int:
    """The most that is alive at once while the network predicts one position of one sequence, weights left out, and
    what it remembers of the sequence. More positions cost their logits, which the sampler limits by itself.
    """
    x = torch.full((1, model.positions), model.mask_value, device=model.device)
    t = torch.ones(1, device=model.device)
    where = torch.zeros_like(x, dtype=torch.bool)
    where[0, 0] = True
    z = model.latent.draw(x, t, Noise.of(torch.Generator().manual_seed(0), 1))
    alive = _Alive(model)
    with alive:
        model.predict(x, z, t, where)
    return alive.most + (model.cache_bytes if isinstance(model, Autoregressive) else 0)


class _Alive(TorchFunctionMode):
    """Follows the memory of all tensors that are made in here, by their storages: views share one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.most = 0
        self._weights = {tensor.untyped_storage()._cdata for tensor in (*model.parameters(), *model.buffers())}
        self._alive: WeakSet[torch.UntypedStorage] = WeakSet()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        # Else looking at a tensor would be followed as well.
        with torch._C.DisableTorchFunction():
            for tensor in made if isinstance(made, tuple | list) else (made,):
                if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in self._weights:
                    self._alive.add(tensor.untyped_storage())
            self.most = max(self.most, sum(storage.nbytes() for storage in self._alive))
        return made
