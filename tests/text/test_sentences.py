"""The sentence splitter: hard cases by hand, properties, and its quality on real text."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tamis.text.sentences import MAX_SENTENCE_CHARACTERS, NAME, VERSION, split_sentences


def pieces(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


HARD = {
    "titles": ["Dr. Smith met Mrs. Jones.", "They talked."],
    "acronym before a name": ["He joined the U.S. Army in 1990.", "Good."],
    "acronym at the end": ["He moved to the U.S.", "The move was hard."],
    "figure and number": ["See No. 5 and e.g. Fig. 2 for more.", "Good."],
    "the word no": ["Did he come?", "No.", "That is all."],
    "initials": ["J. R. R. Tolkien wrote it.", "So did George W. Bush."],
    "decimals": ["It costs 3.50 dollars, i.e. too much.", "Pi is 3.14159."],
    "ellipsis before a small letter": ["Well ... yes.", "He paused...", "Then he left."],
    "quotations": ['"Stop!" he cried.', '"Why?" she asked.', "“Because.”", "They left."],
    "brackets": ["(It was late.)", "We went home (by car, i.e. fast)."],
    "addresses": ["Visit http://www.example.com/a.b?c=1! or not.", "Node.js is fine."],
    "several marks": ["What?!", "Really?", "No!"],
    "time of day": ["At 5 p.m. Mr. Lee left.", "We met at 6 a.m.", "Then we ate."],
    "company": ["Apple Inc. Chairman Smith resigned.", "Shares fell."],
    "references": ["It was cited.[1]", "Others followed.[2][3]", "Done."],
    "citation": ["Smith et al. (2003) found it.", "We did not."],
    "case": ["Smith v. State of Ohio, 5 U.S. 137 was cited.", "It stood."],
    "brand": ["Yahoo! was big.", "Jeopardy! is on."],
    "hyphen": ["The last visitor was then-U.S. Rep. Bill Richardson.", "He left."],
    "numbered in line": ["1. The appellants came.", "2. They left."],
    "number that starts": ["It was 1999.", "15 people came."],
    "Hindi": ["यह एक वाक्य है।", "यह दूसरा है।"],
    "accent": ["Il dit : « Oui ! » à tous.", "Bien."],
    "question after an acronym": ["Is he in the U.S.?", "Bill thinks so."],
    "stops apart": ["He said no .", "She said yes ."],
}


@pytest.mark.parametrize("sentences", HARD.values(), ids=HARD)
def test_hard_cases(sentences: list[str]) -> None:
    assert pieces(" ".join(sentences)) == sentences
    assert pieces("\n\n".join(sentences)) == sentences


CHINESE = {
    "no blanks": ["これは文です。", "二つ目の文です！", "三つ目？"],
    "speech inside": ["他说：“你好。”然后走了。", "第二句。"],
    "speech after speech": ["「はい。」", "「いいえ。」"],
}


@pytest.mark.parametrize("sentences", CHINESE.values(), ids=CHINESE)
def test_stops_that_need_no_blank(sentences: list[str]) -> None:
    assert pieces("".join(sentences)) == sentences


WRAPPED = (
    "This is a text that has been wrapped by hand at about\n"
    "Sixty characters, which is why the line ends mean\n"
    "nothing here. A new sentence\nstarts."
)
LINES = {
    "list": (
        "Buy this:\n1. First item\n2) Second item\n- third\n(a) fourth",
        ["Buy this:", "1. First item", "2) Second item", "- third", "(a) fourth"],
    ),
    "wrapped": (WRAPPED, [WRAPPED[:117], WRAPPED[118:]]),
    "heading, blank line": ("Introduction\n\nIt starts. It ends.", 3),
    "heading": ("Introduction\nIt starts. It ends.", ["Introduction", "It starts.", "It ends."]),
    "a name over two lines": ("We saw Dr.\nSmith there.", ["We saw Dr.", "Smith there."]),
    "goes on with a small letter": ("He saw\nit all.", ["He saw\nit all."]),
    "carriage returns": ("Windows\r\n\r\nline ends. Here\r\n", ["Windows", "line ends.", "Here"]),
    "old line ends": ("One\rTwo", ["One", "Two"]),
    "nothing": (" \n\t ", []),
    "judge, then number": (
        "By: S. B. Sinha, J.\n1. He came.",
        ["By: S. B. Sinha, J.", "1. He came."],
    ),
}


@pytest.mark.parametrize(("text", "expected"), LINES.values(), ids=LINES)
def test_lines(text: str, expected: list[str] | int) -> None:
    found = pieces(text)
    assert (len(found) if isinstance(expected, int) else found) == expected


def test_abbreviation_at_the_end_of_a_wrapped_line() -> None:
    lines = ["The committee that met last week had been called by Dr."]
    lines += ["Smith, who had asked for a report on what the members", "wanted."]
    assert len(pieces("\n".join(lines))) == 1


def test_a_long_piece_is_cut_where_it_bears_it_best() -> None:
    clause = "and so it went on and on without an end in sight"
    text = f"{', '.join([clause] * 20)}; {', '.join([clause] * 20)}"
    found = pieces(text)
    assert [piece[-1] for piece in found] == [";", "t"]
    assert all(len(piece) <= MAX_SENTENCE_CHARACTERS for piece in found)
    assert len(pieces("x" * 5000)) == 1, "there is no place to cut"
    assert [len(piece) for piece in pieces("x" * 5000 + " " + "y" * 10)] == [5000, 10]


LETTERS = st.sampled_from(
    [*"aZ1 .!?\n\r\t\"'([)]-;,。」「 é\u3000\u2028\ud800😀", "Mr", "U.S", "No"]
)
TEXTS = st.lists(LETTERS, max_size=80).map("".join)


@settings(deadline=None, max_examples=300)
@given(TEXTS)
@example("")
def test_spans_cover_all_but_white_space(text: str) -> None:
    spans = split_sentences(text)
    reached = 0
    for start, end in spans:
        assert reached <= start < end <= len(text)
        assert not text[reached:start].strip()
        assert not text[start].isspace() and not text[end - 1].isspace()
        reached = end
    assert not text[reached:].strip()


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from(["word", "x" * 30, "and,", "so;"]), min_size=300, max_size=900))
def test_no_sentence_is_too_long_if_it_can_be_helped(words: list[str]) -> None:
    assert all(len(piece) <= MAX_SENTENCE_CHARACTERS for piece in pieces(" ".join(words)))


@pytest.mark.parametrize(
    "unit",
    [".", ". ", "\n", "a\n", " ", "x", '." ', "a\n \n", "。", "[1]", "-", "\r", "! ", "a \u2028"],
)
def test_time_grows_with_the_text_and_not_faster(unit: str) -> None:
    start = time.perf_counter()
    split_sentences(unit * 200_000)
    assert time.perf_counter() - start < 5


def test_name_and_version_are_plain_words() -> None:
    assert re.fullmatch(r"[\w-]+ [\w.]+", f"{NAME} {VERSION}")


def test_boundaries_on_multirc(data: Path) -> None:
    right = found_count = true_count = 0
    for part in ("train", "dev"):
        for row in json.loads((data / "multirc" / f"{part}.json").read_text("utf-8"))["data"]:
            marked = row["paragraph"]["text"].replace("<br>", "")
            sentences = [s.strip() for s in re.split(r"<b>Sent \d+: </b>", marked) if s.strip()]
            ends, at = set(), 0
            for sentence in sentences[:-1]:
                ends.add(at + len(sentence))
                at += len(sentence) + 1
            found = {end for _, end in split_sentences(" ".join(sentences))[:-1]}
            right += len(ends & found)
            found_count += len(found)
            true_count += len(ends)
    assert 2 * right / (found_count + true_count) > 0.989


def test_law_has_no_long_sentences(data: Path) -> None:
    with (data / "aila" / "corpus.jsonl").open(encoding="utf-8") as lines:
        texts = [json.loads(next(lines))["text"] for _ in range(200)]
    lengths = [end - start for text in texts for start, end in split_sentences(text)]
    assert sum(length for length in lengths if length > MAX_SENTENCE_CHARACTERS) < 0.006 * sum(
        lengths
    )
