"""What `tamis fit` hands over, with no judgements, with few and with many, on real collections.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.fitting none --work FOLDER
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.fitting few --work FOLDER
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.fitting all --work FOLDER
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.fitting every --work FOLDER
    python -m benchmarks.fitting table

`none`: training queries without judgements, tested on the collection's own test queries. `few`: 8,
32, 128 and 512 judged training queries, three samples each. `all`: every judgement, on 300 test
queries as the others; `every`: the same on every test query. A cell is one fit; one that was
interrupted goes on where it was in the work folder, and `--cells N` stops after so many;
`--max-time` is that of a fit. `table` prints what is there: the measure of BM25, of the start, of
plain training (the model trained on all its judgements, taken as it comes) and of what the guard
chose, with paired t-tests over the test queries, Holm-corrected over the table. Every query's value
lies in `measured/fitting`, a file a cell: a cell that is there is done.
"""

import argparse
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

from tamis.collection.base import Collection
from tamis.collection.judgements import write_qrels
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run, write_run
from tamis.evaluation import evaluate, holm, t_test
from tamis.fitting import job
from tamis.fitting.candidate_models import FINE_TUNING, NEGATIVES_DEPTH, recipe_for
from tamis.fitting.query_splits import MAX_TEST_QUERIES, passages_for, sample, split_queries
from tamis.fitting.request import FitRequest
from tamis.fitting.sieve import load_sieve
from tamis.labels.gold import gold
from tamis.models import open_ranker
from tamis.pipeline.document_lookup import open_lookup
from tamis.pipeline.rerank import rerank
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.search import Index
from tamis.search.tune import configured, tune
from tamis.training.loop import train
from tamis.training.trainer import Job
from tamis.types import Ids, Qrels

NAMES = ("insuranceqa", "medquad", "openbookqa", "squad")
SIZES = (8, 32, 128, 512)
SAMPLES = 3
MEASURE = "RR@10"
MEASURED = Path(__file__).parent / "measured" / "fitting"
"""A file a cell, with the measure of every query: what the table is computed from."""
KEYS = "BM25", "start", "trained", "chosen"
PAIRS = ("chosen", "BM25"), ("chosen", "start"), ("trained", "start")
"""What is compared, query by query."""
MINUTES = {"none": 4, "few": 8, "all": 20, "every": 8}
"""How long a cell takes on two quiet cores, about."""


@dataclass(frozen=True)
class Cell:
    """One fit: a collection, how many judged queries, and which sample of them."""

    part: str
    collection: str
    judged: int | None
    sample: int = 0

    @property
    def name(self) -> str:
        """Where its outcome lies."""
        judged = self.part if self.judged is None else self.judged
        return f"{self.collection}-{judged}-{self.sample}"


def cells(part: str) -> Iterator[Cell]:
    """The cells of a part, one collection after the other within each size."""
    if part == "none":
        yield from (Cell(part, name, 0) for name in NAMES)
    elif part in ("all", "every"):
        yield from (Cell(part, name, None) for name in NAMES)
    else:
        for sample in range(SAMPLES):
            for size in SIZES:
                yield from (Cell(part, name, size, sample) for name in NAMES)


def run(
    cell: Cell,
    work: Path,
    data: Path,
    base: Path,
    threads: int | None,
    minutes: float,
    with_plain: bool = True,
) -> None:
    """Fit a cell and keep the values of every query."""
    out = MEASURED / f"{cell.name}.json"
    print(f"{time.strftime('%H:%M')} {cell.name}", flush=True)
    source = open_collection(data / cell.collection, on_error="skip")
    qrels = dict(source.qrels)
    given = work / f"{cell.name}.qrels"
    given.mkdir(exist_ok=True)
    files = {"test": given / "test.txt"}
    judged = {"test": qrels["test"]}
    if cell.judged is None or cell.judged > 0:
        files["train"] = given / "train.txt"
        split = qrels["train"]
        judged["train"] = split if cell.judged is None else sample(split, cell.judged, cell.sample)
    for name, path in files.items():
        if not path.exists():  # a fit that goes on wants the very same files
            write_qrels(judged[name], path)
    sieve = work / f"{cell.name}.sieve"
    request = FitRequest(
        str(data / cell.collection), sieve, str(base), measure=MEASURE,
        max_time=60.0 * minutes, on_error="skip", threads=threads,
        qrels={name: str(path) for name, path in files.items()}, seed=cell.sample,
        learning_curve=False,
    )  # fmt: skip
    began = time.monotonic()
    started = sieve.with_name(f"{sieve.name}.fitting")
    if not started.exists():
        shutil.copytree(index_with_vectors(cell.collection, work, data, base), started / "index")
    most = len(judged["test"]) if cell.part == "every" else MAX_TEST_QUERIES
    with patch.object(job, "split_queries", partial(split_queries, max_test=most)):
        job.run_fit(request, resume=started.exists())
    took = time.monotonic() - began
    if with_plain and cell.judged and not (sieve / "runs" / "fine-tuned.parquet").exists():
        plain(cell, sieve, work, source, base, threads)
    _keep(sieve, out, qrels["test"], took)
    shutil.rmtree(sieve)


