"""Analysis: tricky texts with the terms Lucene gives, and properties of the fast paths."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.text._grammar import (
    CLASSES,
    DEAD,
    START,
    Automaton,
    blank_separated_words,
    class_table,
    standard_words,
)
from tamis.text._porter import fast_porter, porter
from tamis.text.analysis import Analyzer, FunctionAnalyzer, analyzer, lower

AS_LUCENE = [
    ("The quick brown foxes' tails", "quick brown fox tail"),
    ("It's the dog's bone and the dogs' bones", "dog bone dog bone"),
    ("O'Reilly's L’Oréal’s ROCK＇S", "o'reilli l’oréal rock"),
    ("U.S.A. e.g. i.e. www.example.com a.b.c", "u.s.a e.g i. www.example.com a.b.c"),
    ("A:B 12:30 x:1 http://a.b/c?d=e", "a:b 12 30 x 1 http a.b c d e"),
    ("3.14 1,000,000 1;2 1'000 1.a a.1 1,a a,b", "3.14 1,000,000 1;2 1'000 1 1 1 b"),
    ("foo_bar __init__ _ __ _1_ a_1_b", "foo_bar __init__ _1_ a_1_b"),
    ("C++ C# F# #tag @user *star*", "c c f tag user star"),
    ("state-of-the-art co-operate 50% $5 №5", "state art co oper 50 5 5"),
    ("user@example.com file.txt v1.2.3 1st 2nd 3D", "user example.com file.txt v1.2.3 1st 2nd 3d"),
    ("don't can't I'll we've O'Neil 'quoted' ''x''", "don't can't i'll we'v o'neil quot x"),
    (
        "Possibly technology's biology trekking revved syzygy",
        "possibl technolog biologi trek rev syzygi",
    ),
    (
        "generalizations oscillators relational conditional hopping falling",
        "gener oscil relat condit hop fall",
    ),
    ("as is be by ab a b 's s S", "ab b s s s"),
    ("naïve café Ångström ÀÉÎ straße", "naïv café ångström àéî straße"),
    ("ΣΊΣΥΦΟΣ Σ ΑΣ İstanbul IĞDIR ǅ", "σίσυφοσ σ ασ istanbul iğdir ǆ"),
    ("Привет, мир! ёлка", "привет мир ёлка"),
    ("שלום צה\"ל ג'ירפה ת' א\"", "שלום צה\"ל ג'ירפה ת' א"),
    ("مرحبا بالعالم ١٢٣٫٤٥", "مرحبا بالعالم ١٢٣٫٤٥"),
    (
        "日本語テキスト ひらがな カタカナ・ｶﾀｶﾅ 東京タワー",
        "日 本 語 テキスト ひ ら が な カタカナ ｶﾀｶﾅ 東 京 タワー",
    ),
    ("한국어 문장 가나다abc", "한국어 문장 가나다abc"),
    ("สวัสดีชาวโลก ພາສາລາວ မြန်မာ ភាសា", "สวัสดีชาวโลก ພາສາລາວ မြန်မာ ភាសា"),
    ("हिन्दी में पाठ தமிழ்", "हिन्दी में पाठ தமிழ்"),
    ("© 2020 ® ™ ‼ ℹ Ⓜ", "© 2020 ® ™ ‼ ℹ ⓜ"),
    ("a\xadb a\u200db a\u200bb a\u2060b a\ufeffb", "a\xadb a\u200db b a\u2060b a\ufeffb"),
    ("e\u0301te\u0301 \u0301x a\u0308", "e\u0301te\u0301 x a\u0308"),
    ("a\u202fb a\u203fb a\uff3fb a·b a‧b", "a\u202fb a\u203fb a\uff3fb a·b a‧b"),
    ("１２３ ａｂｃ ＡＢＣ １,２ １．２", "１２３ ａｂｃ ａｂｃ １,２ １．２"),
    ("𝐇𝐞𝐥𝐥𝐨 𝟏𝟐 𐐀𐐁 𠀀𠀁", "𝐇𝐞𝐥𝐥𝐨 𝟏𝟐 𐐨𐐩 𠀀 𠀁"),
    ("x\x00y\x00z \x01a", "x y z"),
    ("a\ud800b \udc00c", "b c"),
    ("Ⅻ ª º ² ½ ① ㎏ ﬁ", "ⅻ ª º ﬁ"),
    ("ꙮ ᏣᎳᎩ Ꮳ ꭰ Ა", "ꙮ ꮳꮃꭹ ꮳ ꭰ ა"),
    ("a\x0ab\x09c\x0dd\x0be\x0cf\x1cg\x85h\u2028i\u3000j", "b c d e f g h i j"),
    (
        "👩\u200d👩\u200d👧 👍🏽 ❤\ufe0f 1\ufe0f\u20e3 #\ufe0f\u20e3 #",
        "👩\u200d👩\u200d👧 👍🏽 ❤\ufe0f 1\ufe0f\u20e3 #\ufe0f\u20e3",
    ),
    ("🇫🇷🇩🇪🇯 🏴\U000e0067\U000e0062\U000e007f", "🇫🇷 🇩🇪 🏴\U000e0067\U000e0062\U000e007f"),
    ("", ""),
    ("the of and", ""),
]
"""Texts and the terms of Lucene 9's analysis as Anserini 0.22 configures it, set down from it."""

