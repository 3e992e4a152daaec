"""What ranks best without any training: how much vectors count, and what the guard should hold to.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.untrained --work FOLDER [--draws N]

600 training queries of each collection, RR@10, the MiniLM bi-encoder, BM25 with its usual numbers.
First what words and vectors give when they are fused, by ranks and by scores with several weights,
with Student's t over BM25 beside the mean; and what the base makes of BM25's first 50, alone and
fused. Then what the guard hands over: some queries are drawn with replacement, all 600 are the
truth; `equal` takes the best mean of what needs no training and refuses what is below the base or
BM25, `usual first` is the order of `tamis fit`, which holds on to the usual way and refuses what is
below it and, from ten queries on, below BM25. Printed is the true mean of what was chosen less that
of the better of base and BM25, and in how many percent of draws that is below -.03. FOLDER is that
of `benchmarks.fitting`, whose indexes are used if they are there.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fitting import MEASURE, NAMES, index_with_vectors
from tamis.collection.readers import open_collection
from tamis.evaluation import evaluate
from tamis.fit.guard import Option, choose
from tamis.fit.look import passages_for, sampled
from tamis.fit.options import BM25, START, Way, floors, ranked, usual, values, ways
from tamis.fit.sieve import HYBRID, first_stage
from tamis.models import open_ranker
from tamis.pipeline.fuse import reciprocal_rank, weighted_sum
from tamis.pipeline.rerank import rerank
from tamis.search import Index
from tamis.types import Qrels, Run

QUERIES, DEPTH, DEEP = 600, 50, 1000
MORE = ("scifact", "covidqa", "wikiqa")
"""Collections for the weight alone."""
WEIGHTS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SIZES = (4, 8, 32, 128, 300)
USUAL = "usual first"
LOSS = -0.03


class Ranked:
    """The queries of a collection, and what words, vectors and the base make of them."""

    def __init__(self, name: str, work: Path, data: Path, base: Path) -> None:
        source = open_collection(data / name, on_error="skip")
        self.index = Index.open(index_with_vectors(name, work, data, base))
        self.qrels: Qrels = sampled(source.qrels["train"], QUERIES, 99)
        asked = source.queries.select(self.qrels.queries.positions_in(source.queries.ids))
        encoder: Any = open_ranker(base, threads=1).scorer
        self.words = first_stage(self.index, BM25, threads=1).search(asked, DEEP)
        self.vectors = self.index.dense(encoder, 1).search(asked, DEEP)
        both = first_stage(self.index, HYBRID, encoder, 1).search(asked, DEPTH)
        self.first = {BM25: self.words.top(DEPTH), HYBRID: both}
        self.stage = rerank(
            encoder, self.index, passages=passages_for(self.index), depth=DEPTH, missing="skip"
        )

    def fused(self) -> dict[str, Run]:
        """Every fusion, by name."""
        pair, start = [self.words, self.vectors], self.stage(self.first[BM25])
        found = {BM25: self.words, "vectors": self.vectors, "by ranks": reciprocal_rank(pair)}
        for weight in WEIGHTS:
            found[f"vectors {weight}"] = weighted_sum(pair, [1 - weight, weight], ("filled", "z"))
        for way in ways(BM25, [START])[1:]:
            found[way.name] = ranked(way, self.first[BM25], {START: start})
        return found

    def offered(self, stage: str) -> tuple[list[Way], NDArray[np.float64]]:
        """Every way with a first stage, and its value on every query."""
        everything = ways(stage, [START], [BM25] if stage != BM25 else [])
        given = {START: self.stage(self.first[stage]), BM25: self.first[BM25]}
        return everything, values(everything, self.first[stage], given, self.qrels, MEASURE)


def show_fused(found: Mapping[str, Run], qrels: Qrels) -> None:
    """The mean of every fusion, and how surely it is above BM25."""
    told = evaluate(qrels, found, [MEASURE])
    for name in found:
        lead = told.values(name, MEASURE) - told.values(BM25, MEASURE)
        error = lead.std(ddof=1) / len(lead) ** 0.5
        t = f"{lead.mean() / error:+6.1f}" if error else ""
        print(f"  {name:18} {told.mean(name, MEASURE):.4f} {t}", flush=True)


def show_drawn(everything: Sequence[Way], table: NDArray[np.float64], draws: int) -> None:
    """What each order gives, by how many queries it chose on."""
    names, truth = [way.name for way in everything], table.mean(axis=1)
    at = dict(zip(names, truth, strict=True))
    better, first = max(at[START], at[BM25]), usual(everything).name
    orders = {"equal": [0] * len(names), USUAL: [way.simplicity for way in everything]}
    print(f"  always {first} {at[first] - better:+.4f}")
    print(f"{'judged':>8}" + "".join(f"{name:>18}" for name in orders))
    for size in SIZES:
        generator, line = np.random.default_rng(size), f"{size:8}"
        drawn = [table[:, generator.integers(0, table.shape[1], size)] for _ in range(draws)]
        for order, levels in orders.items():
            options = [Option(*each) for each in zip(names, levels, strict=True)]
            least = floors(first, BM25, size) if order == USUAL else ()
            chosen = [
                choose(options, each, start=START, baseline=BM25, floors=least).chosen
                for each in drawn
            ]
            leads = np.array([at[name] for name in chosen]) - better
            line += f"{leads.mean():+11.4f}{100 * (leads < LOSS).mean():6.1f}%"
        print(line, flush=True)


def main() -> None:
    """Every collection, and those of the results with both first stages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=400)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    data, models = (Path(os.environ[name]) for name in ("TAMIS_DATA", "TAMIS_MODELS"))
    for name in (*NAMES, *MORE):
        found = Ranked(name, given.work, data, models / "minilm")
        print(f"\n{name}")
        show_fused(found.fused(), found.qrels)
        for stage in (BM25, HYBRID) if name in NAMES else ():
            print(f"  candidates by {stage}")
            show_drawn(*found.offered(stage), given.draws)


if __name__ == "__main__":
    main()
