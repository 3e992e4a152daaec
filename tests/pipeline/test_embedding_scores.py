"""A bi-encoder re-ranks with the vectors that an index has of it, and only with those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.pipeline.rerank import rerank
from tamis.search import Index
from tamis.types import Document, Pairs, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MOST = 40


@dataclass
class Letters:
    """How often each letter occurs in the first forty characters, as a vector of length one."""

    shift: int = 0
    scale: Scale = "cosine"
    asked: list[str] = field(default_factory=list)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encode_with_truncation(texts)[0]

    def encode_with_truncation(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        self.asked += texts
        counts = [[text[:MOST].lower().count(letter) for letter in LETTERS] for text in texts]
        rows = np.roll(np.array(counts, np.float32).reshape(-1, 26) + 0.01, self.shift, axis=1)
        rows[:, 0] *= 1 + self.shift
        truncated_tokens = np.array([max(0, len(text) - MOST) for text in texts], np.int32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True), truncated_tokens

    def score(self, pairs: Pairs) -> Scores:
        (queries, first), (texts, second) = map(
            self.encode_with_truncation, (pairs.queries, pairs.texts)
        )
        query, text = pairs.index.T
        values = np.einsum("nd,nd->n", queries[query], texts[text])
        return Scores(values, first[query] + second[text])


DOCUMENTS = [
    Document("a", "Sieves and drums. A second sentence about something else entirely, quite long."),
    Document("b", "Grain."),
    Document("c", ""),
    Document("d", "Nets catch fish.", "Of nets"),
    Document("e", "Drums are played. Sieves are not."),
]
LATER = [Document("f", "Sieves are round."), Document("b", "Grain is sifted with a sieve.")]
QUERIES = Queries.of([Query("q1", "sieves"), Query("q2", "what a drum is " * 4), Query("q3", " ")])
RUN = Run.from_dict(
    {
        "q1": {"a": 6, "b": 5, "c": 4, "d": 3, "e": 2, "f": 1},
        "q2": {"e": 3, "d": 2, "a": 1},
        "q3": {"a": 1},
    }
).with_queries(QUERIES)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    made = Index.build(DOCUMENTS, tmp_path / "index")
    made.add(LATER)  # a second segment, in which b is replaced
    return made


def same(first: Run, second: Run) -> None:
    for query in first:
        assert [name for name, _ in first[query]] == [name for name, _ in second[query]]
    np.testing.assert_allclose(first.score, second.score, atol=1e-6)
    assert list(first.extra) == list(second.extra)
    for name, column in first.extra.items():
        assert column.tolist() == second.extra[name].tolist(), name


@pytest.mark.parametrize("passages", ["whole", "words:3", "sentences:1:1"])
@pytest.mark.parametrize("interpolate", [None, 0.5])
def test_the_same_without_running_documents(
    index: Index, passages: str, interpolate: float | None
) -> None:
    told = {"passages": passages, "depth": 5, "interpolate": interpolate}
    expected = rerank(Letters(), index, **told)(RUN)  # type: ignore[arg-type]
    index.encode(Letters(), passages=passages)
    scorer = Letters()
    stage = rerank(scorer, index, **told)  # type: ignore[arg-type]
    same(stage(RUN), expected)
    same(stage(RUN), expected)
    assert not {document.text for document in DOCUMENTS if document.text} & set(scorer.asked)
    assert scorer.asked.count("sieves") == 2  # each time; the texts it is known by once
    assert len(scorer.asked) == 6
    truncated_tokens = stage(RUN).extra["truncated_tokens"].sum()
    assert truncated_tokens > 0


def test_chunks(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    index.encode(Letters(), passages="words:3")
    stage = rerank(Letters(), index, passages="words:3")
    expected = stage(RUN)
    monkeypatch.setattr("tamis.pipeline.embedding_scores.DOCUMENTS_PER_CHUNK", 2)
    same(stage(RUN), expected)


def test_other_vectors_are_not_used(index: Index) -> None:
    expected = rerank(Letters(), index)(RUN)
    index.encode(Letters(shift=1))
    same(rerank(Letters(), index)(RUN), expected)  # made by another encoder
    index.encode(Letters(), passages="words:3", force=True)
    same(rerank(Letters(), index)(RUN), expected)  # of other passages
    index.encode(Letters(), passages="whole", force=True)
    index.add([Document("g", "Sieves.")])
    stage = rerank(scorer := Letters(), index)
    same(stage(RUN), expected)  # g has none
    assert "Grain is sifted with a sieve." in scorer.asked
    index.encode(Letters())
    scorer.asked.clear()
    same(stage(RUN), expected)
    assert "Grain is sifted with a sieve." not in scorer.asked  # now they are there


def test_a_scale_that_is_no_product(index: Index) -> None:
    index.encode(Letters())
    rerank(scorer := Letters(scale="logit"), index)(RUN)
    assert "Grain is sifted with a sieve." in scorer.asked


def test_a_query_whose_vector_is_no_number(index: Index) -> None:
    class Broken(Letters):
        def encode_with_truncation(
            self, texts: Sequence[str]
        ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
            rows, truncated_tokens = super().encode_with_truncation(texts)
            rows[[text == "sieves" for text in texts]] = np.nan
            return rows, truncated_tokens

    index.encode(Letters())
    with pytest.raises(InputError, match="passage 0 of document 'a' for query 'q1' is nan"):
        rerank(Broken(), index)(RUN.select(QUERIES.ids))
    run = rerank(Broken(), index, missing="skip")(RUN)
    assert [name for name, _ in run["q1"]] == ["a", "b", "c", "d", "e", "f"]
    assert run["q2"].extra["passage"].tolist() == [0, 0, 0]
