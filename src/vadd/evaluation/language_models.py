"""Generative perplexity: how improbable a causal language model, the judge model, finds texts.

Judge models come from a folder, a GGUF file or the Hugging Face Hub. Weights are read as safetensors or GGUF, never as
pickles, and code that comes with a model is never run. Texts are decoded from the run's tokens and encoded again with
the judge model's own tokenizer. Two conventions are in use and give different numbers: ``corpus`` is
exp(sum of nats / sum of tokens) over all texts, ``sedd`` the mean of the texts' own perplexities.
"""

import hashlib
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock

from vadd.data.download import data_directory
from vadd.errors import UserError
from vadd.evaluation.cache import kept_tensors
from vadd.evaluation.reports import LARGEST_EXPONENT, JudgeReport, mean_and_error, perplexity_of
from vadd.files import checksum, whole_path
from vadd.kinds.arrays import Array
from vadd.networks.pretrained import reading
from vadd.progress import Progress, silent

Convention = Literal["corpus", "sedd"]
CONVENTIONS: dict[Convention, str] = {
    "corpus": "corpus: exp(sum of nats / sum of tokens) over all texts, as mdlm and duo count",
    "sedd": "sedd: the mean of the texts' own perplexities, as SEDD counts",
}
MAX_LENGTH = 1024
LOGIT_BYTES = 1 << 28
"""The logits of the texts that are read at once take at most so much, except those of a single text."""
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
CAUSALITY_TOLERANCE = 1e-4
"""How much the logits of earlier tokens may change with a later one, relative to the largest: rounding."""


@dataclass(frozen=True)
class CausalModel:
    name: str
    """The name of the folder or file, or the name on the hub."""
    network: Any
    """A transformers model in float32: token ids (B, L) and their attention mask to logits (B, L, V)."""
    tokenizer: Any


def load_causal_model(source: str, progress: Progress = silent) -> CausalModel:
    """The model in the folder or GGUF file ``source``; where there is neither, of that name on the hub."""
    transformers = _library()
    path = Path(source).expanduser()
    is_gguf = path.suffix.lower() == ".gguf"
    progress(f"the judge {path.name}")
    if path.is_file() and not is_gguf:
        raise UserError(f"a judge is a folder, a .gguf file or a name on the hub; {path} is another kind of file")
    if path.exists():
        name, place = (path.stem, converted(path, progress)) if path.is_file() else (path.resolve().name, path)
        return _read(transformers, name, str(place), local_files_only=True)
    if HUB_NAME.fullmatch(source) is None or is_gguf or (path.parent.name and path.parent.exists()):
        raise UserError(f"there is no judge {source}: no such file or folder")
    return _read(transformers, source, source)


def converted(file: Path, progress: Progress = silent) -> Path:
    """A GGUF file as a folder of safetensors in float32, made once: unpacking takes much longer than loading."""
    transformers = _library()
    try:
        import gguf  # noqa: F401  # transformers reads these files with it
    except ImportError:
        raise UserError("GGUF files need the package gguf: pip install 'vadd[text]'") from None
    kept = data_directory("judges") / checksum(file)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(kept.with_name(f"{kept.name}.lock")):
        if not kept.is_dir():
            progress(f"unpacking {file.name}, once")
            # The library counts the tensors on the terminal.
            with whole_path(kept) as folder, _reading(transformers, file.name), redirect_stderr(io.StringIO()):
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


def _library() -> Any:
    try:
        import transformers
    except ImportError:
        raise UserError("a judge of text needs the package transformers: pip install 'vadd[text]'") from None
    return transformers


def _read(transformers: Any, name: str, source: str, **settings: Any) -> CausalModel:
    with _reading(transformers, name):
        network, loaded = transformers.AutoModelForCausalLM.from_pretrained(
            source, use_safetensors=True, trust_remote_code=False, output_loading_info=True, **settings
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False, **settings)
    if loaded["missing_keys"]:
        # The library would go on with random numbers in their place.
        missing = sorted(loaded["missing_keys"])
        raise UserError(f"the judge {name} lacks {len(missing)} of its weights, the first is {missing[0]}")
    if not tokenizer.encode("text", add_special_tokens=False):  # it makes an empty one where there are no files
        raise UserError(f"the judge {name} has no tokenizer")
    network = network.float().eval().requires_grad_(False)
    if looks_ahead(network):
        raise UserError(f"the judge {name} is not a causal language model: its predictions depend on later text")
    return CausalModel(name, network, tokenizer)


