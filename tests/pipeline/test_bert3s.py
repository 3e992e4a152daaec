"""BERT-3S by hand, and its grid against every point ranked and measured one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.evaluation import evaluate
from tamis.pipeline.bert3s import ThreeSentences, best_three, parse_three_sentences
from tamis.pipeline.bert3s_grid import GRID, tune_three_sentences
from tamis.pipeline.passage_scores import PassageScores
from tamis.pipeline.rerank import rerank
from tamis.types import Document, Pairs, Qrels, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale


class Said:
    """Reads the score of a sentence off its last word: "A sentence of .75"."""

    def __init__(self, scale: Scale = "probability") -> None:
        self.scale: Scale = scale
        self.calls = 0

    def score(self, pairs: Pairs) -> Scores:
        self.calls += 1
        values = [float(pairs.texts[t].rstrip(".").split()[-1]) for _, t in pairs.index.tolist()]
        return Scores(np.array(values, np.float32), np.zeros(len(pairs), np.int32))


def said(name: str, *scores: float) -> Document:
    return Document(name, " ".join(f"A sentence of {score}." for score in scores))


DOCUMENTS = [
    said("a", 0.25, 0.75, 0.5, 0.5),
    said("b", 0.875),
    said("c", 0.5, 0.5, 0.5),
    Document("d", ""),
    said("e", 0.125, 0.25),
]
QUERIES = Queries.of([Query("q1", "x"), Query("q2", "y")])
RUN = Run.from_dict(
    {"q1": {"a": 2, "b": 1.5, "c": 1, "d": 0.5, "e": 0.25}, "q2": {"e": 3, "c": 2, "b": 1}}
).with_queries(QUERIES)


def test_by_hand() -> None:
    run = rerank(Said(), DOCUMENTS, aggregate="bert-3s:0.25:0.5:1")(RUN)
    expected = {
        "a": 0.25 * 2 + 0.75 * (0.75 + 0.5 * 0.5 + 1 * 0.5),
        "b": 0.25 * 1.5 + 0.75 * 0.875,
        "c": 0.25 * 1 + 0.75 * (0.5 + 0.5 * 0.5 + 1 * 0.5),
        "e": 0.25 * 0.25 + 0.75 * (0.25 + 0.5 * 0.125),
    }
    found = dict(run["q1"])
    assert run["q1"].ids == ["a", "c", "b", "e", "d"]
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert run["q1"].extra["passage"].tolist() == [1, 0, 0, 1, -1]
    assert run["q1"].extra["previous_score"].tolist() == [2, 1, 1.5, 0.25, 0.5]


def test_the_ends_of_alpha() -> None:
    alone = rerank(Said(), DOCUMENTS, aggregate="bert-3s:1:1:1")(RUN)
    assert dict(alone["q2"]) == dict(RUN["q2"])
    best = rerank(Said(), DOCUMENTS, aggregate="bert-3s:0:0:0")(RUN)
    assert dict(best["q2"]) == {"b": 0.875, "c": 0.5, "e": 0.25}


def test_logits_become_probabilities() -> None:
    documents = [said("a", -3, 2), said("b", -1000, 1), said("c", 5)]
    run = Run.from_dict({"q1": {"a": 0.0, "b": 0.0, "c": 0.0}}).with_queries(QUERIES)
    found = dict(rerank(Said("logit"), documents, aggregate="bert-3s:0:1:1")(run)["q1"])
    one, two, three, five = (1 / (1 + np.exp(-x)) for x in (1, 2, -3, 5))
    assert found == pytest.approx({"a": two + three, "b": one, "c": five})


def test_the_best_three_are_found_in_any_order() -> None:
    rng = np.random.default_rng(3)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 7, 200))])
    values = rng.integers(-4, 5, offsets[-1]).astype(np.float32)
    nothing = np.zeros(len(values), np.int32)
    numbers = np.arange(len(values), dtype=np.int32)
    rows = np.arange(200)
    best, winners = best_three(
        PassageScores(rows, offsets, numbers, values, nothing, rows, 0), "regression"
    )
    for n in range(200):
        mine = values[offsets[n] : offsets[n + 1]]
        ordered = [*sorted(mine.tolist(), reverse=True)[:3], 0, 0, 0][:3]
        assert best[n].tolist() == ordered
        assert winners[n] == (offsets[n] + int(np.argmax(mine)) if len(mine) else -1)


@pytest.mark.parametrize("text", ["bert-3s", "bert-3s:0.5", "bert-3s:2:0:0", "bert-3s:0:0:0:0"])
def test_bad_parameters_are_named(text: str) -> None:
    with pytest.raises(InputError, match="does not give α, w2 and w3"):
        rerank(Said(), DOCUMENTS, aggregate=text)


def test_parameters_print_as_themselves() -> None:
    for text in ("bert-3s:0:0:0", "bert-3s:0.4:1:0.3"):
        assert str(parse_three_sentences(text)) == text
    with pytest.raises(InputError, match="outside 0 to 1"):
        ThreeSentences(0.5, 2, 0)


def test_the_grid_is_the_papers() -> None:
    assert len(GRID) == 1331
    assert len(set(GRID)) == 1331
    assert ThreeSentences(0.3, 0.7, 1) in GRID


def made(seed: int) -> tuple[list[Document], Run, Qrels]:
    """Documents of up to five sentences, some without any, and judgements, some of strangers."""
    rng = np.random.default_rng(seed)
    documents = [said(f"d{n:02}", *(rng.integers(0, 9, rng.integers(0, 6)) / 8)) for n in range(40)]
    queries = Queries.of(Query(f"q{n}", "x") for n in range(6))
    rankings = {
        query.id: {f"d{n:02}": float(rng.integers(0, 6)) / 4 for n in rng.permutation(40)[:30]}
        for query in queries
    }
    judged = {
        f"q{q}": {f"d{n:02}": int(rng.integers(0, 3)) for n in rng.permutation(45)[:9]}
        for q in (0, 1, 2, 4, 9)
    }
    run = Run.from_dict({**rankings, "q4": {}}).with_queries(queries)
    return documents, run, Qrels.from_dict(judged)


@pytest.mark.parametrize("measure", ["AP", "nDCG@10", "RR@3"])
def test_every_point_is_what_the_stage_gives(measure: str) -> None:
    documents, run, qrels = made(1)
    scorer = Said()
    stage = rerank(scorer, documents, aggregate="bert-3s:0:0:0", depth=20)
    tuned = tune_three_sentences(stage, run, qrels, measure)
    assert scorer.calls <= 3, "sentences are scored once, not once a point"
    assert len(tuned.values) == 1331
    for point in GRID[::83]:
        run_there = replace(stage, aggregate=point)(run)
        mean = evaluate(qrels, {"there": run_there}, [measure]).mean("there", measure)
        assert tuned.values[point] == pytest.approx(mean, abs=1e-12)
    assert tuned.values[tuned.best_point] == max(tuned.values.values())
    assert str(tuned.best_point) == tuned.stage.spec()["aggregate"]
    best = evaluate(qrels, {"there": tuned.stage(run)}, [measure]).mean("there", measure)
    assert best == pytest.approx(tuned.values[tuned.best_point], abs=1e-12)


def test_of_equals_the_simplest() -> None:
    stage = rerank(Said(), DOCUMENTS, aggregate="bert-3s:0:0:0")
    first = tune_three_sentences(stage, RUN, Qrels.from_dict({"q1": {"a": 1}}))
    assert first.best_point == ThreeSentences(1, 0, 0), "the first stage alone does as well"
    # b has the best sentence, but only the last place of the first stage
    second = tune_three_sentences(stage, RUN, Qrels.from_dict({"q2": {"b": 1}}))
    assert (second.best_point.w2, second.best_point.w3) == (0, 0)
    winning = [p.alpha for p, v in second.values.items() if v == 1 and p.w2 == p.w3 == 0]
    assert second.best_point.alpha == max(winning)


def test_what_cannot_be_tuned() -> None:
    stage = rerank(Said(), DOCUMENTS, aggregate="bert-3s:0:0:0")
    with pytest.raises(InputError, match="no query of the run is judged"):
        tune_three_sentences(stage, RUN, Qrels.from_dict({"other": {"a": 1}}))
    with pytest.raises(InputError, match="cannot tune for infAP"):
        tune_three_sentences(stage, RUN, Qrels.from_dict({"q1": {"a": 1}}), "infAP")
