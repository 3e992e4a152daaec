"""Precision at levels of recall against trec_eval, and by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.evaluation.curves import precision_recall
from tamis.types import Qrels, Run


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_precision_recall_is_that_of_trec_eval(data: st.DataObject) -> None:
    docs = [f"d{number}" for number in range(30)]
    some = st.sets(st.sampled_from(docs), min_size=1)
    judged = {d: data.draw(st.integers(0, 2)) for d in sorted(data.draw(some))}
    scores = {d: float(data.draw(st.integers(0, 9))) for d in sorted(data.draw(some))}
    theirs = pytrec_eval.RelevanceEvaluator({"q": judged}, {"iprec_at_recall"}).evaluate(
        {"q": scores}
    )["q"]
    ours = precision_recall(Qrels.from_dict({"q": judged}), Run.from_dict({"q": scores}))
    expected = [theirs[f"iprec_at_recall_{level / 10:.2f}"] for level in range(11)]
    assert ours[0] == pytest.approx(expected, abs=1e-9)


def test_precision_recall_by_hand() -> None:
    qrels = Qrels.from_dict({"q1": {"a": 1, "b": 2}, "q2": {"a": 1}, "q3": {"a": 0}})
    run = Run.from_dict({"q1": {"x": 4.0, "a": 3.0, "y": 2.0, "b": 1.0}, "q3": {"a": 1.0}})
    table = precision_recall(qrels, run)
    assert table[0].tolist() == [1 / 2] * 11  # 1 of 2 documents, later 2 of 4
    assert not table[1:].any()
    assert precision_recall(qrels, run, relevant=2)[0].tolist() == [1 / 4] * 11


@pytest.mark.skipif("TAMIS_DATA" not in os.environ, reason="TAMIS_DATA names no folder of data")
def test_cacm_curves_are_those_of_trec_eval() -> None:
    folder = Path(os.environ["TAMIS_DATA"]) / "cacm"
    judged: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, doc, grade = line.split("\t")
        judged.setdefault(query, {})[doc] = int(grade)
    ranked: dict[str, dict[str, float]] = {}
    for line in (folder / "lucene-runs" / "bm25.trec").read_text().splitlines():
        query, _, doc, _, score, _ = line.split()
        ranked.setdefault(query, {})[doc] = float(score)
    theirs = pytrec_eval.RelevanceEvaluator(judged, {"iprec_at_recall"}).evaluate(ranked)
    qrels = Qrels.from_dict(judged)
    ours = precision_recall(qrels, Run.from_dict(ranked))
    for row, query in enumerate(qrels.queries):
        expected = [theirs[query][f"iprec_at_recall_{level / 10:.2f}"] for level in range(11)]
        assert ours[row] == pytest.approx(expected, abs=1e-9)
