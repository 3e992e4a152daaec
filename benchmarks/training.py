"""Training a cross-encoder against sentence-transformers' CrossEncoderTrainer: same base, same
pairs in batches of the same size, same loss, same optimiser, two threads.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks training
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.training --texts trec-dl19 --rounds 5

Pairs are questions with a right and a random answer (insuranceqa), or queries with the passages
that BM25 found (trec-dl19), cut at 256 tokens, drawn at random. The base is `minilm` in
TAMIS_MODELS with its own dropout; the loss is binary cross-entropy, the optimiser a fused AdamW
with clipping. Some steps of each in turn, round after round: of tamis those of its own loop, of the
other `train()`. Tokenising is timed, opening is not.
Memory is the most that a process of its own held. Needs the package datasets, as the trainer does.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.training --seeds 3 --steps 40

trains both anew for every seed, at a constant rate of 1e-4, and compares the mean reciprocal rank
of right answers among 19 random ones on questions that neither saw.
"""

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.scorers import Setting, in_order
from tamis.collection.readers import open_collection
from tamis.labels import Examples
from tamis.pipeline.document_lookup import MappingLookup
from tamis.training.checkpoints import History
from tamis.training.recipe import Recipe
from tamis.training.trainer import Job, Trainer
from tamis.types import Document, Pairs, Queries, Query

THREADS = 2
BATCH = 32
LONGEST = 256
RATE = 2e-5
LEARNING = 1e-4
"""The rate where it matters what is learnt."""
ASKED, OTHERS = 200, 19
Row = tuple[str, str, float]
Steps = Callable[[int], float]
"""Trains so many steps and says how many seconds they took."""
Score = Callable[[list[tuple[str, str]]], Any]
"""Scores pairs with what was learnt so far."""


