"""Language models of the library ``transformers`` as denoisers.

Masked language models predict hidden tokens as they are; decoder models do once their causal mask is taken off, which
is how LLaDA and Dream were made. The latent comes in through added maps whose last layer starts at zero: at step 0 the
denoiser is the library's own model. Weights are read when a training begins; a run holds its own and the model's
configuration, and needs the folder no more.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from vadd.core.host import Places, Where
from vadd.errors import UserError
from vadd.files import from_hub
from vadd.networks.layers import DenoiserBase, Linear, zeroed
from vadd.networks.settings import Examples, NetworkSettings
from vadd.networks.short_transformer import ShortTransformerRecognizer, ShortTransformerSettings, share_of_each
from vadd.networks.transformer import TransformerRecognizer, TransformerSettings
from vadd.settings import Layers, Section
from vadd.words import listed

DECODERS = ("llama", "qwen2", "qwen3")
HEADS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "bert": lambda model, h: model.cls(h),
    **dict.fromkeys(("roberta", *DECODERS), lambda model, h: model.lm_head(h)),
    "distilbert": lambda model, h: model.vocab_projector(
        model.vocab_layer_norm(model.activation(model.vocab_transform(h)))
    ),
    "modernbert": lambda model, h: model.decoder(model.head(h)),
}
"""From features to logits, by family."""
NAMED = "_name_or_path"
"""Where the library's configurations say which model they are of."""
SHIFTED = {"Dream": "qwen2"}
"""Families under other names whose logits stand one position to the left of what they predict."""


def library() -> Any:
    try:
        import transformers
    except ImportError:
        raise UserError("network.kind=transformers needs the package transformers: pip install 'vadd[text]'") from None
    return transformers


@contextmanager
def reading(transformers: Any, problem: str) -> Iterator[None]:
    """Without the library's messages and bars; any error becomes one line that begins with the
    ``problem``.
    """
    messages, hub = transformers.utils.logging, logging.getLogger("huggingface_hub")
    verbosity, bars, hub_level = messages.get_verbosity(), messages.is_progress_bar_enabled(), hub.level
    messages.set_verbosity(logging.CRITICAL)
    messages.disable_progress_bar()
    hub.setLevel(logging.CRITICAL)
    try:
        yield
    except Exception as error:  # the library, the hub's client and the readers of files have many kinds
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{problem}: {reason}") from None
    finally:
        messages.set_verbosity(verbosity)
        hub.setLevel(hub_level)
        if bars:
            messages.enable_progress_bar()


class LatentRecognizerSettings(Section):
    width: PositiveInt = 128
    blocks: Layers = 2
    heads: PositiveInt = 4