LONG = [
    ("a" * 255, [255]),
    ("a" * 256, [255, 1]),
    ("a" * 600, [255, 255, 90]),
    ("é" * 256, [255, 1]),
    ("a" * 254 + "'b c", [254, 1, 1]),
    ("a" * 253 + "'bc", [255, 1]),
    ("𝐚" * 128, [127, 1]),
    ("a" * 254 + "𝐚 b", [254, 1, 1]),
    ("_" * 300 + "a", [255]),
    ("1" * 250 + ",2,3,4", [254, 1]),
    ("x " + "y" * 10_000, [1] + 39 * [255] + [55]),
]
"""Texts with the lengths, in characters, of the words Lucene cuts them into."""

MARKS = "abzAZsS019_.,:;'\"#*- \t\n\0İΣé’א\u0301\u200d日アあ가ก٣👩🏽\ufe0f\u20e3🇫©ℹ𝐚\u202f·\ud800"
TAGS = ["\U000e0067", "\U000e007f"]
LONGER = ["the", "dog's", "x" * 7, "y" * 8, "Z" * 66, "w" * 250, "_" * 250]
PIECES = st.sampled_from([*MARKS, *TAGS, *LONGER])
TEXTS = st.one_of(st.lists(PIECES, max_size=30).map("".join), st.text(max_size=60))
NAMES = ["english", "unicode", "whitespace", "snowball:german"]


@pytest.mark.parametrize(("text", "terms"), AS_LUCENE)
def test_terms_are_lucenes(text: str, terms: str) -> None:
    assert analyzer("english").terms(text) == terms.split(" ") * bool(terms)
    assert [term for term, _, _ in analyzer("english").spans(text)] == terms.split(" ") * bool(
        terms
    )


@pytest.mark.parametrize(("text", "lengths"), LONG)
def test_words_over_255_units_are_cut_as_lucene_cuts_them(text: str, lengths: list[int]) -> None:
    assert [end - start for _, start, end in analyzer("unicode").spans(text)] == lengths
    assert [len(term) for term in analyzer("unicode").terms(text)] == lengths


def test_lower_case_is_javas_for_every_code_point_in_words() -> None:
    word_characters = np.flatnonzero(class_table()).tolist()
    lowered = "".join(lower(chr(character)) for character in word_characters)
    assert len(lowered) == len(word_characters) == 126_176
    assert hashlib.sha256(lowered.encode()).hexdigest().startswith("69a9b9b16635880b")


def test_class_table_has_lucenes_counts() -> None:
    counts = dict(zip(CLASSES, np.bincount(class_table()).tolist(), strict=True))
    assert counts["ALetter"] == 17_012
    assert counts["Emoji"] == 3_787
    assert counts["Ideographic"] == 89_231
    assert counts["Other"] == 987_936