def insuranceqa(data: Path, count: int = 2000) -> list[Row]:
    """Questions, each with an answer that is right and one drawn at random."""
    collection = open_collection(data / "insuranceqa")
    texts = {document.id: document.text for document in collection.documents}
    random, ids = np.random.default_rng(0), list(texts)
    questions = {query.id: query.text for query in collection.queries}
    rows: list[Row] = []
    qrels = collection.qrels["train"]
    for query in list(qrels.queries)[: count // 2]:
        right = next(iter(qrels[query]))
        rows.append((questions[query], texts[right], 1.0))
        rows.append((questions[query], texts[ids[random.integers(len(ids))]], 0.0))
    return rows


def trec_dl19(data: Path, count: int = 2000) -> list[Row]:
    """Queries with what BM25 found; every other text is called right."""
    pairs = in_order(Setting(data, data, count // 43, 1).pairs())
    return [(query, text, float(number % 2)) for number, (query, text) in enumerate(pairs)]


def ours(
    base: Path, rows: list[Row], folder: Path, learning_rate: float = RATE, seed: int = 1
) -> tuple[Steps, Score]:
    """Steps of the loop of `tamis train`: a batch is drawn, the weights are changed; the model."""
    names = {query: f"q{n}" for n, query in enumerate(dict.fromkeys(row[0] for row in rows))}
    asked = Queries.of(Query(name, query) for query, name in names.items())
    texts = {f"d{n}": Document(f"d{n}", text) for n, (_, text, _) in enumerate(rows)}
    labels: list[Any] = [
        (names[query], f"d{n}", value, "positive" if value else "negative")
        for n, (query, _, value) in enumerate(rows)
    ]
    recipe = Recipe(
        "bce",
        loss="bce",
        sampler="points",
        batch_size=BATCH,
        epochs=100,
        learning_rate=learning_rate,
        max_length=LONGEST,
        max_grad_norm=1.0,
        seed=seed,
    )
    examples = Examples.of_rows(labels, source="gold").with_queries(asked)
    job = Job(examples, MappingLookup(texts), recipe, base, folder / "ours", threads=THREADS)
    learner, history = Trainer.of(job), History()

    def steps(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            learner.learn(history, folder)
        return time.perf_counter() - start

    def score(pairs: list[tuple[str, str]]) -> Any:
        queries, found = zip(*pairs, strict=True)
        index = np.repeat(np.arange(len(pairs), dtype=np.int32), 2).reshape(-1, 2)
        return learner.model.scorer(threads=THREADS).score(Pairs(queries, found, index)).values

    return steps, score


def theirs(
    base: Path, rows: list[Row], folder: Path, learning_rate: float = RATE, seed: int = 1
) -> tuple[Steps, Score]:
    """Steps of CrossEncoderTrainer, timed from when training begins to when it ends; the model."""
    import torch
    from sentence_transformers.cross_encoder import (
        CrossEncoder,
        CrossEncoderTrainer,
        CrossEncoderTrainingArguments,
        losses,
    )
    from transformers import PrinterCallback, TrainerCallback

    queries, texts, values = zip(*rows, strict=True)
    data = import_module("datasets").Dataset.from_dict(
        {"query": queries, "text": texts, "label": values}
    )
    torch.manual_seed(seed)
    model = CrossEncoder(str(base), num_labels=1, max_length=LONGEST, device="cpu")
    loss = losses.BinaryCrossEntropyLoss(model)
    seconds = [0.0]

    class Clock(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            seconds[0] = -time.perf_counter()

        def on_train_end(self, *_: Any, **__: Any) -> None:
            seconds[0] += time.perf_counter()

    def steps(count: int) -> float:
        settings = CrossEncoderTrainingArguments(
            output_dir=str(folder), per_device_train_batch_size=BATCH, max_steps=count,
            learning_rate=learning_rate, lr_scheduler_type="constant", use_cpu=True, report_to=[],
            save_strategy="no", logging_strategy="no", disable_tqdm=True, seed=seed,
        )  # fmt: skip
        torch.set_num_threads(THREADS)
        trainer = CrossEncoderTrainer(
            model=model, args=settings, train_dataset=data, loss=loss, callbacks=[Clock()]
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return seconds[0]

    return steps, model.predict


TEXTS = {"insuranceqa": insuranceqa, "trec-dl19": trec_dl19}
SIDES = ("CrossEncoderTrainer", "tamis")


def opened(
    side: str, base: Path, rows: list[Row], folder: Path, learning_rate: float = RATE, seed: int = 1
) -> tuple[Steps, Score]:
    """One of the two."""
    if side == "tamis":
        return ours(base, rows, folder, learning_rate, seed)
    return theirs(base, rows, folder, learning_rate, seed)


def speed(base: Path, rows: list[Row], rounds: int, steps: int) -> None:
    """Samples a second, in turn, and their ratio."""
    with TemporaryDirectory() as name:
        runs = {side: opened(side, base, rows, Path(name))[0] for side in SIDES}
        for run in runs.values():
            run(2)
        seconds: dict[str, list[float]] = {side: [] for side in SIDES}
        for _ in range(rounds):
            for side, run in runs.items():
                seconds[side].append(run(steps))
    first = median(seconds[SIDES[0]])
    for side, values in seconds.items():
        rate = BATCH * steps / median(values)
        spread = f"{BATCH * steps / max(values):.1f} to {BATCH * steps / min(values):.1f}"
        print(f"{side:22}{rate:7.1f} samples/s ({spread}){first / median(values):7.2f}", flush=True)


def unseen(data: Path) -> list[tuple[str, str]]:
    """Questions after those that are learnt from: each with a right answer, then others."""
    collection = open_collection(data / "insuranceqa")
    texts = {document.id: document.text for document in collection.documents}
    random, ids = np.random.default_rng(2), list(texts)
    questions = {query.id: query.text for query in collection.queries}
    qrels = collection.qrels["train"]
    found = []
    for query in list(qrels.queries)[5000 : 5000 + ASKED]:
        others = [ids[number] for number in random.integers(len(ids), size=OTHERS)]
        for answer in (next(iter(qrels[query])), *others):
            found.append((questions[query], texts[answer]))
    return found


def learnt(
    base: Path, rows: list[Row], asked: list[tuple[str, str]], seeds: int, steps: int
) -> None:
    """The reciprocal rank of right answers after so many steps, seed by seed."""
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    with TemporaryDirectory() as name:
        for seed in range(seeds):
            for side, values in found.items():
                train, score = opened(side, base, rows, Path(name), LEARNING, seed)
                train(steps)
                scores = np.asarray(score(asked)).reshape(ASKED, 1 + OTHERS)
                rank = 1 + (scores[:, 1:] >= scores[:, :1]).sum(axis=1)
                values.append(float((1 / rank).mean()))
                print(f"seed {seed}, {side:22}{values[-1]:.4f}", flush=True)
    for side, values in found.items():
        spread = np.std(values, ddof=1)
        print(f"{side:22}{np.mean(values):.4f}, standard deviation over seeds {spread:.4f}")


def peak(side: str, texts: str, steps: int) -> int:
    """Megabytes that a process holds at most while it trains."""
    command = [sys.executable, "-m", "benchmarks.training", "--texts", texts, "--alone", side]
    done = subprocess.run(
        [*command, "--steps", str(steps)], stdout=subprocess.PIPE, text=True, check=True
    )
    return int(done.stdout.split()[-1]) // 1024


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", choices=TEXTS, default="insuranceqa")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="steps a round")
    parser.add_argument("--seeds", type=int, help="compare what is learnt, with so many seeds")
    parser.add_argument("--alone", choices=SIDES, help="train one and print its memory")
    given = parser.parse_args(arguments)
    if not os.environ.get("TAMIS_DATA") or not os.environ.get("TAMIS_MODELS"):
        print("training: skipped, TAMIS_DATA and TAMIS_MODELS are not set")
        return
    if given.on_main_process != "tamis" and find_spec("datasets") is None:
        print("training: skipped, the package datasets is not installed")
        return
    quiet()
    base = Path(os.environ["TAMIS_MODELS"]) / "minilm"
    rows = TEXTS[given.texts](Path(os.environ["TAMIS_DATA"]))
    if given.on_main_process:
        with TemporaryDirectory() as name:
            opened(given.on_main_process, base, rows, Path(name))[0](given.steps)
        print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
        return
    if given.seeds:
        learnt(base, rows, unseen(Path(os.environ["TAMIS_DATA"])), given.seeds, given.steps)
        return
    print(f"\ntraining on {given.texts}, {len(rows):,} pairs, batches of {BATCH}")
    speed(base, rows, given.rounds, given.steps)
    for side in SIDES:
        print(f"{side:22}{peak(side, given.texts, 8):7,} MB at most", flush=True)


def quiet() -> None:
    """No words but ours; two threads."""
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers.utils import logging as logging_of_theirs

    logging: Any = logging_of_theirs
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(THREADS)


if __name__ == "__main__":
    main(sys.argv[1:])
