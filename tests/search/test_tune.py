"""Tuning: the choice, and what it is honestly worth."""

from pathlib import Path

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.evaluation import evaluate
from tamis.search import BM25, RM3, Index, QueryLikelihood, default_source
from tamis.search.tune import DEFAULTS, GRIDS, Tuning, configured, judged_queries, tune
from tamis.types import Document, Qrels, Queries, Query

WORDS = ["drum", "sieve", "flour", "grain", "mesh", "wire", "frame", "sift"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """For each word a short document that is right, and a long one that says it more often."""
    documents = []
    for number, word in enumerate(WORDS * 2):
        other = WORDS[(number + 3) % len(WORDS)]
        documents.append(Document(f"short{number}", f"{word} {other}"))
        filler = " ".join(f"w{number}x{n}" for n in range(60))
        documents.append(Document(f"long{number}", f"{word} {word} {word} {word} {filler}"))
    return Index.build(documents, tmp_path_factory.mktemp("tune") / "index")


QUERIES = Queries.of(Query(f"q{n:02}", f"{word} q{n}") for n, word in enumerate(WORDS * 2))
QRELS = Qrels.from_dict(
    {f"q{n:02}": {f"short{n}": 1, f"short{(n + 8) % 16}": 1} for n in range(16)}
)


def test_the_choice_is_the_best_candidate(index: Index) -> None:
    done = tune(index, QUERIES, QRELS, "RR@10", k=3)
    assert len(done.candidates) == len(GRIDS["bm25"]["k1"]) * len(GRIDS["bm25"]["b"])
    assert done.mean(done.best) == done.values.mean(1).max()
    run = index.bm25(done.parameters["k1"], done.parameters["b"]).search(QUERIES, 10)
    assert evaluate(QRELS, {"x": run}, ["RR@10"]).mean("x", "RR@10") == done.mean(done.best)


def test_the_default_is_kept_where_nothing_is_better(index: Index) -> None:
    done = tune(index, QUERIES, QRELS, "RR@10", k=3)
    if done.mean(done.default) == done.mean(done.best):
        assert done.parameters == DEFAULTS["bm25"]


@pytest.mark.parametrize("what", ["ql", "rm3"])
def test_other_rankings_are_tuned_too(index: Index, what: str) -> None:
    done = tune(index, QUERIES, QRELS, "RR@10", what, k=3)  # type: ignore[arg-type]
    assert set(done.parameters) == set(GRIDS[what])
    rows, columns, means = done.surface()
    assert means.shape == (len(rows), len(columns))
    assert means.max() == done.mean(done.best)


def noise(seed: int) -> Tuning:
    """Candidates that differ by luck alone."""
    values = np.random.default_rng(seed).random((len(GRIDS["ql"]["mu"]), 40))
    queries = Queries.of(Query(f"q{n:02}", f"word{n}") for n in range(40))
    from tamis.evaluation import parse_measure
    from tamis.search.tune import _held_out

    candidates = tuple({"mu": mu} for mu in GRIDS["ql"]["mu"])
    held_out = _held_out(values, queries, 5, 0)
    return Tuning("ql", parse_measure("RR@10"), GRIDS["ql"], candidates, values, held_out)


def test_luck_is_called_noise() -> None:
    """The best of many lucky candidates looks good where it was chosen, not on held-out folds."""
    flattered = [done.mean(done.best) - done.mean(done.default) for done in map(noise, range(20))]
    honest = [done.gain for done in map(noise, range(20))]
    assert min(flattered) >= 0
    assert np.mean(flattered) > 0.05
    assert abs(np.mean(honest)) < 0.03
    assert sum(done.within_noise() for done in map(noise, range(20))) >= 17


def test_a_real_gain_is_seen() -> None:
    done = noise(1)
    values = done.values.copy()
    values[3] += 0.5
    from tamis.search.tune import _held_out

    queries = Queries.of(Query(f"q{n:02}", f"word{n}") for n in range(40))
    held_out = _held_out(values, queries, 5, 0)
    better = Tuning(done.what, done.measure, done.grid, done.candidates, values, held_out)
    assert better.best == 3
    assert not better.within_noise()
    assert better.gain == pytest.approx(values[3].mean() - values[better.default].mean())


def test_too_few_judged_queries(index: Index) -> None:
    with pytest.raises(InputError, match="3 judged queries are too few"):
        tune(index, QUERIES, QRELS.select(QUERIES.select(np.arange(3)).ids), k=5)


def test_a_sample_is_seeded() -> None:
    first = judged_queries(QUERIES, QRELS, 5, seed=1)
    assert len(first) == 5
    assert first == judged_queries(QUERIES, QRELS, 5, seed=1)
    assert first != judged_queries(QUERIES, QRELS, 5, seed=2)


def test_the_choice_is_kept_in_the_index(tmp_path: Path) -> None:
    made = Index.build([Document("d", "drum")], tmp_path / "index")
    assert default_source(made).ranking == BM25()
    made.record_tuned({"ranking": "ql", "parameters": {"mu": 300}})
    made.record_tuned({"ranking": "bm25", "parameters": {"k1": 1.2, "b": 0.3}})
    again = Index.open(tmp_path / "index")
    assert default_source(again).ranking == BM25(1.2, 0.3)
    assert default_source(again, "ql").ranking == QueryLikelihood(300)
    assert default_source(again, parameters={"mu": 50}).ranking == QueryLikelihood(50)
    assert default_source(again, parameters={"b": 0.9}).ranking == BM25(1.2, 0.9)
    assert default_source(again).feedback is None
    record = {"ranking": "rm3", "parameters": {"terms": 20.0, "documents": 5.0, "weight": 0.65}}
    again.record_tuned(record, on="bm25")
    assert default_source(again).feedback == RM3(20, 5, 0.65)
    assert default_source(again, "ql").feedback is None
    assert default_source(again, rm3=False).feedback is None
    again.add([Document("e", "sieve")])
    assert default_source(Index.open(tmp_path / "index")).ranking == BM25(1.2, 0.3)


def test_a_parameter_of_another_ranking_is_refused(index: Index) -> None:
    with pytest.raises(InputError, match="mu is no parameter of bm25"):
        default_source(index, "bm25", parameters={"mu": 50})
    with pytest.raises(InputError, match="terms is no parameter of bm25"):
        default_source(index, "bm25", rm3=False, parameters={"terms": 5})


def test_configured_sources(index: Index) -> None:
    base = index.bm25()
    assert configured(base, "bm25", {"k1": 1.0, "b": 0.5}).ranking == BM25(1.0, 0.5)
    refined = configured(base, "rm3", {"terms": 5.0, "documents": 20.0, "weight": 0.2})
    assert refined.feedback == RM3(5, 20, 0.2)
    assert refined.ranking == BM25()
