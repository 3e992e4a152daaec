"""Searches and builds beside bm25s, tantivy and PISA, in one interleaved run.

    TAMIS_DATA=... python benchmarks/first_stage.py --passages 200000 --work FOLDER

Passages of sixty words are cut from the texts of the data folder (overlapping where there are not
enough) and shuffled; queries are real ones, others than those on which the kernels' constants were
chosen (`--tuning` takes these). All drop Lucene's 33 stop words and stem. Everything is
pinned to one core while searching; time is processor time, so that a shared machine measures the
same. Queries go in as strings, ids and scores come out, analysis included. Needs `pip install bm25s
tantivy pyterrier-pisa`; a peer that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import orjson

WORDS = 60
TUNING = 1000
"""So many queries are set aside to choose the constants of the kernels on; none is reported."""
QUERIES_FROM = ("insuranceqa", "squad", "medquad", "openbookqa", "wikiqa", "scifact")
Search = Callable[[list[str], int], Any]


def texts(data: Path) -> Iterator[str]:
    for path in [*sorted(data.glob("*/corpus.jsonl")), data / "arc-worldtree/facts.jsonl"]:
        with path.open("rb") as file:
            for line in file:
                record = orjson.loads(line)
                yield f"{record.get('title') or ''} {record.get('text') or ''}"


def write_passages(data: Path, path: Path, count: int) -> None:
    """A JSON line a passage, in random order."""
    for stride in (60, 40, 30, 20, 12, 8, 6):
        passages = list(cut(data, stride))
        if len(passages) >= count:
            break
    random.Random(1).shuffle(passages)
    with path.open("wb") as file:
        for number, passage in enumerate(passages[:count]):
            file.write(orjson.dumps({"_id": f"p{number:07}", "text": passage}) + b"\n")


def cut(data: Path, stride: int) -> Iterator[str]:
    for text in texts(data):
        words = text.split()
        for start in range(0, max(len(words) - WORDS // 2, 1), stride):
            yield " ".join(words[start : start + WORDS])


def read_queries(data: Path, count: int, tuning: bool = False) -> list[str]:
    """Real queries to report on, none of them among those on which kernels may be tuned."""
    found = []
    for name in QUERIES_FROM:
        with (data / name / "queries.jsonl").open("rb") as file:
            found += [orjson.loads(line)["text"] for line in file]
    tuned_on = random.Random(2).sample(found, TUNING)
    if tuning:
        return tuned_on[:count]
    rest = sorted(set(found) - set(tuned_on))
    return random.Random(3).sample(rest, count)


def passages(path: Path) -> Iterator[tuple[str, str]]:
    with path.open("rb") as file:
        for line in file:
            record = orjson.loads(line)
            yield record["_id"], record["text"]


def tamis_engine(path: Path, work: Path) -> dict[str, Search]:
    from tamis.search.index import Index
    from tamis.types import Document, Ids, Queries

    folder = work / "tamis"
    if not folder.exists():
        documents = (Document(doc_id, text) for doc_id, text in passages(path))
        timed("tamis", lambda: Index.build(documents, folder), path)
    start = time.perf_counter()
    index = Index.open(folder)
    print(f"tamis: opened in {time.perf_counter() - start:.3f} s, {memory()} MB resident")
    index.bm25()(Queries(Ids.of(["q"]), ("how to sort grain",)))
    print(f"tamis: first query after {time.perf_counter() - start:.3f} s, {memory()} MB resident")

    def searching(source: Any) -> Search:
        def search(queries: list[str], k: int) -> Any:
            ids = Ids.of(f"{n:06}" for n in range(len(queries)))
            run = (source % k)(Queries(ids, tuple(queries)))
            return run.doc, run.score

        return search

    return {
        "tamis": searching(index.bm25()),
        "tamis ql": searching(index.ql()),
        "tamis rm3": searching(index.bm25().rm3()),
    }


def bm25s_engine(path: Path, work: Path) -> dict[str, Search]:
    bm25s, stemmers = import_module("bm25s"), import_module("Stemmer")
    stemmer = stemmers.Stemmer("english")
    folder = work / "bm25s"
    if not folder.exists():

        def build() -> None:
            corpus = [text for _, text in passages(path)]
            tokens = bm25s.tokenize(corpus, stopwords="en", stemmer=stemmer, show_progress=False)
            made = bm25s.BM25(k1=0.9, b=0.4, method="lucene", backend="numba")
            made.index(tokens, show_progress=False)
            made.save(str(folder))

        timed("bm25s", build, path)
    retriever = bm25s.BM25.load(str(folder))
    retriever.backend = "numba"
    retriever.activate_numba_scorer()

    def search(queries: list[str], k: int) -> Any:
        tokens = bm25s.tokenize(queries, stopwords="en", stemmer=stemmer, show_progress=False)
        return retriever.retrieve(tokens, k=k, show_progress=False, n_threads=0)

    return {"bm25s": search}


def tantivy_engine(path: Path, work: Path) -> dict[str, Search]:
    from tamis.text.analysis import STOP_WORDS

    tantivy = import_module("tantivy")
    folder = work / "tantivy"
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw")
    builder.add_text_field("body", stored=False, tokenizer_name="en_stem")
    schema = builder.build()
    if not folder.exists():
        folder.mkdir()

        def build() -> None:
            writer = tantivy.Index(schema, path=str(folder)).writer(300_000_000, 2)
            for doc_id, text in passages(path):
                writer.add_document(tantivy.Document(id=doc_id, body=text))
            writer.commit()
            writer.wait_merging_threads()

        timed("tantivy", build, path)
    index = tantivy.Index(schema, path=str(folder))
    searcher = index.searcher()
    letters = str.maketrans(dict.fromkeys("+-&|!(){}[]^\"~*?:\\/'`<>=,;.%$#@", " "))

    def search(queries: list[str], k: int) -> Any:
        found = []
        for text in queries:
            words = text.translate(letters).lower().split()
            query = index.parse_query(" ".join(w for w in words if w not in STOP_WORDS), ["body"])
            hits = searcher.search(query, k, count=False).hits
            found.append([(score, address.doc) for score, address in hits])
        return found

    return {"tantivy": search}


def pisa_engine(path: Path, work: Path) -> dict[str, Search]:
    pandas, pisa = import_module("pandas"), import_module("pyterrier_pisa")
    folder = work / "pisa"
    index = pisa.PisaIndex(str(folder), text_field="text", threads=2, stops="lucene")
    if not folder.exists():
        documents = ({"docno": doc_id, "text": text} for doc_id, text in passages(path))
        timed("pisa", lambda: index.index(documents), path)

    def searching(algorithm: str) -> Search:
        def search(queries: list[str], k: int) -> Any:
            ranker = index.bm25(k1=0.9, b=0.4, num_results=k, threads=1, query_algorithm=algorithm)
            numbered = [f"q{n}" for n in range(len(queries))]
            return ranker(pandas.DataFrame({"qid": numbered, "query": queries}))

        return search

    return {"pisa maxscore": searching("maxscore"), "pisa bmw": searching("block_max_wand")}


def timed(name: str, build: Callable[[], object], path: Path) -> None:
    start = time.perf_counter()
    build()
    seconds = time.perf_counter() - start
    count = sum(1 for _ in path.open("rb"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name}: built in {seconds:.1f} s, {count / seconds:,.0f} documents a second, "
          f"{peak} MB at most in this process", flush=True)  # fmt: skip


def memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def compare(engines: dict[str, Search], queries: list[str], rounds: int) -> None:
    for search in engines.values():
        for k in (10, 100, 1000):
            search(queries[:20], k)
    for k in (10, 100, 1000):
        seconds: dict[str, list[float]] = {name: [] for name in engines}
        for turn in range(rounds):
            order = list(engines)[turn % len(engines) :] + list(engines)[: turn % len(engines)]
            for name, search in ((name, engines[name]) for name in order):
                start = time.process_time()  # other programs on this core do not count
                search(queries, k)
                seconds[name].append(time.process_time() - start)
        report(k, {name: len(queries) / median(found) for name, found in seconds.items()})


def report(k: int, rates: dict[str, float]) -> None:
    peers = [rate for name, rate in rates.items() if not name.startswith("tamis")]
    line = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    if "tamis" in rates and peers:
        line += f"; tamis {rates['tamis'] / max(peers):.2f} times the best peer"
    print(f"top {k}, queries a second: {line}", flush=True)


ENGINES = {
    "tamis": tamis_engine,
    "bm25s": bm25s_engine,
    "tantivy": tantivy_engine,
    "pisa": pisa_engine,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--passages", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--tuning", action="store_true", help="the queries set aside to choose constants on"
    )
    parser.add_argument("--rebuild", action="store_true")
    arguments = parser.parse_args()
    data = Path(os.environ["TAMIS_DATA"])
    work = arguments.work / str(arguments.passages)
    work.mkdir(parents=True, exist_ok=True)
    path = work / "passages.jsonl"
    if not path.exists():
        write_passages(data, path, arguments.passages)
    engines: dict[str, Search] = {}
    for name in arguments.engines.split(","):
        if arguments.rebuild:
            shutil.rmtree(work / name, ignore_errors=True)
        try:
            engines |= ENGINES[name](path, work)
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    queries = read_queries(data, arguments.queries, arguments.tuning)
    compare(engines, queries, arguments.rounds)
    print(json.dumps({"passages": arguments.passages, "queries": arguments.queries}))


if __name__ == "__main__":
    main()
