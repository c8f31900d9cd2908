"""Generative perplexity: how improbable a causal language model, the judge model, finds texts.

Judge models come from a folder, a GGUF file or the Hugging Face Hub. Weights are read as safetensors or GGUF, never as
pickles, and code that comes with a model is never run. Texts are decoded from the run's tokens and encoded again with
the judge model's own tokenizer. Two conventions are in use and give different numbers: ``corpus`` is
exp(sum of nats / sum of tokens) over all texts, ``sedd`` the mean of the texts' own perplexities.
"""

import io
import math
import re
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from vadd.data.download import data_directory
from vadd.errors import UserError
from vadd.evaluation.reports import LARGEST_EXPONENT, JudgeReport, beyond_share, mean_and_error, perplexity_of
from vadd.evaluation.text_features import LOGIT_BYTES, LanguageModel, TextReader, library, read_model
from vadd.files import checksum, hub_answers, whole_path
from vadd.kinds.arrays import Array
from vadd.networks.pretrained import reading
from vadd.progress import Progress, silent

Convention = Literal["corpus", "sedd"]
CONVENTIONS: dict[Convention, str] = {
    "corpus": "corpus: exp(sum of nats / sum of tokens) over all texts, as mdlm and duo count",
    "sedd": "sedd: the mean of the texts' own perplexities, as SEDD counts",
}
MAX_LENGTH = 1024
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
CAUSALITY_TOLERANCE = 1e-4
"""How much the logits of earlier tokens may change with a later one, relative to the largest: rounding."""


def load_causal_model(source: str, progress: Progress = silent) -> LanguageModel:
    """The model in the folder or GGUF file ``source``; where there is neither, of that name on the hub."""
    path = Path(source).expanduser()
    is_gguf = path.suffix.lower() == ".gguf"
    progress(f"the judge {path.name}")
    if path.is_file() and not is_gguf:
        raise UserError(f"a judge is a folder, a .gguf file or a name on the hub; {path} is another kind of file")
    if path.exists():
        name, place = (path.stem, converted(path, progress)) if path.is_file() else (path.resolve().name, path)
        return _read(name, str(place), local_files_only=True)
    if HUB_NAME.fullmatch(source) is None or is_gguf or (path.parent.name and path.parent.exists()):
        raise UserError(f"there is no judge {source}: no such file or folder")
    return _read(source, source, local_files_only=not hub_answers())


def converted(file: Path, progress: Progress = silent) -> Path:
    """A GGUF file as a folder of safetensors in float32, made once: unpacking takes much longer than loading."""
    transformers = library()
    try:
        import gguf  # noqa: F401  # transformers reads these files with it
    except ImportError:
        raise UserError("GGUF files need the package gguf: pip install 'vadd[text]'") from None
    kept = data_directory("judges") / checksum(file)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(kept.with_name(f"{kept.name}.lock")):
        if not kept.is_dir():
            progress(f"unpacking {file.name}, once")
            problem = f"the judge {file.name} cannot be loaded"
            # The library counts the tensors on the terminal.
            with whole_path(kept) as folder, reading(transformers, problem), redirect_stderr(io.StringIO()):
                _unpack(transformers, file, folder)
    return kept


def _unpack(transformers: Any, file: Path, folder: Path) -> None:
    settings: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(file.parent), **settings)
    if hasattr(transformers, "GgufConfig"):  # releases that could leave the weights packed
        settings["quantization_config"] = transformers.GgufConfig(dequantize=True)
    packed = transformers.AutoModelForCausalLM.from_pretrained(str(file.parent), **settings)
    # What is loaded from a GGUF cannot be saved in some releases: a plain model takes its weights over.
    config = packed.config.to_dict()
    config.pop("quantization_config", None)
    plain = transformers.AutoModelForCausalLM.from_config(
        type(packed.config).from_dict(config), trust_remote_code=False
    ).float()
    plain.load_state_dict(packed.state_dict())
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _read(name: str, source: str, **settings: Any) -> LanguageModel:
    model = read_model("AutoModelForCausalLM", f"the judge {name}", name, source, **settings)
    if looks_ahead(model.network):
        raise UserError(f"the judge {name} is not a causal language model: its predictions depend on later text")
    return model


@torch.no_grad()
def looks_ahead(network: Any) -> bool:
    """As some models do that the library loads as causal, BERT for one; their perplexity means nothing."""
    ids = torch.tensor([[0, 1, 0, 0], [0, 1, 0, 1]])
    first, second = network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[:, :-1]
    return float((first - second).abs().max()) > CAUSALITY_TOLERANCE * float(first.abs().max())


