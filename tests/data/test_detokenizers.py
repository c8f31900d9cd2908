"""Detokenizers: whole lines in the formats of the corpora they are for, their rules one by one, and real lines."""

import pytest

from tests.helpers.fixtures import CORPORA, official_data
from vadd.data.text.named_corpora import lambada, lm1b, scientific_papers, wikitext

ARTEFACTS = (" @-@ ", " @,@ ", " @.@ ", " , ", " ; ", "= = ")
"""Of WikiText, which must be gone."""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (0, 'Asked whether the bridge would open in May, the engineer said it was "too early to tell."'),
        (1, "The harbour's oldest crane, built in 1911, was sold for $40,000 (about £31,000) ."),
        (2, '"We\'ve waited long enough," the farmer said; "they\'re not coming."'),
        (5, "See http://www.example.org/timetable for the trains on Sunday."),
    ],
)
def test_lines_like_those_of_lm1b(line: int, expected: str) -> None:
    assert lm1b((CORPORA / "lm1b.txt").read_text().split("\n")[line]) == expected


def test_real_lines_of_lm1b() -> None:
    lines = (official_data("text") / "lm1b_heldout_00000.txt").read_text().split("\n")
    assert [lm1b(lines[number]) for number in (0, 1, 4)] == [
        "Having a little flexibility on that issue would go a long way to putting together a final package.",
        "Long before the advent of e-commerce, Wal-Mart's founder Sam Walton set out his vision for a successful "
        "retail operation: \"We let folks know we're interested in them and that they're vital to us-- ' cause "
        'they are," he said.',
        "Her back was torn open, her liver was ruptured, one of her lungs had collapsed and the other was punctured.",
    ]


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


def test_a_page_like_those_of_wikitext() -> None:
    raw = (CORPORA / "wikitext.txt").read_text()
    page = wikitext(raw)
    assert [line for line in page.split("\n") if "=" in line] == [
        "= Miller's Bridge =",
        "== History ==",
        "=== Later repairs ===",
    ]
    assert [artefact for artefact in ARTEFACTS if artefact in page] == []
    assert wikitext(next(line for line in raw.split("\n") if "three arches" in line)) == (
        " Miller's Bridge is a stone bridge with three arches over a small river. It was built in 1742 for 1,200 "
        "pounds, replacing a well-known ford, and is 2.5 metres wide. The engineers' drawings (two of which survive) "
        'are kept in the town hall; they were printed in the book "Old Crossings of the Valley" in 1911. '
    )


def test_the_real_test_set_of_wikitext() -> None:
    page = wikitext((official_data("text") / "wikitext2_raw_test.txt").read_text())
    assert (
        "Robert Boulter is an English film, television and theatre actor. He had a guest-starring role on the "
        "television series The Bill in 2000. This was followed by a starring role in the play Herons written by Simon "
        "Stephens, which was performed in 2001 at the Royal Court Theatre."
    ) in page
    assert 'landed a role as "Craig" in the episode "Teddy\'s Story" of the television series The Long Firm; he' in page
    assert [artefact for artefact in ARTEFACTS if artefact in page] == []


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


def test_passages_of_lambada_get_straight_quotes_and_a_new_line() -> None:
    first, second = map(lambada, (CORPORA / "lambada.txt").read_text().split("\n")[:2])
    assert first.startswith('\n" where did you put the key ? " he asked . she looked')
    assert first.endswith("\" before we left the house , so that i would n't lose the key")
    assert 'sighed . " you \'ve had a long day , " said the miller' in second
    assert lambada(" “so”, he said ") == '\n"so", he said'


def test_a_real_passage_of_lambada() -> None:
    found = lambada((official_data("text") / "lambada_test_plain_text.txt").read_text().split("\n")[0])
    assert found.startswith("\nin my palm is a clear stone ,")
    assert "guardian angel . \" figured if you 're going to be out" in found
    assert 'some backup . " i look at him' in found


def test_papers_take_both_treatments() -> None:
    assert scientific_papers("the model ( see @xcite ) is 2 @.@ 5 times better .") == (
        "the model (see @xcite) is 2.5 times better."
    )
