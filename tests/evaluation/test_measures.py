"""Measures: names, values by hand, and the values of trec_eval."""

from __future__ import annotations

import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError, MissingExtraError
from tamis.evaluation import Measure, evaluate, join, parse_measure
from tamis.evaluation.formulas import FORMULAS
from tamis.evaluation.measure_names import PARAMETERS, PRESETS
from tamis.evaluation.measures import ALIASES, OTHERS, parse_by_ir_measures
from tamis.types import Qrels, Run

Grades = dict[str, dict[str, int]]
Scores = dict[str, dict[str, float]]

TREC_NAMES = {
    "nDCG": "ndcg",
    "nDCG@3": "ndcg_cut_3",
    "nDCG@10": "ndcg_cut_10",
    "RR": "recip_rank",
    "AP": "map",
    "AP@5": "map_cut_5",
    "P@1": "P_1",
    "P@5": "P_5",
    "R@5": "recall_5",
    "R@1000": "recall_1000",
    "Success@1": "success_1",
    "Success@5": "success_5",
    "Rprec": "Rprec",
    "SetP": "set_P",
    "SetRelP": "set_relative_P",
    "SetR": "set_recall",
    "SetF": "set_F",
    "SetAP": "set_map",
    "NumRet": "num_ret",
    "NumRelRet": "num_rel_ret",
}


def at_level(name: str, rel: int, judged_only: bool = False) -> str:
    """The measure with a level of relevance, where it has one."""
    measure = parse_measure(name)
    params = dict(measure.params)
    if measure.name != "nDCG" and name != "NumRet":
        params["rel"] = rel
    if judged_only:
        params["judged_only"] = True
    return str(Measure(measure.name, measure.cutoff, tuple(params.items())))


def assert_like_trec_eval(grades: Grades, scores: Scores, rel: int, judged_only: bool) -> None:
    names = set(TREC_NAMES.values())
    evaluator = pytrec_eval.RelevanceEvaluator(
        grades, names, relevance_level=rel, judged_docs_only_flag=judged_only
    )
    expected = evaluator.evaluate(scores)
    judged = join(Qrels.from_dict(grades), Run.from_dict(scores))
    for name, trec_name in TREC_NAMES.items():
        if judged_only and parse_measure(name).name in ("NumRet", "SetR"):
            continue
        measure = parse_measure(at_level(name, rel, judged_only))
        for query, value in zip(judged.queries, measure.values(judged), strict=True):
            want = expected.get(query, {}).get(trec_name, 0.0)
            assert value == pytest.approx(want, abs=1e-9), (measure, query)


def read_run(path: Path) -> Scores:
    run: Scores = defaultdict(dict)
    for line in path.read_text().splitlines():
        query, _, doc, _, score, _ = line.split()
        run[query][doc] = float(score)
    return dict(run)


def read_qrels(path: Path) -> Grades:
    qrels: Grades = defaultdict(dict)
    for line in path.read_text().splitlines()[1:]:
        query, doc, grade = line.split("\t")
        qrels[query][doc] = int(grade)
    return dict(qrels)


def real_runs() -> Iterator[tuple[Path, Path]]:
    root = Path(os.environ["TAMIS_DATA"])
    for path in sorted((root / "cacm" / "lucene-runs").glob("*.trec")):
        yield path, root / "cacm" / "qrels" / "test.tsv"
    yield root / "trec-dl19" / "bm25-top100.trec", root / "trec-dl19" / "qrels" / "test.tsv"


@pytest.mark.skipif("TAMIS_DATA" not in os.environ, reason="TAMIS_DATA is not set")
@pytest.mark.parametrize("rel", [1, 2])
def test_real_runs_measure_as_in_trec_eval(rel: int) -> None:
    runs = list(real_runs())
    assert len(runs) >= 5
    for run, qrels in runs:
        assert_like_trec_eval(read_qrels(qrels), read_run(run), rel, judged_only=False)
        assert_like_trec_eval(read_qrels(qrels), read_run(run), rel, judged_only=True)


