"""RM3 against a plain one, and its parts by hand."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.search.index import Index
from tamis.search.rm3 import RM3, feedback_terms
from tamis.types import Document, Ids, Queries


def queries(*texts: str) -> Queries:
    return Queries(Ids.of(f"q{n:04}" for n in range(len(texts))), texts)


def plain_rm3(index: Index, text: str, rm3: RM3) -> dict[str, float]:
    """The expanded query as terms and weights."""

    def allowed(term: str) -> bool:
        rare = index.document_frequency(term) / len(index) <= 0.1
        return rare and re.fullmatch("[a-z0-9]{2,20}", term) is not None

    def largest(weights: dict[str, float]) -> dict[str, float]:
        best = sorted(weights.items(), key=lambda pair: (-pair[1], pair[0]))[: rm3.terms]
        return dict(best)

    model: Counter[str] = Counter()
    for doc_id, score in (index.bm25() % rm3.documents)(queries(text)).ranking(0):
        vector = index.document_vector(doc_id)
        kept = largest({term: n for term, n in vector.items() if allowed(term)})
        for term, count in kept.items():
            model[term] += count / sum(kept.values()) * score  # type: ignore[assignment]
    best = largest(dict(model))
    asked = Counter(text.split())
    mixed = {term: rm3.weight * count / asked.total() for term, count in asked.items()}
    for term, weight in best.items():
        share = (1 - rm3.weight) * weight / sum(best.values())
        mixed[term] = mixed.get(term, 0.0) + share
    return mixed


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    chance = random.Random(5)
    words = [f"w{n}" for n in range(80)] + ["x", "Big", "wörter", "with.dot"]
    likely = [1 / (n + 3) for n in range(len(words))]
    documents = [
        Document(f"d{n}", " ".join(chance.choices(words, likely, k=chance.randint(0, 30))))
        for n in range(300)
    ]
    path = tmp_path_factory.mktemp("rm3") / "index"
    made = Index.build(documents[:200], path, analyzer="whitespace")
    made.add(documents[200:])
    return made


@pytest.mark.parametrize("rm3", [RM3(), RM3(3, 2, 0.9), RM3(20, 30, 0.1), RM3(5, 5, 0.0)])
def test_rm3_is_a_search_for_the_mixed_query(index: Index, rm3: RM3) -> None:
    for text in ["w30", "w5 w5 w60", "w1 unknown w44", "Big w70 x"]:
        source = index.bm25().rm3(rm3.terms, rm3.documents, rm3.weight)
        found = dict(source(queries(text)).ranking(0))
        mixed = plain_rm3(index, text, rm3)
        expected = dict(index.bm25().search_weighted(queries(""), [mixed], 1000).ranking(0))
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_only_plain_and_rare_terms_are_added(index: Index) -> None:
    allowed = feedback_terms(index.snapshot)
    terms = np.array(list(index.snapshot.lexicon.terms))
    assert {"x", "Big", "wörter", "with.dot", "w0"}.isdisjoint(terms[allowed])
    assert "w79" in terms[allowed]


def test_a_query_that_finds_nothing_stays_empty(index: Index) -> None:
    assert index.bm25().rm3()(queries("unknown", "")).doc.tolist() == []


def test_bad_parameters_are_refused() -> None:
    for bad in ({"terms": 0}, {"documents": 0}, {"weight": 1.5}):
        with pytest.raises(InputError):
            RM3(**bad)


def test_documents_that_score_nothing_add_nothing(tmp_path: Path) -> None:
    documents = [Document(f"d{n}", "") for n in range(9)] + [Document("d9", "gg")]
    index = Index.build(documents, tmp_path / "index")
    found = index.ql().rm3()(queries("gg"))
    assert found["q0000"].ids == ["d9"]
    assert index.ql()(queries("gg")).score.tolist() == [0.0]
