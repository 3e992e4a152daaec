"""Which of the ways to rank that need no training should count as the simplest.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.untrained --work FOLDER [--draws N]

600 training queries of each collection, 50 candidates each by BM25 and by the hybrid, RR@10, the
MiniLM bi-encoder alone and fused with what found them. All 600 are the truth; some of them are
drawn with replacement and the guard chooses, with four orders of simplicity: `in order` (BM25,
hybrid, base, base fused), `equal` (the best mean), `half first` (half and half, then the others),
all of which refuse what is below the base or BM25; and `usual first`, the order of `tamis fit`,
which refuses what is below the base fused at .75 and, from ten queries on, below BM25. Printed is
the true mean of what was chosen less that of the better of base and BM25, in how many percent of
draws that is below -.03, and beside them the means of the two fusions, which need no judgement.
FOLDER is that of `benchmarks.fitting`, whose indexes are used if they are there.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fitting import MEASURE, NAMES, index_with_vectors
from tamis.collection.opening import open_collection
from tamis.fit.finding import HYBRID
from tamis.fit.guard import Option, choose
from tamis.fit.look import passages_for, sampled
from tamis.fit.options import BM25, PREFERRED, START, UNVERIFIED, Way, floors, values, ways
from tamis.fit.sieve import first_stage
from tamis.models import open_ranker
from tamis.pipeline.rerank import rerank
from tamis.search import Index

QUERIES, DEPTH = 600, 50
SIZES = (4, 8, 16, 32, 64, 128, 300)
USUAL = "usual first"
LOSS = -0.03


def scored(name: str, stage: str, work: Path, data: Path, base: Path) -> tuple[list[Way], Any]:
    """Every way with a first stage, and its value on every query."""
    source = open_collection(data / name, on_error="skip")
    index = Index.open(index_with_vectors(name, work, data, base))
    qrels = sampled(source.qrels["train"], QUERIES, 99)
    asked = source.queries.select(qrels.queries.positions_in(source.queries.ids))
    encoder: Any = open_ranker(base, threads=1).scorer
    runs = {
        each: first_stage(index, each, encoder, 1).search(asked, DEPTH) for each in (BM25, stage)
    }
    reranked = rerank(encoder, index, passages=passages_for(index), depth=DEPTH, missing="skip")
    everything = ways(stage, [START], [BM25] if stage != BM25 else [])
    given = {START: reranked(runs[stage]), BM25: runs[BM25]}
    return everything, values(everything, runs[stage], given, qrels, MEASURE)


def orders(everything: Sequence[Way]) -> dict[str, list[int]]:
    """How simple each way is, by the name of the order."""
    return {
        "in order": [way.name != BM25 if way.model in (None, BM25) else 2 + (way.weight is not None)
                     for way in everything],
        "equal": [0] * len(everything),
        "half first": [int(way.weight != UNVERIFIED) for way in everything],
        USUAL: [way.simplicity for way in everything],
    }  # fmt: skip


def show(everything: Sequence[Way], table: NDArray[np.float64], draws: int) -> None:
    """What each order gives, by how many queries it chose on."""
    names, truth = [way.name for way in everything], table.mean(axis=1)
    print("   ".join(f"{way.name} {mean:.4f}" for way, mean in zip(everything, truth, strict=True)))
    at = dict(zip(names, truth, strict=True))
    better = max(at[START], at[BM25])
    half, usual = (
        next(way.name for way in everything if way.weight == weight)
        for weight in (UNVERIFIED, PREFERRED)
    )
    print(f"always {half} {at[half] - better:+.4f}, always {usual} {at[usual] - better:+.4f}")
    print(f"{'judged':>8}" + "".join(f"{name:>18}" for name in orders(everything)))
    for size in SIZES:
        generator, line = np.random.default_rng(size), f"{size:8}"
        drawn = [table[:, generator.integers(0, table.shape[1], size)] for _ in range(draws)]
        for order, levels in orders(everything).items():
            options = [Option(*each) for each in zip(names, levels, strict=True)]
            least = floors(usual, BM25, size) if order == USUAL else ()
            chosen = [
                choose(options, each, start=START, baseline=BM25, floors=least).chosen
                for each in drawn
            ]
            leads = np.array([at[name] for name in chosen]) - better
            line += f"{leads.mean():+11.4f}{100 * (leads < LOSS).mean():6.1f}%"
        print(line, flush=True)


def main() -> None:
    """Every collection with both first stages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=400)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    data, models = (Path(os.environ[name]) for name in ("TAMIS_DATA", "TAMIS_MODELS"))
    for name in NAMES:
        for stage in (BM25, HYBRID):
            print(f"\n{name}, candidates by {stage}")
            show(*scored(name, stage, given.work, data, models / "minilm"), given.draws)


if __name__ == "__main__":
    main()
