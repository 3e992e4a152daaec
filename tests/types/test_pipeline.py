"""Pipelines: two operators, and a backwards one is a type error."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.types import Ids, Pairs, Queries, Query, Run, Scores, Source, Spec, Stage, score_texts
from tamis.types.pipeline import Scale

DOCS = Ids.of(f"d{n}" for n in range(9))
QUERIES = Queries.of([Query("q1", "one"), Query("q2", "two")])


class Numbers(Source):
    """Finds d0, d1, … with falling scores."""

    def search(self, queries: Queries, top: int) -> Run:
        size = min(top, len(DOCS))
        doc = np.tile(np.arange(size, dtype=np.int32), len(queries))
        score = np.tile(np.arange(size, 0, -1, dtype=np.float32), len(queries))
        return Run(queries, DOCS, np.arange(len(queries) + 1) * size, doc, score)

    def spec(self) -> Spec:
        return {"source": "numbers"}


class Backwards(Stage):
    def __call__(self, run: Run) -> Run:
        return Run(run.queries, run.docs, run.offsets, run.doc, -run.score)

    def spec(self) -> Spec:
        return {"stage": "backwards"}


def test_operators() -> None:
    pipeline = Numbers() % 4 >> Backwards() % 2
    assert pipeline(QUERIES)["q1"].ids == ["d3", "d2"]
    assert pipeline.search(QUERIES, 1)["q2"].ids == ["d3"]
    assert (Numbers() % 3)(QUERIES)["q1"].ids == ["d0", "d1", "d2"]
    assert (Numbers() % 3).search(QUERIES, 2)["q1"].ids == ["d0", "d1"]
    assert (Numbers() >> (Backwards() >> Backwards()))(QUERIES) == Numbers()(QUERIES)


def test_specs_are_plain() -> None:
    assert (Numbers() % 4 >> Backwards() % 2).spec() == {
        "source": "then",
        "version": 1,
        "first": {"source": "top", "version": 1, "k": 4, "of": {"source": "numbers"}},
        "stage": {
            "stage": "chain",
            "version": 1,
            "first": {"stage": "backwards"},
            "second": {"stage": "top", "version": 1, "k": 2},
        },
    }


def test_top_nothing_is_refused() -> None:
    with pytest.raises(InputError):
        Numbers() % 0
    with pytest.raises(InputError):
        Backwards() % 0


def test_a_pipeline_wired_backwards_is_refused_when_run() -> None:
    with pytest.raises(TypeError):
        Backwards() >> Numbers()  # type: ignore[operator]


SNIPPET = """
from tamis.types import Source, Stage

def right(source: Source, stage: Stage) -> Source:
    return source % 100 >> stage >> stage % 10

def wrong(source: Source, stage: Stage) -> object:
    return stage >> source
"""


def test_a_pipeline_wired_backwards_is_a_type_error(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=pyproject.toml", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert "snippet.py:8: error: Unsupported operand types" in done.stdout, done.stdout
    assert "Found 1 error" in done.stdout


class Lengths:
    @property
    def scale(self) -> Scale:
        return "regression"

    def score(self, pairs: Pairs) -> Scores:
        values = [len(pairs.texts[text]) for _, text in pairs.index]
        return Scores(np.array(values, np.float32), np.zeros(len(pairs), np.int32))


def test_score_texts_is_a_helper_on_any_scorer() -> None:
    assert score_texts(Lengths(), "q", ["a", "bbb", ""]).tolist() == [1, 3, 0]
    assert score_texts(Lengths(), "q", []).tolist() == []


def test_pairs_need_two_columns() -> None:
    with pytest.raises(InputError, match="2 columns"):
        Pairs(["q"], ["t"], np.zeros((1, 3), np.int32))
