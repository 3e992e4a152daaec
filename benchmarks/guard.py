"""How often the guard errs: real per-query values, judged queries drawn again and again.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.guard --work FOLDER [--draws N] [--level P]

500 development queries of insuranceqa, 50 BM25 candidates each, RR@10. The start is the MiniLM
bi-encoder (the first 64 tokens of a text, to keep this cheap), the usual way is the start fused
with BM25. What is offered beside these three:

- `ruined`: the start with noise in its weights, and the point halfway to it;
- `lucky`: ten models whose true mean is the start's less .01;
- `better`: nine of those and one whose true mean is the start's plus .03; and that one alone;
- `bad start`: nothing, but the start is itself a model with much noise;

each alone and fused. Values of lucky and better ones are the start's plus real differences, those
of the halfway model from the start, dealt out to other queries, the gains among them stretched to
the mean wanted; fused likewise, with half the difference of the means. All scored
queries are the truth; 8 to 512 of them are drawn with replacement, a rule chooses, and what it
hands over is looked up in the truth. `best mean` takes the highest mean; `one error` the simplest
within one standard error of it; `guard` is `tamis.fitting.guard.select`; `+ test` adds its test on
300 queries drawn apart. `--work` keeps the values that were scored.
"""

import argparse
import json
import os
import shutil
from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.collection.readers import open_collection
from tamis.errors import require
from tamis.evaluation import evaluate
from tamis.fitting.guard import SELECTION_LEVEL, ComparedSystem, decide, select
from tamis.fitting.plan import MIN_QUERIES
from tamis.fitting.system import DEFAULT_FUSION_WEIGHT
from tamis.pipeline.fuse import weighted_sum
from tamis.scorers.bi_encoder import BiEncoder
from tamis.search import Index
from tamis.search.build import searched_text
from tamis.types import Run

Values = NDArray[np.float64]
QUERIES, DEPTH, TOKENS, MEASURE = 500, 50, 64, "RR@10"
NOISE = {"halfway": 0.125, "ruined": 0.25, "bad": 0.5}
"""Deviation of the noise in every matrix, in deviations of its weights."""
WEIGHTS = 1 - DEFAULT_FUSION_WEIGHT, DEFAULT_FUSION_WEIGHT
SIZES = (8, 32, 128, 512)
TESTED = 300
RULES = ("best mean", "one error", "guard", "+ test")
BM25, START = "BM25", "start"


class World(NamedTuple):
    """What is offered, the true values, and the systems that are counted."""

    systems: list[ComparedSystem]
    truth: Values
    counted: set[str]


def noisy(start: Path, folder: Path, level: float) -> Path:
    """A copy of a model folder with noise in its weights."""
    if not folder.exists():
        files = require("safetensors.numpy")
        shutil.copytree(start, folder)
        weights = files.load_file(start / "model.safetensors")
        generator = np.random.default_rng(0)
        for name, matrix in weights.items():
            if matrix.ndim == 2 and matrix.dtype == np.float32:
                noise = generator.standard_normal(matrix.shape, np.float32)
                weights[name] = matrix + level * matrix.std() * noise
        files.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def reranked(run: Run, texts: Mapping[str, str], model: Path) -> Run:
    """The run in the order of a bi-encoder; every document is encoded once."""
    encoder = BiEncoder.open(model, threads=1, max_length=TOKENS)
    distinct, row = np.unique(run.doc, return_inverse=True)
    documents = encoder.encode([texts[name] for name in run.docs.take(distinct)])
    asked = np.repeat(encoder.encode(run.queries.texts or ()), run.sizes(), axis=0)
    score = (asked * documents[row]).sum(axis=1)
    return Run(run.queries, run.docs, run.offsets, run.doc, score)


def scored(data: Path, models: Path, work: Path) -> dict[str, Values]:
    """Per-query values of BM25 and of every model, alone and fused."""
    path = work / "values.json"
    if not path.exists():
        collection = open_collection(data / "insuranceqa")
        qrels = collection.qrels["dev"]
        chosen = np.sort(np.random.default_rng(0).permutation(len(qrels.queries))[:QUERIES])
        qrels = qrels.select(qrels.queries.select(chosen))
        index = Index.build(collection.documents, work / "index", force=True)
        places = qrels.queries.positions_in(collection.queries.ids)
        bm25 = (index.bm25(threads=1) % DEPTH)(collection.queries.select(places))
        texts = {document.id: searched_text(document) for document in collection.documents}
        start, runs = models / "minilm", {BM25: bm25}
        folders = {name: noisy(start, work / name, level) for name, level in NOISE.items()}
        for name, folder in {START: start, **folders}.items():
            print(f"scoring {name}", flush=True)
            runs[name] = reranked(bm25, texts, folder)
            runs[f"{name}+BM25"] = weighted_sum([bm25, runs[name]], WEIGHTS)
        found = evaluate(qrels, runs, [MEASURE])
        path.write_text(json.dumps({name: found.values(name, MEASURE).tolist() for name in runs}))
    return {name: np.array(each) for name, each in json.loads(path.read_text()).items()}