def plain(
    cell: Cell, sieve: Path, work: Path, source: Collection, base: Path, threads: int | None
) -> None:
    """Train on judgements that are too few for `fit` to train on, and rank the test candidates."""
    index = Index.open(work / f"{cell.collection}.index")
    qrels = sample(source.qrels["train"], cell.judged or 0, cell.sample)
    queries = source.queries.select(qrels.queries.positions_in(source.queries.ids))
    run = index.bm25().search(queries, 100)
    examples = gold(qrels, queries, run, depth=NEGATIVES_DEPTH, seed=cell.sample, missing="skip")
    recipe = recipe_for(FINE_TUNING["bi-encoder"], 10**9, examples, cell.sample)
    with TemporaryDirectory() as folder:
        model = Path(folder) / "plain"
        with open_lookup(index, examples.docs) as documents:
            train(Job(examples, documents, recipe, base, model, None, threads))
        scorer = EmbeddingCache(BiEncoder.open(model, threads=threads))
        first = read_run(sieve / "runs" / "hybrid.parquet").with_queries(source.queries)
        done = rerank(scorer, index, depth=50, missing="skip")(first)
    write_run(done, sieve / "runs" / "fine-tuned.parquet")


def index_with_vectors(collection: str, work: Path, data: Path, base: Path) -> Path:
    """An index with vectors, which every cell of a collection begins with."""
    path = work / f"{collection}.index"
    made = Index.open(path) if path.exists() else None
    if made is None:
        source = open_collection(data / collection, on_error="skip")
        made = Index.build(source.documents, path)
    if not made.snapshot.embeddings:
        encoder: Any = open_ranker(base).scorer
        made.encode(encoder, passages=passages_for(made))
    return path


def _keep(sieve: Path, out: Path, qrels: Qrels, seconds: float) -> None:
    """The values of BM25, the start, the trained model as it is, and what the guard chose.

    That is the choice before the test queries were looked at: `fit` takes it back where they speak
    clearly against it, and a table over the same queries would then show little else.
    """
    decision = load_sieve(sieve).result.decision
    assert decision is not None
    chosen, handed = decision.selection.selected, decision.selected
    wanted = {"BM25": "BM25", "start": "base model", "trained": "fine-tuned", "chosen": chosen}
    values: dict[str, Any] = {}
    asked: list[str] = []
    for name, way in wanted.items():
        path = sieve / "runs" / f"{way}.parquet"
        if path.exists():
            run = read_run(path)
            judged = qrels.select(run.queries.ids)
            asked = list(judged.queries)
            found = evaluate(judged, {way: run}, [MEASURE]).values(way, MEASURE)
            values[name] = [round(value, 5) for value in found.tolist()]
    told = {"chosen": chosen, "handed over": handed, "seconds": round(seconds), "values": values,
            "queries": asked}  # fmt: skip
    out.write_text(json.dumps(told))


def tuned_bm25(cell: Cell, work: Path, data: Path) -> None:
    """Add what BM25 gives that was tuned on training judgements, which the fit had not."""
    out = MEASURED / f"{cell.name}.json"
    told = json.loads(out.read_text())
    if "tuned BM25" in told["values"]:
        return
    source = open_collection(data / cell.collection, on_error="skip")
    path = work / f"{cell.collection}.words"
    index = Index.open(path) if path.exists() else Index.build(source.documents, path)
    found = tune(index, source.queries, source.qrels["train"], MEASURE)
    ids = Ids.of(told["queries"])
    asked = source.queries.select(ids.positions_in(source.queries.ids))
    run = configured(index.bm25(), "bm25", found.parameters).search(asked, 50)
    value = evaluate(source.qrels["test"].select(ids), {"run": run}, [MEASURE])
    found = value.values("run", MEASURE).tolist()
    told["values"]["tuned BM25"] = [round(value, 5) for value in found]
    out.write_text(json.dumps(told))


def table() -> list[str]:
    """Every cell that is there, and the means by the number of judged queries, in Markdown."""
    found = {cell.name: (cell, json.loads((MEASURED / f"{cell.name}.json").read_text()))
             for part in MINUTES for cell in cells(part)
             if (MEASURED / f"{cell.name}.json").exists()}  # fmt: skip
    for _, told in found.values():  # against the better of the two
        told["values"]["BM25"] = told["values"].get("tuned BM25", told["values"]["BM25"])
    tests = [_p(told["values"], *pair) for _, told in found.values() for pair in PAIRS]
    corrected = holm(np.array(tests)) if tests else np.zeros(0)
    lines = ["| | judged | sample | queries | BM25 | start | trained | chosen | − BM25 | p "
             "| − start | p | trained − start | p | what |", "|---" * 15 + "|"]  # fmt: skip
    order = sorted(enumerate(found.values()), key=lambda each: _place(each[1][0]))
    for number, (cell, told) in order:
        values = {key: np.array(each) for key, each in told["values"].items()}
        said = "all" if cell.judged is None else str(cell.judged)
        row = [cell.collection, said, str(cell.sample + 1), str(len(told["queries"]))]
        row += [_decimal(values[key].mean()) if key in values else "" for key in KEYS]
        for at, (one, other) in enumerate(PAIRS):
            both = one in values and other in values
            change = _decimal((values[one] - values[other]).mean(), "+") if both else ""
            p = _level(corrected[number * len(PAIRS) + at]) if both else ""
            row += [change, p]
        taken_back = told.get("handed over", told["chosen"]) != told["chosen"]
        row.append(f"{told['chosen']}{', taken back on the test' if taken_back else ''}")
        lines.append("| " + " | ".join(row) + " |")
    lines += ["", *_by_size([each for each in found.values() if each[0].part == "few"])]
    return [*lines, "", *_by_all([each for each in found.values() if each[0].judged is None])]


