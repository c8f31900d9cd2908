"""Generative perplexity: how surprised a causal language model is by texts.

Texts are decoded from the run's tokens and read again with the judge's own tokenizer. Two conventions are in use and
give different numbers: ``corpus`` is exp(sum of nats / sum of tokens) over all texts, ``sedd`` the mean of the texts'
own perplexities.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save

from vadd.data.download import data_directory
from vadd.errors import UserError
from vadd.evaluation.causal_models import CausalModel, load_causal_model
from vadd.evaluation.likelihood import LARGEST_EXPONENT
from vadd.evaluation.reports import JudgeReport
from vadd.files import whole_file
from vadd.kinds.arrays import Array
from vadd.progress import Progress, silent

Convention = Literal["corpus", "sedd"]
CONVENTIONS: dict[Convention, str] = {
    "corpus": "corpus: exp(sum of nats / sum of tokens) over all texts, as mdlm and duo count",
    "sedd": "sedd: the mean of the texts' own perplexities, as SEDD counts",
}
MAX_LENGTH = 1024
LOGIT_BYTES = 1 << 28
"""The logits of the texts that the judge reads at once take at most so much, except those of a single text."""


@dataclass(frozen=True)
class Scores:
    """What a judge thinks of n texts."""

    nats: Array
    """(n,) float64: the negative log-likelihood of the tokens that were scored."""
    tokens: Array
    """(n,) int64: how many they are; 0 for a text without any."""
    cut: int
    """Texts of which the judge saw only the beginning."""

    @property
    def empty(self) -> int:
        return int((self.tokens == 0).sum())

    def perplexity(self, convention: Convention) -> tuple[float | None, float | None]:
        """The perplexity and its standard error over texts, without the empty ones. None where there is none or it is
        beyond a float.
        """
        there = self.tokens > 0
        nats, tokens, count = self.nats[there], self.tokens[there], int(there.sum())
        if count == 0:
            return None, None
        if convention == "corpus":
            mean = float(nats.sum() / tokens.sum())
            if mean >= LARGEST_EXPONENT:
                return None, None
            # Of a ratio of two sums, linearised; exp carries it over.
            residual = nats - mean * tokens
            spread = math.sqrt(float((residual**2).sum()) * count / max(1, count - 1)) / float(tokens.sum())
            return math.exp(mean), math.exp(mean) * spread if count > 1 else None
        each = nats / tokens
        if float(each.max()) >= LARGEST_EXPONENT:
            return None, None
        perplexities = np.exp(each)
        error = float(perplexities.std(ddof=1)) / math.sqrt(count) if count > 1 else None
        return float(perplexities.mean()), error


class LanguageJudge:
    """Scores texts by a causal language model, in float32; loaded once, for all numbers of steps and all runs.

    Each text is read after the judge's BOS where its tokenizer has one, and then all its tokens are scored; else its
    first token is context only. Texts longer than ``max_length`` tokens or than the judge's context are cut.
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
        context = getattr(self.network.config, "max_position_embeddings", None)
        self.max_length = max_length if context is None else min(max_length, context)
        if self.max_length < 2:
            raise UserError(f"a judge must see at least 2 tokens of a text, not {self.max_length}")
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
        """The judge in a folder, in a GGUF file or of that name on the hub."""
        return cls(load_causal_model(source, progress), convention=convention, device=device)

    @property
    def first_token(self) -> str:
        if self.bos is None:
            return "context only: the judge has no BOS"
        return f"scored, after the judge's BOS {self.tokenizer.convert_ids_to_tokens(self.bos)}"

    def about(self) -> JudgeReport:
        return JudgeReport(self.name, CONVENTIONS[self.convention], self.first_token, self.max_length)

    def score(self, texts: Sequence[str], *, what: str = "the judge reads", progress: Progress = silent) -> Scores:
        """Reading takes long and depends on nothing but the judge and the texts: the scores are kept on disk."""
        ids, cut = self._read(texts)
        key = hashlib.sha256(json.dumps([self.identity, ids]).encode()).hexdigest()
        file = data_directory("judges") / "scores" / f"{key[:32]}.safetensors"
        try:
            kept = load(file.read_bytes())
            return Scores(kept["nats"], kept["tokens"], cut)
        except (OSError, SafetensorError, KeyError):
            found = Scores(self._nats(ids, what, progress), np.array([max(0, len(row) - 1) for row in ids]), cut)
        self._keep(file, found)
        return found

    @staticmethod
    def _keep(file: Path, found: Scores) -> None:
        with whole_file(file) as target:
            target.write(save({"nats": found.nats, "tokens": found.tokens}))

    @cached_property
    def identity(self) -> str:
        """A checksum of the architecture and the weights."""
        config = {key: value for key, value in self.network.config.to_dict().items() if key != "_name_or_path"}
        digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
        for name, weight in self.network.state_dict().items():
            digest.update(name.encode())
            digest.update(weight.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def _read(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Each text's ids, the BOS before them, and how many texts were cut."""
        # The names of special tokens in a text are ordinary text.
        encoded = [
            self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True, verbose=False)
            for text in texts
        ]
        before = [] if self.bos is None else [self.bos]
        whole = [[*before, *ids] for ids in encoded]
        return [ids[: self.max_length] for ids in whole], sum(len(ids) > self.max_length for ids in whole)

    def _nats(self, ids: Sequence[list[int]], what: str, progress: Progress) -> Array:
        """The nats (n,) of every token but the first, given those before it, summed over each text."""
        nats = np.zeros(len(ids))
        done = 0
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
        longest = max(map(len, ids))
        tokens = torch.zeros(len(ids), longest, dtype=torch.int64)
        there = torch.zeros_like(tokens)
        for row, known in enumerate(ids):
            tokens[row, : len(known)] = torch.tensor(known)
            there[row, : len(known)] = 1
        logits = self.network(input_ids=tokens.to(self.device), attention_mask=there.to(self.device)).logits
        found = []
        for row, known in enumerate(ids):  # row by row: no second copy of all logits
            predicted = logits[row, : len(known) - 1].float()
            right = predicted.gather(1, tokens[row, 1 : len(known), None].to(self.device))[:, 0]
            found.append(float((predicted.logsumexp(-1) - right).double().sum()))
        return found
