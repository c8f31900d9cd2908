"""Repetition and copying by hand; the controls are what they say; ``vadd judge --source`` tells them from real text."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import Command
from tests.helpers.files import write
from vadd.errors import UserError
from vadd.evaluation.diversity import (
    against,
    copied,
    periodic_texts,
    repetition,
    trigram_texts,
    with_controls,
)
from vadd.evaluation.reports import PERIODIC, REAL, TRIGRAM
from vadd.evaluation.text_features import WORDS

NOUNS, VERBS = ["cat", "dog", "fox", "owl", "hen"], ["sees", "hears", "likes", "fears"]
PLACES = ["here", "there", "inside"]


def sentences(count: int, seed: int) -> list[str]:
    """Two clauses about the same noun: what a 3-gram model cannot know."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        noun, (first, second), place = rng.choice(NOUNS), rng.choice(VERBS, 2), rng.choice(PLACES)
        made.append(f"the {noun} {first} the bird {place} and then the {noun} {second} it")
    return made


def test_repetition_and_copying_by_hand() -> None:
    assert repetition(["a b c d a b c d"], 4) == pytest.approx(1 / 5)
    assert repetition(["a b c d", "a b c d"], 4) == 0  # not within one text
    assert repetition(["a b"], 4) is None
    source = ["one two three four five six seven eight nine"]
    assert copied(["zero one two three four five six seven eight"], source) == pytest.approx(1 / 2)
    assert copied(["nine eight seven"], source) is None
    assert copied(source, source) == 1


def test_the_periodic_list_has_the_entropy_of_real_text_and_repeats_itself() -> None:
    source = [" ".join(np.random.default_rng(seed).choice(list("abcdefgh"), 40)) for seed in range(30)]
    made = periodic_texts(source, 20)
    assert len(made) == 20
    period = len(set(made[0].split()))
    words = made[0].split()
    assert words[period:] == words[:-period]
    entropies = [
        -sum(share * np.log(share) for share in np.unique(text.split(), return_counts=True)[1] / 40) for text in source
    ]
    assert np.log(period) == pytest.approx(np.mean(entropies), abs=0.1)
    assert repetition(made) == pytest.approx(1 - period / 37, abs=0.01)
    assert periodic_texts(source, 20) == made


def test_every_three_words_of_the_3_gram_control_stand_in_the_source() -> None:
    rng = np.random.default_rng(0)
    source = [" ".join(rng.choice(list("abcd"), 60)) for _ in range(20)]
    made = trigram_texts(source, 50)
    assert copied(made, source, 3) == 1
    copies = copied(made, source, 8)
    assert copies is not None
    assert copies < 0.5
    assert {len(text.split()) for text in made} == {60}
    short = trigram_texts(["a", "b c"], 10)
    assert {word for text in short for word in text.split()} <= {"a", "b", "c"}
    with pytest.raises(UserError, match="no words"):
        trigram_texts(["", " "], 1)


def test_distances_tell_controls_from_real_text() -> None:
    """Real text against real text of the same distribution is not told apart: p > 0.01 with this seed."""
    source, fresh = sentences(300, seed=1), sentences(100, seed=2)
    found = against(with_controls({"fresh": fresh}, source), source)
    assert list(found) == ["fresh", PERIODIC, TRIGRAM, REAL]
    assert {one.compared for one in found.values()} == {100}
    assert found["fresh"].energy_p > 0.01 < found[REAL].energy_p
    assert max(found[PERIODIC].energy_p, found[TRIGRAM].energy_p) < 0.01
    assert found[PERIODIC].mauve < 0.05 < found["fresh"].mauve
    assert found[PERIODIC].energy > found[TRIGRAM].energy > found["fresh"].energy
    with pytest.raises(UserError, match="at least 10 texts"):
        against(with_controls({"fresh": fresh[:3]}, source), source)


def test_the_command_shows_controls_beside_the_files(vadd_command: Command, tmp_path: Path) -> None:
    source = write(tmp_path / "train.txt", "\n".join(sentences(100, seed=3)))
    ours = write(tmp_path / "ours.txt", "\n".join(sentences(40, seed=4)))
    file = tmp_path / "numbers.json"
    done = vadd_command("judge", ours, "--source", source, "--json", file)
    assert done.code == 0, done.err
    assert "Texts as a distribution" in done.out
    written = {one["file"]: one for one in json.loads(file.read_text())}
    assert list(written) == ["ours.txt", PERIODIC, TRIGRAM, REAL]
    assert written["ours.txt"]["against"]["compared"] == 40
    assert written["ours.txt"]["against"]["energy_p"] > written[PERIODIC]["against"]["energy_p"]
    assert {one["against"]["features"] for one in written.values()} == {WORDS.name}
    (tmp_path / "other").mkdir()
    theirs = write(tmp_path / "other" / "ours.txt", "\n".join(sentences(30, seed=5)))
    both = vadd_command("judge", ours, theirs, "--source", source, "--json", file, "--overwrite")
    assert both.code == 0, both.err
    assert [one["texts"] for one in json.loads(file.read_text())][:2] == [40, 30], "of equal names none is lost"
    without = vadd_command("judge", ours, "--features", "words")
    assert (without.code, "add it" in without.err) == (2, True)
    refused = vadd_command("judge", ours, "--source", ours, "--limit", "5")
    assert refused.code == 2
    assert "at least 10 texts" in refused.err.splitlines()[-1]
