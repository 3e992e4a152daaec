"""Learning curves: training repeated from several starting points on growing samples of queries.

Figure 1 of Mokrii. A cell is one training: a start, a size and a sample. Each is written when it
is done, so that what was interrupted goes on with the next; the training inside a cell goes on too.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from tamis.durable import duration, new_file
from tamis.errors import InputError
from tamis.evaluation import evaluate
from tamis.labels.examples import Examples, digest
from tamis.models.base_models import find_base, sha256
from tamis.models.folder import open_scorer
from tamis.pages.charts import Line, Point
from tamis.pipeline.document_lookup import Documents, open_lookup
from tamis.pipeline.rerank import rerank
from tamis.scorers.model_manifest import find_model_manifest
from tamis.training.checkpoints import work_folder
from tamis.training.loop import Job, train
from tamis.training.plots import learning_curves
from tamis.training.recipe import Recipe
from tamis.training.validation import Validation, hold_out
from tamis.types import Ids, Qrels, Run

PLOT_FILE = "curves.svg"


@dataclass(frozen=True)
class Start:
    """Where training starts: a base, or only its shape."""

    base: str | Path
    random_weights: bool = False


@dataclass(frozen=True)
class Cell:
    """One training, and the measure on the test queries; a size of 0 is the start itself."""

    start: str
    size: int
    sample: int
    value: float
    seconds: float


@dataclass(frozen=True)
class Curves:
    """All cells, and what the first stage reaches."""

    cells: tuple[Cell, ...]
    baseline: float
    measure: str

    def spread(self, start: str, size: int) -> tuple[float, float, float]:
        """Mean, lowest and highest over the samples of one size."""
        values = [c.value for c in self.cells if (c.start, c.size) == (start, size)]
        return float(np.mean(values)), min(values), max(values)

    def sizes(self, start: str) -> list[int]:
        """The sizes there are of a start, in order."""
        return sorted({cell.size for cell in self.cells if cell.start == start})

    def needed(self) -> dict[str, int | None]:
        """From how many queries on the mean of every start is above the first stage.

        >>> cells = [Cell("a", n, 0, v, 1.0) for n, v in ((8, 0.1), (32, 0.3), (128, 0.5))]
        >>> Curves(tuple(cells), 0.2, "RR@10").needed(), Curves(tuple(cells), 0.6, "RR@10").needed()
        ({'a': 32}, {'a': None})
        """
        needed_sizes: dict[str, int | None] = {}
        for start in dict.fromkeys(cell.start for cell in self.cells):
            above = [self.spread(start, size)[0] > self.baseline for size in self.sizes(start)]
            first = next((n for n in range(len(above)) if all(above[n:])), None)
            needed_sizes[start] = None if first is None else self.sizes(start)[first]
        return needed_sizes

    def picture(self) -> str:
        """The figure as SVG: means, ranges, and the first stage as a line."""
        lines = []
        for start in dict.fromkeys(cell.start for cell in self.cells):
            points = []
            for size in self.sizes(start):
                mean, low, high = self.spread(start, size)
                points.append(Point(size, mean, f"{start}: {mean:.4f}", low, high))
            lines.append(Line(start, points))
        return learning_curves(lines, self.measure, self.baseline)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What the models are tested on: candidates with the texts of their queries, judgements."""

    run: Run
    qrels: Qrels
    measure: str = "RR@10"
    depth: int = 50


def curves(
    starts: Mapping[str, Start],
    sizes: Sequence[int],
    samples: int,
    *,
    examples: Examples,
    documents: Documents,
    recipe: Recipe,
    test: HeldOut,
    work: Path,
    threads: int | None = None,
    log: Callable[[str], object] = lambda words: None,
) -> Curves:
    """Train from every start on samples of every size, and test each model on other queries.

    A size of 0 tests a start as it is, if it can rank already. Of the queries of a sample some are
    held out only where the recipe keeps the best state or stops early. The cells are in `work`, and
    so is the figure, `curves.svg`.
    """
    _refuse_leak(examples, test)
    for name in starts:
        if Path(name).name != name:
            raise InputError(f"a start cannot be called {name!r}", hint="its cells are files")
    work.mkdir(parents=True, exist_ok=True)
    _same_setting(work, _setting(starts, examples, recipe, test))
    cells_to_train = [
        (name, size, sample)
        for size in sorted(sizes)
        for name in starts
        for sample in range(samples if size else 1)
        if size or _ranks_already(starts[name])
    ]
    cells: list[Cell] = []
    with open_lookup(documents, examples.docs.union(test.run.docs)) as lookup:
        for number, (name, size, sample) in enumerate(cells_to_train):
            path = work / f"{name}-{size}-{sample}.json"
            if not path.exists():
                place = f"cell {number + 1} of {len(cells_to_train)}"
                log(f"{place}: {name}, {size} queries, sample {sample}")
                out = path.with_suffix(".model")
                job = _job(starts[name], examples, size, sample, recipe, lookup, out, threads)
                cell = _cell(name, size, sample, job, test, documents, log)
                with new_file(path) as temporary_path:
                    temporary_path.write_text(json.dumps(asdict(cell)), "utf-8")
                log(f"{test.measure} {cell.value:.4f}, {duration(cell.seconds)}")
            cells.append(Cell(**json.loads(path.read_text("utf-8"))))
    value = evaluate(test.qrels, {"run": _first(test)}, [test.measure]).mean("run", test.measure)
    result = Curves(tuple(cells), value, test.measure)
    if any(cell.size for cell in cells):
        with new_file(work / PLOT_FILE, force=True) as temporary_path:
            temporary_path.write_text(result.picture(), "utf-8")
    return result


