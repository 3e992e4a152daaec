"""Bases of a fit without judgements: how well each ranks, how fast it encodes, how large it is.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.bases --work FOLDER
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.bases --work FOLDER --only medquad:mpnet

A cell is `tamis fit COLLECTION --base BASE` without queries or judgements, on documents alone; then
the sieve searches judged test queries that the fit has not seen. Collections are `DOCUMENTS`
documents, those judged relevant for the sampled queries among them, with seed 0; of openbookqa that
is all. "docs/s" is the encoding of the first documents of the collection on one thread, by
processor time, apart from the fit. FOLDER keeps what is done; the table is printed of that, with a
paired test against BM25.
"""

import argparse
import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import tamis
from tamis.collection.readers import open_collection
from tamis.durable import new_file
from tamis.evaluation import evaluate
from tamis.evaluation.significance import randomisation_test
from tamis.models import import_model
from tamis.scorers.bi_encoder import BiEncoder
from tamis.search.defaults import default_source
from tamis.types import Ids, Qrels, Queries, Run

BASES = ("minilm", "gte-small", "granite", "mpnet")
POOLING = {"gte-small": "mean", "granite": "cls"}
"""Of folders that do not say it, from their model cards."""
COLLECTIONS = ("openbookqa", "medquad")
DOCUMENTS = {"openbookqa": 1326, "medquad": 600}
QUERIES = {"openbookqa": 500, "medquad": 300}
TIMED_DOCUMENTS = {"openbookqa": 100, "medquad": 24}
MEASURE = "RR@10"
SEED = 0


@dataclass(frozen=True)
class Cell:
    """What one base makes of one collection."""

    system: str
    values: list[float]
    """The measure of every test query, in the order of its ids."""
    bm25: list[float]
    docs_per_second: float
    megabytes: float
    """Of the files of the model."""
    fit_seconds: float


@dataclass(frozen=True)
class Sample:
    """Documents of a collection in a folder without queries, and the test queries for them."""

    documents: Path
    queries: Queries
    qrels: Qrels


def sample_of(data: Path, name: str, work: Path) -> Sample:
    """The documents and test queries of a collection that cells of it share."""
    collection = open_collection(data / name, on_error="skip")
    judged = collection.qrels["test"]
    order = random.Random(SEED)
    ids = sorted(query for query in judged if query in collection.queries.ids)
    chosen = sorted(order.sample(ids, min(QUERIES[name], len(ids))))
    qrels = judged.select(Ids.of(chosen))
    relevant = {doc for query in qrels for doc, grade in qrels[query].items() if grade > 0}
    documents = list(collection.documents)
    others = [document.id for document in documents if document.id not in relevant]
    count = max(0, min(DOCUMENTS[name] - len(relevant), len(others)))
    kept = relevant | set(order.sample(others, count))
    folder = work / name
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"_id": document.id, "title": document.title, "text": document.text})
        for document in documents
        if document.id in kept
    ]
    with new_file(folder / "corpus.jsonl", force=True) as path:
        path.write_text("\n".join(lines) + "\n", "utf-8")
    queries = collection.queries.select(Ids.of(chosen).positions_in(collection.queries.ids))
    return Sample(folder, queries, qrels)


def measure_cell(sample: Sample, base: Path, out: Path) -> Cell:
    """Fit without judgements, search the test queries, time the encoding."""
    start = time.perf_counter()
    sieve = tamis.fit(sample.documents, out=out, base=base, force=True, resume=True)
    seconds = time.perf_counter() - start
    runs: dict[str, Run] = {
        "sieve": Run.from_dict(
            {
                query: {hit.id: 1 / rank for rank, hit in enumerate(hits, 1)}
                for query, hits in sieve.search_many(sample.queries).items()
            }
        ),
        "bm25": default_source(sieve.index).search(sample.queries, 10),
    }
    evaluation = evaluate(sample.qrels, runs, [MEASURE])
    texts = [document.text for document in sieve.index][: TIMED_DOCUMENTS[sample.documents.name]]
    size = sum(path.stat().st_size for path in base.rglob("*") if path.is_file())
    return Cell(
        sieve.result.selected,
        [float(value) for value in evaluation.values("sieve", MEASURE)],
        [float(value) for value in evaluation.values("bm25", MEASURE)],
        _docs_per_second(base, texts),
        size / 1e6,
        seconds,
    )


def _docs_per_second(base: Path, texts: Sequence[str]) -> float:
    encoder = BiEncoder.open(base, threads=1, device="cpu")
    encoder.encode(texts[:8])
    start = time.process_time()
    encoder.encode(texts)
    return len(texts) / (time.process_time() - start)


def cells(work: Path, only: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Which cells are asked for: collection and base."""
    for collection in COLLECTIONS:
        for base in BASES:
            if not only or f"{collection}:{base}" in only:
                yield collection, base


def base_folder(models: Path, base: str, work: Path) -> Path:
    """The folder of a base; one that does not say how it pools is imported so that it does."""
    if base not in POOLING:
        return models / base
    folder = work / base
    if not folder.is_dir():
        import_model(models / base, folder, kind="bi-encoder", pooling=POOLING[base])
    return folder


def file_of(work: Path, collection: str, base: str) -> Path:
    """Where a cell is kept."""
    return work / f"{collection}-{base}.json"


def show(work: Path) -> None:
    """Print a table of what there is."""
    print(f"{'collection':<12}{'base':<11}{'RR@10':>7}{'- BM25':>8}{'p':>8}{'docs/s':>8}{'MB':>6}")
    for collection, base in cells(work, ()):
        path = file_of(work, collection, base)
        if not path.is_file():
            print(f"{collection:<12}{base:<11}      -")
            continue
        cell = Cell(**json.loads(path.read_text("utf-8")))
        difference = np.array(cell.values) - np.array(cell.bm25)
        p = randomisation_test(difference)
        print(
            f"{collection:<12}{base:<11}{np.mean(cell.values):7.3f}{difference.mean():+8.3f}"
            f"{p:8.4f}{cell.docs_per_second:8.1f}{cell.megabytes:6.0f}  {cell.system}"
        )


def main() -> None:
    """Measure what is asked for and not there yet, then print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], metavar="COLLECTION:BASE")
    given = parser.parse_args()
    data, models = Path(os.environ["TAMIS_DATA"]), Path(os.environ["TAMIS_MODELS"])
    for collection, base in cells(given.work, given.only):
        path = file_of(given.work, collection, base)
        if path.is_file():
            continue
        sample = sample_of(data, collection, given.work)
        folder = base_folder(models, base, given.work)
        cell = measure_cell(sample, folder, given.work / f"{collection}-{base}.sieve")
        path.write_text(json.dumps(asdict(cell)), "utf-8")
        show(given.work)
    show(given.work)


if __name__ == "__main__":
    main()