def _place(cell: Cell) -> tuple[int, int, int]:
    return NAMES.index(cell.collection), 10**9 if cell.judged is None else cell.judged, cell.sample


def _decimal(value: float, sign: str = "") -> str:
    return f"{value:{sign}.4f}".replace("0.", ".", 1).replace("-", "−")


def _level(p: float) -> str:
    if p < 0.001:
        return f"{p:.0e}".replace("e-0", "e-")
    return f"{p:.3f}".replace("0.", ".", 1) if p < 0.01 else f"{p:.2f}".replace("0.", ".", 1)


def _by_size(found: Sequence[tuple[Cell, Any]]) -> list[str]:
    """The mean of each difference on each collection, by how many queries were judged."""
    lines = ["| judged | " + " | ".join(f"{name}: − BM25" for name in NAMES)
             + " | mean − BM25 | mean − start | trained − start |", "|---:" * 8 + "|"]  # fmt: skip
    for size in sorted({cell.judged or 0 for cell, _ in found}):
        row, means = [str(size)], []
        for name in NAMES:
            some = [told["values"] for cell, told in found
                    if (cell.judged, cell.collection) == (size, name)]  # fmt: skip
            means.append([_change(some, *pair) for pair in PAIRS])
            row.append(f"{_decimal(means[-1][0], '+')} ({len(some)})" if some else "")
        for at in range(len(PAIRS)):
            known = [each[at] for each in means if not np.isnan(each[at])]
            row.append(_decimal(float(np.mean(known)), "+") if known else "")
        lines.append("| " + " | ".join(row) + " |")
    return lines


def _by_all(found: Sequence[tuple[Cell, Any]]) -> list[str]:
    """What was chosen beside plain training on all judgements."""
    lines = ["| all judgements | queries | trained | chosen | chosen − trained | p |",
             "|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for cell, told in sorted(found, key=lambda each: _place(each[0])):
        values = {key: np.array(each) for key, each in told["values"].items()}
        means = [_decimal(values[key].mean()) for key in ("trained", "chosen")]
        change = _decimal((values["chosen"] - values["trained"]).mean(), "+")
        p = _level(_p(told["values"], "chosen", "trained"))
        row = [cell.collection, str(len(told["queries"])), *means, change, p]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def _change(some: Sequence[Any], one: str, other: str) -> float:
    """The mean over cells of the difference of two ways."""
    each = [np.mean(told[one]) - np.mean(told[other]) for told in some if one in told]
    return float(np.mean(each)) if each else float("nan")


def _p(values: dict[str, list[float]], one: str, other: str) -> float:
    if one not in values or other not in values:
        return 1.0
    p = t_test(np.array(values[one]) - np.array(values[other]))
    return 1.0 if p is None else p


def main(arguments: Sequence[str] = ()) -> None:
    """Run a part, or print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("part", choices=[*MINUTES, "table"])
    parser.add_argument("--work", type=Path)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--only", choices=NAMES)
    parser.add_argument("--threads", type=int)
    parser.add_argument(
        "--max-time", type=float, default=30, help="minutes that a fit may plan for"
    )
    parser.add_argument(
        "--no-plain", action="store_true", help="do not train where the fit has no time to"
    )
    given = parser.parse_args(arguments)
    data, models = os.environ.get("TAMIS_DATA"), os.environ.get("TAMIS_MODELS")
    if given.part == "table":
        print("\n".join(table()))
        return
    if given.work is None:
        parser.error("say where to work: --work FOLDER")
    if not data or not models:
        print("fitting: skipped, TAMIS_DATA and TAMIS_MODELS are not set")
        return
    logging.basicConfig(level=logging.INFO, format="   %(message)s")
    given.work.mkdir(parents=True, exist_ok=True)
    left = [
        cell
        for cell in cells(given.part)
        if not (MEASURED / f"{cell.name}.json").exists() and given.only in (None, cell.collection)
    ][: given.cells]
    print(f"{len(left)} fits, about {len(left) * MINUTES[given.part] / 60:.1f} hours on two cores")
    for cell in left:
        base = Path(models) / "minilm"
        run(cell, given.work, Path(data), base, given.threads, given.max_time, not given.no_plain)
    for cell in cells("none"):
        if (MEASURED / f"{cell.name}.json").exists():
            tuned_bm25(cell, given.work, Path(data))
    print("\n".join(table()))


if __name__ == "__main__":
    main(sys.argv[1:])
