"""Tokenizers in the layout of the published ones: small ones made here, and the real ones where they are."""

import json
import string
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

from tests.helpers.fixtures import official_data
from tests.helpers.texts import TOPICS, letters_only
from vadd.kinds.text.subwords import SubwordTokenizer, published

Name = Literal["gpt2", "bert"]
FOLDERS: dict[Name, str] = {"gpt2": "gpt2", "bert": "bert-base-uncased"}


def official_tokenizer(name: Name) -> SubwordTokenizer:
    """From its published files, or the test is skipped."""
    pytest.importorskip("tokenizers")
    return published(name, official_data("tokenizers") / FOLDERS[name])


@cache
def small_tokenizer(name: Name) -> SubwordTokenizer:
    """Read as the published one is, from files of the same layout: specials in the same places, fewer words."""
    pytest.importorskip("tokenizers")
    with tempfile.TemporaryDirectory() as folder:
        (write_gpt2 if name == "gpt2" else write_bert)(Path(folder))
        return published(name, Path(folder))


def write_gpt2(folder: Path) -> None:
    """``encoder.json`` and ``vocab.bpe``: a byte-level BPE of 1,000 entries, and <|endoftext|> as the last."""
    import tokenizers

    learnt = tokenizers.ByteLevelBPETokenizer()
    learnt.train_from_iterator(TOPICS, vocab_size=1000, show_progress=False)
    learnt.save_model(str(folder))
    vocabulary = json.loads((folder / "vocab.json").read_text())
    (folder / "encoder.json").write_text(json.dumps({**vocabulary, "<|endoftext|>": len(vocabulary)}))
    (folder / "merges.txt").rename(folder / "vocab.bpe")


def write_bert(folder: Path) -> None:
    """``vocab.txt``: [PAD] is 0, [UNK], [CLS], [SEP] and [MASK] are 100 to 103, then come characters and words."""
    unused = [f"[unused{number}]" for number in range(99)]
    letters = string.ascii_lowercase + string.digits
    pieces = [*string.punctuation, *letters, *(f"##{letter}" for letter in letters)]
    frequent = Counter(letters_only(" ".join(TOPICS)).split()).most_common(400)
    words = sorted({word for word, _ in frequent if len(word) > 1} | {"hello", "world"})
    entries = ["[PAD]", *unused, "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces, *words]
    (folder / "vocab.txt").write_text("\n".join(entries) + "\n")