def _reading(transformers: Any, name: str) -> AbstractContextManager[None]:
    return reading(transformers, f"the judge {name} cannot be loaded")


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
        """The perplexity and its standard error over the texts that are not empty. None where there is none or it is
        beyond a float.
        """
        scored = self.tokens > 0
        nats, tokens = (torch.from_numpy(part[scored]).double() for part in (self.nats, self.tokens))
        if convention == "corpus" and len(nats):
            return perplexity_of(nats, tokens)
        beyond = not len(nats) or float((nats / tokens).max()) >= LARGEST_EXPONENT
        return (None, None) if beyond else mean_and_error((nats / tokens).exp())

    def bits_per_character(self, texts: Sequence[str]) -> float | None:
        """Unlike the perplexity per token it does not depend on how the texts fall into tokens: letters without sense
        fall into many that are each easy to predict. None where texts were cut.
        """
        characters = sum(len(text) for text, tokens in zip(texts, self.tokens, strict=True) if tokens)
        return None if self.cut or not characters else float(self.nats.sum()) / (characters * math.log(2))


class LanguageJudge:
    """Scores texts by a causal language model, in float32; loaded once, for all numbers of steps and all runs.

    Each text is read after the model's BOS where its tokenizer has one, and then all its tokens are scored; else its
    first token is context only. Texts longer than ``max_length`` tokens or than the model's context are cut.
    """

    def __init__(
        self,
        model: CausalModel,
        *,
        convention: Convention = "corpus",
        max_length: int = MAX_LENGTH,
        device: str | torch.device = "cpu",
        logit_bytes: int = LOGIT_BYTES,
    ) -> None:
        if convention not in CONVENTIONS:
            raise UserError(f"the convention of a generative perplexity is corpus or sedd, not {convention!r}")
        self.name, self.tokenizer = model.name, model.tokenizer
        self.convention: Convention = convention
        self.device = torch.device(device)
        self.network = model.network.to(self.device)
        context = getattr(self.network.config, "max_position_embeddings", None) or max_length
        self.max_length = min(max_length, context)
        if self.max_length < 2:
            raise UserError(f"a judge must read at least 2 tokens of a text, not {self.max_length}")
        self.bos: int | None = self.tokenizer.bos_token_id
        self.logit_bytes = logit_bytes

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
        """Reading takes long and depends on nothing but the model and the texts: the scores are kept on disk."""
        ids, cut = self._encode(texts)
        key = hashlib.sha256(json.dumps([self.identity, ids]).encode()).hexdigest()
        file = data_directory("judges") / "scores" / f"{key[:32]}.cache"
        kept = kept_tensors(file, lambda: {"nats": torch.from_numpy(self._nats(ids, what, progress))})
        return Scores(kept["nats"].numpy(), np.array([max(0, len(row) - 1) for row in ids]), cut)

    @cached_property
    def identity(self) -> str:
        """A checksum of the architecture and the weights."""
        config = {key: value for key, value in self.network.config.to_dict().items() if key != "_name_or_path"}
        digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
        for name, weight in self.network.state_dict().items():
            digest.update(name.encode())
            digest.update(weight.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def _encode(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Each text's ids after the BOS, and how many texts were cut."""
        # The names of special tokens in a text are ordinary text.
        settings = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        bos = [] if self.bos is None else [self.bos]
        whole = [[*bos, *self.tokenizer.encode(text, **settings)] for text in texts]
        return [ids[: self.max_length] for ids in whole], sum(len(ids) > self.max_length for ids in whole)

    def _nats(self, ids: Sequence[list[int]], what: str, progress: Progress) -> Array:
        """The nats (n,) of every token but the first, given those before it, summed over each text."""
        nats, done = np.zeros(len(ids)), 0
        progress(what, 0, len(ids))
        for rows in self._batches([len(row) for row in ids]):
            nats[rows] = self._batch_nats([ids[row] for row in rows])
            done += len(rows)
            progress(what, done, len(ids))
        return nats

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Rows of about the same length together, as many as the memory for their logits allows."""
        bytes_per_token = 4 * int(self.network.config.vocab_size)
        batch: list[int] = []
        for row in sorted((row for row, length in enumerate(lengths) if length > 1), key=lambda row: lengths[row]):
            # The newest is the longest, and all are padded to it.
            if batch and (len(batch) + 1) * lengths[row] * bytes_per_token > self.logit_bytes:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    @torch.no_grad()
    def _batch_nats(self, ids: Sequence[list[int]]) -> list[float]:
        tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], batch_first=True)
        lengths = torch.tensor([len(row) for row in ids])
        attended = (torch.arange(tokens.shape[1]) < lengths[:, None]).long()
        logits = self.network(input_ids=tokens.to(self.device), attention_mask=attended.to(self.device)).logits
        nats = []
        for row, known in enumerate(ids):  # row by row: no second copy of all logits
            predicted = logits[row, : len(known) - 1].float()
            right = predicted.gather(1, tokens[row, 1 : len(known), None].to(self.device))[:, 0]
            nats.append(float((predicted.logsumexp(-1) - right).double().sum()))
        return nats
