"""Re-ranking tables: those of insuranceqa, and what reading a large one costs.

    TAMIS_DATA=... python -m benchmarks.reranking_tables --work FOLDER [--rows 4000000] [--embed]

Writes `train.tsv` and `dev.tsv` in the shape of You's coursework: BM25's first 1000 documents of
4,590 training and 1,100 validation queries, those with no relevant document among them left out,
288 training queries cut to at most 50 candidates; seed 0. With `--rows`, a table of so many rows is
generated and read as a run, with the time and memory that takes. With `--embed`, the documents of
insuranceqa are embedded by vectors of 300 dimensions, against a loop in numpy that has the words
already.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.timing import interleaved, report
from tamis.collection.candidate_selection import Selection, select_candidates
from tamis.collection.candidate_table_writer import write_candidate_table
from tamis.collection.readers import open_collection
from tamis.rankers.text_embeddings import TextEmbedder
from tamis.scorers.word_vectors import WordVectors
from tamis.search import Index
from tamis.text.analysis import analyzer

SELECTIONS = {
    "train": Selection(depth=1000, sample=4590, short_queries=288, short_depth=50, seed=0),
    "dev": Selection(depth=1000, sample=1100, seed=0),
}
CANDIDATES = 1000
WORDS = [f"word{number}" for number in range(20_000)]
DIMENSIONS = 300
CONVERT = """
import re, sys
from pathlib import Path
from tamis.cli.app import run
code = run(["convert", *sys.argv[1:]])
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
sys.exit(code)
"""
"""Converts, and prints the most memory that was resident, in kilobytes (on Linux)."""


def insuranceqa() -> Path:
    """Where the collection lies."""
    return Path(os.environ["TAMIS_DATA"]) / "insuranceqa"


def write_tables(work: Path) -> dict[str, Path]:
    """The tables of insuranceqa by split; those that are there already are left."""
    collection = open_collection(insuranceqa())
    tables = {split: work / f"{split}.tsv" for split in SELECTIONS}
    if all(table.exists() for table in tables.values()):
        return tables
    index = Index.build(collection, work / "insuranceqa.index", force=True)
    for split, selection in SELECTIONS.items():
        qrels = collection.qrels[split]
        judged = collection.queries.select(qrels.queries.positions_in(collection.queries.ids))
        selected = select_candidates(index.bm25().search(judged, CANDIDATES), qrels, selection)
        notes = write_candidate_table(selected.run, collection, tables[split], force=True)
        print(f"{tables[split]}:", *selected.notes(), *notes, sep="\n  ", flush=True)
    return tables


def generate(path: Path, rows: int) -> None:
    """A table of random words: a thousand candidates a query of 900,000 passages at most."""
    draw = random.Random(0)
    passages = [" ".join(draw.choices(WORDS, k=55)) for _ in range(min(rows, 900_000))]
    with path.open("w", encoding="utf-8") as file:
        file.write("qid\tpid\tquery\tpassage\trelevancy\n")
        for query in range(rows // CANDIDATES):
            text, relevant = " ".join(draw.choices(WORDS, k=6)), draw.randrange(CANDIDATES)
            for n, pid in enumerate(draw.sample(range(len(passages)), CANDIDATES)):
                file.write(
                    f"{7 * query}\t{5 * pid}\t{text}\t{passages[pid]}\t{int(n == relevant)}\n"
                )


def measure_reading(work: Path, rows: int) -> None:
    """Convert a generated table to a run in a process of its own."""
    table = work / f"{rows}.tsv"
    generate(table, rows)
    start = time.perf_counter()
    arguments = [str(table), str(work / "candidates.parquet"), "--to", "run", "--force"]
    done = subprocess.run(
        [sys.executable, "-c", CONVERT, *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    seconds = time.perf_counter() - start
    peak = 1024 * int(done.stdout)
    size = table.stat().st_size
    print(f"{rows:,} rows, {size / 1e9:.1f} GB: {seconds:.0f} s, {peak / 1e9:.2f} GB of memory")
    table.unlink()


def measure_embedding() -> None:
    """Texts a second, against a mean of rows in numpy for each text."""
    texts = [document.text for document in open_collection(insuranceqa()).documents]
    terms = analyzer("unicode").terms
    words = [terms(text) for text in texts]
    vocabulary = sorted({word for text in words for word in text})
    matrix = np.random.default_rng(0).normal(size=(len(vocabulary), DIMENSIONS)).astype(np.float32)
    vector_of = dict(zip(vocabulary, matrix, strict=True))
    embedder = TextEmbedder(WordVectors.of(vocabulary, matrix))
    contestants = {
        "tamis": lambda: embedder.embed(texts),
        "numpy": lambda: [np.mean([vector_of[word] for word in text], 0) for text in words if text],
    }
    seconds = interleaved(contestants)
    report(f"embedding {len(texts):,} texts", seconds)
    print(f"  {len(texts) / seconds['tamis']:,.0f} texts a second")


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--embed", action="store_true")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    write_tables(options.work)
    if options.rows:
        measure_reading(options.work, options.rows)
    if options.embed:
        measure_embedding()


if __name__ == "__main__":
    main()
