"""Detokenizers, on real lines of the corpora they are for."""

import csv

import pytest

from tests.data.test_mnist import real_data
from vadd.data.text.detokenizers import lambada, lm1b, scientific_papers, unchanged, wikitext


def lines(name: str) -> list[str]:
    return (real_data("text") / name).read_text().split("\n")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            0,
            "Having a little flexibility on that issue would go a long way to putting together a final package.",
        ),
        (
            1,
            "Long before the advent of e-commerce, Wal-Mart's founder Sam Walton set out his vision for a successful "
            "retail operation: \"We let folks know we're interested in them and that they're vital to us-- ' cause "
            'they are," he said.',
        ),
        (
            4,
            "Her back was torn open, her liver was ruptured, one of her lungs had collapsed and the other was "
            "punctured.",
        ),
    ],
)
def test_real_lines_of_lm1b(line: int, expected: str) -> None:
    assert lm1b(lines("lm1b_heldout_00000.txt")[line]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see http : / / example.com / a now", "see http://example.com/a now"),
        ("is it ? yes ! it is ?", "is it? yes! it is?"),
        ("he paid $ 5 ( or £ 4 ) for [ it ]", "he paid $5 (or £4) for [it]"),
        ("a : b ; c , d", "a: b; c, d"),
    ],
)
def test_the_rules_of_lm1b_one_by_one(text: str, expected: str) -> None:
    assert lm1b(text) == expected


def test_a_real_paragraph_of_wikitext() -> None:
    line = next(line for line in lines("wikitext2_raw_test.txt") if line.startswith(" Robert Boulter is"))
    found = wikitext(line)
    assert found.startswith(
        " Robert Boulter is an English film, television and theatre actor. He had a guest-starring role on the "
        "television series The Bill in 2000. This was followed by a starring role in the play Herons written by Simon "
        "Stephens, which was performed in 2001 at the Royal Court Theatre."
    )
    assert (
        'landed a role as "Craig" in the episode "Teddy\'s Story" of the television series The Long Firm; he' in found
    )


def test_no_artefact_of_wikitext_is_left_in_its_real_test_set() -> None:
    text = wikitext((real_data("text") / "wikitext2_raw_test.txt").read_text())
    for artefact in (" @-@ ", " @,@ ", " @.@ ", " , ", " ; ", "= = "):
        assert artefact not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" = = Career = = \n", " == Career ==\n"),
        ("10 @,@ 000 and 2 @.@ 5", "10,000 and 2.5"),
        ("( see ) [ it ] { now }", "(see) [it] {now}"),
        ("the boys ' dog", "the boys' dog"),
        ("40 ° north", "40°north"),
    ],
)
def test_the_rules_of_wikitext_one_by_one(text: str, expected: str) -> None:
    assert wikitext(text) == expected


def test_real_passages_of_lambada_get_straight_quotes_and_a_new_line() -> None:
    found = lambada(lines("lambada_test_plain_text.txt")[0])
    assert found.startswith("\nin my palm is a clear stone ,")
    assert "guardian angel . \" figured if you 're going to be out" in found
    assert 'some backup . " i look at him' in found
    assert lambada(" “so”, he said ") == '\n"so", he said'


def test_papers_take_both_treatments() -> None:
    assert scientific_papers("the model ( see @xcite ) is 2 @.@ 5 times better .") == (
        "the model (see @xcite) is 2.5 times better."
    )


def test_ag_news_stays_as_it_is() -> None:
    with (real_data("text") / "ag_news_test.csv").open(newline="") as file:
        row = next(csv.reader(file))
    assert unchanged(row[1]) == "Fears for T N pension after talks"
