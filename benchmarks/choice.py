"""Table 2 of Yadav, Bethard and Surdeanu: multiple choice on ARC, with the facts of WorldTree.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.choice --work FOLDER
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.choice --work FOLDER --only gold --k 3 --seed 0
    python -m benchmarks.choice

A cell is a system, a number of facts per choice and a seed. Cells that are in FOLDER are not
computed again, and a training that was stopped goes on. The samples of questions are drawn once,
with seed 0, and are the same for every cell; FOLDER keeps their sizes. The table has the paper's
figures beside ours; an empty cell shows the hours of one processor that it would take, judged by
the cells that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.choice_teachers import check_teacher, read_checks, write_check
from tamis.collection.readers import open_collection
from tamis.durable import new_file
from tamis.evaluation.significance import randomisation_test, t_interval
from tamis.models.model_lookup import Ranker
from tamis.search import Index
from tamis.tasks.choice import (
    Evidence,
    measure_choice,
    open_model,
    rank_evidence,
)
from tamis.tasks.choice_questions import Question, read_split
from tamis.tasks.choice_training import (
    GOLD,
    draw_questions,
    label_choices,
    train_choice,
    without_test,
)

BM25, ALIGNMENT, PRETRAINED = "BM25", "alignment", "pretrained"
BM25_SCORES, ALIGNMENT_SCORES = "BM25 scores", "alignment scores"
BM25_GOLD, ALIGNMENT_GOLD = "BM25 scores, then gold", "alignment scores, then gold"
GOLD_ALONE = "gold"
SYSTEMS = (
    BM25, ALIGNMENT, PRETRAINED, GOLD_ALONE,
    BM25_SCORES, BM25_GOLD, ALIGNMENT_SCORES, ALIGNMENT_GOLD,
)  # fmt: skip
"""In the order in which they are computed."""
FIRST_STEP = {BM25_GOLD: BM25_SCORES, ALIGNMENT_GOLD: ALIGNMENT_SCORES}
TEACHER = {BM25_SCORES: BM25, ALIGNMENT_SCORES: ALIGNMENT}
UNTRAINED = (BM25, ALIGNMENT, PRETRAINED)
PARTITIONS = ("All", "Challenge", "Easy")
PAPER: Mapping[tuple[str, int], tuple[float | None, float, float]] = {
    (BM25, 3): (None, 23.98, 59.99),
    (ALIGNMENT, 3): (None, 26.56, 58.36),
    (BM25_SCORES, 3): (None, 26.19, 47.22),
    (ALIGNMENT_SCORES, 3): (44.06, 30.11, 50.92),
    (GOLD_ALONE, 3): (57.36, 42.66, 64.56),
    (GOLD_ALONE, 4): (56.72, 41.30, 64.30),
    (GOLD_ALONE, 5): (55.99, 41.47, 63.13),
    (BM25_GOLD, 3): (56.33, 39.42, 64.64),
    (BM25_GOLD, 4): (56.30, 39.60, 64.52),
    (BM25_GOLD, 5): (54.39, 37.97, 62.46),
    (ALIGNMENT_GOLD, 3): (58.47, 41.94, 66.34),
    (ALIGNMENT_GOLD, 4): (58.25, 41.89, 66.29),
    (ALIGNMENT_GOLD, 5): (56.27, 41.55, 63.51),
}
"""All, Challenge and Easy of its table 2; its BM25 and alignment are of other papers."""
SCORES_RECIPE, GOLD_RECIPE = "infuse-scores-small", "infuse-gold-small"
SAMPLE_SEED = 0
CHECK_QUESTIONS = 200
"""How many training questions outside the sample a first step is checked on."""
CHECKS = "checks"
MEASURED = Path(__file__).parent / "measured" / "choice"
"""The cells that the results were computed from."""


@dataclass(frozen=True)
class Sizes:
    """How many questions are drawn, and how deep evidence is ranked; none is all."""

    train: int | None = 200
    test: int | None = 500
    evidence: int | None = 150
    evidence_depth: int = 30
    base: str = "minilm"


@dataclass(frozen=True)
class Cell:
    """What one system makes of the test questions, and what it took."""

    system: str
    k: int
    seed: int
    points: list[float]
    partition: list[str]
    scores: list[list[float]]
    """Of every question those of its choices."""
    evidence: Evidence | None
    train_rows: int
    """Pairs learnt from, times epochs."""
    train_seconds: float
    """Of processor time, as all seconds here."""
    pairs: int
    score_seconds: float
    losses: tuple[float, ...] = ()

    def accuracy(self, partition: str) -> float:
        """The mean points of a partition, in hundredths."""
        return 100 * float(np.mean(self.of(partition)))

    def of(self, partition: str) -> NDArray[np.float64]:
        """The points of a partition's questions."""
        points = np.array(self.points)
        return points if partition == "All" else points[np.array(self.partition) == partition]


