"""PACRR-DRMM against BM25, query likelihood and a twin trained on shuffled judgements.

    TAMIS_DATA=... TAMIS_MODELS=... python -m benchmarks.pacrr_drmm --work FOLDER squad|insuranceqa

It re-ranks BM25's first 100 documents, with GloVe vectors of 50 dimensions. It is trained on
training queries, its epoch is selected on dev queries, and test queries test it. A logistic
regression over its four features shows what its terms add. The documents of `squad` are five
consecutive paragraphs each. What is trained already in FOLDER is opened again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np

from tamis.collection.readers import open_collection
from tamis.evaluation import evaluate
from tamis.evaluation.evaluate import Evaluation
from tamis.rankers.features import FeatureSource
from tamis.rankers.logistic_regression import LogisticRegression, LogisticRegressionSettings
from tamis.rankers.pacrr_drmm import PACRRDRMM, PACRRDRMMSettings
from tamis.rankers.sampling import relevant_rows
from tamis.rankers.term_texts import TermSource
from tamis.search import Index
from tamis.types import Document, Qrels, Queries, Run

MEASURES = ("AP", "nDCG@10", "P@20", "RR@10")
DEPTH = 100
PARAGRAPHS_PER_DOCUMENT = 5
MARGIN, SOFTMAX, TWIN = "PACRR-DRMM margin", "PACRR-DRMM softmax", "twin, shuffled labels"
BM25, QL = "BM25", "query likelihood"
LINEAR = "logistic regression, same 4 features"
FEATURES = ("score_z", "words", "bigrams", "idf")


@dataclass(frozen=True)
class Sizes:
    """How many queries of each split are used, drawn with seed 0, and the settings."""

    train: int
    dev: int
    test: int
    settings: PACRRDRMMSettings


SIZES = {
    "insuranceqa": Sizes(1500, 150, 1000, PACRRDRMMSettings(epochs=40)),
    "squad": Sizes(1500, 100, 500, PACRRDRMMSettings(epochs=30, max_document_terms=1000)),
}


@dataclass(frozen=True, eq=False)
class Task:
    """Documents, queries and the judgements of each split."""

    documents: list[Document]
    queries: Queries
    qrels: dict[str, Qrels]


def read_task(name: str) -> Task:
    """A collection as it is, or, of squad, its paragraphs joined by fives."""
    collection = open_collection(Path(os.environ["TAMIS_DATA"]) / name)
    documents, queries = list(collection.documents), collection.queries
    if name != "squad":
        return Task(documents, queries, dict(collection.qrels))
    joined, document_of = join_documents(documents, PARAGRAPHS_PER_DOCUMENT)
    carried = {split: carry(qrels, document_of) for split, qrels in collection.qrels.items()}
    return Task(joined, queries, carried)


def join_documents(
    documents: Sequence[Document], count: int
) -> tuple[list[Document], dict[str, str]]:
    """So many consecutive documents as one, and of each id that of the document it is in now."""
    joined, document_of = [], {}
    for start in range(0, len(documents), count):
        parts = documents[start : start + count]
        texts = [" ".join(f"{part.title} {part.text}".split()) for part in parts]
        joined.append(Document(f"{parts[0].id}+", "\n".join(texts)))
        document_of.update({part.id: joined[-1].id for part in parts})
    return joined, document_of


def carry(qrels: Qrels, document_of: dict[str, str]) -> Qrels:
    """A document is as relevant as the most relevant of its parts."""
    carried: dict[str, dict[str, int]] = {}
    for query, grades in judgements(qrels):
        for doc, grade in grades:
            inside = carried.setdefault(query, {})
            inside[document_of[doc]] = max(grade, inside.get(document_of[doc], 0))
    return Qrels.from_dict(carried)


def judgements(qrels: Qrels) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """The graded documents of each query."""
    query = np.repeat(np.arange(len(qrels)), np.diff(qrels.offsets)).tolist()
    rows = zip(query, qrels.docs.take(qrels.doc), qrels.grade.tolist(), strict=True)
    for number, group in groupby(rows, key=lambda row: row[0]):
        yield qrels.queries[number], [(doc, grade) for _, doc, grade in group]


def draw(task: Task, split: str, count: int) -> tuple[Queries, Qrels]:
    """Judged queries of a split at random."""
    qrels = task.qrels[split]
    chosen = np.sort(np.random.default_rng(0).permutation(len(qrels))[:count])
    qrels = qrels.select(qrels.queries.select(chosen))
    return task.queries.select(qrels.queries.positions_in(task.queries.ids)), qrels


def shuffled(run: Run, qrels: Qrels, seed: int = 0) -> Qrels:
    """As many relevant candidates a query, but which ones they are is drawn at random."""
    rng = np.random.default_rng(seed)
    relevant = relevant_rows(run, qrels)
    judged: dict[str, dict[str, int]] = {}
    for number, query in enumerate(run):
        rows = slice(run.offsets[number], run.offsets[number + 1])
        drawn = rng.permutation(relevant[rows])
        names = run.docs.take(run.doc[rows])
        judged[query] = {name: int(grade) for name, grade in zip(names, drawn, strict=True)}
    return Qrels.from_dict(judged)


def main() -> None:
    """Train what is not there, rank, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("collection", choices=sorted(SIZES))
    parser.add_argument("--work", type=Path, required=True, help="a folder for index and rankers")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(arguments.threads)
    sizes, task = SIZES[arguments.collection], read_task(arguments.collection)
    work = arguments.work / arguments.collection
    index = Index.build(task.documents, work / "index", force=True)
    drawn = {split: draw(task, split, getattr(sizes, split)) for split in ("train", "dev", "test")}
    runs = {split: index.bm25().search(queries, DEPTH) for split, (queries, _) in drawn.items()}
    qrels = {split: judged for split, (_, judged) in drawn.items()}
    texts = TermSource.read(Path(os.environ["TAMIS_MODELS"]) / "glove50", index).complete()
    print(
        f"{len(index):,} documents; " + ", ".join(f"{len(qrels[s])} {s}" for s in qrels), flush=True
    )
    ranked = {BM25: runs["test"], QL: index.ql().search(drawn["test"][0], DEPTH)}
    ranked[LINEAR] = rank_by_features(runs, qrels["train"], texts)
    for name, settings, is_shuffled in systems(sizes.settings):
        labels = [
            shuffled(runs[s], qrels[s]) if is_shuffled else qrels[s] for s in ("train", "dev")
        ]
        ranker = trained(
            work / name.replace(" ", "-").replace(",", ""),
            partial(
                PACRRDRMM.fit,
                runs["train"],
                labels[0],
                texts,
                settings,
                validation=(runs["dev"], labels[1]),
                on_epoch=log,
            ),
            texts,
        )
        began = time.perf_counter()
        ranked[name] = ranker(runs["test"])
        describe(name, ranker, time.perf_counter() - began, len(runs["test"]))
    show(evaluate(qrels["test"], ranked, MEASURES))


