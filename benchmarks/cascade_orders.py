"""Cheap orders of which a fixed number of documents is kept for the full model; see `cascade`."""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.collection.base import Collection
from tamis.collection.judgements import read_qrels
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run
from tamis.errors import require
from tamis.evaluation import agree, evaluate
from tamis.pipeline.cascade_vectors import StoredVectors
from tamis.pipeline.passage_scores import token_spans
from tamis.pipeline.rerank import Rerank, rerank
from tamis.scorers.batching import batches, groups
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder, TorchPairs
from tamis.scorers.tokens import share
from tamis.search import Index
from tamis.search.build import searched_text
from tamis.search.vectors import VectorModel
from tamis.types import Ids, Pairs, Qrels, Run

Values = NDArray[np.float64]
KEPT = (10, 15, 20, 30, 40, 50, 60, 70, 80, 90)
LAYERS = (2, 3, 4)
TOKENS = 32
RIDGE = 0.1


@dataclass
class Clock:
    """Processor seconds by name."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add what the block takes."""
        start = time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - start


@dataclass(frozen=True)
class Setting:
    """A run, the full stage that re-ranks it, and an index with vectors of its documents."""

    run: Run
    full: Rerank
    index: Index
    encoder: BiEncoder


def wikiqa_run(collection: Collection, qrels: Qrels, work: Path) -> Run:
    """The first 100 documents by BM25 of 40 development queries."""
    index = Index.build(collection.documents, work / "wikiqa", force=True)
    names = sorted(qrels.queries)
    random.Random(5).shuffle(names)
    places = Ids.of(names[:40]).positions_in(collection.queries.ids)
    return (index.bm25(threads=1) % 100)(collection.queries.select(places))


def setting(name: str, data: Path, models: Path, work: Path) -> Setting:
    """All that is needed to re-rank one collection; only documents of the run are encoded."""
    collection = open_collection(data / name)
    if name == "wikiqa":
        run = wikiqa_run(collection, read_qrels(data / name / "qrels" / "dev.tsv"), work)
    else:
        run = read_run(data / name / "bm25-top100.trec").with_queries(collection.queries)
    encoder = BiEncoder.open(models / "minilm", threads=1)
    folder, wanted = work / f"{name}.candidates", set(run.docs.take(np.unique(run.doc)))
    if not folder.exists():
        part = [document for document in collection.documents if document.id in wanted]
        Index.build(part, folder)
    index = Index.open(folder)
    index.encode(encoder, VectorModel("minilm"))
    full = rerank(CrossEncoder.open(models / "ce", threads=1), index, model="ce")
    return Setting(run, full, index, encoder)


def quality(data: Path, everything: Run, part: Run) -> dict[str, float]:
    """Agreement of the first ten and the change of nDCG@10."""
    qrels = read_qrels(data / "trec-dl19" / "qrels" / "test.tsv")
    means = evaluate(qrels, {"full": everything, "part": part}, ["nDCG@10"])
    change = means.mean("part", "nDCG@10") - means.mean("full", "nDCG@10")
    return {"agreement": agree(everything, part, 10).means()["overlap"], "change": change}


def texts_of(here: Setting) -> list[str]:
    """The text of every row of the run."""
    texts = {document.id: searched_text(document) for document in here.index.snapshot.documents()}
    return [texts[name] for name in here.run.docs.take(here.run.doc)]


def by_layer(
    scorer: CrossEncoder, query: str, texts: list[str], clock: Clock
) -> tuple[Values, NDArray[np.float32], NDArray[np.int64]]:
    """The full scores, for each early layer what its head sees, and the tokens of each pair.

    A head sees the first token as it is and as the next layer would make it, which needs only
    the fold. The clock counts the layers up to each exit and those after all exits.
    """
    assert isinstance(scorer.model, TorchPairs)
    room, body = scorer.max_length - scorer.layout.extra, scorer.model.body
    asked, found = scorer.tokens.encode([query], room)[0], scorer.tokens.encode(texts, room)
    kept = [share(asked.length, text.length, room) for text in found]
    lengths = np.array([sum(parts) + scorer.layout.extra for parts in kept], np.int64)
    scores, width = np.empty(len(texts)), 2 * int(body.words.shape[1])
    seen = np.empty((len(LAYERS), len(texts), width), np.float32)
    with require("torch").inference_mode():
        for batch in batches(lengths, scorer.budget):
            made = [
                scorer.layout.join(asked.ids[: kept[n][0]], found[n].ids[: kept[n][1]])
                for n in batch.tolist()
            ]
            ids, segments = zip(*made, strict=True)
            sizes = [len(sequence) for sequence in ids]
            starts, alike = np.cumsum([0, *sizes[:-1]]), groups(sizes)
            with clock.timed("layer 0"):
                states = body._embedded(ids, segments)
            for number, layer in enumerate(body.layers[:-1], 1):
                with clock.timed(f"layer {number}"):
                    states = body._layer(layer, states, alike)
                if number in LAYERS:
                    with clock.timed(f"exit {number}"):
                        next_first = body._folded(body.layers[number], states, alike)
                        both = np.hstack([states[starts].numpy(), next_first.numpy()])
                        seen[LAYERS.index(number), batch] = both
            with clock.timed("last layer"):
                out = scorer.model.head(body._folded(body.layers[-1], states, alike))
                scores[batch] = out.numpy()[:, 0]
    return scores, seen, lengths


