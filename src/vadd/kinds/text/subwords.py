"""Tokenizers of whole and partial words, by Hugging Face's ``tokenizers`` (the extra ``text``).

``bpe`` is trained on the text at hand, on bytes, so that nothing is unencodable; ``gpt2`` and ``bert`` are the
published ones, from local files or from the hub; any other ``tokenizer.json`` works too.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vadd.errors import UserError, optional
from vadd.files import from_hub, reading
from vadd.kinds.text.tokenizers import ABOUT, CONTENT, Special, Specials, Tokenizer, own_tokenizer
from vadd.parsing import read_json

if TYPE_CHECKING:
    import tokenizers

FILE = "tokenizer.json"
HUB = {"gpt2": "openai-community/gpt2", "bert": "google-bert/bert-base-uncased"}
ORIGINALS = {"gpt2": ("encoder.json", "vocab.bpe"), "bert": ("vocab.txt",)}
"""The files in which they were published first."""
BYTES = 256
KNOWN_SPECIALS = {
    "bos": ("[CLS]", "<s>", "<bos>", "<|endoftext|>"),
    "eos": ("[SEP]", "</s>", "<eos>", "<|endoftext|>"),
    "pad": ("[PAD]", "<pad>"),
    "mask": ("[MASK]", "<mask>", "<|mask|>", "<|mdm_mask|>"),
}
"""By these names specials are recognised, the first that exists."""


def _library() -> Any:
    return optional("tokenizers", "this tokenizer needs the package tokenizers", "text")


class SubwordTokenizer(Tokenizer):
    def __init__(self, name: str, inner: "tokenizers.Tokenizer", specials: Specials) -> None:
        self.name, self.specials = name, specials
        self._inner = inner
        inner.encode_special_tokens = True  # "<|endoftext|>" in a text is text
        inner.no_padding()
        inner.no_truncation()
        self.size = max(inner.get_vocab(with_added_tokens=True).values()) + 1

    def __reduce__(self) -> tuple[Any, ...]:
        # The library's own pickles forget that specials are not to be read from texts.
        return _restore, (self.name, self._inner.to_str(), self.specials)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._inner.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        return self._inner.decode(list(ids), skip_special_tokens=False)

    def content(self) -> dict[str, Any]:
        parsed = json.loads(self._inner.to_str())
        model = parsed["model"]
        # Releases of the library write merges as "a b" or as ["a", "b"].
        merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model.get("merges", ())]
        return {
            "normalizer": parsed["normalizer"],
            "pre_tokenizer": parsed["pre_tokenizer"],
            "model": model["type"],
            "vocabulary": self._inner.get_vocab(with_added_tokens=True),
            "merges": merges,
        }

    def _write(self, directory: Path) -> None:
        self._inner.save(str(directory / FILE))


def _restore(name: str, inner: str, specials: Specials) -> SubwordTokenizer:
    return SubwordTokenizer(name, _library().Tokenizer.from_str(inner), specials)


def train_bpe(texts: Iterable[str], vocabulary: int, specials: Sequence[Special] = ()) -> SubwordTokenizer:
    """A byte-level BPE with at most ``vocabulary`` entries, the 256 bytes and the specials among them."""
    library = _library()
    if vocabulary < BYTES + len(specials):
        raise UserError(f"a byte-level BPE has at least {BYTES + len(specials)} entries, not {vocabulary}")
    inner = _byte_level(library, library.models.BPE())
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary - len(specials),
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(iter(texts), trainer)
    return _with_specials("bpe", inner, {special: f"<{special}>" for special in specials})


def published(name: Literal["gpt2", "bert"], path: Path | None = None) -> SubwordTokenizer:
    """GPT-2's or BERT's (uncased), from a ``tokenizer.json`` or the original files in ``path``, else from the hub."""
    library = _library()
    if path is None:
        return read_tokenizer_json(_from_hub(HUB[name]), name)
    folder = path if path.is_dir() else path.parent
    if (path.is_dir() or path.name in ORIGINALS[name]) and (folder / ORIGINALS[name][0]).is_file():
        try:
            return _gpt2(library, folder) if name == "gpt2" else _bert(library, folder)
        except Exception as error:  # the library raises plain ones
            reason = " ".join(str(error).split())
            raise UserError(f"{folder} does not hold the tokenizer {name}: {reason}") from None
    return read_tokenizer_json(path / FILE if path.is_dir() else path, name)


def read_tokenizer_json(path: Path, name: str = "file") -> SubwordTokenizer:
    """Any tokenizer of the library; its specials are recognised by the names people give them."""
    inner = _parse(path)
    ids = {
        special: [number for name in names if (number := inner.token_to_id(name)) is not None]
        for special, names in KNOWN_SPECIALS.items()
    }
    return SubwordTokenizer(name, inner, Specials(**{special: known[0] for special, known in ids.items() if known}))


def _parse(path: Path) -> "tokenizers.Tokenizer":
    library = _library()
    with reading(path, "the tokenizer "):
        content = path.read_bytes()
    try:
        parsed: tokenizers.Tokenizer = library.Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises plain ones
        raise UserError(f"{path} is not a tokenizer: {' '.join(str(error).split())}") from None
    return parsed


def _gpt2(library: Any, folder: Path) -> SubwordTokenizer:
    vocabulary, merges = library.models.BPE.read_file(*(str(folder / name) for name in ORIGINALS["gpt2"]))
    inner = _byte_level(library, library.models.BPE(vocabulary, merges))
    return _with_specials("gpt2", inner, {"bos": "<|endoftext|>", "eos": "<|endoftext|>"})


def _bert(library: Any, folder: Path) -> SubwordTokenizer:
    vocabulary = library.models.WordPiece.read_file(*(str(folder / name) for name in ORIGINALS["bert"]))
    inner = library.Tokenizer(library.models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = library.normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    inner.decoder = library.decoders.WordPiece()
    return _with_specials("bert", inner, {"bos": "[CLS]", "eos": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"})


def _byte_level(library: Any, model: Any) -> "tokenizers.Tokenizer":
    inner: tokenizers.Tokenizer = library.Tokenizer(model)
    inner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = library.decoders.ByteLevel()
    return inner


def _with_specials(name: str, inner: "tokenizers.Tokenizer", names: dict[str, str]) -> SubwordTokenizer:
    """Specials that the vocabulary lacks are appended to it."""
    inner.add_special_tokens(list(dict.fromkeys(names.values())))
    return SubwordTokenizer(name, inner, Specials(**{key: inner.token_to_id(value) for key, value in names.items()}))


def _from_hub(repository: str) -> Path:
    try:
        return from_hub(repository, FILE)
    except Exception as error:  # no network, no such file, a full disk: the library has an exception for each
        what = f"could not fetch the tokenizer {repository} from the hub ({' '.join(str(error).split())[:200]})"
        raise UserError(f"{what}; name its local files with data.tokenizer_path") from None


def load_tokenizer(directory: Path) -> Tokenizer:
    """What ``save`` wrote, checked against its fingerprint."""
    try:
        about = read_json(directory / ABOUT)
        name, specials, expected = about["name"], about["specials"], about["sha256"]
        named: list[Special] = [s for s in ("bos", "eos", "pad") if specials[s] is not None]
        tokenizer = (
            own_tokenizer(name, read_json(directory / CONTENT), named)
            if (directory / CONTENT).exists()
            else SubwordTokenizer(name, _parse(directory / FILE), Specials(**specials))
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"the tokenizer in {directory} is damaged: {' '.join(str(error).split())}") from None
    if tokenizer.fingerprint != expected:
        raise UserError(f"the tokenizer in {directory} is damaged: its content does not fit its checksum")
    return tokenizer