def rank_by_features(runs: dict[str, Run], qrels: Qrels, texts: TermSource) -> Run:
    """The test run by a logistic regression over the four features, learnt from the train run."""
    with_features = {split: add_features(runs[split], texts) for split in ("train", "test")}
    source = FeatureSource(columns=FEATURES, normalisation="none")
    settings = LogisticRegressionSettings(list_size=None)
    ranker = LogisticRegression.fit(with_features["train"], qrels, source, settings)
    print(
        "logistic regression:", dict(zip(FEATURES, ranker.weights.round(2).tolist(), strict=True))
    )
    return ranker(with_features["test"])


def add_features(run: Run, texts: TermSource) -> Run:
    """The run with the four features as columns."""
    values = texts.of(run, 1, 1).features
    return run.with_extra(**dict(zip(FEATURES, values.T, strict=True)))


def systems(
    settings: PACRRDRMMSettings,
) -> tuple[tuple[str, PACRRDRMMSettings, bool], ...]:
    """Name, settings, and whether its judgements are shuffled."""
    return (
        (MARGIN, settings, False),
        (SOFTMAX, replace(settings, loss="softmax"), False),
        (TWIN, settings, True),
    )


def trained(folder: Path, fit: Callable[[], PACRRDRMM], texts: TermSource) -> PACRRDRMM:
    """What lies in a folder, or what is trained and written there."""
    if folder.exists():
        return PACRRDRMM.load(folder, texts)
    began = time.perf_counter()
    ranker = fit()
    print(f"trained in {time.perf_counter() - began:.0f} s", flush=True)
    return ranker.save(folder)


def log(epoch: int, loss: float) -> None:
    """Print the loss of an epoch."""
    print(f"  epoch {epoch}: loss {loss:.4f}", flush=True)


def describe(name: str, ranker: PACRRDRMM, seconds: float, queries: int) -> None:
    """Print what was selected, and the weights of the four features in the last layer."""
    best = max(ranker.validations, key=lambda one: one.mean_average_precision)
    weights = ranker.network.dense[-1].weight.detach().numpy()[0, -4:]
    values = ", ".join(f"{value:+.2f}" for value in weights)
    print(
        f"{name}: {len(ranker.losses)} epochs, epoch {best.epoch} with MAP "
        f"{best.mean_average_precision:.4f} on dev; weights of score, words, bigrams, idf: "
        f"{values}; {1000 * seconds / queries:.1f} ms a query",
        flush=True,
    )


def show(evaluation: Evaluation) -> None:
    """Print the means, and the differences from each baseline with randomisation p-values."""
    print(evaluation)
    for baseline in (BM25, QL, LINEAR, TWIN):
        for one in evaluation.compare(baseline):
            if one.run in (MARGIN, SOFTMAX):
                p = one.randomisation.raw or 0.0
                size = "< .0001" if p < 1e-4 else f"= {p:.4f}"
                print(f"{one.run} - {baseline}: {one.measure} {one.difference:+.4f}, p {size}")


if __name__ == "__main__":
    main()