@dataclass(frozen=True, eq=False)
class Task:
    """The questions of every use, and the index of the facts."""

    train: list[Question]
    test: list[Question]
    all_test: list[Question]
    evidence: list[Question]
    held_out: list[Question]
    """Training questions outside the sample, to check a first step on."""
    index: Index
    sizes: Sizes


def open_task(data: Path, work: Path, sizes: Sizes) -> Task:
    """Draw the questions; the index of the facts is kept in the work folder."""
    index_folder = work / "index"
    if not index_folder.is_dir():
        Index.build(open_collection(data / "facts.jsonl").documents, index_folder)
    test = read_split(data, "test")
    learnt = without_test(read_split(data, "train"), test)
    train = draw_questions(learnt, sizes.train, SAMPLE_SEED)
    drawn = {question.id for question in train}
    rest = [question for question in learnt if question.id not in drawn]
    return Task(
        train,
        draw_questions(test, sizes.test, SAMPLE_SEED),
        test,
        draw_questions(read_split(data, "dev"), sizes.evidence, SAMPLE_SEED),
        draw_questions(without_test(rest, train), CHECK_QUESTIONS, SAMPLE_SEED),
        Index.open(index_folder),
        sizes,
    )


def compute(task: Task, models: Path, work: Path, system: str, k: int, seed: int) -> Cell:
    """Train what has to be trained, answer the test questions, rank the evidence."""
    trained: dict[str, Any] = {"train_rows": 0, "train_seconds": 0.0}
    if system not in UNTRAINED:
        began = time.process_time()
        ends, rows = train(task, models, work, system, k, seed)
        trained = {"train_rows": rows, "train_seconds": time.process_time() - began, "losses": ends}
    began = time.process_time()
    ranker = open_system(task, models, work, system, k, seed)
    result = measure_choice(task.test, task.index, ranker, k, threads=1)
    seconds = time.process_time() - began
    evidence = rank_evidence(task.evidence, task.index, ranker, task.sizes.evidence_depth, 1)
    return Cell(
        system, k, seed, [one.points or 0.0 for one in result.answered],
        [one.question.partition for one in result.answered],
        [list(one.scores) for one in result.answered], evidence,
        pairs=k * sum(len(one.scores) for one in result.answered), score_seconds=seconds, **trained,
    )  # fmt: skip


def open_system(
    task: Task, models: Path, work: Path, system: str, k: int, seed: int
) -> Ranker | None:
    """What scores the facts of a system, which is trained if it has to be."""
    name = {BM25: "bm25", ALIGNMENT: f"alignment:{models / 'glove50'}"}.get(system)
    base = models / task.sizes.base
    folder = base if system == PRETRAINED else model_folder(work, system, k, seed)
    return open_model(name or str(folder), task.index, threads=1)


def check(task: Task, models: Path, work: Path, system: str, k: int, seed: int) -> None:
    """Compare a first step with its teacher, and the untrained model with both; keep it."""
    teachers = [TEACHER[system]] if system in TEACHER else []
    teachers = teachers or ([BM25, ALIGNMENT] if system == PRETRAINED else [])
    for teacher in teachers:
        path = work / CHECKS / f"{slug(system)}-{slug(teacher)}-k{k}-seed{seed}.json"
        if not path.is_file():
            both = [(name, open_system(task, models, work, name, k, seed))
                    for name in (system, teacher)]  # fmt: skip
            write_check(check_teacher(task.held_out, task.index, k, seed, *both), path)


