"""Tiny judges of text, made on the spot with random weights."""

from pathlib import Path
from typing import Any

import pytest
import torch

WORDS = ["<unk>", "the", "cat", "dog", "sat", "on", "mat", "log", "a", "and", "."]
BOS = len(WORDS)
"""Added to the vocabulary: no text has it."""
VALUES = len(WORDS) + 1
CONTEXT = 24


def tiny_tokenizer(bos: bool = True) -> Any:
    """Words between blanks."""
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    named = {"bos_token": "<s>"} if bos else {}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", **named)


def tiny_network(seed: int = 0) -> Any:
    """A GPT-2 whose predictions are far from even."""
    transformers = pytest.importorskip("transformers")
    settings = {"n_positions": CONTEXT, "n_embd": 16, "n_layer": 2, "n_head": 2, "initializer_range": 0.5}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = transformers.GPT2Config(vocab_size=VALUES, bos_token_id=BOS, eos_token_id=BOS, **settings)
        return transformers.GPT2LMHeadModel(config).eval()


def save_judge(folder: Path, bos: bool = True, seed: int = 0) -> Path:
    tiny_network(seed).save_pretrained(folder)
    tiny_tokenizer(bos).save_pretrained(folder)
    return folder


@torch.no_grad()
def nats_by_hand(network: Any, ids: list[int]) -> float:
    """-sum of log p(token | those before it), one token at a time, neither padded nor batched."""
    total = 0.0
    for place in range(1, len(ids)):
        logits = network(torch.tensor([ids[:place]])).logits[0, -1].double()
        total -= float(logits[ids[place]] - logits.exp().sum().log())
    return total
