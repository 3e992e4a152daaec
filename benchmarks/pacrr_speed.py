"""How many pairs PACRR-DRMM scores a second, and how long it trains on 10,000 pairs.

    TAMIS_DATA=... TAMIS_MODELS=... python -m benchmarks.pacrr_speed --work FOLDER

BM25's first 100 documents of 300 training queries of insuranceqa, GloVe of 50 dimensions, default
settings, on one thread and on two; medians of three rounds, by the clock and by processor time. The
terms of texts are read once, before.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.pacrr_drmm import DEPTH, draw, read_task
from tamis.rankers._pacrr_inputs import score_rows
from tamis.rankers.pacrr_drmm import PACRRDRMM, PACRRDRMMSettings, build_network
from tamis.rankers.sampling import relevant_rows
from tamis.rankers.term_texts import TermSource
from tamis.search import Index
from tamis.types import Qrels, Run

QUERIES, EPOCHS, ROUNDS = 300, 10, 3


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """The median seconds of some rounds, by the clock and by processor time."""
    clock, processor = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter(), time.process_time()
        work()
        clock.append(time.perf_counter() - began[0])
        processor.append(time.process_time() - began[1])
    return statistics.median(clock), statistics.median(processor)


def measure(run: Run, qrels: Qrels, texts: TermSource) -> None:
    """Print the figures for the number of threads that torch uses now."""
    settings = PACRRDRMMSettings(epochs=1)
    terms = texts.of(run, settings.max_query_terms, settings.max_document_terms)
    network = build_network(settings)
    score_rows(network, terms)  # kernels are compiled
    clock, processor = seconds(lambda: score_rows(network, terms))
    print(
        f"  scoring: {len(terms) / clock:,.0f} pairs a second, {len(terms) / processor:,.0f} a "
        f"second of processor time; {1e5 * processor / len(terms):.1f} ms of it for 100"
    )
    one = seconds(lambda: PACRRDRMM.fit(run, qrels, texts, settings))
    many = replace(settings, epochs=1 + EPOCHS)
    all_epochs = seconds(lambda: PACRRDRMM.fit(run, qrels, texts, many))
    pairs = EPOCHS * int(relevant_rows(run, qrels).sum())
    clock, processor = (1e4 * (b - a) / pairs for a, b in zip(one, all_epochs, strict=True))
    print(f"  training: {clock:.1f} s for 10,000 pairs, {processor:.1f} s of processor time")


def main() -> None:
    """Measure on one thread and on two."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--work", type=Path, required=True, help="a folder for the index")
    arguments = parser.parse_args()
    import torch

    task = read_task("insuranceqa")
    index = Index.build(task.documents, arguments.work / "index", force=True)
    queries, qrels = draw(task, "train", QUERIES)
    run = index.bm25().search(queries, DEPTH)
    texts = TermSource.read(Path(os.environ["TAMIS_MODELS"]) / "glove50", index).complete()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        print(f"{threads} threads", flush=True)
        measure(run, qrels, texts)
    torch.set_num_threads(1)
    ranker = PACRRDRMM.fit(run, qrels, texts, PACRRDRMMSettings(epochs=1))
    one = run.select(run.queries.ids.select(np.array([0])))
    _, processor = seconds(lambda: ranker(one))
    print(f"a list of 100, its documents read from the index: {1000 * processor:.1f} ms")


if __name__ == "__main__":
    main()