def standard(values: NDArray[Any]) -> Values:
    """In standard deviations."""
    return np.asarray((values - values.mean()) / max(float(values.std()), 1e-9))


@dataclass(frozen=True)
class Facts:
    """What every cheap order knows of one query's documents."""

    scores: Values
    tokens: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]


def facts(here: Setting, clock: Clock) -> list[Facts]:
    """Everything cheap of every query."""
    assert isinstance(here.full.scorer, CrossEncoder) and here.run.queries.texts is not None
    texts, stored, found = texts_of(here), StoredVectors.of(here.index, here.encoder), []
    for number, query in enumerate(here.run.queries.texts):
        part = slice(int(here.run.offsets[number]), int(here.run.offsets[number + 1]))
        scores, seen, tokens = by_layer(here.full.scorer, query, texts[part], clock)
        first = standard(here.run.score[part])[:, None]
        with clock.timed("bi-encoder"):
            asked = stored.queries([query])[0]
            rows = stored.documents(asked, here.run.docs.take(here.run.doc[part]))
        with clock.timed("first tokens"):
            short = first_tokens(here.full.scorer, query, texts[part])
        layers = {f"layer {n}": np.hstack([seen[i], first]) for i, n in enumerate(LAYERS)}
        cosine = (rows @ asked)[:, None] * 10
        columns = {"BM25": first, "bi-encoder": np.hstack([cosine, first]), "first tokens": short}
        found.append(Facts(scores, tokens, columns | layers))
    return found


def first_tokens(scorer: CrossEncoder, query: str, texts: list[str]) -> NDArray[Any]:
    """The full model's scores of the beginnings of texts."""
    spans = token_spans(scorer)
    assert spans is not None
    cut = [text[: [0, *(end for _, end in list(spans(text))[:TOKENS])][-1]] for text in texts]
    index = np.stack([np.zeros(len(cut), np.int32), np.arange(len(cut), dtype=np.int32)], 1)
    return scorer.score(Pairs([query], cut, index)).values[:, None]


def weights(name: str, calibration: list[Facts]) -> Values:
    """A ridge regression of the full scores within queries on what an order knows."""
    if name in ("BM25", "first tokens"):
        return np.ones(1)
    seen = np.concatenate([f.columns[name] - f.columns[name].mean(0) for f in calibration])
    wanted = np.concatenate([f.scores - f.scores.mean() for f in calibration])
    scale = seen.std(0) + 1e-6
    seen = seen.astype(np.float64) / scale
    inner = seen.T @ seen + RIDGE * len(seen) * np.eye(seen.shape[1])
    return np.asarray(np.linalg.solve(inner, seen.T @ wanted) / scale)


def order_points(name: str, run: Run, known: list[Facts], fitted: Values) -> list[dict[str, Any]]:
    """For each number kept: the run, and the share of tokens that the full model still reads."""
    points = []
    for kept in KEPT:
        score, read = np.empty(len(run.doc), np.float32), 0
        for number, each in enumerate(known):
            order = np.argsort(-(each.columns[name] @ fitted), kind="stable")
            value = each.scores.min() - 1 - np.argsort(order)
            value[order[:kept]] = each.scores[order[:kept]]
            score[run.offsets[number] : run.offsets[number + 1]] = value
            read += int(each.tokens[order[:kept]].sum())
        ranked = Run(run.queries, run.docs, run.offsets, run.doc, score)
        share_read = read / sum(int(each.tokens.sum()) for each in known)
        points.append({"kept": kept, "run": ranked, "share": share_read})
    return points


def measure_orders(places: dict[str, Path]) -> dict[str, Any]:
    """Points of every cheap order: documents kept, agreement, nDCG@10, times as fast."""
    calibration = facts(setting("wikiqa", **places), Clock())
    here, clock = setting("trec-dl19", **places), Clock()
    known = facts(here, clock)
    everything = by_scores(here.run, np.concatenate([each.scores for each in known]))
    layers = {name: value for name, value in clock.seconds.items() if "layer" in name}
    full = sum(layers.values())
    sample = texts_of(here)[:600]
    with clock.timed("encoding"):
        here.encoder.encode(sample)
    encoding = clock.seconds["encoding"] * len(here.run.doc) / len(sample)
    found: dict[str, Any] = {}
    for name in known[0].columns:
        points = order_points(name, here.run, known, weights(name, calibration))
        cheap, rest = clock.seconds.get(name, 0.0) if "layer" not in name else 0.0, full
        if name.startswith("layer"):
            depth = int(name.removeprefix("layer "))
            before = sum(clock.seconds[f"layer {n}"] for n in range(depth + 1))
            cheap, rest = before + clock.seconds[f"exit {depth}"], full - before
        for label, more in ((name, 0.0), (f"{name}, texts encoded now", encoding)):
            if more and name != "bi-encoder":
                continue
            found[label] = [
                {
                    "kept": point["kept"],
                    "times": full / (cheap + more + rest * point["share"]),
                    **quality(places["data"], everything, point["run"]),
                }
                for point in points
            ]
    return found


def by_scores(run: Run, scores: NDArray[Any]) -> Run:
    """The run by other scores."""
    return Run(run.queries, run.docs, run.offsets, run.doc, scores.astype(np.float32))
