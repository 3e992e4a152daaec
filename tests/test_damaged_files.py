"""Flipped bits and cuts in every kind of Parquet and Arrow file: the same content or an error.

What tamis wrote is never read as something else; what others wrote, without a digest, may be, but
never ends in a raw exception.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tamis.collection.arrow_files import DIGEST_KEY, read_metadata, read_parquet, write_parquet
from tamis.collection.candidate_rows import reranking_to_parquet
from tamis.collection.judgements import read_qrels, write_qrels
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run, read_spec, write_run
from tamis.collection.writers import write_collection
from tamis.errors import DamagedError, InputError, TamisError
from tamis.labels import Examples, read_examples, write_examples
from tamis.scorers.word_counts import WordCounts
from tamis.scorers.word_vectors import WordVectors, read_vectors
from tamis.types import Document, Qrels, Queries, Query, Run

DOCUMENTS = [Document(f"d{n}", f"sieve number {n}", f"Title {n}") for n in range(40)]


def run() -> Run:
    scores = {f"q{n}": {f"d{m}": n + m / 7 for m in range(12)} for n in range(6)}
    made = Run.from_dict(scores)
    queries = Queries.of(Query(q, f"text of {q}", {"note": q * 2}) for q in scores)
    extra = {"words": np.linspace(0, 1, len(made.doc)).astype(np.float32)}
    return Run(queries, made.docs, made.offsets, made.doc, made.score, extra)


def run_content(path: Path) -> Any:
    read = read_run(path)
    return (
        read.queries.ids, read.queries.texts, dict(read.queries.fields), read.offsets.tolist(),
        read.docs.take(read.doc), read.score.tolist(),
        {name: column.tolist() for name, column in read.extra.items()}, read_spec(path),
    )  # fmt: skip


def write_table_of_candidates(path: Path) -> None:
    rows = [f"{q}\t{p}\tquery {q}\tpassage {p}\t{p % 2}\n" for q in range(4) for p in range(9)]
    source = path.with_suffix(".tsv")
    source.write_text("".join(rows))
    reranking_to_parquet(source, path)


def candidates_content(path: Path) -> Any:
    read = open_collection(path, format="reranking")
    return list(read.documents), list(read.queries), read.qrels["all"].to_dict()


def write_documents(path: Path) -> None:
    source = path.with_suffix(".jsonl")
    lines = [f'{{"id": "{d.id}", "text": "{d.text}", "title": "{d.title}"}}\n' for d in DOCUMENTS]
    source.write_text("".join(lines))
    write_collection(open_collection(source), path, "parquet")


def arrow_table() -> pa.Table:
    columns = {
        "id": [d.id for d in DOCUMENTS],
        "text": [d.text for d in DOCUMENTS],
        "when": pa.array(range(len(DOCUMENTS)), pa.timestamp("us", "UTC")),
        "tags": [["a", "b"]] * len(DOCUMENTS),
        "kind": pa.array(["x", "y"] * 20).dictionary_encode(),
    }
    return pa.table(columns)


def write_arrow(path: Path, stream: bool = False) -> None:
    table = arrow_table()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, table.schema) as writer:
        writer.write_table(table, 16)


def documents_content(path: Path) -> list[Document]:
    return list(open_collection(path).documents)


def examples() -> Examples:
    rows = [(f"q{n // 4}", f"d{n}", float(n % 4 == 0), "positive") for n in range(24)]
    return Examples.of_rows(rows, source="gold", facts={"made": "here"})  # type: ignore[arg-type]


def examples_content(path: Path) -> Any:
    read = read_examples(path)
    names = "group query doc start end titled value role source kind".split()
    columns = [getattr(read, name).tolist() for name in names]
    return list(read.queries.ids), list(read.docs), columns, dict(read.facts)


def counts_content(path: Path) -> Any:
    read = WordCounts.open(path)
    return read.num_documents, list(read.words), read.documents_of.tolist(), read.analyzer


def write_words(path: Path) -> None:
    words = [f"word{n}" for n in range(30)]
    matrix = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    WordVectors.of(words, matrix).save(path)


def words_content(path: Path) -> Any:
    read = read_vectors(path)
    return list(read.words), read.row.tolist(), np.asarray(read.matrix).tolist()


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is written and read, and which of a folder's files is damaged."""

    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    inside: str = ""
    ours: bool = True


KINDS = {
    "run": Kind(lambda path: write_run(run(), path, spec={"stage": "bm25"}), run_content),
    "qrels": Kind(
        lambda path: write_qrels(
            Qrels.from_dict({f"q{n}": {f"d{m}": m % 3 for m in range(9)} for n in range(5)}), path
        ),
        lambda path: read_qrels(path).to_dict(),
    ),
    "examples": Kind(lambda path: write_examples(examples(), path), examples_content),
    "candidates": Kind(write_table_of_candidates, candidates_content),
    "documents": Kind(write_documents, documents_content),
    "word counts": Kind(lambda path: WordCounts.of(DOCUMENTS).save(path), counts_content),
    "words": Kind(write_words, words_content, inside="words.parquet"),
    "word vectors": Kind(write_words, words_content, inside="vectors.npy"),
    "arrow": Kind(write_arrow, documents_content, ours=False),
    "arrow stream": Kind(
        lambda path: write_arrow(path, stream=True), documents_content, ours=False
    ),
}