def _ranks_already(start: Start) -> bool:
    return not start.random_weights and find_model_manifest(find_base(start.base)) is not None


def _cell(
    name: str,
    size: int,
    sample: int,
    job: Job,
    test: HeldOut,
    documents: Documents,
    log: Callable[[str], object],
) -> Cell:
    """Train one model and test it; nothing of it is kept but the value."""
    began = time.monotonic()
    folder = find_base(job.base)
    if size:
        resumed = work_folder(job.out).exists()
        folder = train(job, resume=resumed, force=True, log=log).folder
    scorer = open_scorer(folder, threads=job.threads)
    ranked = rerank(scorer, documents, depth=test.depth)(_first(test))
    value = evaluate(test.qrels, {"run": ranked}, [test.measure]).mean("run", test.measure)
    if size:
        shutil.rmtree(folder)
    return Cell(name, size, sample, value, time.monotonic() - began)


def _job(
    start: Start,
    examples: Examples,
    size: int,
    sample: int,
    recipe: Recipe,
    lookup: Any,
    out: Path,
    threads: int | None,
) -> Job:
    sample_used = sample_examples(examples, size, sample) if size else examples
    chooses = recipe.keep == "best" or recipe.patience is not None
    learn, held_out = hold_out(sample_used, recipe.seed) if chooses else (sample_used, None)
    validation = Validation.of(held_out, recipe.measure) if held_out else None
    return Job(learn, lookup, recipe, start.base, out, validation, threads, start.random_weights)


def sample_examples(examples: Examples, size: int, sample: int) -> Examples:
    """The examples of so many queries; every sample draws others.

    >>> rows = [(f"q{n}", "d1", 1.0, "positive") for n in range(9)]
    >>> example = Examples.of_rows(rows, source="gold")
    >>> len(np.unique(sample_examples(example, 4, 0).query))
    4
    """
    used = np.unique(examples.query)
    if size > len(used):
        raise InputError(
            f"a sample of {size:,} queries cannot be drawn from {len(used):,}",
            hint="label more queries, or leave that size out",
        )
    numbers = np.random.default_rng([sample, size]).choice(used, size, replace=False)
    return examples.of_queries(examples.queries.ids.select(np.sort(numbers)))


def _first(test: HeldOut) -> Run:
    """The candidates of the judged queries."""
    judged = [name for name in test.run if name in test.qrels]
    return test.run.select(Ids.of(judged)).top(test.depth)


def _refuse_leak(examples: Examples, test: HeldOut) -> None:
    used = examples.queries.ids.select(np.unique(examples.query))
    shared = [name for name in used if name in test.run]
    if shared:
        raise InputError(
            f"query {shared[0]!r} is both learnt from and tested on ({len(shared):,} such)",
            hint="label training queries only",
        )


def _setting(
    starts: Mapping[str, Start], examples: Examples, recipe: Recipe, test: HeldOut
) -> dict[str, Any]:
    return {
        "starts": {
            name: [sha256(find_base(start.base)), start.random_weights]
            for name, start in starts.items()
        },
        "examples": digest(examples),
        "recipe": recipe.record(),
        "test": [_digest(test), test.measure, test.depth],
    }


def _digest(test: HeldOut) -> str:
    """What candidates, questions and judgements are known by."""
    hasher = xxhash.xxh3_128(test.run.offsets.tobytes())
    names = (*test.run, *(test.run.queries.texts or ()), *test.run.docs.take(test.run.doc))
    judged = (f"{query} {sorted(test.qrels[query].items())}" for query in test.qrels)
    hasher.update("\0".join((*names, *judged)).encode("utf-8", "replace"))
    return hasher.hexdigest()


def _same_setting(work: Path, setting: Mapping[str, Any]) -> None:
    """Cells of other settings are not mixed with these."""
    path, current = work / "setting.json", json.loads(json.dumps(setting))
    if not path.exists():
        with new_file(path) as temporary_path:
            temporary_path.write_text(json.dumps(current), "utf-8")
        return
    saved = json.loads(path.read_text("utf-8"))
    starts = {**saved.get("starts", {}), **current["starts"]}
    changed = [name for name in current if name != "starts" and saved.get(name) != current[name]]
    if changed or any(starts[name] != value for name, value in saved["starts"].items()):
        setting_name = changed[0] if changed else "starts"
        raise InputError(
            f"{work} holds curves made with another {setting_name}", hint="choose another folder"
        )
    with new_file(path, force=True) as temporary_path:
        temporary_path.write_text(json.dumps({**current, "starts": starts}), "utf-8")
