"""Small language models of the library transformers in folders, with a tokenizer that has a mask token."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "blue", "cat", "dog", "runs", "sleeps"]
SMALL = {"vocab_size": 16, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "pad_token_id": 0}
DECODER = {**SMALL, "intermediate_size": 32, "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 32}
FAMILIES: dict[str, dict[str, Any]] = {
    "bert": {**SMALL, "intermediate_size": 32, "max_position_embeddings": 32},
    "roberta": {**SMALL, "intermediate_size": 32, "max_position_embeddings": 34},
    "distilbert": {"vocab_size": 16, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "pad_token_id": 0},
    "modernbert": {**SMALL, "intermediate_size": 32, "max_position_embeddings": 32, "global_attn_every_n_layers": 2},
    "qwen3": DECODER,
    "llama": DECODER,
    "Dream": DECODER,
}
"""More entries than the tokenizer has, as published models have them."""


def write_tokenizer(folder: Path, words: list[str]) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.save(str(folder / "tokenizer.json"))


def language_model(folder: Path, family: str, words: list[str] | None = None) -> Any:
    """The library's own model, which is written to the ``folder`` as well."""
    transformers = pytest.importorskip("transformers")
    kind = "qwen2" if family == "Dream" else family
    config = transformers.AutoConfig.for_model(kind, **FAMILIES[family])
    torch.manual_seed(1)
    auto = transformers.AutoModelForCausalLM if FAMILIES[family] is DECODER else transformers.AutoModelForMaskedLM
    model = auto.from_config(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    if family == "Dream":
        content = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**content, "model_type": "Dream"}))
    write_tokenizer(folder, WORDS if words is None else words)
    return model
