"""Examples that are text; tokenizers read back from the folders that ``Tokenizer.save`` writes."""

from pathlib import Path

from vadd.errors import UserError
from vadd.kinds.text.subwords import SubwordTokenizer
from vadd.kinds.text.tokenizers import (
    ABOUT,
    CONTENT,
    WORDS,
    ByteTokenizer,
    CharacterTokenizer,
    Special,
    Specials,
    Tokenizer,
    WordTokenizer,
)
from vadd.parsing import read_json


def load_tokenizer(directory: Path) -> Tokenizer:
    """What ``save`` wrote, checked against its fingerprint."""
    try:
        about = read_json(directory / ABOUT)
        name, specials, expected = about["name"], about["specials"], about["sha256"]
        named: list[Special] = [s for s in ("bos", "eos", "pad") if specials[s] is not None]
        tokenizer: Tokenizer
        if name == CharacterTokenizer.name:
            tokenizer = CharacterTokenizer(read_json(directory / CONTENT)["alphabet"], named)
        elif name in WORDS:
            tokenizer = WordTokenizer(name, read_json(directory / CONTENT)["vocabulary"], named)
        elif name == ByteTokenizer.name:
            tokenizer = ByteTokenizer(named)
        else:
            tokenizer = SubwordTokenizer.read(directory, name, Specials(**specials))
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"the tokenizer in {directory} is damaged: {' '.join(str(error).split())}") from None
    if tokenizer.fingerprint != expected:
        raise UserError(f"the tokenizer in {directory} is damaged: its content does not fit its checksum")
    return tokenizer
