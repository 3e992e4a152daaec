"""An index of whatever documents people have, searched for some words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tamis import Index, Queries, Query
from tamis.errors import InputError

TEXTS = ["a drum sieve sorts flour", "a fish net", "a sieve, a sieve"]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index.build(TEXTS, tmp_path / "index")


def test_hits_are_those_of_bm25(index: Index) -> None:
    run = index.bm25().search(Queries.of([Query("q", "sieves")]), 10)
    hits = index.search("sieves")
    assert [(hit.id, hit.score) for hit in hits] == list(run["q"])
    assert [hit.text for hit in hits] == [TEXTS[2], TEXTS[0]]
    assert [hit.id for hit in index.search("sieves", top=1)] == ["2"]
    assert index.search("nothing") == []


def test_what_was_tuned_is_used(index: Index) -> None:
    index.record_tuned({"ranking": "ql", "parameters": {"mu": 10}})
    run = index.ql(mu=10).search(Queries.of([Query("q", "sieve")]), 10)
    assert [(hit.id, hit.score) for hit in index.search("sieve")] == list(run["q"])


def test_titles_come_along(tmp_path: Path) -> None:
    index = Index.build([{"id": "d1", "title": "Tamis", "text": "drum"}], tmp_path / "index")
    [hit] = index.search("tamis")
    assert (hit.id, hit.title, hit.text) == ("d1", "Tamis", "drum")


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
