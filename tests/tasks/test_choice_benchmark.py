"""The benchmark of multiple choice: what its table says of cells that are there or not."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import choice as benchmark
from benchmarks.choice import BM25, BM25_GOLD, BM25_SCORES, GOLD_ALONE, Cell
from benchmarks.choice_teachers import agreement, check_teacher, read_checks, write_check

from tamis.tasks.choice import Evidence


def cell(system: str, points: list[float], *, seed: int = 0, **more: object) -> Cell:
    values = {
        "partition": ["Easy", "Challenge"] * (len(points) // 2),
        "scores": [[1.0, 0.0]] * len(points), "evidence": None,
        "train_rows": 0, "train_seconds": 0.0, "pairs": 100, "score_seconds": 1.0,
    }  # fmt: skip
    return Cell(system, 3, seed, points, **{**values, **more})  # type: ignore[arg-type]


def test_a_row_has_the_papers_figures_and_ours() -> None:
    cells = {(GOLD_ALONE, 3): [cell(GOLD_ALONE, [1.0, 0.0, 0.5, 1.0])]}
    rows = {(row[0], row[1]): row for row in benchmark.table_rows(cells)}
    assert rows[GOLD_ALONE, "3"] == [
        "gold", "3", "57.36", "42.66", "64.56", "62.50", "50.00", "75.00", "", "1"
    ]  # fmt: skip
    assert rows[BM25, "3"][2:] == ["", "23.98", "59.99", "", "", "", "", ""]


def test_a_cell_that_is_empty_says_what_it_would_take() -> None:
    trained = cell(
        GOLD_ALONE, [1.0, 0.0],
        train_rows=3000, train_seconds=7200.0, pairs=300, score_seconds=3600.0,
    )  # fmt: skip
    cells = {(GOLD_ALONE, 3): [trained]}
    assert benchmark.predicted_hours(cells, BM25_GOLD, 5) == pytest.approx((2 + 1) * 5 / 3)
    assert benchmark.predicted_hours(cells, BM25, 3) is None
    rows = {(row[0], row[1]): row for row in benchmark.table_rows(cells)}
    assert rows[BM25_GOLD, "5"][-1] == "not run, 5.0 h"


def test_seeds_are_averaged_and_their_interval_is_given_for_three() -> None:
    values = [0.25, 0.5, 0.75]
    group = [cell(GOLD_ALONE, [value] * 4, seed=n) for n, value in enumerate(values)]
    row = next(
        row for row in benchmark.table_rows({(GOLD_ALONE, 3): group}) if row[:2] == ["gold", "3"]
    )
    half = 4.302652729911275 * 25 / np.sqrt(3)
    assert row[5] == f"50.00 ± {half:.1f}" and row[-1] == "3"


def test_agreement_with_the_teacher_by_hand() -> None:
    found = agreement([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]], [[10.0, 20.0], [0.0, 5.0], [2.0, 2.0]])
    assert found == pytest.approx((1 / 2, (1 - 1) / 2, 2))  # the third question is a tie


@pytest.fixture
def task(tmp_path: Path) -> benchmark.Task:
    """Eight training questions, of which the test set has one and two ask nearly the same."""
    data = tmp_path / "data"
    data.mkdir()
    tools = ["sieve", "drum", "net", "mill", "whisk", "oven", "bowl"]
    records = [
        {"id": f"q{n}", "question": f"Which of these tools is no {tool}?", "choices": ["a", "bee"],
         "answer": "B", "partition": "Easy"}
        for n, tool in enumerate(tools)
    ]  # fmt: skip
    again = {**records[6], "id": "again", "question": "which of these tools is no bowl"}
    facts = [{"_id": tool, "text": f"a bee and a {tool}"} for tool in tools]
    test = [{**records[0], "id": "t"}]
    splits: dict[str, list[Any]] = {
        "train": [*records, again], "dev": test, "test": test, "facts": facts
    }  # fmt: skip
    for name, lines in splits.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (data / f"{name}.jsonl").write_text(text, "utf-8")
    (tmp_path / "work").mkdir()
    return benchmark.open_task(data, tmp_path / "work", benchmark.Sizes(train=3, test=1))


def test_a_first_step_is_checked_on_training_questions_that_nothing_learns_from(
    task: benchmark.Task,
) -> None:
    learnt, held_out = ({question.id for question in some} for some in (task.train, task.held_out))
    assert not learnt & held_out and not {"q0", "t"} & (learnt | held_out)
    assert learnt == {"again", "q4", "q5"}  # so q6, which asks the same as one, is not checked on
    assert held_out == {"q1", "q2", "q3"}


def test_the_check_of_a_teacher_against_itself(task: benchmark.Task, tmp_path: Path) -> None:
    made = check_teacher(task.held_out, task.index, 1, 0, ("BM25 scores", None), (BM25, None))
    assert (made.same_best, made.correlation, made.compared) == pytest.approx((1, 1, 3))
    assert made.accuracy == made.teacher_accuracy == 1  # every fact has a bee
    write_check(made, tmp_path / "checks" / "one.json")
    assert list(read_checks(tmp_path / "checks")) == [made]
    assert "k=1 BM25 scores, seed 0: BM25's best choice in 100.0% of 3" in str(made)


def test_questions_are_compared_in_pairs() -> None:
    points = {GOLD_ALONE: [1.0, 0.0] * 4, BM25_GOLD: [1.0, 1.0] * 4}
    cells = {(name, 3): [cell(name, values)] for name, values in points.items()}
    lines = [line for line in benchmark.comparisons(cells) if line.startswith(f"k=3 {BM25_GOLD}")]
    assert "All: +50.00, p = 0.125, 8 questions" in lines[0]  # 2 of 2^4 signs
    assert "Challenge: +100.00" in lines[1] and "Easy: +0.00, p = 1.000" in lines[2]


def test_a_cell_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = cell(BM25_SCORES, [1.0, 0.0], evidence=Evidence(0.5, 30, 10, 1), losses=[2.0, 1.0])
    path = benchmark.cell_file(tmp_path, BM25_SCORES, 3, 0)
    path.parent.mkdir()
    path.write_text(json.dumps(asdict(written)), "utf-8")
    assert benchmark.read_cells(tmp_path) == {(BM25_SCORES, 3): [written]}
