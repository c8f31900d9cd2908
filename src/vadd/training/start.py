"""Training that starts from a finished model without a latent: its own, or somebody else's checkpoint."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from vadd.core import MaskedDiffusion
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.networks.public_weights import transformer_weights
from vadd.networks.warm_start import latents_own, take_over
from vadd.recipe import Recipe
from vadd.run.run import load


def start_from(model: MaskedDiffusion, recipe: Recipe, format: Kind) -> None:
    """Begin as the model that ``training.start_from`` names, the same function at step 0: a run of MDLM, an exported
    one, or a .safetensors file as the MDLM code writes it.
    """
    source = recipe.training.start_from
    assert source is not None
    assert isinstance(model.denoiser, nn.Module)
    take_over(model.denoiser, _foreign(source, recipe, format) if _is_file(source) else _run(source, format))


def freeze(model: MaskedDiffusion) -> None:
    """Leave what a training starts from as it is: all of the denoiser but what its latent brought along."""
    if model.latent.dim == 0:
        raise UserError("training.freeze leaves a model without a latent nothing to learn")
    assert isinstance(model.denoiser, nn.Module)
    learning = latents_own(model.denoiser)
    for name, parameter in model.denoiser.named_parameters():
        parameter.requires_grad_(name in learning)


def _is_file(source: str) -> bool:
    return Path(source).suffix == ".safetensors"


def _run(source: str, format: Kind) -> dict[str, Tensor]:
    run = load(source, "cpu")
    if run.recipe.has_latent:
        raise UserError(f"{source} has a latent already; a training starts from a model without one (MDLM)")
    if run.model.samplers is not None:
        raise UserError(f"{source} is no masked model; a training starts from one without a latent (MDLM)")
    if run.kind != format:
        raise UserError(
            f"{source} was trained on examples of shape {run.kind.shape} with {run.kind.vocab_size} values; these "
            f"have {format.shape} and {format.vocab_size}"
        )
    assert isinstance(run.model.denoiser, nn.Module)
    return dict(run.model.denoiser.state_dict())


def _foreign(source: str, recipe: Recipe, format: Kind) -> dict[str, Tensor]:
    if recipe.network.kind != "transformer":
        raise UserError(f"{source} is for network.kind=transformer, not {recipe.network.kind}")
    try:
        found = load_file(source)
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot read {source}: {error}") from None
    heads = recipe.network.values_of("denoiser")["heads"]
    return dict(transformer_weights(found, vocab_size=format.vocab_size, heads=heads))
