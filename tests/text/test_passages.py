"""Passages: every spec by hand, and that no word or token is lost."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.text.passages import (
    PassageSpec,
    Split,
    Tokens,
    parse_spec,
    split,
    text_of,
    word_spans,
)
from tamis.types import Document, Passage

SPECS = [
    "sentences:10:5",
    "words:100",
    "words:150:75",
    "words:150:75:30",
    "tokens:384:192",
    "whole",
]


def tokens(text: str) -> list[tuple[int, int]]:
    return [(0, 0), *(match.span() for match in re.finditer(r"\w+|[^\w\s]", text)), (0, 0)]


def texts(document: Document, spec: str, tokens: Tokens | None = None) -> list[str]:
    found = split(document, parse_spec(spec), tokens=tokens)
    return [document.text[passage.start : passage.end] for passage in found.passages]


def numbered(count: int) -> Document:
    return Document("d", " ".join(f"w{n}" for n in range(count)))


@pytest.mark.parametrize("text", SPECS)
def test_a_spec_prints_as_itself(text: str) -> None:
    assert str(parse_spec(text)) == text
    assert parse_spec(text) == parse_spec(text)
    assert len({parse_spec(text), parse_spec(text)}) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not a way"),
        ("words", "is not a way"),
        ("words:0", "is not a way"),
        ("words:-5", "is not a way"),
        ("words:010", "is not a way"),
        ("Words:10", "is not a way"),
        ("words:10 ", "is not a way"),
        ("paragraphs:3", "is not a way"),
        ("words:10:5:3:2", "is not a way"),
        ("whole:1", "is not a way"),
        ("words:٣", "is not a way"),
        ("sentences:10", "sentences need a stride"),
        ("tokens:384", "tokens need a stride"),
        ("words:75:150", "a stride of 150 leaves words out"),
        ("words:150:75:1", "the first and the last"),
        ("sentences:10:5:3", "only windows of words are sampled"),
    ],
)
def test_a_bad_spec_is_named_with_the_valid_forms(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        parse_spec(text)
    assert repr(text) in str(caught.value)
    assert "words:150:75:30" in caught.value.hint


@pytest.mark.parametrize(
    "numbers", [(0, 0, 0), (10, -1, 0), (10, 5, -1)], ids=["size", "stride", "most"]
)
def test_a_spec_cannot_be_made_wrongly(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(InputError):
        PassageSpec("words", *numbers)
    with pytest.raises(InputError, match="takes no numbers"):
        PassageSpec("whole", 3)


def test_sentences() -> None:
    document = Document("d", "  A one. B two.\nC three. D four. E five.  ")
    assert texts(document, "sentences:2:1") == [
        "A one. B two.",
        "B two.\nC three.",
        "C three. D four.",
        "D four. E five.",
    ]
    assert texts(document, "sentences:3:2") == [
        "A one. B two.\nC three.",
        "C three. D four. E five.",
    ]
    assert texts(document, "sentences:9:9") == [document.text.strip()]


def test_words_go_on_to_the_end_of_the_sentence() -> None:
    document = Document("d", "One two three. Four five six. Seven. Eight nine.")
    assert texts(document, "words:2") == ["One two three.", "Four five six.", "Seven. Eight nine."]
    assert texts(document, "words:4") == ["One two three. Four five six.", "Seven. Eight nine."]
    assert texts(document, "words:9") == [document.text]


def test_the_words_of_the_title_count_once() -> None:
    document = Document("d", "One two three. Four five six. Seven. Eight.", "A title")
    found = split(document, parse_spec("words:4"))
    scored = [text_of(document, passage, parse_spec("words:4").title) for passage in found.passages]
    assert scored == ["A title One two three.", "Four five six. Seven.", "Eight."]
    long = Document("d", "One. Two.", "A title of many more words")
    assert texts(long, "words:4") == ["One.", "Two."], "one word at least stands with the title"


def test_windows_of_words() -> None:
    assert texts(numbered(7), "words:4:2") == ["w0 w1 w2 w3", "w2 w3 w4 w5", "w4 w5 w6"]
    assert texts(numbered(4), "words:4:2") == ["w0 w1 w2 w3"]
    assert texts(numbered(5), "words:4:4") == ["w0 w1 w2 w3", "w4"]


def test_a_sample_keeps_first_and_last_and_counts_what_it_leaves_out() -> None:
    spec = parse_spec("words:2:2:4")
    found = split(numbered(20), spec)
    numbers = [passage.number for passage in found.passages]
    assert (len(numbers), numbers[0], numbers[-1]) == (4, 0, 9)
    assert numbers == sorted(set(numbers))
    assert (found.windows, found.left_out) == (10, 20 - 4 * 2)
    whole = split(numbered(20), parse_spec("words:2:2")).passages
    assert list(found.passages) == [whole[number] for number in numbers]
    assert split(numbered(8), spec).left_out == 0


def test_a_sample_depends_on_the_document_and_the_seed_alone() -> None:
    spec = parse_spec("words:2:2:4")

    def drawn(name: str, seed: int = 0) -> tuple[int, ...]:
        document = Document(name, numbered(400).text)
        return tuple(p.number for p in split(document, spec, seed=seed).passages)

    assert drawn("d") == drawn("d") == (0, 17, 173, 199)
    assert len({drawn(f"d{n}") for n in range(50)}) > 40
    assert len({drawn("d", seed) for seed in range(50)}) > 40
    inner = [n for name in range(2000) for n in drawn(str(name))[1:-1]]
    assert 95 < sum(inner) / len(inner) < 104, "windows are drawn evenly: their mean is 99.5"


def test_what_a_tokenizer_passes_over_is_in_a_passage() -> None:
    document = Document("d", "¤ It's 3 ¤ o'clock ¤ ")
    spans = [(2, 4), (4, 6), (7, 8), (11, 13), (13, 17)]
    assert texts(document, "tokens:3:3", lambda text: spans) == ["¤ It's 3 ¤", "o'clock ¤"]
    shifted = [(0, 2), (2, 4), (5, 6)]  # two characters too early
    found = texts(Document("d", "..It's 3"), "tokens:2:1", lambda text: shifted)
    assert found == ["..It'", "It's 3"]


def test_windows_of_tokens() -> None:
    document = Document("d", " It's 3 o'clock. ")
    assert texts(document, "tokens:4:2", tokens) == ["It's 3", "s 3 o'", "o'clock."]
    with pytest.raises(InputError, match="'tokens:4:2' needs a tokenizer") as caught:
        split(document, parse_spec("tokens:4:2"))
    assert "words:150:75" in caught.value.hint


def test_a_text_in_which_the_tokenizer_sees_nothing_is_one_passage() -> None:
    assert texts(Document("d", " \x07 "), "tokens:4:2", lambda text: []) == ["\x07"]


@pytest.mark.parametrize("spec", SPECS)
def test_documents_without_text(spec: str) -> None:
    blank, titled = Document("d", " \n", " "), Document("d", "", " A title ")
    assert split(blank, parse_spec(spec), tokens=tokens) == Split((), 0)
    [passage] = split(titled, parse_spec(spec), tokens=tokens).passages
    assert passage == Passage("d", 0, 1, 8, "title")
    assert text_of(titled, passage, parse_spec(spec).title) == "A title"


def test_where_the_title_goes() -> None:
    document = Document("d", "One. Two.", " Title ", {"abstract": "In short."})
    first, second = Passage("d", 0, 0, 4), Passage("d", 1, 5, 9)
    assert text_of(document, second) == "Title Two."
    assert text_of(document, first, "once") == "Title One."
    assert text_of(document, second, "once") == "Two."
    assert text_of(document, first, "never") == "One."
    assert text_of(document, Passage("d", 0, 0, 2, "abstract"), "never") == "In"
    assert [parse_spec(spec).title for spec in SPECS] == [
        "every",
        "once",
        "every",
        "every",
        "every",
        "every",
    ]
    with pytest.raises(InputError, match="'e' is not of document 'd'"):
        text_of(document, Passage("e", 0, 0, 4))


def test_what_a_run_records() -> None:
    assert parse_spec("words:150:75").record() == {"passages": "words:150:75"}
    assert parse_spec("sentences:10:5").record().keys() == {"passages", "sentences"}


CHARACTERS = st.sampled_from([*"ab. !\n\t漢字かな。é\xa0\u2009\u3000😀\ud800-"])
TEXTS = st.lists(CHARACTERS, max_size=120).map("".join)
SMALL_SPECS = st.one_of(
    st.builds(
        lambda unit, size, stride: PassageSpec(unit, size, min(size, stride)),
        st.sampled_from(["sentences", "words", "tokens"]),
        st.integers(1, 9),
        st.integers(1, 9),
    ),
    st.builds(lambda size: PassageSpec("words", size), st.integers(1, 9)),
    st.builds(
        lambda size, stride, most: PassageSpec("words", size, min(size, stride), most),
        st.integers(1, 4),
        st.integers(1, 4),
        st.integers(2, 6),
    ),
    st.just(PassageSpec("whole")),
)


def is_ideograph(character: str) -> bool:
    return character in "漢字かな"


def plain_words(text: str) -> list[tuple[int, int]]:
    """Words as the docs define them, one character after another."""
    found: list[tuple[int, int]] = []
    for at, character in enumerate(text):
        if character.isspace():
            continue
        goes_on = found and found[-1][1] == at and not is_ideograph(character)
        if goes_on:
            found[-1] = (found[-1][0], at + 1)
        else:
            found.append((at, at + 1))
    return found


@settings(deadline=None, max_examples=200)
@given(TEXTS)
def test_words(text: str) -> None:
    starts, ends = word_spans(text)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == plain_words(text)


@settings(deadline=None, max_examples=400)
@given(TEXTS, SMALL_SPECS, st.sampled_from(["", "Title", "A longer title"]))
def test_every_word_or_token_is_in_a_passage_or_counted(
    text: str, spec: PassageSpec, title: str
) -> None:
    document = Document("d", text, title)
    found = split(document, spec, tokens=tokens)
    passages = [passage for passage in found.passages if passage.field == "text"]
    assert bool(passages) == bool(text.strip())
    units = [span for span in tokens(text) if span[0] < span[1]]
    if spec.unit in ("words", "whole"):
        units = plain_words(text)
    starts, ends = {start for start, _ in units}, {end for _, end in units}
    if spec.unit != "sentences" and units:
        assert all(p.start in starts and p.end in ends for p in passages)
    assert all(0 <= p.start < p.end <= len(text) for p in passages)
    for before, after in pairwise(passages):
        assert before.number < after.number
        assert before.start < after.start and before.end < after.end
        if not spec.stride:
            assert before.end <= after.start
    lost = sum(not any(p.start <= s and e <= p.end for p in passages) for s, e in units)
    assert lost == found.left_out
    assert found.left_out == 0 or (spec.most and len(passages) == spec.most < found.windows)


@settings(deadline=None, max_examples=100)
@given(TEXTS, st.integers(1, 4), st.integers(1, 4))
def test_windows_of_sentences_leave_out_nothing_but_white_space(
    text: str, size: int, stride: int
) -> None:
    spec = PassageSpec("sentences", size, min(size, stride))
    covered = set()
    for passage in split(Document("d", text), spec).passages:
        covered |= set(range(passage.start, passage.end))
    assert all(at in covered or text[at].isspace() for at in range(len(text)))


def test_a_document_of_a_million_words() -> None:
    draw = random.Random(0)
    words = ["sieve", "grain.", "Drum", "and", "flour"]
    document = Document("d", " ".join(draw.choices(words, k=1_000_000)))
    found = split(document, parse_spec("words:150:75:30"))
    assert len(found.passages) == 30
    assert found.windows == 13_333
    assert 1_000_000 - 30 * 150 <= found.left_out <= 1_000_000 - 30 * 75 - 75
    rest = 25 - 1  # a stop one word in five, then a capital one in five: sentences of 25 words
    assert len(split(document, parse_spec("words:100")).passages) == pytest.approx(
        1_000_000 / (100 + rest), rel=0.03
    )
