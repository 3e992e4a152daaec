"""Word vectors are the same from every kind of file, and a bad file is named with its line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tamis.errors import DamagedError, InputError, LineError, OutputError, UnknownFormatError
from tamis.scorers import word_vector_files
from tamis.scorers.word_vector_trainer import WORDS_PER_PIECE, FastText, train_vectors
from tamis.scorers.word_vectors import WordVectors, read_vectors
from tamis.types import Document

WORDS = ["drum", "sieve", "café", "."]
MATRIX = np.array([[1, 2.5, -3], [0.125, 0, 1], [-1e-3, 4, 5], [7, 8, 9]], np.float32)
LINES = "".join(
    f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, MATRIX.tolist(), strict=True)
)


def binary(newline: bytes = b"") -> bytes:
    records = (
        word.encode() + b" " + row.tobytes() + newline
        for word, row in zip(WORDS, MATRIX, strict=True)
    )
    return b"4 3\n" + b"".join(records)


FILES = {
    "glove": LINES.encode(),
    "no newline at the end": LINES.rstrip().encode(),
    "windows": LINES.replace("\n", "\r\n").encode(),
    "byte-order mark": b"\xef\xbb\xbf" + LINES.encode(),
    "tabs": LINES.replace(" ", "\t").encode(),
    "a blank ends each line": LINES.replace("\n", " \n").encode(),
    "many blanks": LINES.replace(" ", "  ").encode(),
    "header": f"4 3\n{LINES}".encode(),
    "gzip": gzip.compress(f"4 3\n{LINES}".encode()),
    "zstd": zstandard.compress(LINES.encode()),
    "binary": binary(),
    "binary with newlines": binary(b"\n"),
    "binary, gzip": gzip.compress(binary()),
}


def file_of(folder: Path, content: bytes | str) -> Path:
    path = folder / "vectors"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file(name: str, tmp_path: Path) -> None:
    vectors = read_vectors(file_of(tmp_path, FILES[name]))
    assert (len(vectors), vectors.dimensions) == (4, 3)
    for word, row in zip(WORDS, MATRIX, strict=True):
        np.testing.assert_array_equal(vectors[word], row)
    assert "drums" not in vectors
    with pytest.raises(KeyError):
        vectors["drums"]


def test_many_lines_and_small_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_vector_files, "LINES_PER_BLOCK", 7)
    monkeypatch.setattr(word_vector_files, "BYTES_PER_READ", 50)
    random = np.random.default_rng(0)
    matrix = random.normal(size=(50, 12)).astype(np.float32)
    words = [f"w{n}" for n in range(50)]
    rows = zip(words, matrix, strict=True)
    text = "".join(f"{word} {' '.join(map(str, row.tolist()))}\n" for word, row in rows)
    rows = zip(words, matrix, strict=True)
    packed = b"50 12\n" + b"".join(word.encode() + b" " + row.tobytes() for word, row in rows)
    for content in (text.encode(), packed):
        vectors = read_vectors(file_of(tmp_path, content))
        np.testing.assert_array_equal([vectors[word] for word in words], matrix)


def test_a_word_may_hold_blanks_and_the_first_of_two_counts(tmp_path: Path) -> None:
    vectors = read_vectors(file_of(tmp_path, "a 1 2\n. . . 3 4\na 5 6\n\u00a0 7 8\n\u2028 9 9\n"))
    assert vectors[". . ."].tolist() == [3, 4]
    assert vectors["a"].tolist() == [1, 2]
    assert vectors["\u00a0"].tolist() == [7, 8]
    assert len(vectors) == 4


BAD_LINES = [
    ("a 1 2\nb 1\n", 2, "1 numbers, not 2"),
    ("a 1 2\nb 1 2 3\n", 2, "3 numbers, not 2"),
    ("a 1 2\nb 1 x\n", 2, "'x' is not a finite number"),
    ("a 1 2\nb 1 nan\n", 2, "'nan' is not a finite number"),
    ("a 1 2\nb inf 2\n", 2, "'inf' is not a finite number"),
    ("a 1 2\nb 1e99 2\n", 2, "'1e99' is not a finite number"),
    ("a 1 2\n\nb 1 2\n", 2, "an empty line"),
    ("a 1 2\nb  2\n", 2, "1 numbers, not 2"),
    ("2 2\na 1 2\nb 1 2 3\n", 3, "3 numbers, not 2"),
    ("2 3\na 1 2\nb 1 2\n", 2, "2 numbers, not 3"),
    ("2 0\na\nb\n", 1, "vectors of 0 numbers"),
    ("word\n", 1, "found 'word'"),
    (b"a 1 2\n\xff 1 2\n", 2, "byte 0xff at position 1 is not UTF-8"),
]


@pytest.mark.parametrize(("content", "line", "problem"), BAD_LINES)
def test_a_bad_line(content: str | bytes, line: int, problem: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, content)
    with pytest.raises(LineError) as raised:
        read_vectors(path)
    assert str(raised.value).startswith(f"{path}:{line}: ")
    assert problem in str(raised.value)
    assert raised.value.hint


BAD_FILES = [
    (b"", InputError, "is empty"),
    (b"3 2\na 1 2\nb 1 2\n", InputError, "has 2 words, but its first line says 3"),
    (b"0 50\n", InputError, "holds no word"),
    (binary()[:-2], InputError, "has 3 words, but its first line says 4"),
    (b"2 2\n" + b"\x00" * 70_000, InputError, "70,000 bytes without a blank"),
    (b"1 2\na " + np.array([1, np.nan], "f4").tobytes(), InputError, "'a' .row 0. is not all"),
    (gzip.compress(LINES.encode(), mtime=0)[:-9], InputError, "is cut short"),
    (bytes(range(256)), UnknownFormatError, "neither text nor"),
    (b"\x93NUMPY\x01\x00v\x00{}\n", UnknownFormatError, "matrix without words"),
]


@pytest.mark.parametrize(("content", "kind", "problem"), BAD_FILES)
def test_a_bad_file(content: bytes, kind: type[InputError], problem: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=problem) as raised:
        read_vectors(file_of(tmp_path, content))
    assert raised.value.hint


def test_saved_and_read(tmp_path: Path) -> None:
    vectors = WordVectors.of([*WORDS, "drum"], np.vstack([MATRIX, MATRIX[:1] + 1]), {"seed": 3})
    vectors.save(tmp_path / "saved")
    again = read_vectors(tmp_path / "saved")
    assert again.words == vectors.words
    assert again.facts == {"seed": 3, "words": 4, "dimensions": 3}
    assert isinstance(again.matrix, np.memmap)
    for word in WORDS:
        np.testing.assert_array_equal(again[word], vectors[word])
    with pytest.raises(OutputError, match="exists already"):
        vectors.save(tmp_path / "saved")
    vectors.save(tmp_path / "saved", force=True)


def folder_of(path: Path, matrix: object, words: dict[str, object]) -> Path:
    path.mkdir()
    np.save(path / "m.npy", matrix)  # type: ignore[arg-type]
    pq.write_table(pa.table(words), path / "w.parquet")
    return path


def test_a_folder_of_others(tmp_path: Path) -> None:
    words = {"n": [1, 2], "index": ["a", "b"]}
    vectors = read_vectors(folder_of(tmp_path / "f", np.eye(2, dtype=np.float16), words))
    assert vectors["b"].tolist() == [0, 1]
    _, units = vectors.units(["b"])
    assert units.dtype == np.float32


BAD_FOLDERS = [
    (np.eye(3, dtype="f4"), {"w": ["a", "b"]}, "has 3 rows for 2 words"),
    (np.eye(2, dtype="i4"), {"w": ["a", "b"]}, r"int32 numbers of shape \(2, 2\)"),
    (np.ones(2, "f4"), {"w": ["a", "b"]}, r"shape \(2,\)"),
    (np.eye(2, dtype="f4"), {"w": ["a", None]}, "1 rows without a word"),
    (np.eye(2, dtype="f4"), {"w": ["a", "b"], "v": ["a", "b"]}, "2 columns of text"),
    (np.eye(2, dtype="f4"), {"w": [1, 2]}, "0 columns of text"),
    (np.array([[1, 2], [3, np.inf]], "f4"), {"w": ["a", "b"]}, r"'b' \(row 1\) is not all finite"),
    (np.array(["a", None]), {"w": ["a", "b"]}, "not a whole .npy file of numbers"),
]


@pytest.mark.parametrize(("matrix", "words", "problem"), BAD_FOLDERS)
def test_a_bad_folder(
    matrix: object, words: dict[str, object], problem: str, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path / "f", matrix, words)
    with pytest.raises((InputError, DamagedError), match=problem) as raised:
        read_vectors(folder)
    assert raised.value.hint


def test_folders_that_lack_something(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has 0 \.npy files"):
        read_vectors(tmp_path)
    with pytest.raises(InputError, match="there is no file"):
        read_vectors(tmp_path / "nothing")
    folder = folder_of(tmp_path / "f", np.eye(2, dtype="f4"), {"w": ["a", "b"]})
    raw = (folder / "m.npy").read_bytes()
    (folder / "m.npy").write_bytes(raw[:-4])
    with pytest.raises(DamagedError, match=r"not a whole \.npy"):
        read_vectors(folder)
    (folder / "m.npy").write_bytes(raw)
    (folder / "w.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read"):
        read_vectors(folder)
    note = {"kind": "index", "layout": 1}
    (folder / "tamis.json").write_text(json.dumps(note))
    with pytest.raises(InputError, match="is an index, not a vector table"):
        read_vectors(folder)


def test_glove(models: Path) -> None:
    vectors = read_vectors(models / "glove50")
    assert (len(vectors), vectors.dimensions) == (400_000, 50)
    _, (king, queen, river) = vectors.units(["king", "queen", "river"])
    assert king @ queen > 0.7 > king @ river


# Training

TRAIN = FastText(dimensions=8, epochs=2, buckets=1000, least=2)
CORPUS = [
    Document(str(n), f"the {word} sieve sorts {word} and sieves {word}s", title="Sieves")
    for n, word in enumerate(["grain", "flour", "sand", "seed"] * 12)
]


def test_training_gives_every_word_a_vector_and_is_saved(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    vectors = train_vectors([*CORPUS, Document("rare", "Müller's sievings")], TRAIN)
    assert {"grain", "sieves", "müller's", "sievings"} <= set(vectors.words)
    assert vectors.dimensions == 8
    assert vectors.facts["settings"]["seed"] == 0
    vectors.save(tmp_path / "v")
    again = read_vectors(tmp_path / "v")
    np.testing.assert_array_equal(again["sievings"], vectors["sievings"])
    assert again.facts["documents"] == 49


def test_training_again_gives_the_same_and_another_seed_does_not() -> None:
    pytest.importorskip("gensim")
    first, second = train_vectors(CORPUS, TRAIN), train_vectors(CORPUS, TRAIN)
    np.testing.assert_array_equal(first.matrix, second.matrix)
    other = train_vectors(CORPUS, FastText(dimensions=8, epochs=2, buckets=1000, least=2, seed=1))
    assert not np.array_equal(first.matrix, other.matrix)


def test_training_does_not_depend_on_the_process() -> None:
    pytest.importorskip("gensim")
    code = (
        "import hashlib; from tamis.scorers.word_vector_trainer import FastText, train_vectors;"
        "from tamis.types import Document;"
        "docs = [Document(str(n), f'fine grain {n % 7} sieve {n % 5}') for n in range(60)];"
        "made = train_vectors(docs, FastText(dimensions=8, epochs=1, buckets=1000, least=2));"
        "digest = hashlib.sha256(made.matrix.tobytes()).hexdigest();"
        "print(digest)"
    )
    here: dict[str, str] = {}
    exec(code.replace("print(digest)", ""), here)
    there = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here["digest"]


def test_training_reads_long_documents_to_their_end() -> None:
    pytest.importorskip("gensim")
    from tamis.scorers.word_vector_trainer import _Corpus

    long = Document("1", "word " * WORDS_PER_PIECE + "end")
    assert [len(words) for words in _Corpus([long], "unicode")] == [WORDS_PER_PIECE, 1]


def test_what_cannot_be_trained_on() -> None:
    pytest.importorskip("gensim")
    with pytest.raises(InputError, match="only once"):
        train_vectors(iter(CORPUS), TRAIN)
    with pytest.raises(InputError, match="no word occurs 5 times in 1 documents"):
        train_vectors([Document("1", "one two")])
