"""fastText's own models: the vectors that gensim reads from them, also of words they have not."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.errors import DamagedError, InputError, UnknownFormatError
from tamis.scorers.fasttext_files import read_fasttext
from tamis.scorers.subwords import Subwords
from tamis.scorers.word_vector_trainer import FastText, train_vectors
from tamis.scorers.word_vectors import SUBWORDS_FILE, WordVectors, read_vectors
from tamis.types import Document

TEXTS = [
    "drum sieves sort grain and flour",
    "a café sieve sorts flour from grain",
    "größere Körner bleiben im Sieb",
    "日本 の ふるい sorts grain",
] * 3
SEEN = ["drum", "café", "größere", "日本", "a", "grain"]
UNSEEN = ["drums", "Cafés", "körnig", "日本語", "sieving", "x", "", "🥁drum"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fasttext = pytest.importorskip("gensim.models.fasttext")
    settings = {"vector_size": 7, "min_count": 1, "bucket": 300, "seed": 1, "workers": 1}
    trained = fasttext.FastText(sentences=[text.split() for text in TEXTS], **settings)
    path = tmp_path_factory.mktemp("fasttext") / "model.bin"
    fasttext.save_facebook_model(trained, str(path))
    return path


@pytest.fixture(scope="module")
def by_gensim(model: Path) -> Any:
    fasttext = pytest.importorskip("gensim.models.fasttext")
    return fasttext.load_facebook_vectors(str(model))


@pytest.mark.parametrize("word", [*SEEN, *UNSEEN])
def test_the_vectors_that_gensim_reads(model: Path, by_gensim: Any, word: str) -> None:
    vectors = read_vectors(model)
    assert (vectors.dimensions, len(vectors)) == (7, len(by_gensim.index_to_key))
    if word == "":  # <> has no n-gram of three characters: gensim gives zeros
        assert word not in vectors
        return
    np.testing.assert_allclose(vectors[word], by_gensim[word], rtol=1e-6, atol=1e-9)


def test_many_words_at_once_in_the_order_they_were_asked(model: Path, by_gensim: Any) -> None:
    words = [*UNSEEN, *SEEN] * 100
    with_vector, values = read_vectors(model).look_up(words)
    assert [words[n] for n in with_vector] == [word for word in words if word]
    expected = np.stack([by_gensim[word] for word in words if word])
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-9)


def test_nothing_but_the_words_is_read(model: Path) -> None:
    vectors = read_vectors(model)
    assert vectors.subwords is not None
    assert isinstance(vectors.matrix, np.memmap)
    assert isinstance(vectors.subwords.matrix, np.memmap)


def test_by_hand() -> None:
    """FNV-1a of `<a>` and the n-grams of `ab` of one and two characters."""
    subwords = Subwords(np.arange(20, dtype=np.float32).reshape(10, 2), 1, 2)

    def row_of(text: str) -> int:
        hashed = 2166136261
        for byte in text.encode():
            hashed = (hashed ^ byte) * 16777619 % 2**32
        return hashed % 10

    rows, offsets = subwords.rows_of(["ab"])
    assert rows.tolist() == [row_of(text) for text in ("<a", "a", "ab", "b", "b>")]
    assert offsets.tolist() == [0, 5]
    own = np.array([[100, 200]], np.float32)
    expected = (own[0] + subwords.matrix[rows].sum(0)) / 6
    np.testing.assert_allclose(subwords.means(["ab"], own)[1], [expected])


def test_saved_as_a_folder(model: Path, tmp_path: Path) -> None:
    vectors = read_vectors(model)
    vectors.save(tmp_path / "saved")
    again = read_vectors(tmp_path / "saved")
    for word in [*SEEN, *UNSEEN[:-2]]:
        if word:
            np.testing.assert_array_equal(again[word], vectors[word])
    assert again.subwords is not None
    assert isinstance(again.subwords.matrix, np.memmap)
    file = tmp_path / "saved" / SUBWORDS_FILE
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(DamagedError, match="is not what was written"):
        read_vectors(tmp_path / "saved")


def test_every_length_but_the_whole_is_refused(model: Path, tmp_path: Path) -> None:
    content = model.read_bytes()
    path = tmp_path / "cut.bin"
    for length in [*range(5, 400, 3), *range(400, len(content), 997), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(InputError) as raised:
            read_fasttext(path)
        assert raised.value.hint


def changed(content: bytes, at: int, layout: str, *values: Any) -> bytes:
    return content[:at] + struct.pack(layout, *values) + content[at + struct.calcsize(layout) :]


def test_files_that_cannot_be_read(model: Path, tmp_path: Path) -> None:
    content = model.read_bytes()
    start = content.index(struct.pack("<2q", len(read_vectors(model)) + 300, 7))
    bad = {
        "version 9": changed(content, 4, "<i", 9),
        "9 dimensions": changed(content, 8, "<i", 9),
        "quantised": changed(content, start - 1, "<?", True),
        "pruned": changed(content, 64 + 20, "<q", 4),
        "counts its words wrongly": changed(content, 64, "<i", 3),
        "packed with gzip": gzip.compress(content),
    }
    for problem, other in bad.items():
        path = tmp_path / "other.bin"
        path.write_bytes(other)
        with pytest.raises((InputError, UnknownFormatError), match=problem) as raised:
            read_vectors(path)
        assert raised.value.hint


def test_numbers_that_are_not_finite_are_met_where_they_are_used(
    model: Path, tmp_path: Path
) -> None:
    content = model.read_bytes()
    start = content.index(struct.pack("<2q", len(read_vectors(model)) + 300, 7)) + 16
    first = read_fasttext(model).words[0]
    path = tmp_path / "nan.bin"
    path.write_bytes(changed(content, start, "<f", float("nan")))
    with pytest.raises(InputError, match=f"the vector of '{first}' is not all finite"):
        read_vectors(path)[first]


def test_training_keeps_subwords() -> None:
    pytest.importorskip("gensim")
    documents = [Document(str(n), text) for n, text in enumerate(TEXTS)]
    settings = FastText(dimensions=6, least=3, buckets=500, epochs=2, seed=4)
    with_subwords = train_vectors(documents, settings, subwords=True)
    without = train_vectors(documents, settings)
    for word in without.words:
        np.testing.assert_allclose(with_subwords[word], without[word], rtol=1e-5, atol=1e-8)
    assert "sieving" in with_subwords
    assert "sieving" not in without
    again = train_vectors(documents, settings, subwords=True)
    np.testing.assert_array_equal(with_subwords["sieving"], again["sieving"])
    assert with_subwords.facts["settings"]["seed"] == 4


def test_words_alone_have_no_subwords() -> None:
    vectors = WordVectors.of(["drum"], np.ones((1, 2), np.float32))
    assert "drums" not in vectors
    with pytest.raises(KeyError):
        vectors["drums"]
