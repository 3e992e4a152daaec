"""An index of whatever documents people have, searched for some words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis import Document, Index, Queries, Query
from tamis.errors import InputError
from tamis.search.hits import cosine_score, lexical_score, logistic_score

TEXTS = ["a drum sieve sorts flour", "a fish net", "a sieve, a sieve"]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index.build(TEXTS, tmp_path / "index")


def test_hits_are_those_of_bm25(index: Index) -> None:
    run = index.bm25().search(Queries.of([Query("q", "sieves")]), 10)
    hits = index.search("sieves")
    assert [(hit.id, hit.raw_score) for hit in hits] == list(run["q"])
    assert [hit.score for hit in hits] == [s / (s + 10) for s in (hit.raw_score for hit in hits)]
    assert [hit.text for hit in hits] == [TEXTS[2], TEXTS[0]]
    assert [hit.id for hit in index.search("sieves", top=1)] == ["2"]
    assert index.search("nothing") == []


def test_what_was_tuned_is_used(index: Index) -> None:
    index.record_tuned({"ranking": "ql", "parameters": {"mu": 10}})
    run = index.ql(mu=10).search(Queries.of([Query("q", "sieve")]), 10)
    assert [(hit.id, hit.raw_score) for hit in index.search("sieve")] == list(run["q"])


def test_titles_come_along(tmp_path: Path) -> None:
    index = Index.build([{"id": "d1", "title": "Tamis", "text": "drum"}], tmp_path / "index")
    [hit] = index.search("tamis")
    assert (hit.id, hit.title, hit.text) == ("d1", "Tamis", "drum")


def test_a_hit_has_the_passage_that_matches_best_and_the_fields(tmp_path: Path) -> None:
    text = "Nets catch fish in the sea. " * 30 + "A sieve sorts grain. " + "Drums beat. " * 60
    document = Document("d1", text, "Tools", {"author": "ada", "date": "2024-05-17"})
    index = Index.build([document, Document("d2", "", "A sieve")], tmp_path / "index")
    hits = {hit.id: hit for hit in index.search("sieve grain")}
    hit = hits["d1"]
    assert "A sieve sorts grain." in hit.passage and len(hit.passage) < len(text) / 2
    assert hit.text[hit.start : hit.end] == hit.passage
    assert hit.fields == {"author": "ada", "date": "2024-05-17"}
    assert (hit.calibrated, hit.probability, hit.rank) == (False, None, 1)
    empty = hits["d2"]
    assert (empty.passage, empty.start, empty.end) == ("A sieve", 0, 0)


def test_scores_from_0_to_1_keep_their_order() -> None:
    for function in (lexical_score, cosine_score, logistic_score):
        values = function(np.linspace(-1, 1, 9))
        assert (np.diff(values) >= 0).all() and values[-1] > values[0]
        assert values.min() >= 0 and values.max() <= 1
    assert lexical_score([1e9])[0] < 1
    assert logistic_score([-800.0, 800.0]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("words", [["sieve"], Queries.of([Query("q", "sieve")]), None])
def test_what_are_no_words_is_refused(index: Index, words: Any) -> None:
    with pytest.raises(InputError, match="a string"):
        index.search(words)
    with pytest.raises(InputError):
        index.search("sieve", top=0)


def test_strings_that_are_added_replace_no_document(index: Index) -> None:
    with pytest.raises(InputError, match=r"documents\[0\] has no id"):
        index.add(["another"])
    index.add([("more", "another sieve")])
    assert index.num_documents == 4