class TransformersSettings(NetworkSettings):
    """A language model of the library transformers: BERT, RoBERTa, DistilBERT, ModernBERT, Llama, Qwen2, Qwen3, Dream.
    On text its own tokenizer is used.
    """

    kind: Literal["transformers"] = "transformers"
    model: str = Field("", description="a folder with config.json and weights, or a name on the Hugging Face Hub")
    config: str = Field("", description="the content of the model's config.json; read from the model where it is empty")
    train_body: bool = Field(True, description="false: the model's own weights stay as they are")
    latent_everywhere: bool = Field(False, description="add the latent before every block, not at the embeddings only")
    latent_divided: bool = Field(False, description="each position has numbers of z of its own: latent.per=position")
    recognizer: LatentRecognizerSettings = LatentRecognizerSettings()
    rows_at_once: ClassVar[int] = 32
    time_key: ClassVar[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _with_config(cls, given: Any) -> Any:
        """Of this model, and not of another one that was named before."""
        if isinstance(given, dict) and (model := given.get("model")) and named(given.get("config")) != model:
            return {**given, "config": read_config(str(model))}
        return given

    def content(self) -> dict[str, Any]:
        if not self.model:
            raise UserError("network.model is missing: the folder of a model, or its name on the Hugging Face Hub")
        return dict(json.loads(self.config))

    def without_paths(self) -> "TransformersSettings":
        name = Path(self.model).name
        return self.model_copy(update={"model": name, "config": json.dumps({**self.content(), NAMED: name})})

    @property
    def sees_time(self) -> bool:
        return False

    @property
    def divides_latent(self) -> bool:
        return self.latent_divided

    def values_of(self, part: str) -> dict[str, Any]:
        if part == "recognizer":
            return self.recognizer.model_dump()
        config = self.content()
        keys = {
            "width": ("hidden_size", "dim"),
            "inner": ("intermediate_size", "hidden_dim"),
            "blocks": ("num_hidden_layers", "n_layers"),
            "heads": ("num_attention_heads", "n_heads"),
        }
        return {key: next(int(config[name]) for name in names if name in config) for key, names in keys.items()}

    def groups(self) -> dict[str, int]:
        """Of a decoder model: how many heads for keys, and the size of each."""
        config = self.content()
        heads = int(config["num_attention_heads"])
        size = config.get("head_dim") or int(config["hidden_size"]) // heads
        return {"groups": int(config.get("num_key_value_heads") or heads), "head_size": int(size)}

    def build_denoiser(self, examples: Examples, latent_dim: int | None) -> nn.Module:
        return PretrainedDenoiser(examples, self, latent_dim=latent_dim)

    def build_recognizer(self, examples: Examples, latent_dim: int) -> nn.Module:
        own = self.recognizer.model_dump()
        if self.latent_divided:
            short = ShortTransformerSettings(heads=own.pop("heads"), recognizer=own)
            return ShortTransformerRecognizer(examples.positions, examples.vocab_size, short, latent_dim=latent_dim)
        sizes = TransformerSettings(size="tiny", condition=64, **own)
        return TransformerRecognizer(examples.positions, examples.vocab_size, sizes, latent_dim=latent_dim)


def named(config: Any) -> str | None:
    """The model that a configuration is of."""
    try:
        return str(json.loads(config)[NAMED])
    except (TypeError, ValueError, KeyError):
        return None


def family(config: dict[str, Any]) -> str:
    """The library's name of the architecture."""
    said = str(config.get("model_type"))
    name = SHIFTED.get(said, said)
    if name not in HEADS:
        raise UserError(f"network.model is of the architecture {said!r}; those that work: {listed([*HEADS, *SHIFTED])}")
    return name


def model_file(model: str, name: str) -> Path:
    """A file of the model: in its folder or, without one, on the Hub."""
    folder = Path(model).expanduser()
    if folder.exists():
        if not (folder / name).is_file():
            raise UserError(f"network.model: there is no {name} in {folder}")
        return folder / name
    try:
        return from_hub(model, name)
    except Exception as error:  # no network, no such name: the client has an exception for each
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        problem = f"there is no folder {model}, and the Hugging Face Hub did not give it ({reason})"
        raise UserError(f"{problem}; download it elsewhere and name its folder: network.model=DIR") from None


def read_config(model: str) -> str:
    file = model_file(model, "config.json")
    try:
        content = {**json.loads(file.read_text()), NAMED: model}
    except (ValueError, TypeError):
        raise UserError(f"{file} is not the configuration of a model") from None
    family(content)
    return json.dumps(content, sort_keys=True)


def built(config: dict[str, Any]) -> Any:
    """The library's model with weights at random. Embedding and output layer do not share theirs."""
    transformers, name = library(), family(config)
    settings = {key: value for key, value in config.items() if key not in ("model_type", "auto_map", NAMED)}
    full = transformers.AutoConfig.for_model(name, **{**settings, "tie_word_embeddings": False})
    auto = transformers.AutoModelForCausalLM if name in DECODERS else transformers.AutoModelForMaskedLM
    return auto.from_config(full, attn_implementation="sdpa")


class PretrainedDenoiser(DenoiserBase):
    """The library's model, with a map of z added to its embeddings and, if asked, before every block.

    Values are the tokenizer's ids with its mask moved to the end (:mod:`vadd.kinds.text.tokenizers`); ``ids`` moves it
    back.
    """

    ids: Tensor

    def __init__(self, examples: Examples, settings: TransformersSettings, *, latent_dim: int | None = None) -> None:
        super().__init__(examples.positions, examples.vocab_size, uses_time=False)
        config = settings.content()
        self.family, self.shifted = family(config), config.get("model_type") in SHIFTED
        tokenizer = getattr(examples, "tokenizer", None)
        check_sizes(settings.model, config, examples, tokenizer)
        values = np.arange(self.vocab_size + 1)
        ids = values if tokenizer is None else tokenizer.to_ids(values)
        self.register_buffer("ids", torch.as_tensor(ids, device="cpu"), persistent=False)
        self.body = built(config)
        # Those that only a shared output layer uses.
        for name, parameter in self.body.named_parameters():
            parameter.requires_grad_(settings.train_body and name not in ("cls.predictions.bias", "lm_head.bias"))
        width = self.body.get_input_embeddings().embedding_dim
        blocks = len(self.blocks()) if settings.latent_everywhere else 0
        if latent_dim is not None and settings.latent_divided:
            latent_dim = share_of_each(latent_dim, self.positions)
        self.latent = None if latent_dim is None else LatentMaps(latent_dim, width, blocks)
        self.time = None

    def blocks(self) -> list[nn.Module]:
        """The layers of the body, in their order."""
        lists = [list(module) for module in self.body.modules() if isinstance(module, nn.ModuleList)]
        return max(lists, key=len)

    @contextmanager
    def added(self, vectors: Sequence[Tensor]) -> Iterator[None]:
        """In here this thread's calls of the body add one of the ``vectors`` (B, N or 1, width) before each block."""
        thread = threading.get_ident()

        def add(vector: Tensor, _: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            return (inputs[0] + vector, *inputs[1:]) if threading.get_ident() == thread else inputs

        pairs = zip(self.blocks(), vectors, strict=True) if vectors else ()
        # Not for good: copies of a network, its average for one, would share them.
        hooks = [block.register_forward_pre_hook(partial(add, vector)) for block, vector in pairs]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        ids = self.ids.to(xt.device)
        embedded = self.body.get_input_embeddings()(ids[xt])
        vectors: list[Tensor] = [] if self.latent is None else self.latent(z)
        if vectors:
            embedded = embedded + vectors[0]
        rows, positions = xt.shape
        more: dict[str, Any] = {}
        if self.family in DECODERS:
            # A mask of four dimensions is taken as it is: with zeros everywhere they see what is to their right.
            more = {"attention_mask": embedded.new_zeros(rows, 1, positions, positions), "use_cache": False}
        with self.added(vectors[1:]):
            features = self.body.base_model(inputs_embeds=embedded, **more).last_hidden_state
        wanted = Places.of(where).numbers
        if self.shifted:  # the first position has none before it
            wanted = wanted - (wanted % positions > 0).to(wanted.dtype)
        logits = HEADS[self.family](self.body, features.flatten(0, 1).index_select(0, wanted))
        return logits.index_select(1, ids[: self.vocab_size])

    def latent_input_weights(self) -> list[nn.Parameter]:
        return list(self.latent.writes.parameters()) if isinstance(self.latent, LatentMaps) else []

    def read_pretrained(self, model: str) -> list[str]:
        """Take the weights of ``model``; the names of those that it does not have and that stay at random."""
        transformers = library()
        with reading(transformers, f"cannot read the weights of {model}"):
            theirs, info = type(self.body).from_pretrained(
                model, use_safetensors=True, trust_remote_code=False, output_loading_info=True, dtype=torch.float32
            )
        self.body.load_state_dict(theirs.state_dict())
        return sorted(info["missing_keys"])

    def principal(self, count: int) -> Tensor:
        """Embeddings of the values along their first ``count`` principal axes, each of variance one: (V + 1, count)."""
        embeddings = self.body.get_input_embeddings().weight.detach().cpu()[self.ids.cpu()].double()
        variances, axes = torch.linalg.eigh((embeddings - embeddings.mean(0)).T.cov(correction=0))
        along = (embeddings - embeddings.mean(0)) @ axes.flip(1)[:, :count]
        return (along / variances.flip(0)[:count].clamp_min(1e-12).sqrt()).float()


class LatentMaps(nn.Module):
    """z (B, d), or (B, N d) if divided -> vectors (B, 1 or N, width) for the embeddings and each block, zero at
    the start.
    """

    def __init__(self, dim: int, width: int, blocks: int) -> None:
        super().__init__()
        self.hidden = nn.Sequential(Linear(dim, 4 * dim), nn.SiLU())
        self.writes = zeroed(Linear(4 * dim, (1 + blocks) * width))
        self.dim, self.parts = dim, 1 + blocks

    def forward(self, z: Tensor) -> list[Tensor]:
        return list(self.writes(self.hidden(z.view(z.shape[0], -1, self.dim))).chunk(self.parts, dim=-1))


def check_sizes(model: str, config: dict[str, Any], examples: Examples, tokenizer: Any) -> None:
    """Refuse examples that the model cannot read."""
    entries, places = int(config["vocab_size"]), config.get("max_position_embeddings")
    if tokenizer is not None and tokenizer.specials.mask is None:
        raise UserError(f"the tokenizer of {model} has no mask token ([MASK], <mask>, <|mask|> or <|mdm_mask|>)")
    if examples.vocab_size + 1 > entries or (tokenizer is None and examples.vocab_size + 1 != entries):
        said = f"{examples.vocab_size:,} values and the mask"
        raise UserError(f"{model} has a vocabulary of {entries:,} entries; the data have {said}: use its tokenizer")
    if family(config) == "roberta" and places is not None:  # its first positions are for pads
        places = int(places) - int(config.get("pad_token_id", 1)) - 1
    if places is not None and examples.positions > int(places):
        raise UserError(f"{model} reads at most {places} positions, not {examples.positions}: lower data.length")
