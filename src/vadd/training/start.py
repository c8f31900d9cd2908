"""What happens to a model before its first step: resuming, starting from a trained one, freezing, torch.compile."""

from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from vadd.core import Latent, MaskedDiffusion, Model
from vadd.core.compiling import compile_network, in_one_line
from vadd.core.shared import FlowPrior, SharedLatent
from vadd.errors import UserError
from vadd.kinds import Kind
from vadd.networks import PretrainedDenoiser, TransformersSettings
from vadd.networks.autoregressive import AutoregressiveTransformer
from vadd.networks.pretrained import family
from vadd.networks.short_transformer import ShortTransformerRecognizer
from vadd.networks.warm_start import latents_own, llama_weights, take_over, transformer_weights
from vadd.parallel import Processes
from vadd.progress import warn
from vadd.recipe import Recipe
from vadd.run.checkpoint import Archive, TrainingState, check_shapes, finite, read_checkpoint
from vadd.run.loading import load
from vadd.training.metrics import check_trackers

COUNTED = 100_000
"""Examples that tell which tokens are frequent."""


def check_trainable(recipe: Recipe) -> None:
    """Before anything on disk changes: can these processes train this recipe?"""
    processes = Processes()
    processes.check_agreement("recipes", recipe.model_dump_json())
    processes.share(recipe.training.batch, recipe.training.accumulate)
    check_trackers(recipe)


def saved_state(archive: Archive, steps: int) -> TrainingState | None:
    """What a training of so many ``steps`` goes on from: the newest checkpoint that is whole."""
    newest = archive.newest(_finite_checkpoint)
    if newest is None:
        return None
    state, place = newest[1], archive.directory.path
    if steps < state.step:
        raise UserError(f"{place} is at step {state.step} already; training.steps must be at least that, not {steps}")
    return state


def _finite_checkpoint(path: Path) -> TrainingState:
    state = read_checkpoint(path)
    for tensors in (state.model, state.ema, state.optimizer):
        finite(dict(tensors), f"the checkpoint {path}")
    return state


def check_state(state: TrainingState, model: Model, place: Path) -> None:
    """Refuse to go on with tensors of other names or shapes than those of the ``model`` and its optimiser."""
    problem = f"the checkpoint of step {state.step} in {place} does not fit the recipe of the run"
    for weights in (state.model, state.ema):
        check_shapes(weights, model.state_dict(), problem)
    parameters = dict(model.named_parameters())
    wanted = {
        name: parameters[owner] if key != "step" else value  # steps are numbers, moments as large as their owners
        for name, value in state.optimizer.items()
        for key, _, owner in [name.partition("/")]
        if owner in parameters
    }
    check_shapes(state.optimizer, wanted, problem)


def start_from(model: Model, recipe: Recipe, format: Kind) -> None:
    """Begin as the model that ``training.start_from`` names, the same function at step 0: a run or an exported model,
    of MDLM or of the model that is trained, or a .safetensors file as the MDLM, RADD or SMDM code writes it.
    """
    source = recipe.training.start_from
    assert source is not None
    assert isinstance(model.denoiser, nn.Module)
    if Path(source).suffix == ".safetensors":
        take_over(model.denoiser, _foreign(source, recipe, format))
        return
    run = load(source, "cpu", prior="trained")
    if run.kind != format:
        raise UserError(
            f"{source} was trained on examples of shape {run.kind.shape} with {run.kind.vocab_size} values; these "
            f"have {format.shape} and {format.vocab_size}"
        )
    assert isinstance(run.model.denoiser, nn.Module)
    if type(run.model) is MaskedDiffusion and not run.recipe.has_latent:
        take_over(model.denoiser, run.model.denoiser.state_dict())
    elif run.recipe.model == recipe.model:
        try:
            model.load_state_dict(run.model.state_dict())
        except RuntimeError:
            network = "network and latent must be those of its recipe"
            raise UserError(f"the weights of {source} do not fit: {network}, see {source}/recipe.yaml") from None
    else:
        raise UserError(f"{source} is {run.recipe.model}; a training starts from MDLM or from its own model")


def read_pretrained(model: Model, recipe: Recipe, train: Tensor) -> None:
    """Take the weights of the language model that ``network.model`` names, if the network is one. Where z is divided
    among positions, the codes of tokens are their embeddings, and the prior's components the most frequent codes.
    """
    if isinstance(model.denoiser, PretrainedDenoiser) and isinstance(recipe.network, TransformersSettings):
        source = recipe.network.model
        if missing := model.denoiser.read_pretrained(source):
            warn(f"{source} lacks {len(missing)} of the weights, {missing[0]} among them: they start at random")
        latent = model.latent
        if isinstance(latent, SharedLatent) and isinstance(latent.recognizer, ShortTransformerRecognizer):
            latent.recognizer.start_at(model.denoiser.principal)
            if isinstance(latent.prior, FlowPrior) and isinstance(latent.prior.flow, AutoregressiveTransformer):
                codes = latent.recognizer.codes.weight
                counts = train[:COUNTED].flatten().bincount(minlength=len(codes))
                latent.prior.flow.start_at(codes[counts.argsort(descending=True, stable=True)])


def freeze(model: Model) -> None:
    """Leave what a training starts from as it is: all of the denoiser but what its latent brought along."""
    if model.latent.dim == 0:
        raise UserError("training.freeze needs a model with a latent, model=vadd: another has nothing to learn")
    assert isinstance(model.denoiser, nn.Module)
    learning = latents_own(model.denoiser)
    for name, parameter in model.denoiser.named_parameters():
        parameter.requires_grad_(name in learning)


def _foreign(source: str, recipe: Recipe, format: Kind) -> dict[str, Tensor]:
    network = recipe.network
    llama = isinstance(network, TransformersSettings) and family(network.content()) == "llama"
    if network.kind != "transformer" and not llama:
        what = "network.kind=transformer or, as SMDM, for network.kind=transformers with the configuration of a Llama"
        raise UserError(f"{source} is for {what}, not {network.kind}")
    try:
        tensors = load_file(source)
    except (OSError, SafetensorError) as error:
        raise UserError(f"cannot read {source}: {error}") from None
    if isinstance(network, TransformersSettings):
        return llama_weights(tensors, **network.groups())
    heads = network.values_of("denoiser")["heads"]
    return dict(transformer_weights(tensors, vocab_size=format.vocab_size, heads=heads))


def compile_networks(model: Model, trial: Callable[[], object], processes: Processes) -> bool:
    """Compile the networks of ``model`` in place; names and values of the weights do not change.

    ``trial`` is one pass through them. Where it fails, in any process, all go on without it:
    that costs speed, not the run.
    """
    assert isinstance(model.denoiser, nn.Module)
    # A latent with codes contains another latent: the networks inside are compiled, not the latents.
    latents = [module for module in model.latent.modules() if isinstance(module, Latent)]
    parts = [part for latent in latents for part in latent.children() if not isinstance(part, Latent)]
    networks = [model.denoiser, *parts]
    for network in networks:
        compile_network(network)
    failure = ""
    try:
        trial()
    except Exception as error:  # compilers fail in many ways
        failure = in_one_line(error)
    (failed,) = processes.any(bool(failure))
    if failed:
        for network in networks:
            network._compiled_call_impl = None
        warn(f"training goes on uncompiled, torch.compile failed: {failure or 'in another process'}")
    return not failed