@dataclass(frozen=True)
class Scores:
    """What a judge model gives n texts."""

    nats: Array
    """(n,) float64: the negative log-likelihood of the tokens that were scored."""
    tokens: Array
    """(n,) int64: how many they are; 0 for a text without any."""
    cut: int
    """Texts of which only the beginning was read."""

    @property
    def empty(self) -> int:
        return int((self.tokens == 0).sum())

    def perplexity(self, convention: Convention) -> tuple[float | None, float | None]:
        """The perplexity and its standard error over the texts that are not empty. None if all are empty, or if it is
        beyond a float.
        """
        scored = self.tokens > 0
        nats, tokens = (torch.from_numpy(part[scored]).double() for part in (self.nats, self.tokens))
        if convention == "corpus" and len(nats):
            return perplexity_of(nats, tokens)
        beyond = not len(nats) or float((nats / tokens).max()) >= LARGEST_EXPONENT
        return (None, None) if beyond else mean_and_error((nats / tokens).exp())

    def deviations(self, texts: Sequence[str], convention: Convention) -> tuple[Array, Array]:
        """What each text adds to the errors of ln(perplexity) and of the bits per character, (n,); 0 where there is
        no such number.
        """
        none, scored = np.zeros(len(texts)), self.tokens > 0
        perplexity, _ = self.perplexity(convention)
        nats, tokens, characters = (
            torch.from_numpy(part).double()
            for part in (self.nats, self.tokens, np.array([len(text) for text in texts]) * scored)
        )
        beyond = beyond_share(nats, tokens)
        if perplexity is not None and convention == "sedd":
            each = torch.where(tokens > 0, (nats / tokens.clamp_min(1)).exp(), 0.0)
            beyond = beyond_share(each, (tokens > 0).double()) / perplexity
        bits = none if self.bits_per_character(texts) is None else beyond_share(nats, characters).numpy() / math.log(2)
        return none if perplexity is None else beyond.numpy(), bits

    def bits_per_character(self, texts: Sequence[str]) -> float | None:
        """Unlike the perplexity per token it does not depend on how the texts fall into tokens: letters without sense
        fall into many that are each easy to predict. None where texts were cut.
        """
        characters = sum(len(text) for text, tokens in zip(texts, self.tokens, strict=True) if tokens)
        return None if self.cut or not characters else float(self.nats.sum()) / (characters * math.log(2))


class LanguageJudge(TextReader):
    """Scores texts by a causal language model, in float32.

    Each text is read after the model's BOS where its tokenizer has one, and then all its tokens are scored; else its
    first token is context only. Texts longer than ``max_length`` tokens or than the model's context are cut.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        convention: Convention = "corpus",
        max_length: int = MAX_LENGTH,
        device: str | torch.device = "cpu",
        logit_bytes: int = LOGIT_BYTES,
    ) -> None:
        if convention not in CONVENTIONS:
            raise UserError(f"the convention of a generative perplexity is corpus or sedd, not {convention!r}")
        super().__init__(model, max_length, device, logit_bytes)
        self.convention: Convention = convention
        if self.max_length < 2:
            raise UserError(f"a judge must read at least 2 tokens of a text, not {self.max_length}")
        self.bos: int | None = self.tokenizer.bos_token_id
        self.described = f"the last hidden state of {self.name}"

    @classmethod
    def open(
        cls,
        source: str,
        convention: Convention = "corpus",
        *,
        device: str | torch.device = "cpu",
        progress: Progress = silent,
    ) -> "LanguageJudge":
        """The judge model in a folder, in a GGUF file or of that name on the hub."""
        return cls(load_causal_model(source, progress), convention=convention, device=device)

    def about(self) -> JudgeReport:
        first_token = "context only: the judge has no BOS"
        if self.bos is not None:
            first_token = f"scored, after the judge's BOS {self.tokenizer.convert_ids_to_tokens(self.bos)}"
        return JudgeReport(
            name=self.name,
            convention=CONVENTIONS[self.convention],
            first_token=first_token,
            max_length=self.max_length,
        )

    def score(self, texts: Sequence[str], *, what: str = "the judge reads", progress: Progress = silent) -> Scores:
        ids, cut = self._encode(texts)
        nats = self.read(ids, "scores", self._nats, 2, what, progress)
        return Scores(nats, np.array([max(0, len(row) - 1) for row in ids]), cut)

    def vectors(self, texts: Sequence[str], progress: Progress = silent) -> Array:
        """(n, D): the last hidden state at the last token of each text, the features of MAUVE."""
        return self.read(self._encode(texts)[0], "states", self._last_state, 1, "the judge's states", progress)

    def _encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Each text's ids after the BOS, and how many texts were cut."""
        # The names of special tokens in a text are ordinary text.
        settings = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        bos = [] if self.bos is None else [self.bos]
        whole = [[*bos, *self.tokenizer.encode(text, **settings)] for text in texts]
        return [ids[: self.max_length] for ids in whole], sum(len(ids) > self.max_length for ids in whole)

    def _nats(self, tokens: Tensor, attended: Tensor) -> Tensor:
        """The nats (B,) of every token but the first, given those before it, summed over each text."""
        logits = self.network(input_ids=tokens, attention_mask=attended).logits
        nats = []
        for row, known in enumerate(attended.sum(dim=1).tolist()):  # row by row: no second copy of all logits
            predicted = logits[row, : known - 1].float()
            right = predicted.gather(1, tokens[row, 1:known, None])[:, 0]
            nats.append((predicted.logsumexp(-1) - right).cpu().double().sum())
        return torch.stack(nats)

    def _last_state(self, tokens: Tensor, attended: Tensor) -> Tensor:
        states = self.network.base_model(input_ids=tokens, attention_mask=attended).last_hidden_state
        last: Tensor = states[torch.arange(len(tokens)), attended.sum(dim=1) - 1]
        return last
