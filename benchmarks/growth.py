"""How the cost of the first stage grows with the collection, in numbers and as a picture.

    TAMIS_DATA=... python -m benchmarks.growth --work FOLDER --picture growth.svg

Passages as in `first_stage.py`, one thread pinned to one core, BM25, queries as strings in.
"""

import argparse
import json
import os
import time
from itertools import islice
from pathlib import Path

from benchmarks.first_stage import passages, read_queries, write_passages
from tamis.search import Index
from tamis.types import Document, Ids, Queries

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
DEPTHS = (10, 100, 1000)


def measure(path: Path, size: int, work: Path, queries: list[str]) -> dict[str, float]:
    """Build an index of the first passages and search it; figures by name."""
    folder = work / f"growth-{size}"
    documents = (Document(doc_id, text) for doc_id, text in islice(passages(path), size))
    start = time.perf_counter()
    index = Index.build(documents, folder, force=True)
    found = {"documents": size, "build s": time.perf_counter() - start}
    found["disk MB"] = sum(file.stat().st_size for file in folder.rglob("*")) / 1e6
    asked = Queries(Ids.of(f"{n:06}" for n in range(len(queries))), tuple(queries))
    for depth in DEPTHS:
        source = index.bm25(threads=1) % depth
        source(asked)
        start = time.process_time()
        source(asked)
        found[f"top {depth} ms"] = (time.process_time() - start) / len(queries) * 1000
    return found


def draw(rows: list[dict[str, float]], picture: Path) -> None:
    """Milliseconds a query over documents, both axes logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2))
    for depth, style in zip(DEPTHS, ("o-", "s--", "^:"), strict=True):
        sizes = [row["documents"] for row in rows]
        axes.loglog(sizes, [row[f"top {depth} ms"] for row in rows], style, label=f"top {depth}")
    axes.set_xlabel("passages of 60 words")
    axes.set_ylabel("ms a query, one core")
    axes.grid(True, which="both", alpha=0.25)
    axes.legend()
    figure.tight_layout()
    figure.savefig(picture)


def main() -> None:
    """Measure, print a row a size, and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--most", type=int, default=SIZES[-1])
    arguments = parser.parse_args()
    data = Path(os.environ["TAMIS_DATA"])
    sizes = [size for size in SIZES if size <= arguments.most]
    path = arguments.work / f"growth-{sizes[-1]}.jsonl"
    if not path.exists():
        write_passages(data, path, sizes[-1])
    rows = []
    for size in sizes:
        rows.append(measure(path, size, arguments.work, read_queries(data, 1000)))
        print(json.dumps({name: round(value, 3) for name, value in rows[-1].items()}), flush=True)
    if arguments.picture:
        draw(rows, arguments.picture)


if __name__ == "__main__":
    main()