doc_ids = st.integers(0, 40).map(lambda n: f"d{n}")
query_ids = st.sampled_from(["q1", "q2", "q3"])
one_grade = st.dictionaries(doc_ids, st.integers(-2, 4), min_size=1, max_size=25).filter(
    lambda grades: max(grades.values()) >= 0  # trec_eval crashes on a query without such a grade
)
all_grades = st.dictionaries(query_ids, one_grade, min_size=1)
all_scores = st.dictionaries(
    query_ids, st.dictionaries(doc_ids, st.integers(0, 5).map(float), min_size=1, max_size=30)
)


@given(all_grades, all_scores, st.integers(1, 3), st.booleans())
@settings(max_examples=150, deadline=None)
def test_random_runs_measure_as_in_trec_eval(
    grades: Grades, scores: Scores, rel: int, judged_only: bool
) -> None:
    assert_like_trec_eval(grades, scores, rel, judged_only)


@given(all_grades, all_scores, st.integers(1, 12), st.integers(1, 2))
@settings(max_examples=60, deadline=None)
def test_what_trec_eval_lacks_measures_as_in_ir_measures(
    grades: Grades, scores: Scores, k: int, rel: int
) -> None:
    untied = {q: {d: s + int(d[1:]) / 100 for d, s in docs.items()} for q, docs in scores.items()}
    names = [f"RR(rel={rel})@{k}", f"Judged@{k}", "Judged", f"nDCG(gains={{1:5,2:3}})@{k}"]
    names += [f"SetF(rel={rel},beta=2.0)"]
    judged = join(Qrels.from_dict(grades), Run.from_dict(untied))
    for name in names:
        theirs = parse_by_ir_measures(name)
        expected = {m.query_id: m.value for m in ir_measures.iter_calc([theirs], grades, untied)}
        for query, value in zip(judged.queries, parse_measure(name).values(judged), strict=True):
            assert value == pytest.approx(expected[query], abs=1e-9), (name, query)


def values(name: str, grades: dict[str, int], ranking: list[str]) -> float:
    run = Run.from_dict({"q": {doc: float(-place) for place, doc in enumerate(ranking)}})
    return float(parse_measure(name).values(join(Qrels.from_dict({"q": grades}), run))[0])


def test_values_by_hand() -> None:
    grades = {"a": 3, "b": 0, "c": 1, "x": 2}
    ranking = ["b", "a", "n", "c"]
    best = 3 + 2 / math.log2(3) + 1 / math.log2(4)
    assert values("nDCG", grades, ranking) == (3 / math.log2(3) + 1 / math.log2(5)) / best
    assert values("nDCG@2", grades, ranking) == (3 / math.log2(3)) / (3 + 2 / math.log2(3))
    assert values("AP", grades, ranking) == (1 / 2 + 2 / 4) / 3
    assert values("AP(rel=2)", grades, ranking) == (1 / 2) / 2
    assert values("P@5", grades, ranking) == 2 / 5
    assert values("R@3", grades, ranking) == 1 / 3
    assert values("RR@1", grades, ranking) == 0
    assert values("Judged@4", grades, ranking) == 3 / 4
    assert values("Judged@10", grades, ranking) == 3 / 4
    assert values("NumRel", grades, ranking) == 3


def test_exponential_gain_by_hand() -> None:
    grades, ranking = {"a": 3, "b": 1, "c": -1}, ["c", "b", "a"]
    found = 1 / math.log2(3) + 7 / math.log2(4)
    best = 7 + 1 / math.log2(3)
    assert values("nDCG(dcg='exp-log2')@10", grades, ranking) == pytest.approx(found / best)


def test_average_precision_over_what_was_found() -> None:
    grades = {"a": 1, "b": 1, "c": 1, "x": 1}
    ranking = ["n", "a", "b", "m", "c"]
    assert values("AP_found@3", grades, ranking) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert values("AP_found@10", grades, ranking) == pytest.approx((1 / 2 + 2 / 3 + 3 / 5) / 3)
    assert values("AP_found@1", grades, ranking) == 0


