"""Filtered search at several selectivities: tamis, post-filtering, numpy, tantivy, faiss.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.filters DATA --work FOLDER [--rows 200000]

Passages are the texts of the BEIR folders in DATA in pieces of 60 words, shuffled; the queries are
theirs. Each has a field `percent`, drawn from 0 to 99, so `percent<1` holds for 1%. Embeddings are
random rows of length one with 384 dimensions: nothing is alike, so a dense scan can drop little.
Post-filtering searches unfiltered, deeper by four times, until enough documents match. numpy
multiplies the matching rows, gathered beforehand. tantivy and faiss take part where installed. One
query at a time, one thread, top 10, all contestants in turn; medians of rounds. `--work` keeps the
index between runs.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from benchmarks.timing import interleaved
from tamis.pipeline.hybrid import lexical_dense_hybrid
from tamis.search import Index
from tamis.types import Document, Queries, Query, Source

WORDS, DIMENSIONS, TOP = 60, 384, 10
Matrix = NDArray[np.float32]


class Drawn:
    """Encodes a text as random numbers of length one that the text itself seeds."""

    def encode(self, texts: Sequence[str]) -> Matrix:
        """A row per text, always the same for the same text."""
        rows = [
            np.random.default_rng(xxhash.xxh3_64_intdigest(text.encode())).standard_normal(
                DIMENSIONS, np.float32
            )
            for text in texts
        ]
        matrix = np.array(rows, np.float32).reshape(-1, DIMENSIONS)
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        return matrix


def passages(data: Path) -> Iterator[str]:
    """All texts in pieces of 60 words."""
    for path in sorted(data.glob("*/corpus.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                words = json.loads(line)["text"].split()
                for start in range(0, len(words), WORDS):
                    yield " ".join(words[start : start + WORDS])


def some_queries(data: Path, count: int) -> list[str]:
    """Queries of all collections, drawn."""
    texts = [
        json.loads(line)["text"]
        for path in sorted(data.glob("*/queries.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]
    short = [text for text in texts if len(text.split()) <= 20]
    return [short[n] for n in np.random.default_rng(2).permutation(len(short))[:count]]


def made_index(data: Path, work: Path, rows: int) -> tuple[Index, list[str], NDArray[np.int64]]:
    """The index, made once, the texts and the percents of its documents in their order."""
    draw = np.random.default_rng(1)
    texts = list(passages(data))
    order = draw.permutation(len(texts))[:rows]
    texts = [texts[n] for n in order]
    percent = draw.integers(0, 100, len(texts))
    path = work / f"filters-{len(texts)}.index"
    if not path.exists():
        documents = (
            Document(f"{n:08}", text, fields={"percent": str(percent[n])})
            for n, text in enumerate(texts)
        )
        Index.build(documents, path)
    index = Index.open(path)
    index.encode(Drawn())
    return index, texts, percent


def post_filter(source: Source, queries: Queries, allowed: set[str], documents: int) -> list[str]:
    """The best documents by searching deeper until enough of them match."""
    depth = TOP
    while True:
        found = [name for name in source.search(queries, depth)["q"].ids if name in allowed]
        if len(found) >= TOP or depth >= documents:
            return found[:TOP]
        depth *= 4


def by_numpy(rows: Matrix, query: Matrix) -> NDArray[np.int64]:
    """The best of these rows."""
    scores = rows @ query
    best = np.argpartition(-scores, TOP - 1)[:TOP]
    ordered: NDArray[np.int64] = best[np.argsort(-scores[best])]
    return ordered


def by_tantivy(
    texts: Sequence[str], percent: NDArray[np.int64], work: Path
) -> Callable[..., object] | None:
    """A search of tantivy by words and a limit of the percent, if it is installed."""
    if find_spec("tantivy") is None:
        return None
    tantivy = import_module("tantivy")
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="en_stem")
    builder.add_integer_field("percent", indexed=True, fast=True)
    schema = builder.build()
    index = tantivy.Index(schema)
    writer = index.writer(200_000_000, 1)
    for text, value in zip(texts, percent.tolist(), strict=True):
        writer.add_document(tantivy.Document(text=[text], percent=value))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(words: str, limit: int) -> object:
        plain = "".join(letter if letter.isalnum() else " " for letter in words).lower()
        query = index.parse_query(plain, ["text"])
        if limit < 100:
            within = tantivy.Query.range_query(
                schema, "percent", tantivy.FieldType.Integer, 0, limit - 1
            )
            must = tantivy.Occur.Must
            query = tantivy.Query.boolean_query([(must, query), (must, within)])
        return searcher.search(query, TOP).hits

    return search


def by_faiss(rows: Matrix, limits: dict[int, NDArray[np.int64]]) -> Callable[..., object] | None:
    """A search of faiss's exact index for a filter, if it is installed."""
    if find_spec("faiss") is None:
        return None
    faiss = import_module("faiss")
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    bitmaps = {}
    for limit, numbers in limits.items():
        flags = np.zeros(len(rows), bool)
        flags[numbers] = True
        bitmaps[limit] = np.packbits(flags, bitorder="little")

    def search(query: Matrix, limit: int) -> object:
        selector = faiss.IDSelectorBitmap(bitmaps[limit])
        return index.search(query[None], TOP, params=faiss.SearchParameters(sel=selector))

    return search


def over(contestant: Callable[[Any], object], inputs: Sequence[Any]) -> Callable[[], None]:
    """The contestant called for one input after another."""

    def call() -> None:
        for one in inputs:
            contestant(one)

    return call


def main() -> None:
    """Print milliseconds per query for every selectivity."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    index, texts, percent = made_index(arguments.data, arguments.work, arguments.rows)
    words = some_queries(arguments.data, arguments.queries)
    queries = [Queries.of([Query("q", text)]) for text in words]
    encoder = Drawn()
    vectors = encoder.encode(words)
    rows = np.concatenate([column.column("float32") for column in index.snapshot.embeddings])
    lexical, dense = index.bm25(threads=1), index.dense(encoder, threads=1)
    both = lexical_dense_hybrid(lexical, dense)
    limits = {limit: np.flatnonzero(percent < limit) for limit in (1, 10, 50, 100)}
    tantivy_search = by_tantivy(texts, percent, arguments.work)
    faiss_search = by_faiss(rows, limits)
    print(f"{len(texts):,} passages, {len(words)} queries, top {TOP}; ms per query")
    for limit, numbers in limits.items():
        allowed = {f"{n:08}" for n in numbers}
        matching = np.ascontiguousarray(rows[numbers])
        contestants: dict[str, Callable[[], object]] = {}
        for name, source in {"lexical": lexical, "dense": dense, "hybrid": both}.items():
            filtered = source.where(f"percent<{limit}") if limit < 100 else source
            contestants[name] = over(partial(filtered.search, top=TOP), queries)
            if limit < 100:
                deeper = partial(post_filter, source, allowed=allowed, documents=len(texts))
                contestants[f"{name} post-filtered"] = over(deeper, queries)
        contestants["dense numpy"] = over(partial(by_numpy, matching), list(vectors))
        if faiss_search is not None:
            contestants["dense faiss"] = over(partial(faiss_search, limit=limit), list(vectors))
        if tantivy_search is not None:
            contestants["lexical tantivy"] = over(partial(tantivy_search, limit=limit), words)
        print(f"\n{limit}% of the documents match ({len(numbers):,})", flush=True)
        for name, seconds in sorted(interleaved(contestants, arguments.rounds).items()):
            print(f"  {name:<24} {1000 * seconds / len(words):9.3f} ms", flush=True)


if __name__ == "__main__":
    main()
