"""The benchmark of multiple choice: what its table says of cells that are there or not."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from benchmarks import choice as benchmark
from benchmarks.choice import BM25, BM25_GOLD, BM25_SCORES, GOLD_ALONE, Cell

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
    same, correlation = benchmark.agreement(
        [[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]], [[10.0, 20.0], [0.0, 5.0], [2.0, 2.0]]
    )
    assert (same, correlation) == pytest.approx((1 / 2, (1 - 1) / 2))


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
