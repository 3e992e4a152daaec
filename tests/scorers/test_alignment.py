"""Alignment equals the paper's equations: by hand, by a slow program, and by its contract."""

from __future__ import annotations

import math
import re
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.scorers import alignment as module
from tamis.scorers import bag_of_words
from tamis.scorers.alignment import Alignment, WordTable
from tamis.scorers.word_counts import WordCounts
from tamis.scorers.word_vectors import WordVectors
from tamis.testing import check_scorer
from tamis.text.analysis import Bulk
from tamis.types import Document, Pairs, score_texts

VECTORS = {
    "drum": (3.0, 4.0),
    "barrel": (4.0, 3.0),
    "sieve": (0.0, 2.0),
    "river": (-1.0, 0.0),
    "nowhere": (0.0, 0.0),
}
COLLECTION = ["a drum", "Drum, drum and barrel", "a river", "the tamis"]


def vectors_of(vectors: Mapping[str, Sequence[float]]) -> WordVectors:
    return WordVectors.of(list(vectors), np.array(list(vectors.values()), np.float32))


def counts_of(texts: Sequence[str]) -> WordCounts:
    return WordCounts.of([Document(str(n), text) for n, text in enumerate(texts)])


ALIGNMENT = Alignment(vectors_of(VECTORS), counts_of(COLLECTION))


def every_pair(queries: Sequence[str], texts: Sequence[str]) -> Pairs:
    index = np.indices((len(queries), len(texts)), np.int32).reshape(2, -1).T
    return Pairs(queries, texts, np.ascontiguousarray(index))


def idf(frequency: int, documents: int = len(COLLECTION)) -> float:
    return math.log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


BY_HAND = [
    # drum (3, 4)/5 . barrel (4, 3)/5 = 24/25, and . sieve (0, 1) = 4/5: the best counts
    ("drum", "barrel sieve", idf(2) * 24 / 25),
    ("drum", "sieve", idf(2) * 4 / 5),
    ("drum", "DRUM barrel", idf(2) * 1),
    ("drum drum sieve", "barrel", 2 * idf(2) * 24 / 25 + idf(0) * 3 / 5),
    # the best of a text that points away is negative, unless a word without a vector is in it
    ("drum", "river", idf(2) * -3 / 5),
    ("drum", "river tamis", 0.0),
    # a word without a vector, or with one that points nowhere, is near itself alone
    ("tamis", "the Tamis", idf(1)),
    ("tamis", "sieve drum", 0.0),
    ("nowhere", "nowhere", idf(0)),
    ("nowhere", "drum", 0.0),
    ("unheard", "of", 0.0),
    # nothing to align
    ("", "drum", 0.0),
    ("drum", "", 0.0),
    ("?!", "...", 0.0),
]


@pytest.mark.parametrize(("query", "text", "expected"), BY_HAND)
def test_by_hand(query: str, text: str, expected: float) -> None:
    assert score_texts(ALIGNMENT, query, [text])[0] == pytest.approx(expected, abs=1e-6)


def test_idf_counts_documents_not_occurrences() -> None:
    counts = counts_of(COLLECTION)
    assert counts.frequencies(["drum", "a", "the", "sieve"]).tolist() == [2, 2, 1, 0]
    assert counts.idf(["drum", "sieve"]) == pytest.approx([math.log(2), math.log(10)])


def test_the_contract() -> None:
    check_scorer(ALIGNMENT)
    random = np.random.default_rng(1)
    words = sorted(set(re.findall(r"\w+", "a drum sieve rivers flow to the sea how does it work")))
    vectors = WordVectors.of(words, random.normal(size=(len(words), 20)).astype(np.float32))
    check_scorer(Alignment(vectors, counts_of(["a drum sieve", "rivers flow"])), long_text=50_000)