def damaged(whole: bytes, seed: str, count: int) -> Iterator[bytes]:
    """Copies with one bit flipped, a few bytes replaced, or the end cut off."""
    chance = random.Random(seed)
    for number in range(count):
        content = bytearray(whole)
        at = chance.randrange(len(content))
        if number % 4 == 3:
            del content[at:]
        elif number % 4 == 2:
            for place in range(at, min(at + chance.randrange(1, 9), len(content))):
                content[place] = chance.randrange(256)
        else:
            content[at] ^= 1 << chance.randrange(8)
        yield bytes(content)


def try_damaged(path: Path, name: str, kind: Kind, count: int) -> tuple[int, int]:
    """How many damaged files were refused, and how many were read as something else."""
    file = path / kind.inside if kind.inside else path
    whole, content = file.read_bytes(), kind.read(path)
    refused = different = 0
    for raw in damaged(whole, name, count):
        file.write_bytes(raw)
        try:
            different += kind.read(path) != content
        except TamisError as error:
            assert error.hint, str(error)
            assert "\n" not in str(error)
            refused += 1
    file.write_bytes(whole)
    return refused, different


COUNT = 60


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_is_read_the_same_or_refused(tmp_path: Path, name: str) -> None:
    kind, path = KINDS[name], tmp_path / "file.parquet"
    kind.write(path)
    refused, different = try_damaged(path, name, kind, COUNT)
    assert refused > COUNT // 4
    assert not (kind.ours and different)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.ours])
def test_a_damaged_file_without_digest_ends_in_no_raw_exception(tmp_path: Path, name: str) -> None:
    kind, path = KINDS[name], tmp_path / "file.parquet"
    kind.write(path)
    file = path / kind.inside if kind.inside else path
    if file.suffix == ".parquet":
        pq.write_table(pq.read_table(file), file)
        assert DIGEST_KEY not in pq.read_metadata(file).metadata
    refused, _ = try_damaged(path, f"{name} of others", kind, COUNT)
    assert refused


def test_a_file_without_digest_is_read(tmp_path: Path) -> None:
    write_qrels(Qrels.from_dict({"q1": {"d1": 1}}), tmp_path / "ours.parquet")
    assert DIGEST_KEY in pq.read_metadata(tmp_path / "ours.parquet").metadata
    pq.write_table(
        pa.table({"query": ["q1"], "doc": ["d1"], "grade": [1]}), tmp_path / "theirs.parquet"
    )
    assert read_qrels(tmp_path / "theirs.parquet") == read_qrels(tmp_path / "ours.parquet")


def test_a_changed_value_or_fact_is_found(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", None, "b"], "n": [1, 2, 3]}).replace_schema_metadata({"k": "v"})
    write_parquet(table, tmp_path / "good")
    assert read_parquet(tmp_path / "good") == table
    assert read_metadata(tmp_path / "good")[b"k"] == b"v"
    digests = pq.read_metadata(tmp_path / "good").metadata[DIGEST_KEY]
    others = {
        "value": table.set_column(1, "n", pa.array([1, 2, 4])),
        "null": table.set_column(0, "id", pa.array(["a", "", "b"])),
        "place": table.set_column(0, "id", pa.array([None, "a", "b"])),
        "fact": table.replace_schema_metadata({"k": "w"}),
        "name": table.rename_columns(["id", "m"]),
    }
    for name, other in others.items():
        with pq.ParquetWriter(tmp_path / name, other.schema) as writer:
            writer.write_table(other)
            writer.add_key_value_metadata({DIGEST_KEY: digests})
        with pytest.raises(DamagedError, match="is not what was written"):
            read_parquet(tmp_path / name)
    for name in ("fact", "name"):
        with pytest.raises(DamagedError, match="is not what was written"):
            read_metadata(tmp_path / name)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"query": ["q1"], "doc": ["d1"], "score": ["high"]}),
        pa.table({"query": ["q1"], "doc": ["d1"], "score": pa.array([None], pa.float32())}),
        pa.table({"query": [0.5], "doc": ["d1"], "score": [1.0]}),
        pa.table({"query": pa.array([None], pa.string()), "doc": ["d1"], "score": [1.0]}),
        pa.table({"query": ["q1"], "doc": ["d1"]}),
    ],
)
def test_a_run_of_others_with_bad_columns_is_refused(tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table, tmp_path / "run.parquet")
    with pytest.raises(InputError) as caught:
        read_run(tmp_path / "run.parquet")
    assert caught.value.hint


def test_candidates_of_others_with_bad_columns_are_refused(tmp_path: Path) -> None:
    columns = {"qid": [1], "pid": [7], "query": ["sieve"], "passage": ["drum"], "relevancy": [1]}
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path)
    assert candidates_content(path)[2] == {"1": {"7": 1}}
    for name, values in {"passage": pa.array([None], pa.string()), "qid": [0.5]}.items():
        pq.write_table(pa.table({**columns, name: values}), path)
        with pytest.raises(InputError) as caught:
            candidates_content(path)
        assert name in str(caught.value)
    pq.write_table(pa.table({"qid": [1]}), path)
    with pytest.raises(InputError, match="no column 'pid'"):
        candidates_content(path)
