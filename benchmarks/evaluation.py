"""Reading and evaluating a run of 7,000 queries by 1,000 documents, against ranx and ir_measures.

    python -m benchmarks evaluation

Ids are numbers below 8.8 million, as in MS MARCO; every query has ten judged documents, graded 0
to 3, half of them retrieved. Each tool evaluates from its own loaded structures.
"""

import subprocess
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.timing import interleaved, report
from tamis.collection.judgements import read_qrels
from tamis.collection.runs import read_run
from tamis.evaluation import evaluate

QUERIES, DEPTH, COLLECTION, JUDGED = 7_000, 1_000, 8_841_823, 10
MEASURES = ["nDCG@10", "RR@10", "AP", "R@1000"]
RANX = ["ndcg@10", "mrr@10", "map", "recall@1000"]


def write_data(folder: Path, seed: int = 7) -> None:
    """Write `run` and `qrels`."""
    random = np.random.default_rng(seed)
    with (folder / "run").open("w") as run, (folder / "qrels").open("w") as qrels:
        for query in range(1_000_000, 1_000_000 + QUERIES):
            docs = random.choice(COLLECTION, DEPTH + JUDGED // 2, replace=False).tolist()
            scores = np.sort(random.gamma(2, 4, DEPTH))[::-1].tolist()
            run.writelines(
                f"{query} Q0 {doc} {rank} {score:.6f} bm25\n"
                for rank, (doc, score) in enumerate(zip(docs[:DEPTH], scores, strict=True), 1)
            )
            judged = random.choice(docs[:DEPTH], JUDGED - JUDGED // 2, replace=False).tolist()
            for doc in judged + docs[DEPTH:]:
                qrels.write(f"{query} 0 {doc} {random.integers(4)}\n")


def read_ir_measures(path: Path) -> dict[str, dict[str, float]]:
    """A run as ir_measures hands it out, in the dictionary it evaluates from."""
    import ir_measures

    found: dict[str, dict[str, float]] = {}
    reader: Any = ir_measures.read_trec_run
    for row in reader(str(path)):
        found.setdefault(row.query_id, {})[row.doc_id] = row.score
    return found


def peak_memory(path: Path) -> int:
    """Megabytes that a fresh process holds at most while it reads the run."""
    code = (
        "import sys; from tamis.collection.runs import read_run; read_run(sys.argv[1]);"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    return int(done.stdout) // 1024


def main(rounds: int = 3) -> None:
    """Measure and print."""
    warnings.simplefilter("ignore")
    import ir_measures
    import ranx

    with TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        run, qrels = folder / "run", folder / "qrels"
        report(
            f"reading a TREC run of {QUERIES * DEPTH:,} lines",
            interleaved(
                {
                    "tamis": lambda: read_run(run),
                    "ranx": lambda: ranx.Run.from_file(str(run), kind="trec"),
                    "ir_measures": lambda: read_ir_measures(run),
                },
                rounds,
            ),
        )
        print(f"  tamis holds at most {peak_memory(run):,} MB while it reads")
        ours = read_run(run), read_qrels(qrels)
        theirs: tuple[Any, Any] = (
            ranx.Run.from_file(str(run), kind="trec"),
            ranx.Qrels.from_file(str(qrels), kind="trec"),
        )
        plain = read_ir_measures(run), ours[1].to_dict()
        measures = [ir_measures.parse_measure(measure) for measure in MEASURES]
        report(
            f"evaluating it with {', '.join(MEASURES)}",
            interleaved(
                {
                    "tamis": lambda: evaluate(ours[1], {"run": ours[0]}, MEASURES),
                    "ranx": lambda: ranx.evaluate(theirs[1], theirs[0], RANX),
                    "ir_measures": lambda: ir_measures.calc_aggregate(measures, plain[1], plain[0]),
                },
                rounds,
            ),
        )
        means = evaluate(ours[1], {"run": ours[0]}, MEASURES)
        check = ir_measures.calc_aggregate(measures, plain[1], plain[0])
        for measure in measures:
            assert abs(means.mean("run", str(measure)) - check[measure]) < 1e-9, measure
        print("  same means as ir_measures to 1e-9")


if __name__ == "__main__":
    main()