def slow_scores(
    vectors: dict[str, Sequence[float]], collection: Sequence[str], pairs: Pairs
) -> NDArray[np.float64]:
    """The equations word by word; words here are runs of letters and digits."""

    def words(text: str) -> list[str]:
        return re.findall(r"[a-z0-9]+", text.lower())

    def near(first: str, second: str) -> float:
        if first == second:
            return 1.0
        if first not in vectors or second not in vectors:
            return 0.0
        a, b = np.array(vectors[first]), np.array(vectors[second])
        lengths = np.linalg.norm(a) * np.linalg.norm(b)
        return float(a @ b / lengths) if lengths else 0.0

    def idf(word: str) -> float:
        frequency = sum(word in words(text) for text in collection)
        return math.log(1 + (len(collection) - frequency + 0.5) / (frequency + 0.5))

    return np.array(
        [
            sum(
                idf(word) * max((near(word, other) for other in words(pairs.texts[t])), default=0)
                for word in words(pairs.queries[q])
            )
            for q, t in pairs.index.tolist()
        ]
    )


WORD = st.sampled_from([f"{letter}{n}" for letter in "aBcD" for n in range(7)])
TEXT = st.lists(WORD, max_size=40).map(" ".join)
TEXTS = st.lists(TEXT, min_size=1, max_size=6)
NUMBER = st.floats(-2, 2, width=32).map(lambda value: round(value, 2))


@settings(deadline=None, max_examples=80)
@given(
    st.dictionaries(WORD.map(str.lower), st.tuples(NUMBER, NUMBER, NUMBER), min_size=1),
    TEXTS,
    TEXTS,
    TEXTS,
    st.integers(1, 60),
)
def test_equals_the_slow_way(
    vectors: dict[str, Sequence[float]],
    collection: list[str],
    queries: list[str],
    texts: list[str],
    block: int,
) -> None:
    pairs = every_pair(queries, texts)
    scorer = Alignment(vectors_of(vectors), counts_of(collection))
    expected = slow_scores(vectors, collection, pairs)
    np.testing.assert_allclose(scorer.score(pairs).values, expected, atol=1e-5)
    with pytest.MonkeyPatch.context() as patch:  # tiny blocks, a fresh table after each
        patch.setattr(module, "MAX_TABLE_WORDS", 3)
        patch.setattr(
            module,
            "text_blocks",
            lambda pairs, query: bag_of_words.text_blocks(pairs, query, block),
        )
        np.testing.assert_array_equal(scorer.score(pairs).values, scorer.score(pairs).values)
        np.testing.assert_allclose(scorer.score(pairs).values, expected, atol=1e-5)


def test_a_pair_scores_the_same_to_the_last_bit_in_any_company() -> None:
    random = np.random.default_rng(3)
    words = [f"w{n}" for n in range(400)]
    vectors = WordVectors.of(words, random.normal(size=(400, 50)).astype(np.float32))
    scorer = Alignment(vectors, counts_of(words))
    queries = [" ".join(random.choice(words, size)) for size in (1, 7, 16, 17, 40)]
    texts = [" ".join(random.choice(words, size)) for size in (1, 20, 60, 200)]
    pairs = every_pair(queries, texts)
    values = scorer.score(pairs).values
    shuffled = random.permutation(len(pairs))
    mixed = scorer.score(Pairs(queries, texts, pairs.index[shuffled])).values
    np.testing.assert_array_equal(mixed, values[shuffled])
    alone = [score_texts(scorer, queries[q], [texts[t]])[0] for q, t in pairs.index]
    np.testing.assert_array_equal(alone, values)


def test_words_read_once_score_as_texts_do() -> None:
    queries, texts = ["drum sieve", "tamis"], ["a barrel", "the tamis river", ""]
    table = WordTable(ALIGNMENT.vectors, ALIGNMENT.counts)
    stored = table.read(texts)
    table.read(["words that come later"])
    pairs = every_pair(queries, texts)
    values = table.score(table.weigh_queries(queries), stored, pairs.index)
    np.testing.assert_array_equal(values, ALIGNMENT.score(pairs).values)
    with pytest.raises(InputError, match="outside 2 queries and 3 texts"):
        table.score(table.weigh_queries(queries), stored, np.array([[0, 3]], np.int32))


def test_each_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(bulk: Bulk, texts: Sequence[str]) -> bag_of_words.Bags:
        read.extend(texts)
        return bag_of_words.read_bags(bulk, texts)

    monkeypatch.setattr(module, "read_bags", counted)
    ALIGNMENT.score(every_pair(["drum", "sieve"], ["a barrel", "a river"]))
    assert read == ["drum", "sieve", "a barrel", "a river"]


