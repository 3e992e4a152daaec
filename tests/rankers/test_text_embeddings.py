"""A text's embedding is the mean of its words' vectors, whatever it stands beside."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tamis.errors import InputError, LineError
from tamis.rankers import text_embeddings
from tamis.rankers.text_embeddings import TextEmbedder, open_text_embedder
from tamis.scorers.subwords import Subwords
from tamis.scorers.word_vectors import WordVectors

WORDS = ["drum", "sieve", "grain", "café"]
MATRIX = np.array([[1, 2, 3], [4, 0, -2], [0.5, 0.25, 8], [7, 7, 7]], np.float32)
VECTORS = WordVectors.of(WORDS, MATRIX)
TEXTS = ["Drum sieve, drum!", "", "nothing known", "The café's grain", "café"]


def by_loop(texts: list[str]) -> np.ndarray:
    rows = dict(zip(WORDS, MATRIX, strict=True))
    expected = np.zeros((len(texts), 3))
    for number, text in enumerate(texts):
        known = [rows[word] for word in text.split() if word in rows]
        expected[number] = np.mean(known, 0) if known else 0
    return expected


def test_by_hand() -> None:
    embeddings = TextEmbedder(VECTORS).embed_counted(TEXTS)
    drum, sieve, grain, _ = MATRIX
    expected = [(2 * drum + sieve) / 3, 0 * drum, 0 * drum, grain, MATRIX[3]]
    np.testing.assert_allclose(embeddings.values, expected, rtol=1e-6)
    assert embeddings.values.dtype == np.float32
    assert embeddings.num_words.tolist() == [3, 0, 2, 3, 1]
    assert embeddings.num_unknown.tolist() == [0, 0, 2, 2, 0]
    assert embeddings.unknown_share == 4 / 9


def test_length_one() -> None:
    values = TextEmbedder(VECTORS, normalise=True).embed(["drum sieve", ""])
    mean = (MATRIX[0] + MATRIX[1]) / 2
    np.testing.assert_allclose(values, [mean / np.linalg.norm(mean), [0, 0, 0]], rtol=1e-6)


@given(st.lists(st.lists(st.sampled_from([*WORDS, "net", "x"])).map(" ".join)))
def test_the_same_as_a_loop_and_one_at_a_time(texts: list[str]) -> None:
    embedder = TextEmbedder(VECTORS)
    values = embedder.embed(texts)
    assert values.shape == (len(texts), embedder.dimension)
    np.testing.assert_allclose(values, by_loop(texts), rtol=1e-5, atol=1e-6)
    for text, value in zip(texts, values, strict=True):
        np.testing.assert_array_equal(embedder.embed([text])[0], value)


def test_many_blocks_and_a_full_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts = [f"drum {'grain ' * n}word{n} sieve" for n in range(50)]
    expected = TextEmbedder(VECTORS).embed(texts)
    monkeypatch.setattr(text_embeddings, "CHARACTERS_PER_BLOCK", 30)
    monkeypatch.setattr(text_embeddings, "MAX_TABLE_WORDS", 5)
    embedder = TextEmbedder(VECTORS)
    np.testing.assert_array_equal(embedder.embed(texts), expected)
    assert embedder.write(iter(texts), tmp_path / "all.npy") == 50
    mapped = np.load(tmp_path / "all.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(mapped, expected)


def test_unseen_words_have_subwords() -> None:
    ngrams = Subwords(np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32), 3, 6)
    embedder = TextEmbedder(WordVectors.of(WORDS, MATRIX, subwords=ngrams))
    embeddings = embedder.embed_counted(["drums drum"])
    assert embeddings.num_unknown.tolist() == [0]
    expected = (embedder.vectors["drums"] + embedder.vectors["drum"]) / 2
    np.testing.assert_allclose(embeddings.values, [expected], rtol=1e-6)


def test_saved_and_opened(tmp_path: Path) -> None:
    saved = TextEmbedder(VECTORS, normalise=True).save(tmp_path / "vectors")
    assert isinstance(saved.vectors.matrix, np.memmap)
    values = json.loads(json.dumps(saved.to_json()))
    again = open_text_embedder(values)
    np.testing.assert_array_equal(again.embed(TEXTS), saved.embed(TEXTS))
    assert again.to_json() == values
    (tmp_path / "vectors").rename(tmp_path / "moved")
    moved = open_text_embedder({**values, "path": "moved"}, base=tmp_path)
    np.testing.assert_array_equal(moved.embed(TEXTS), saved.embed(TEXTS))


def test_vectors_in_memory_have_no_description() -> None:
    with pytest.raises(InputError, match="in no file") as raised:
        TextEmbedder(VECTORS).to_json()
    assert "save" in raised.value.hint


def test_other_vectors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "glove.txt"
    path.write_text("drum 1 2\nsieve 3 4\n", "utf-8")
    values = TextEmbedder.read(path).to_json()
    assert open_text_embedder(values).embed(["drum sieve"]).tolist() == [[2, 3]]
    with pytest.raises(InputError, match="of 2 dimensions, not 300") as raised:
        open_text_embedder({**values, "dimension": 300})
    assert raised.value.hint
    path.write_text("drum 1 2\nsieve 3 5\n", "utf-8")
    with pytest.raises(InputError, match="changed since the ranker was trained"):
        open_text_embedder(values)
    path.unlink()
    with pytest.raises(InputError, match="there are no word vectors"):
        open_text_embedder(values)
    with pytest.raises(InputError):
        open_text_embedder({**values, "norm": "l1"})


def test_a_file_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "vectors.vec"
    path.write_text("3 2\ndrum 1 2\nsieve 3 4\n", "utf-8")
    with pytest.raises(InputError, match="has 2 words, but its first line says 3"):
        TextEmbedder.read(path)
    path.write_text("drum 1 2\nsieve 3\n", "utf-8")
    with pytest.raises(LineError, match="1 numbers, not 2"):
        TextEmbedder.read(path)