def words_by_the_rules(text: str, automaton: Automaton) -> list[tuple[int, int]]:
    """The plain way: at each place the longest match of at most 255 UTF-16 units."""
    found, start = [], 0
    while start < len(text):
        state, at, best, units = START, start, start, 0
        while at < len(text):
            units += 1 + (text[at] > "\uffff")
            state = int(automaton.steps[state, automaton.classes[ord(text[at])]])
            if units > 255 or state == DEAD:
                break
            at += 1
            best = at if automaton.accepts[state] else best
        if best > start:
            found.append((start, best))
        start = max(best, start + 1)
    return found


@given(TEXTS)
@settings(deadline=None, max_examples=400)
def test_fast_paths_equal_the_rules(text: str) -> None:
    spans = analyzer("unicode").spans(text)
    assert [(a, b) for _, a, b in spans] == words_by_the_rules(text, standard_words())
    spans = analyzer("whitespace").spans(text)
    assert [(a, b) for _, a, b in spans] == words_by_the_rules(text, blank_separated_words())


@given(st.lists(st.sampled_from("abAB019_.,:;'\"#*- \n\0"), max_size=40).map("".join))
@settings(deadline=None, max_examples=400)
def test_ascii_pattern_equals_the_rules(text: str) -> None:
    spans = analyzer("unicode").spans(text)
    assert [(a, b) for _, a, b in spans] == words_by_the_rules(text, standard_words())


@pytest.mark.parametrize("name", NAMES)
@given(st.lists(TEXTS, max_size=6))
@settings(deadline=None, max_examples=100)
def test_bulk_and_spans_equal_terms(name: str, texts: list[str]) -> None:
    one = analyzer(name)
    expected = [one.terms(text) for text in texts]
    assert [[term for term, _, _ in one.spans(text)] for text in texts] == expected
    assert bulk_terms(one, texts) == expected


