from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.search.snippets import snippet
from tamis.text.analysis import analyzer

ENGLISH = analyzer("english")
TEXT = " ".join(f"word{n}" for n in range(100)) + " The sieves sort grain. " + "tail " * 50


def test_the_stretch_with_the_matches_is_shown() -> None:
    found = snippet(TEXT, ["siev", "grain"], ENGLISH, 10)
    assert [found.text[start:end] for start, end in found.matches] == ["sieves", "grain"]
    assert found.text.startswith("… ")
    assert found.text.endswith(" …")
    assert len(found.text.strip("… ").split()) == 10


def test_a_short_text_is_shown_whole() -> None:
    found = snippet("Drum\n\tsieve.", ["drum"], ENGLISH)
    assert found.text == "Drum sieve."
    assert found.matches == ((0, 4),)


def test_nothing_matches() -> None:
    assert snippet("one two three", ["four"], ENGLISH, 2).text == "one two …"
    assert snippet(" \n ", ["four"], ENGLISH).text == ""


@settings(deadline=None, max_examples=200)
@given(st.text("ab \n.'é", max_size=60), st.integers(1, 6))
def test_matches_lie_in_the_snippet(text: str, words: int) -> None:
    terms = ENGLISH.terms(text)[:2]
    found = snippet(text, terms, ENGLISH, words)
    assert "\n" not in found.text
    for start, end in found.matches:
        assert set(ENGLISH.terms(found.text[start:end])) <= set(terms)