class Made(Sequence[str]):
    """Many texts, each made when it is asked for."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: Any) -> Any:
        return f"barrel {number % 999} sieve " * 30


def peak_of(pairs: int) -> int:
    """The most memory held at once, beyond the few bytes that every pair takes."""
    index = np.stack([np.zeros(pairs, np.int32), np.arange(pairs, dtype=np.int32)], 1)
    tracemalloc.start()
    ALIGNMENT.score(Pairs(["drum sieve"], Made(pairs), index))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - 80 * pairs


def test_memory_does_not_grow_with_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module, "text_blocks", lambda pairs, query: bag_of_words.text_blocks(pairs, query, 100_000)
    )
    peak_of(100)
    assert peak_of(6000) < 1.2 * peak_of(1500)


def test_odd_texts() -> None:
    million = "barrel " * 1_000_000
    texts = [
        million + "drum",
        "🙂 drum\x00\x07 \x1b",
        "\ud800 drum",
        "ＤＲＵＭ",
        "drum’s",
        "DRUM" * 99,
    ]
    values = score_texts(ALIGNMENT, "drum", texts)
    assert values[:3] == pytest.approx(idf(2))
    assert np.isfinite(values).all()
    long = " ".join(f"word{n}" for n in range(100_000))
    value = score_texts(ALIGNMENT, long + " drum", ["drum"])[0]
    assert value == pytest.approx(idf(2))


def test_a_pair_outside_is_refused() -> None:
    with pytest.raises(IndexError):
        ALIGNMENT.score(Pairs(["drum"], ["a"], np.array([[0, 1]], np.int32)))
    with pytest.raises(IndexError):
        ALIGNMENT.score(Pairs(["drum"], ["a"], np.array([[1, 0]], np.int32)))


def test_counts_are_saved_and_read(tmp_path: Path) -> None:
    path = tmp_path / "counts.parquet"
    counts = WordCounts.of([Document("1", "fine", title="Sieve"), Document("2", "")])
    counts.save(path)
    again = WordCounts.open(path)
    assert (again.num_documents, again.analyzer, again.words) == (2, "unicode", counts.words)
    assert again.frequencies(["sieve", "fine", "drum"]).tolist() == [1, 1, 0]
    with pytest.raises(InputError, match="there is no file"):
        WordCounts.open(tmp_path / "other")
    (tmp_path / "text").write_text("word 1")
    with pytest.raises(InputError, match="is no Parquet file"):
        WordCounts.open(tmp_path / "text")


def test_counts_of_another_kind_or_analyzer_are_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"word": ["a"]}), tmp_path / "other")
    with pytest.raises(InputError, match="not a file of word counts"):
        WordCounts.open(tmp_path / "other")
    counts_of(["a"]).save(tmp_path / "counts")
    table = pq.read_table(tmp_path / "counts")
    note = table.schema.metadata[b"tamis"].replace(b'"version": "1"', b'"version": "0"')
    pq.write_table(table.replace_schema_metadata({b"tamis": note}), tmp_path / "old")
    with pytest.raises(InputError, match="version '0', this tamis has '1'"):
        WordCounts.open(tmp_path / "old")


def test_counting_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a b", "b c", "c d e", "a", "ä Ä"] * 3
    whole = counts_of(texts)
    monkeypatch.setattr(
        "tamis.scorers.word_counts.text_pieces",
        lambda texts: bag_of_words.text_pieces(texts, size=4),
    )
    parts = counts_of(texts)
    assert (parts.num_documents, parts.words) == (whole.num_documents, whole.words)
    np.testing.assert_array_equal(parts.documents_of, whole.documents_of)
    assert parts.frequencies(["a", "ä"]).tolist() == [6, 3]


def test_no_documents_weigh_every_word_alike() -> None:
    scorer = Alignment(vectors_of(VECTORS), WordCounts.of([]))
    assert score_texts(scorer, "drum", ["drum"])[0] == pytest.approx(math.log(2))