def bulk_terms(one: Analyzer, texts: list[str]) -> list[list[str]]:
    """The terms of texts by way of their numbers."""
    encoded = [text.encode(errors="surrogatepass") for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    bulk = one.bulk()
    found = bulk.add(np.frombuffer(b"".join(encoded), np.uint8), offsets)
    numbers = bulk.term_of[found.words]
    rows = [numbers[found.offsets[n] : found.offsets[n + 1]] for n in range(len(texts))]
    return [[bulk.terms[number] for number in row if number >= 0] for row in rows]


def test_bulk_keeps_numbers_over_many_adds_and_a_growing_table() -> None:
    one, bulk = analyzer("english"), analyzer("english").bulk()
    texts = [" ".join(f"Word{n}x{i} cats" for i in range(40)) for n in range(2000)]
    first = bulk.add(*laid_out(texts))
    second = bulk.add(*laid_out(texts[::-1]))
    assert len(bulk.term_of) == 80_001
    assert len(bulk.terms) == 80_001
    assert bulk.terms[bulk.term_of[first.words[1]]] == "cat"
    assert np.array_equal(first.words[:80], second.words[-80:])
    row = first.words[first.offsets[1999] : first.offsets[2000]]
    assert [bulk.terms[number] for number in bulk.term_of[row]] == one.terms(texts[1999])


def laid_out(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def test_bulk_takes_a_part_of_a_buffer_and_no_documents() -> None:
    bulk = analyzer("whitespace").bulk()
    found = bulk.add(np.frombuffer(b"xx aa bb yy", np.uint8), np.array([3, 5, 5, 8]))
    assert [bulk.terms[number] for number in bulk.term_of[found.words]] == ["aa", "bb"]
    assert found.offsets.tolist() == [0, 1, 1, 2]
    assert bulk.add(np.empty(0, np.uint8), np.array([0])).offsets.tolist() == [0]


def test_bulk_tells_similar_words_apart() -> None:
    texts = ["a", "a\0", "a\0\0", "x" * 16, "x" * 16 + "\0", "x" * 17, *words_with_one_hash()]
    assert bulk_terms(analyzer("whitespace"), texts) == [[text] for text in texts]


def words_with_one_hash() -> tuple[str, str]:
    """Two words of 32 bytes that begin alike and whose rest the table hashes to one number."""
    chance = np.random.default_rng(0)
    thirds = chance.integers(33, 127, (1 << 16, 8), np.uint8)
    numbers = thirds.view(np.uint64).ravel()
    mixed = (numbers ^ (numbers >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)
    fourths = np.frombuffer(b"rstuvwxy", np.uint64)[0] + mixed[0] - mixed
    plain = ((fourths.view(np.uint8) > 32) & (fourths.view(np.uint8) < 127)).reshape(-1, 8)
    other = int(np.flatnonzero(plain.all(axis=1))[1])
    pairs = [thirds[n].tobytes() + fourths[n : n + 1].tobytes() for n in (0, other)]
    return "x" * 16 + pairs[0].decode(), "x" * 16 + pairs[1].decode()


@given(st.binary(max_size=40))
@settings(deadline=None, max_examples=200)
def test_bytes_that_are_not_utf8_do_no_harm(data: bytes) -> None:
    bulk = analyzer("unicode").bulk()
    found = bulk.add(np.frombuffer(data, np.uint8), np.array([0, len(data)]))
    assert len(found.words) <= len(data)


ENDINGS = "ed ing s es ies y e ational logi logy bli bly izer ness ment tion sion ll at iz".split()


@given(
    st.text("aeioubcdklstyzwxgrn", max_size=6),
    st.lists(st.sampled_from(ENDINGS), max_size=3).map("".join),
)
@settings(deadline=None, max_examples=500)
def test_fast_porter_equals_porter(stem: str, ending: str) -> None:
    if stem + ending:
        assert FAST_PORTER(stem + ending) == porter(stem + ending)


FAST_PORTER = fast_porter()


@pytest.mark.parametrize(
    ("word", "stem"),
    [
        ("abilities", "abil"),
        ("agreed", "agre"),
        ("trekking", "trek"),
        ("revved", "rev"),
        ("nyyed", "ny"),
        ("possibly", "possibl"),
        ("technology", "technolog"),
        ("biology", "biologi"),
        ("sky", "sky"),
        ("played", "plai"),
        ("boxed", "box"),
        ("snowed", "snow"),
        ("hoping", "hope"),
        ("filing", "file"),
        ("rolls", "roll"),
        ("controlled", "control"),
        ("cease", "ceas"),
        ("rate", "rate"),
        ("ions", "ion"),
        ("𝐚s", "𝐚"),
        ("ss", "ss"),
    ],
)
def test_porter_is_lucenes(word: str, stem: str) -> None:
    assert porter(word) == FAST_PORTER(word) == stem


def test_functions_as_analyzers() -> None:
    one = FunctionAnalyzer("pairs", "2", lambda text: [text[i : i + 2] for i in range(0, 4, 2)])
    assert bulk_terms(one, ["abcd", "cdxy"]) == [["ab", "cd"], ["cd", "xy"]]
    upper = FunctionAnalyzer("upper", "1", lambda text: text.upper().split())
    assert upper.spans("ab, cd") == [("AB", 0, 2), ("CD", 4, 6)]


def test_snowball_stems_and_keeps_stop_words() -> None:
    assert analyzer("snowball:french").terms("Les chevaux") == ["le", "cheval"]
    assert analyzer("snowball:french").version.startswith("1, Snowball ")


@pytest.mark.parametrize("name", ["klingon", "snowball:klingon", "snowball", ""])
def test_unknown_names_are_errors_with_a_hint(name: str) -> None:
    with pytest.raises(InputError) as error:
        analyzer(name)
    assert "english" in error.value.hint


def test_analyzers_can_be_sent_to_other_processes() -> None:
    one = pickle.loads(pickle.dumps(analyzer("english")))
    assert (one.name, one.version, one.terms("cats")) == ("english", "1", ["cat"])


def test_cacm_has_lucenes_number_of_terms() -> None:
    folder = os.environ.get("TAMIS_DATA")
    if folder is None:
        pytest.skip("TAMIS_DATA is not set")
    count, distinct = 0, set()
    for line in (Path(folder) / "cacm" / "corpus.jsonl").read_text("utf-8").splitlines():
        document = json.loads(line)
        terms = analyzer("english").terms(f"{document['title']}\n{document['text']}")
        count += len(terms)
        distinct.update(terms)
    assert (count, len(distinct)) == (320_968, 14_363)