def related(values: Mapping[str, Values], name: str, by: float, seed: int) -> dict[str, Values]:
    """A model, alone and fused: the start's values plus real differences of other queries, the
    gains stretched so that the mean is `by` more, half as much fused; queries without a difference
    stay so.
    """
    made = {}
    for more, mean in (("", by), ("+BM25", by / 2)):
        differences = values[f"halfway{more}"] - values[f"{START}{more}"]
        gains, losses = np.maximum(differences, 0), np.minimum(differences, 0)
        stretch = (mean * len(differences) - losses.sum()) / gains.sum()
        dealt: Values = np.random.default_rng(seed).permutation(stretch * gains + losses)
        made[f"{name}{more}"] = values[f"{START}{more}"] + dealt
    return made


def worlds(values: Mapping[str, Values]) -> dict[str, World]:
    """By name; the first three offered are BM25, the start and the two fused."""
    lucky = [related(values, f"lucky {number}", -0.01, number) for number in range(10)]
    better = related(values, "better", 0.03, 0)
    noise = [f"{name}{more}" for more in ("", "+BM25") for name in ("halfway", "ruined")]
    offered: dict[str, tuple[str, dict[str, Values], set[str]]] = {
        "ruined": (START, {name: values[name] for name in noise}, {"ruined", "ruined+BM25"}),
        "lucky": (START, dict(ChainMap(*lucky)), set(ChainMap(*lucky))),
        "better": (START, dict(ChainMap(better, *lucky[1:])), set(better)),
        "better alone": (START, better, set(better)),
        "bad start": ("bad", {}, {"bad", "bad+BM25"}),
    }
    made = {}
    for world, (start, more, counted) in offered.items():
        levels = {BM25: 1, start: 1, f"{start}+BM25": 0} | dict.fromkeys(more, 2)
        table = np.array([{**values, **more}[name] for name in levels])
        made[world] = World([ComparedSystem(*each) for each in levels.items()], table, counted)
    return made


def best_mean(systems: Sequence[ComparedSystem], table: Values) -> str:
    """The naive rule."""
    return systems[int(table.mean(axis=1).argmax())].name


def one_error(systems: Sequence[ComparedSystem], table: Values) -> str:
    """The simplest within one standard error of the best, no lower than the start or BM25."""
    means = table.mean(axis=1)
    behind = table[means.argmax()] - table
    error = behind.std(axis=1, ddof=1) / np.sqrt(table.shape[1])
    near = (behind.mean(axis=1) <= error + 1e-12) & (means >= means[:2].max())
    within = np.flatnonzero(near).tolist()
    return systems[min(within, key=lambda n: (systems[n].complexity, -means[n]))].name


def guarded(
    systems: Sequence[ComparedSystem], judged: Values, test: Values, level: float
) -> tuple[str, str]:
    """What the guard chooses, and what it hands over after its test."""
    _, start, default = (system.name for system in systems[:3])
    required = [default, *([BM25] if judged.shape[1] >= MIN_QUERIES else [])]
    selection = select(systems, judged, required, level=level)
    named = {system.name: row for system, row in zip(systems, test, strict=True)}
    decision = decide(selection, named, [start, BM25], resamples=10)
    return selection.selected, decision.selected


def handed(
    systems: Sequence[ComparedSystem], truth: Values, size: int, draws: int, level: float
) -> dict[str, list[str]]:
    """What every rule hands over, draw by draw."""
    generator = np.random.default_rng(size)
    found: dict[str, list[str]] = {rule: [] for rule in RULES}
    for _ in range(draws):
        judged = truth[:, generator.integers(0, truth.shape[1], size)]
        test = truth[:, generator.integers(0, truth.shape[1], TESTED)]
        plain = best_mean(systems, judged), one_error(systems, judged)
        names = *plain, *guarded(systems, judged, test, level)
        for rule, name in zip(RULES, names, strict=True):
            found[rule].append(name)
    return found


def show(values: Mapping[str, Values], draws: int, level: float) -> None:
    """Print how often what is counted is handed over, and what every rule gives in truth."""
    for name, each in values.items():
        print(f"{name:16}{each.mean():.4f}")
    for world, (systems, truth, counted) in worlds(values).items():
        lead = dict(zip((each.name for each in systems), truth.mean(axis=1), strict=True))
        better = max(list(lead.values())[:2])
        lead = {name: float(mean - better) for name, mean in lead.items()}
        print(
            f"\n{world}; true difference from the better of start and BM25: of what was counted, "
            "of everything"
        )
        for size in SIZES:
            for rule, names in handed(systems, truth, size, draws, level).items():
                taken = [lead[name] for name in names if name in counted]
                print(f"{size:5} {rule:10}{100 * len(taken) / draws:6.1f}%"
                      f"{np.mean(taken) if taken else np.nan:+8.4f}"
                      f"{np.mean([lead[name] for name in names]):+8.4f}"
                      f"   BM25 {100 * names.count(BM25) / draws:4.1f}%", flush=True)  # fmt: skip


def main() -> None:
    """Score what is not scored yet, then draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, default=Path("guard.work"))
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--level", type=float, default=SELECTION_LEVEL)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    data, models = (Path(os.environ[name]) for name in ("TAMIS_DATA", "TAMIS_MODELS"))
    show(scored(data, models, arguments.work), arguments.draws, arguments.level)


if __name__ == "__main__":
    main()
