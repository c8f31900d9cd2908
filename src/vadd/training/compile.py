"""torch.compile where it works."""

from collections.abc import Callable

from torch import nn

from vadd.core import Latent, MaskedDiffusion
from vadd.parallel import Processes
from vadd.progress import warn


def compile_networks(model: MaskedDiffusion, trial: Callable[[], object], processes: Processes) -> bool:
    """Compile the networks of ``model`` in place; names and values of the weights do not change.

    ``trial`` is one pass through them. Where it fails, in any process, all go on without it:
    that costs speed, not the run.
    """
    assert isinstance(model.denoiser, nn.Module)
    # A latent may stand beside codes, inside their latent: what it is made of counts, not itself.
    latents = [module for module in model.latent.modules() if isinstance(module, Latent)]
    parts = [part for latent in latents for part in latent.children() if not isinstance(part, Latent)]
    networks = [model.denoiser, *parts]
    for network in networks:
        # The number of masked positions differs from batch to batch: no fixed shapes.
        network.compile(dynamic=True)
    failure = ""
    try:
        trial()
    except Exception as error:  # compilers fail in many ways
        failure = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    (failed,) = processes.any(bool(failure))
    if failed:
        for network in networks:
            network._compiled_call_impl = None
        warn(f"training goes on uncompiled, torch.compile failed: {failure or 'in another process'}")
    return not failed
