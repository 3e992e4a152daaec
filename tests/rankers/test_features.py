"""Embeddings and columns come together row by row; what is no number is refused."""

import numpy as np
import pytest
from tests.rankers.small import FakeEmbedder, embedded, open_fake, small_candidates

from tamis.errors import InputError
from tamis.rankers.features import FeatureSource, Floats, open_features, z_scores
from tamis.registry import Openers, Opening
from tamis.types import Document, Run, Spec


def test_a_row_is_query_passage_columns() -> None:
    run, _, documents = small_candidates(3, 4)
    features = embedded(documents, "lexical_score").of(run)
    embedder = FakeEmbedder()
    assert run.queries.texts is not None
    for row in range(len(run.doc)):
        query = run.queries.texts[row // 4]
        text = documents[run.docs[int(run.doc[row])]].text
        lexical = run.extra["lexical_score"][row // 4 * 4 : row // 4 * 4 + 4]
        z = (lexical[row % 4] - lexical.mean()) / lexical.std()
        expected = np.concatenate([*embedder.embed([query, text]), [z]])
        assert np.allclose(features.rows(np.array([row]))[0], expected, atol=1e-6)
    assert len(features) == 12
    assert features.width == 2 * embedder.dimension + 1


def test_without_normalisation_a_column_is_as_it_is() -> None:
    run = Run.from_dict({"q": {"a": 3.0, "b": 1.0}})
    features = FeatureSource(columns=("score",), normalisation="none").of(run)
    assert features.rows(np.arange(2)).tolist() == [[3.0], [1.0]]


def test_a_constant_column_is_zero() -> None:
    values = np.array([0.1 + 0.2, 0.3, 0.3, 7.0])
    assert z_scores(values, np.array([0, 0, 0, 1]), 2).tolist() == [0, 0, 0, 0]
    run = Run.from_dict({"q": {"a": 3.0, "b": 1.0}}).with_extra(one=[1, 1])
    assert not FeatureSource(columns=("one",)).of(run).columns.any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_named(value: float) -> None:
    run = Run.from_dict({"q1": {"a": 1.0}, "q2": {"b": 3.0, "c": 1.0}})
    with pytest.raises(InputError, match=r"'x' is .* document 'b' of query 'q2'") as caught:
        FeatureSource(columns=("x",)).of(run.with_extra(x=[1.0, value, 2.0]))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda: FeatureSource(), "no features"),
        (lambda: FeatureSource(FakeEmbedder()), "belong together"),
        (lambda: FeatureSource(columns=("y",)), "no column 'y'"),
        (lambda: FeatureSource(columns=("text",)), "not one number"),
    ],
)
def test_bad_sources(source: object, message: str) -> None:
    run = Run.from_dict({"q1": {"a": 1.0}}).with_extra(text=["x"])
    with pytest.raises(InputError, match=message) as caught:
        source().of(run)  # type: ignore[operator]
    assert caught.value.hint


class BadEmbedder(FakeEmbedder):
    def embed(self, texts: object) -> Floats:
        return np.full((len(texts), self.dimension), np.nan, np.float32)  # type: ignore[arg-type]


class ShortEmbedder(FakeEmbedder):
    def embed(self, texts: object) -> Floats:
        return np.zeros((1, self.dimension), np.float32)


@pytest.mark.parametrize(
    ("embedder", "message"), [(BadEmbedder(), "no finite number"), (ShortEmbedder(), "shape")]
)
def test_bad_embedders(embedder: FakeEmbedder, message: str) -> None:
    run, _, documents = small_candidates(2, 3)
    with pytest.raises(InputError, match=message):
        FeatureSource(embedder, documents).of(run)


def test_texts_must_be_there() -> None:
    run, _, documents = small_candidates(2, 3)
    first = run.docs[0]
    with pytest.raises(InputError, match=f"document '{first}'"):
        embedded({name: doc for name, doc in documents.items() if name != first}).of(run)
    with pytest.raises(InputError, match="no texts"):
        embedded(documents).of(Run.from_dict(run.to_dict()))


def open_mine(values: Spec, opening: Opening) -> dict[str, Document]:
    return {"d": Document("d", "x")}


def test_the_spec_opens_again() -> None:
    source = FeatureSource(columns=("score", "x"), normalisation="none")
    opened = open_features(source.spec(), Opening())
    assert opened == source or opened.spec() == source.spec()
    both = embedded({"d": Document("d", "x")}, "score")
    spec = both.spec() | {"documents": {"documents": "mine", "version": 1}}
    openers: Openers = {"text_embedder": {"fake": open_fake}, "documents": {"mine": open_mine}}
    assert open_features(spec, Opening(openers=openers)).embedder == FakeEmbedder()
    with pytest.raises(InputError, match="normalisation"):
        open_features(source.spec() | {"normalisation": "y"}, Opening())
