"""What is told about the passages of a collection."""

from __future__ import annotations

import json

import pytest

from tamis.collection.base import Collection
from tamis.collection.describe import passage_statistics
from tamis.errors import InputError
from tamis.text.passages import parse_spec
from tamis.types import Document

DOCUMENTS = [
    Document("a", " ".join(f"w{n}" for n in range(10))),
    Document("b", "one two three", "A title"),
    Document("c", "", "Only a title"),
    Document("d", " "),
]
COLLECTION = Collection("toy", "none", DOCUMENTS)


def test_windows() -> None:
    facts = passage_statistics(COLLECTION, parse_spec("words:2:2"))
    assert facts["passages"] == "words:2:2"
    assert (facts["documents"], facts["count"], facts["documents_without_passages"]) == (
        4,
        5 + 2 + 1,
        1,
    )
    per_document = {"mean": 2, "min": 0, "median": 1.5, "p90": 4.1, "max": 5}
    assert facts["per_document"] == per_document
    assert facts["words"]["mean"] == 2
    assert "left_out_by_sampling" not in facts
    assert "sentences" not in facts
    json.dumps(facts)


def test_a_sample_says_what_it_leaves_out() -> None:
    facts = passage_statistics(COLLECTION, parse_spec("words:2:2:3"))
    assert facts["count"] == 3 + 2 + 1
    assert facts["left_out_by_sampling"] == {"passages": 2, "words": 4}


def test_tokens_need_a_tokenizer() -> None:
    with pytest.raises(InputError, match="needs a tokenizer"):
        passage_statistics(COLLECTION, parse_spec("tokens:4:2"))
    letters = passage_statistics(
        COLLECTION, parse_spec("tokens:4:4"), tokens=lambda text: [(n, n + 1) for n in range(8)]
    )
    assert letters["count"] == 2 + 2 + 1


def test_the_splitter_is_named_where_sentences_matter() -> None:
    assert passage_statistics(COLLECTION, parse_spec("words:100"))["sentences"] == "tamis-rules 1"


def test_no_documents() -> None:
    facts = passage_statistics(Collection("empty", "none", []), parse_spec("whole"))
    assert (facts["count"], facts["per_document"]) == (0, {})
