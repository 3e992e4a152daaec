"""Runs and judgements as DataFrames and back: the same rows, and errors that name the column."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError, MissingExtraError, install_command
from tamis.types import Qrels, Run

pd: Any = pytest.importorskip("pandas", reason="pandas is not installed")

IDS = st.text("ab1é", min_size=1, max_size=3)
SCORES = st.floats(-4, 4, width=16) | st.sampled_from([0.0, -0.0, 1.0, 1 + 1e-9])
RANKINGS = st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=8), max_size=6)
GRADES = st.dictionaries(
    IDS, st.dictionaries(IDS, st.integers(-2, 4), min_size=1, max_size=8), max_size=6
)


@given(RANKINGS, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_a_run_comes_back_from_its_frame_in_any_order(
    rankings: dict[str, dict[str, float]], random: Any
) -> None:
    run = Run.from_dict(rankings)
    run = run.with_extra(passage=np.arange(len(run.doc)))
    frame = run.to_pandas()
    assert Run.from_pandas(frame) == run
    rows = random.sample(range(len(frame)), len(frame))
    assert Run.from_pandas(frame.iloc[rows]) == run


@given(GRADES)
@settings(deadline=None)
def test_judgements_come_back_from_their_frame(grades: dict[str, dict[str, int]]) -> None:
    qrels = Qrels.from_dict(grades)
    assert Qrels.from_pandas(qrels.to_pandas()) == qrels


def test_the_columns_of_a_run_by_hand() -> None:
    run = Run.from_dict({"q2": {"d1": 1.0}, "q1": {"d1": 2.0, "d3": 2.0, "d2": 5.0}})
    frame = run.to_pandas()
    assert list(frame.columns) == ["query_id", "doc_id", "score", "rank"]
    assert frame.to_numpy().tolist() == [
        ["q1", "d2", 5.0, 1],
        ["q1", "d3", 2.0, 2],  # equal scores: by id, descending
        ["q1", "d1", 2.0, 3],
        ["q2", "d1", 1.0, 1],
    ]


def test_the_columns_of_judgements_by_hand() -> None:
    frame = Qrels.from_dict({"q1": {"d2": 0, "d1": 2}}).to_pandas()
    assert list(frame.columns) == ["query_id", "doc_id", "relevance"]
    assert frame.to_numpy().tolist() == [["q1", "d1", 2], ["q1", "d2", 0]]


def test_whole_numbers_may_be_ids_and_ranks_are_not_read() -> None:
    frame = pd.DataFrame(
        {"query_id": [7, 7], "doc_id": [1, 2], "score": [1, 3], "rank": [1, 2]}, index=[5, 4]
    )
    assert Run.from_pandas(frame) == Run.from_dict({"7": {"2": 3.0, "1": 1.0}})
    judged = pd.DataFrame({"query_id": [7], "doc_id": [1], "relevance": [1.0]})
    assert Qrels.from_pandas(judged) == Qrels.from_dict({"7": {"1": 1}})


@pytest.mark.parametrize("dtype", ["Float64", "object", "int8", "float16"])
def test_scores_of_any_number_type(dtype: str) -> None:
    frame = pd.DataFrame({"query_id": ["q"] * 2, "doc_id": ["a", "b"], "score": [1, 2]})
    frame = frame.astype({"score": dtype, "query_id": "category"})
    assert Run.from_pandas(frame) == Run.from_dict({"q": {"a": 1.0, "b": 2.0}})


def test_an_empty_frame_is_an_empty_run() -> None:
    assert len(Run.from_pandas(Run.from_dict({}).to_pandas())) == 0
    assert len(Qrels.from_pandas(Qrels.from_dict({}).to_pandas())) == 0


def run_frame(**columns: Any) -> Any:
    usual = {"query_id": ["q1", "q1"], "doc_id": ["d1", "d2"], "score": [2.0, 1.0]}
    return pd.DataFrame({**usual, **columns})


@pytest.mark.parametrize(
    ("frame", "names"),
    [
        (run_frame().drop(columns="score"), ["score"]),
        (run_frame().rename(columns={"query_id": "qid"}), ["query_id", "qid"]),
        (run_frame().set_index("query_id"), ["query_id", "reset_index"]),
        (run_frame(score=[1.0, float("nan")]), ["score", "row 1"]),
        (run_frame(score=pd.array([1.0, None], "Float64")), ["score", "row 1"]),
        (run_frame(doc_id=["d1", None]), ["doc_id", "row 1"]),
        (run_frame(score=["1.0", "high"]), ["score", "'1.0'", "row 0"]),
        (run_frame(score=[1.0, "high"]), ["score", "'high'", "row 1"]),
        (run_frame(query_id=[1.0, 1.0]), ["query_id", "1.0"]),
        (run_frame(doc_id=["d1", "d1"]), ["'d1'", "doc_id", "row 1"]),
        (pd.concat([run_frame(), run_frame()[["score"]]], axis=1), ["score", "twice"]),
    ],
)
def test_a_mistake_in_a_run_names_its_column(frame: Any, names: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        Run.from_pandas(frame)
    message = f"{caught.value} {caught.value.hint}"
    assert caught.value.hint
    assert all(name in message for name in names), message


@pytest.mark.parametrize(
    ("relevance", "text"), [([1, 0.5], "0.5"), ([1, 2**40], "row 1"), (["no", "yes"], "'no'")]
)
def test_a_mistake_in_judgements_names_its_column(relevance: list[Any], text: str) -> None:
    frame = run_frame(relevance=relevance)
    with pytest.raises(InputError) as caught:
        Qrels.from_pandas(frame)
    assert "relevance" in str(caught.value) and text in str(caught.value)
    assert "relevance" in caught.value.hint


def test_what_is_handed_in_is_not_changed_and_not_shared() -> None:
    frame = run_frame(note=["x", "y"])
    before = frame.copy()
    run = Run.from_pandas(frame)
    pd.testing.assert_frame_equal(frame, before)
    frame["note"] = "z"
    assert run["q1"].extra["note"].tolist() == ["x", "y"]


def test_without_pandas_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, package: str | None = None) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    run, qrels = Run.from_dict({"q": {"d": 1.0}}), Qrels.from_dict({"q": {"d": 1}})
    monkeypatch.setattr(importlib, "import_module", absent)
    for make in (run.to_pandas, qrels.to_pandas):
        with pytest.raises(MissingExtraError) as caught:
            make()
        assert caught.value.hint == install_command("pandas")
