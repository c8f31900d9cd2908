"""``vadd judge``: texts that exist."""

import json
import math
from pathlib import Path

import pytest

from tests.helpers.commands import Command
from tests.helpers.files import write
from tests.helpers.judges import BOS, WORDS, nats_by_hand, save_judge, tiny_network


def test_texts_are_scored_as_by_hand(vadd_command: Command, tmp_path: Path) -> None:
    """Perplexity over all tokens by the network itself, one token at a time; two words in three are distinct."""
    ours = write(tmp_path / "ours.txt", "the cat sat\n\nthe dog\n")
    theirs = write(tmp_path / "theirs.jsonl", json.dumps({"text": "a cat and a dog"}) + "\n")
    file = tmp_path / "numbers.json"
    result = vadd_command("judge", ours, theirs, "--judge", save_judge(tmp_path / "tiny"), "--json", file)
    assert result.code == 0, result.err
    first, second = json.loads(file.read_text())
    network = tiny_network()
    ids = [[BOS, *(WORDS.index(word) for word in text.split())] for text in ("the cat sat", "the dog")]
    nats = sum(nats_by_hand(network, row) for row in ids)
    assert first["texts"] == 2
    assert first["gen_ppl"] == pytest.approx(math.exp(nats / 5), rel=1e-4)
    assert first["distinct_1"] == pytest.approx(4 / 5)
    assert first["sample_entropy"] == pytest.approx((math.log(3) + math.log(2)) / 2)
    assert (second["file"], second["texts"]) == ("theirs.jsonl", 1)
    assert "corpus" in result.out


def test_without_a_judge_there_is_variety_alone(vadd_command: Command, tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", "one two\n\nthree\nfour\n")
    result = vadd_command("judge", text, "--documents", "paragraph", "--json", tmp_path / "a.json")
    assert result.code == 0, result.err
    (found,) = json.loads((tmp_path / "a.json").read_text())
    assert found["texts"] == 2
    assert "gen_ppl" not in found
    assert "add --judge" in result.err


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        ("", (), "there is no text in"),
        ("a\n", ("--judge", "none.gguf"), "there is no judge none.gguf"),
        (None, (), "there is no file"),
    ],
)
def test_what_cannot_be_judged_is_told_in_one_line(
    vadd_command: Command, tmp_path: Path, content: str | None, options: tuple[str, ...], told: str
) -> None:
    file = tmp_path / "a.txt"
    if content is not None:
        write(file, content)
    refused = vadd_command("judge", file, *options)
    assert refused.code == 2
    assert told in refused.err.splitlines()[-1]