def test_ideal_gain_that_is_not_cut() -> None:
    grades = {"a": 1, "b": 2, "c": 1, "x": 1}  # x is not retrieved: not part of the ideal
    ranking = ["n", "a", "b", "m", "c"]
    best = 1 + 1 / math.log(3) * math.log(2) + 1 / 2
    found = math.log(2) / math.log(3)
    assert values("nDCG_uncut@2", grades, ranking) == pytest.approx(found / best)
    assert values("nDCG_uncut@2", {"x": 1}, ranking) == 0


def evaluate_as_you_does(relevant_ranks: list[int], cutoff: int) -> tuple[float, float]:
    """AP and nDCG by equations 1 to 4 of You's coursework, natural logarithm included."""
    within = sorted(rank for rank in relevant_ranks if rank <= cutoff)
    precisions = [number / rank for number, rank in enumerate(within, 1)]
    gain = sum(1 / math.log(rank + 1) for rank in within)
    ideal = sum(1 / math.log(rank + 1) for rank in range(1, len(relevant_ranks) + 1))
    return (sum(precisions) / len(precisions) if precisions else 0.0), gain / ideal


@pytest.mark.parametrize("cutoff", [3, 10, 100])
@pytest.mark.parametrize(
    "relevant_ranks", [[1], [2, 3], [4], [3, 10, 100], [11, 12, 500], [1, 2, 3, 4, 5], [101]]
)
def test_the_measures_of_the_classical_rankers(relevant_ranks: list[int], cutoff: int) -> None:
    ranking = [f"d{rank}" for rank in range(1, 1001)]
    grades = {f"d{rank}": 1 for rank in relevant_ranks}
    average_precision, gain = evaluate_as_you_does(relevant_ranks, cutoff)
    assert values(f"AP_found@{cutoff}", grades, ranking) == pytest.approx(average_precision)
    assert values(f"nDCG_uncut@{cutoff}", grades, ranking) == pytest.approx(gain)


@pytest.mark.parametrize(
    "text",
    [
        "nDCG@10 nDCG AP AP@100 AP(rel=2)@100 P(rel=2)@5 SetF(beta=2.0) Rprec IPrec@0.1 Bpref",
        "nDCG(dcg='exp-log2')@10 nDCG(gains={1:3})@10 AP_found(rel=2)@5 nDCG_uncut@100 NumRet",
    ],
)
def test_a_measure_prints_as_itself(text: str) -> None:
    for name in text.split():
        measure = parse_measure(name)
        assert str(measure) == name
        assert parse_measure(str(measure)) == measure
        assert hash(parse_measure(str(measure))) == hash(measure)


def test_aliases_get_their_main_name() -> None:
    names = {"MAP@5": "AP@5", "MRR@10": "RR@10", "NDCG@3": "nDCG@3", "Recall@9": "R@9"}
    names |= {"NumRelRet": "NumRet(rel=1)", "SetF(beta=2)": "SetF(beta=2.0)", " P@1 ": "P@1"}
    assert {name: str(parse_measure(name)) for name in names} == names


def test_every_name_of_trec_eval_is_understood_in_any_case() -> None:
    for name, trec_name in TREC_NAMES.items():
        for spelled in (trec_name, trec_name.upper(), trec_name.lower(), name.lower()):
            assert parse_measure(spelled) == parse_measure(name), spelled


def test_names_of_others_get_their_main_name() -> None:
    names = {"ndcg_cut.10": "nDCG@10", "ndcg@10": "nDCG@10", "mrr@10": "RR@10", "P_10": "P@10"}
    names |= {"recall@100": "R@100", "recall_100(rel=2)": "R(rel=2)@100", "bpref": "Bpref"}
    names |= {"precision@10": "P@10", "hit_rate@5": "Success@5", "ap_FOUND@3": "AP_found@3"}
    names |= {"iprec_at_recall_0.10": "IPrec@0.1", "set_relative_P": "SetP(relative=True)"}
    assert {name: str(parse_measure(name)) for name in names} == names