def train(
    task: Task, models: Path, work: Path, system: str, k: int, seed: int
) -> tuple[tuple[float, float], int]:
    """Train one step; the first and the last mean loss, and how many rows were learnt from."""
    first = FIRST_STEP.get(system)
    base = models / task.sizes.base if first is None else model_folder(work, first, k, seed)
    is_gold = system not in TEACHER
    label = GOLD if is_gold else TEACHER[system]
    scorers = {} if is_gold else {
        label: None if label == BM25
        else open_model(f"alignment:{models / 'glove50'}", task.index, threads=1)
    }  # fmt: skip
    examples = label_choices(task.train, task.index, [label], scorers, k, test=task.all_test)
    trained = train_choice(
        examples, task.index, base=base, out=model_folder(work, system, k, seed),
        recipe=GOLD_RECIPE if is_gold else SCORES_RECIPE, settings={"seed": str(seed)},
        threads=1, resume=True,
    )  # fmt: skip
    losses = trained.history.losses
    tenth = max(1, len(losses) // 10)
    ends = float(np.mean(losses[:tenth])), float(np.mean(losses[-tenth:]))
    return ends, int(trained.history.texts)


def model_folder(work: Path, system: str, k: int, seed: int) -> Path:
    """Where the model of a cell lies."""
    return work / "models" / f"{slug(system)}-k{k}-seed{seed}"


def cell_file(work: Path, system: str, k: int, seed: int) -> Path:
    """Where a cell is kept."""
    return work / "cells" / f"{slug(system)}-k{k}-seed{seed}.json"


def slug(system: str) -> str:
    """The name of a system as part of a file's name."""
    return system.replace(",", "").replace(" ", "-").lower()


def read_cell(work: Path, system: str, k: int, seed: int) -> Cell | None:
    """A cell that is in the folder."""
    path = cell_file(work, system, k, seed)
    if not path.is_file():
        return None
    values = json.loads(path.read_text("utf-8"))
    evidence = values.pop("evidence")
    return Cell(**values, evidence=Evidence(**evidence) if evidence else None)


def read_cells(work: Path) -> dict[tuple[str, int], list[Cell]]:
    """All cells there are, those of several seeds together."""
    cells: dict[tuple[str, int], list[Cell]] = {}
    for path in sorted((work / "cells").glob("*.json")):
        values = json.loads(path.read_text("utf-8"))
        cell = read_cell(work, values["system"], values["k"], values["seed"])
        assert cell is not None
        cells.setdefault((cell.system, cell.k), []).append(cell)
    return cells


def predicted_hours(
    cells: Mapping[tuple[str, int], Sequence[Cell]], system: str, k: int
) -> float | None:
    """The hours of one processor that an empty cell would take; None where none is trained yet."""
    done = [cell for group in cells.values() for cell in group]
    trained = [cell for cell in done if cell.train_rows]
    if not trained or system in UNTRAINED:
        return None
    is_gold = system not in TEACHER
    alike = [c for c in trained if (c.system not in TEACHER) == is_gold] or trained
    rows = float(np.mean([cell.train_rows / cell.k for cell in alike])) * k
    pace = sum(c.train_seconds for c in trained) / sum(c.train_rows for c in trained)
    scoring = sum(c.score_seconds / c.pairs for c in trained) / len(trained)
    return (rows * pace + scoring * trained[0].pairs / trained[0].k * k) / 3600


def table_rows(cells: Mapping[tuple[str, int], Sequence[Cell]]) -> Iterator[list[str]]:
    """The lines of table 2: system, k, the paper's three figures, ours, seeds, evidence."""
    wanted = dict.fromkeys([(system, 3) for system in SYSTEMS] + list(PAPER) + list(cells))
    for system, k in sorted(wanted, key=lambda row: (SYSTEMS.index(row[0]), row[1])):
        paper = PAPER.get((system, k), (None, None, None))
        line = [system, str(k), *("" if value is None else f"{value:.2f}" for value in paper)]
        group = cells.get((system, k))
        if not group:
            hours = predicted_hours(cells, system, k)
            yield [*line, *("",) * 4, "" if hours is None else f"not run, {hours:.1f} h"]
            continue
        ours = [_mean([cell.accuracy(partition) for cell in group]) for partition in PARTITIONS]
        evidence = [cell.evidence.value for cell in group if cell.evidence]
        yield [*line, *ours, f"{np.mean(evidence):.3f}" if evidence else "", str(len(group))]


def _mean(values: Sequence[float]) -> str:
    """The mean, with half the width of its 95% interval where there are three seeds at least."""
    interval = t_interval(values) if len(values) > 2 else None
    spread = "" if interval is None else f" ± {(interval.high - interval.low) / 2:.1f}"
    return f"{np.mean(values):.2f}{spread}"


def comparisons(cells: Mapping[tuple[str, int], Sequence[Cell]]) -> Iterator[str]:
    """Paired randomisation tests over questions; a question's points are the mean over seeds."""
    pairs = [(BM25_GOLD, GOLD_ALONE), (ALIGNMENT_GOLD, GOLD_ALONE), (GOLD_ALONE, BM25)]
    pairs += [(ALIGNMENT_GOLD, BM25), (BM25_GOLD, BM25), (PRETRAINED, BM25), (ALIGNMENT, BM25)]
    for k in sorted({k for _, k in cells}):
        for one, other in pairs:
            if (one, k) not in cells or (other, k) not in cells:
                continue
            for partition in PARTITIONS:
                points = [
                    np.mean([cell.of(partition) for cell in cells[system, k]], axis=0)
                    for system in (one, other)
                ]
                difference = points[0] - points[1]
                p = randomisation_test(difference)
                yield (
                    f"k={k} {one} - {other}, {partition}: {100 * difference.mean():+.2f}, "
                    f"p = {p:.3f}, {len(difference)} questions"
                )


def losses(cells: Mapping[tuple[str, int], Sequence[Cell]]) -> Iterator[str]:
    """The mean loss of the first and of the last tenth of every training."""
    for (system, k), group in cells.items():
        for cell in group:
            if cell.losses:
                first, last = cell.losses
                yield f"k={k} {system}, seed {cell.seed}: loss {first:.2f} -> {last:.2f}"


HEADS = ("trained on", "k", *(f"paper {p}" for p in PARTITIONS), *PARTITIONS, "AP", "seeds")


def show(work: Path) -> None:
    """Print the table, as Markdown, and the tests."""
    cells = read_cells(work)
    print("| " + " | ".join(HEADS) + " |")
    print("|---" * len(HEADS) + "|")
    for line in table_rows(cells):
        print("| " + " | ".join(line) + " |")
    for sentence in (*comparisons(cells), *losses(cells), *read_checks(work / CHECKS)):
        print(sentence)


def settled_sizes(work: Path, asked: Sizes) -> Sizes:
    """The sizes of the folder, which its first cell settles."""
    path = work / "sizes.json"
    if path.is_file():
        return Sizes(**json.loads(path.read_text("utf-8")))
    (work / "cells").mkdir(parents=True, exist_ok=True)
    (work / "models").mkdir(exist_ok=True)
    path.write_text(json.dumps(asdict(asked)), "utf-8")
    return asked


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute what is asked for and not there yet, then print."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.choice", description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--work", type=Path, help="where cells are kept; default: those measured")
    parser.add_argument("--only", action="append", choices=SYSTEMS, default=[])
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="compute nothing")
    for name in ("train", "test", "evidence", "evidence_depth"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Sizes(), name))
    parser.add_argument("--base", default=Sizes().base, help="a folder of TAMIS_MODELS")
    given = parser.parse_args(arguments)
    work = given.work or MEASURED
    if given.work and not given.show:
        asked = Sizes(given.train, given.test, given.evidence, given.evidence_depth, given.base)
        run(work, settled_sizes(work, asked), given.only or SYSTEMS, given.k, given.seed)
    show(work)


def run(work: Path, sizes: Sizes, systems: Sequence[str], k: int, seed: int) -> None:
    """Compute the cells of these systems, a first step before the second that needs it."""
    data, models = Path(os.environ["TAMIS_DATA"]), Path(os.environ["TAMIS_MODELS"])
    task = open_task(data / "arc-worldtree", work, sizes)
    needed = [FIRST_STEP[system] for system in systems if system in FIRST_STEP]
    for system in [one for one in SYSTEMS if one in {*systems, *needed}]:
        if read_cell(work, system, k, seed) is not None:
            check(task, models, work, system, k, seed)
            continue
        print(f"{time.strftime('%H:%M')} {system}, k={k}, seed {seed}", flush=True)
        cell = compute(task, models, work, system, k, seed)
        with new_file(cell_file(work, system, k, seed)) as path:
            path.write_text(json.dumps(asdict(cell)), "utf-8")
        check(task, models, work, system, k, seed)
        print(f"{time.strftime('%H:%M')} {cell.accuracy('All'):.2f}", flush=True)


if __name__ == "__main__":
    main()
