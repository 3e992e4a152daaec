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
from tamis.fitting.guard import ComparedSystem, select
from tamis.fitting.query_splits import passages_for, sample
from tamis.fitting.reranker_runs import FoldRuns
from tamis.fitting.selection import base_system, required_baselines
from tamis.fitting.system import Reranker, Retriever, System, all_systems, default_system
from tamis.fitting.systems import KINDS
from tamis.models import open_ranker
from tamis.pipeline.fuse import reciprocal_rank, weighted_sum
from tamis.pipeline.hybrid import lexical_dense_hybrid
from tamis.pipeline.rerank import rerank
from tamis.search import Index
from tamis.search.defaults import default_source
from tamis.types import Qrels, Run

QUERIES, DEPTH, DEEP = 600, 50, 1000
MORE = ("scifact", "covidqa", "wikiqa")
"""Collections for the weight alone."""
WEIGHTS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SIZES = (4, 8, 32, 128, 300)
USUAL = "usual first"
BM25, HYBRID = "BM25", "hybrid"
RETRIEVERS = {kind.name: kind for kind in KINDS if isinstance(kind, Retriever)}
BASE = next(kind for kind in KINDS if isinstance(kind, Reranker) and kind.is_default)
LOSS = -0.03


class Ranked:
    """The queries of a collection, and what words, vectors and the base make of them."""

    def __init__(self, name: str, work: Path, data: Path, base: Path) -> None:
        source = open_collection(data / name, on_error="skip")
        self.index = Index.open(index_with_vectors(name, work, data, base))
        self.qrels: Qrels = sample(source.qrels["train"], QUERIES, 99)
        asked = source.queries.select(self.qrels.queries.positions_in(source.queries.ids))
        encoder: Any = open_ranker(base, threads=1).scorer
        words = default_source(self.index, "bm25", rm3=False, threads=1)
        dense = self.index.dense(encoder, 1)
        self.words, self.vectors = words.search(asked, DEEP), dense.search(asked, DEEP)
        both = lexical_dense_hybrid(words, dense).search(asked, DEPTH)
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
        for system in systems_on(BM25)[1:]:
            found[system.name] = system.rank(self.first[BM25], start)
        return found

    def offered(self, stage: str) -> tuple[list[System], NDArray[np.float64]]:
        """Every system with a retriever, and its value on every query."""
        systems = systems_on(stage)
        runs = FoldRuns(
            self.first[stage],
            {RETRIEVERS[name].key: run for name, run in self.first.items()},
            {BASE.key: self.stage(self.first[stage])},
            self.qrels,
        )
        return systems, runs.values(systems, MEASURE)


def systems_on(name: str) -> list[System]:
    """Every system of the base model on the candidates of a retriever."""
    retrievers = [RETRIEVERS[each] for each in dict.fromkeys((BM25, name))]
    return all_systems(retrievers, RETRIEVERS[name], [BASE])


def show_fused(found: Mapping[str, Run], qrels: Qrels) -> None:
    """The mean of every fusion, and how surely it is above BM25."""
    told = evaluate(qrels, found, [MEASURE])
    for name in found:
        lead = told.values(name, MEASURE) - told.values(BM25, MEASURE)
        error = lead.std(ddof=1) / len(lead) ** 0.5
        t = f"{lead.mean() / error:+6.1f}" if error else ""
        print(f"  {name:18} {told.mean(name, MEASURE):.4f} {t}", flush=True)


def show_drawn(everything: Sequence[System], table: NDArray[np.float64], draws: int) -> None:
    """What each order gives, by how many queries it chose on."""
    names, truth = [way.name for way in everything], table.mean(axis=1)
    at = dict(zip(names, truth, strict=True))
    base = base_system(everything)
    assert base is not None
    better, first = max(at[base.name], at[BM25]), default_system(everything).name
    orders = {"equal": [0] * len(names), USUAL: [way.complexity for way in everything]}
    print(f"  always {first} {at[first] - better:+.4f}")
    print(f"{'judged':>8}" + "".join(f"{name:>18}" for name in orders))
    for size in SIZES:
        generator, line = np.random.default_rng(size), f"{size:8}"
        drawn = [table[:, generator.integers(0, table.shape[1], size)] for _ in range(draws)]
        for order, levels in orders.items():
            systems = [ComparedSystem(*each) for each in zip(names, levels, strict=True)]
            required = [base.name, BM25]
            if order == USUAL:
                required = required_baselines(everything, size)
            chosen = [select(systems, each, required).selected for each in drawn]
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