def test_every_alias_names_a_measure_that_is_there() -> None:
    for alias, name in ALIASES.items():
        assert alias == alias.lower()
        assert name in ir_measures.measures.registry


def test_a_measure_of_ir_measures_is_taken_as_it_is() -> None:
    theirs: Any = ir_measures.AP(rel=2) @ 100
    assert str(parse_measure(theirs)) == "AP(rel=2)@100"


@pytest.mark.parametrize("wrong", [10, None, 0.5, ["AP"]])
def test_a_measure_that_is_no_string_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError) as caught:
        parse_measure(wrong)
    assert repr(wrong) in str(caught.value)
    assert "nDCG@10" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "problem", "hint"),
    [
        ("ndgc@10", "unknown measure 'ndgc@10'", "nDCG@10"),
        ("ndgc_cut_10", "unknown measure 'ndgc_cut_10'", "nDCG@10"),
        ("recal@10", "unknown measure 'recal@10'", "R@10"),
        ("recip_ranks", "unknown measure", "RR"),
        ("ndcg_cut", "needs a cutoff", "ndcg_cut_10"),
        ("P_10@5", "does not read as a measure", "nDCG@10"),
        ("zzzzzz", "unknown measure", "for example"),
        ("P", "needs a cutoff", "P@5"),
        ("INST", "needs ", "for example"),
        ("AP(level=2)", "no parameter 'level'; it takes rel", "AP(rel=2)"),
        ("SetP@5", "no parameter", "for example"),
        ("AP(rel='x')", "cannot take rel='x'", "AP(rel=2)"),
        ("nDCG@ten", "does not read as a measure", "nDCG@10"),
        ("nDCG@", "does not read as a measure", "nDCG@10"),
        ("", "does not read as a measure", "nDCG@10"),
        ("nDCG@0", "cuts at 0", "1 or more"),
        ("__import__('os')", "does not read as a measure", "nDCG@10"),
    ],
)
def test_a_bad_measure_says_what_would_be_right(text: str, problem: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_measure(text)
    assert problem in str(caught.value)
    assert hint in caught.value.hint


def test_other_measures_go_through_ir_measures_with_our_ties() -> None:
    grades = {"q1": {"a": 1, "b": 0, "c": 2}, "q2": {"a": 1}, "q3": {"b": 1}}
    scores = {"q1": {"a": 1.0, "b": 1.0, "c": 1.0}, "q2": {"b": 1.0, "a": 1.0}, "q9": {"a": 1.0}}
    names = ["Bpref", "Compat(p=0.8)", "nDCG@10"]
    ours = evaluate(Qrels.from_dict(grades), {"run": Run.from_dict(scores)}, names)
    untied = {q: {d: float(ord(d)) for d in docs} for q, docs in scores.items()}
    for name in names:
        theirs = parse_by_ir_measures(name)
        expected = {m.query_id: m.value for m in ir_measures.iter_calc([theirs], grades, untied)}
        got = ours.values("run", name)
        assert got.tolist() == pytest.approx([expected[q] for q in ours.queries])
    assert np.any(ours.values("run", "Compat(p=0.8)"))


def test_a_query_with_negative_grades_only_is_worth_nothing() -> None:
    names = ["Bpref", "nDCG@10", "AP", "Rprec", "RR"]
    run = Run.from_dict({"q1": {"a": 2.0, "b": 1.0}, "q2": {"a": 2.0, "b": 1.0}})
    mixed = Qrels.from_dict({"q1": {"a": -1, "b": -2}, "q2": {"a": 1}})
    assert evaluate(mixed, {"run": run}, names).per_query["run"].tolist() == [[0] * 5, [1] * 5]
    alone = Qrels.from_dict({"q1": {"a": -1}, "q2": {}})
    assert not evaluate(alone, {"run": run}, names).per_query["run"].any()


def test_other_measures_of_an_empty_run_are_zero() -> None:
    evaluation = evaluate(Qrels.from_dict({"q": {"a": 1}}), {"run": Run.from_dict({})}, ["Bpref"])
    assert evaluation.values("run", "Bpref").tolist() == [0]


def test_a_measure_no_back_end_computes_is_an_error() -> None:
    qrels, run = Qrels.from_dict({"q": {"a": 1}}), Run.from_dict({"q": {"a": 1.0}})
    with pytest.raises(InputError, match="ir_measures cannot compute alpha_nDCG@5"):
        evaluate(qrels, {"run": run}, ["alpha_nDCG@5"])


def test_every_name_of_ir_measures_is_known() -> None:
    """What tamis does not compute itself is listed, so that it is known without ir_measures."""
    theirs = {name: measure.NAME for name, measure in ir_measures.measures.registry.items()}
    ours = {name for name, main in theirs.items() if main in FORMULAS}
    assert set(OTHERS) == theirs.keys() - ours
    assert set(PARAMETERS) == set(FORMULAS)
    for name in ours:
        cutoff = "@3" if PARAMETERS[parse_name_of(name)].get("cutoff") else ""
        assert str(parse_measure(name + cutoff)) == as_ir_measures_writes(name + cutoff)


def parse_name_of(name: str) -> str:
    return str(ir_measures.measures.registry[name].NAME)


def as_ir_measures_writes(text: str) -> str | None:
    """A measure by ir_measures, with the parameters that are not the defaults; None if refused."""
    try:
        theirs = parse_by_ir_measures(text)
        for name, value in theirs.params.items():
            if name == "beta" and isinstance(value, int):
                theirs = theirs(beta=float(value))
        theirs.validate_params()
    except (NameError, ValueError, AssertionError, TypeError):
        return None
    info, at = theirs.SUPPORTED_PARAMS, theirs.AT_PARAM
    params = tuple((k, v) for k, v in theirs.params.items() if k != at and v != info[k].default)
    frozen = tuple((k, tuple(sorted(v.items())) if isinstance(v, dict) else v) for k, v in params)
    cutoff = theirs.params.get(at)
    if cutoff is not None and cutoff < 1:
        return None
    return str(Measure(theirs.NAME, cutoff, frozen))


OWN_NAMES = sorted({*FORMULAS, *PRESETS} - {"AP_found", "nDCG_uncut"})
some_value = st.sampled_from(
    ["0", "1", "2", "1.0", "0.5", "True", "False", "None", "'log2'", "'exp-log2'", "'x'", "{1:3}",
     "{2:1,1:0}", "{}", "-1", "b'x'", "...", "x", "[1]", "1j", "2,", ""]
)  # fmt: skip
some_param = st.tuples(
    st.sampled_from(["rel", "judged_only", "dcg", "gains", "beta", "relative", "cutoff", "level"]),
    some_value,
)


@given(st.sampled_from(OWN_NAMES), st.lists(some_param, max_size=3), st.none() | some_value)
@settings(max_examples=500, deadline=None)
def test_names_read_as_in_ir_measures(
    name: str, params: list[tuple[str, str]], cutoff: str | None
) -> None:
    inner = ",".join(f"{key}={value}" for key, value in params)
    text = name + (f"({inner})" if inner else "") + ("" if cutoff is None else f"@{cutoff}")
    expected = as_ir_measures_writes(text)
    if expected is None:
        with pytest.raises(InputError):
            parse_measure(text)
    else:
        assert str(parse_measure(text)) == expected


def test_without_ir_measures_own_measures_work_and_others_say_how_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    qrels, run = Qrels.from_dict({"q": {"a": 1}}), Run.from_dict({"q": {"a": 1.0}})
    for name in ("nDCG(dcg='exp-log2')@10", "map", "ndcg_cut_10", "recip_rank", "SetRelP"):
        assert evaluate(qrels, {"run": run}, [name]).per_query["run"].tolist() == [[1.0]]
    for name in ("Bpref", "ERR@10", "infap", "Compat(p=0.8)", "num_q"):
        with pytest.raises(MissingExtraError) as caught:
            parse_measure(name)
        assert "[measures]" in caught.value.hint
    with pytest.raises(InputError, match="unknown measure"):
        parse_measure("zzz")
