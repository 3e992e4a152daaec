"""The engine without HTTP: scores, deadlines, admission, cancellation, reload."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.serve.applications import TEXTS, scores_by_index, settings

import tamis
from tamis.fitting.calibration import Calibration
from tamis.serve.engine import Engine, rank_texts
from tamis.serve.errors import (
    EmptyError,
    InferenceError,
    InvalidError,
    OverloadedError,
    TooManyTextsError,
    TruncationError,
    UnhealthyError,
    UnknownModelError,
)
from tamis.serve.jobs import Job
from tamis.serve.requests import RankRequest, SearchRequest
from tamis.serve.settings import ModelPlace, ServeSettings
from tamis.types import Document


def documents(texts: list[str]) -> list[Document]:
    return [Document(str(number), text) for number, text in enumerate(texts)]


@pytest.fixture(scope="module")
def engine(
    tiny_cross_encoder: Path, bi_encoder: Path, hybrid_sieve: Path, reranking_sieve: Path
) -> Iterator[Engine]:
    models = (
        ModelPlace("cross", str(tiny_cross_encoder)),
        ModelPlace("bi", str(bi_encoder)),
        ModelPlace("hybrid", str(hybrid_sieve)),
        ModelPlace("reranking", str(reranking_sieve)),
    )
    engine = Engine.open(ServeSettings(models, threads=1))
    yield engine
    engine.close()


@pytest.mark.parametrize("name", ["cross", "bi"])
def test_a_model_scores_as_offline(name: str, engine: Engine) -> None:
    places = {place.name: place.path for place in engine.settings.models}
    offline = tamis.load_model(places[name], threads=1)
    answer = rank_texts(engine, "drum flour", TEXTS, model=name)
    assert scores_by_index(answer) == pytest.approx(offline.score("drum flour", TEXTS), abs=1e-5)
    assert [item.index for item in answer.items] == [
        ranked.index for ranked in offline.rank("drum flour", TEXTS)
    ]
    assert answer.depth == len(TEXTS) and answer.tokens > 0


def test_scores_do_not_depend_on_what_else_is_asked(engine: Engine) -> None:
    alone = {
        query: scores_by_index(rank_texts(engine, query, TEXTS, model="cross"))
        for query in ("drum", "net sort", "flour fish grain")
    }
    requests = [RankRequest((query,), documents(TEXTS), "cross") for query in [*alone] * 20]
    jobs = [engine.submit(request) for request in requests]
    for request, job in zip(requests, jobs, strict=True):
        together = scores_by_index(job.future.result(60))
        assert together == pytest.approx(alone[request.query], abs=1e-5)


def test_a_score_is_from_0_to_1_and_not_relative_to_the_set(engine: Engine) -> None:
    cross = rank_texts(engine, "drum", TEXTS, model="cross")
    expected = [1 / (1 + np.exp(-value)) for value in scores_by_index(cross)]
    assert scores_by_index(cross, raw=False) == pytest.approx(expected)
    bi = rank_texts(engine, "drum", TEXTS, model="bi")
    assert scores_by_index(bi, raw=False) == pytest.approx(
        [(1 + value) / 2 for value in scores_by_index(bi)]
    )
    for name in ("cross", "bi", "hybrid", "reranking"):
        every = scores_by_index(rank_texts(engine, "drum", TEXTS, model=name), raw=False)
        for number, text in enumerate(TEXTS):
            [single] = rank_texts(engine, "drum", [text], model=name).items
            assert single.score == pytest.approx(every[number], abs=1e-5), name
            few = rank_texts(engine, "drum", [text, "a drum"], model=name)
            assert scores_by_index(few, raw=False)[0] == pytest.approx(every[number], abs=1e-5)


def test_a_title_of_a_document_counts_as_in_the_index(
    engine: Engine, tmp_path: Path, bi_encoder: Path
) -> None:
    titled = [
        Document(f"d{number}", text, "a drum" if number else "", {"kind": "x"})
        for number, text in enumerate(TEXTS)
    ]
    tamis.fit(titled, out=tmp_path / "titled.sieve", base=str(bi_encoder), threads=1)
    with closing(Engine.open(settings(tmp_path / "titled.sieve"))) as own:
        found = own.answer(SearchRequest("drum grain"))
        ranked = own.answer(RankRequest(("drum grain",), titled))
    expected = {item.id: item.score for item in found.items}
    assert len(expected) == len(TEXTS)
    assert {item.id: item.score for item in ranked.items} == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", ["hybrid", "reranking"])
def test_a_sieve_searches_and_ranks_as_offline(name: str, engine: Engine) -> None:
    path = next(place.path for place in engine.settings.models if place.name == name)
    sieve = tamis.load_sieve(path)
    for query in ("drum net", "flour", "fish sort grain"):
        answer = engine.answer(SearchRequest(query, name, top=7))
        hits = sieve.search(query, 7)
        assert [item.id for item in answer.items] == [hit.id for hit in hits]
        assert [item.score for item in answer.items] == pytest.approx([h.score for h in hits])
        assert [item.hit.hit.passage for item in answer.items if item.hit] == [
            hit.passage for hit in hits
        ]
        ranked = rank_texts(engine, query, TEXTS, model=name)
        offline = sieve.rerank(query, TEXTS)
        assert [item.index for item in ranked.items] == [each.index for each in offline]
        assert [item.raw_score for item in ranked.items] == pytest.approx(
            [each.score for each in offline], abs=1e-5
        )


def test_a_search_tells_its_stages(engine: Engine) -> None:
    answer = engine.answer(SearchRequest("drum net", "reranking", top=3))
    assert [stage.name for stage in answer.stages] == ["BM25", "cross-encoder"]
    assert all(stage.seconds > 0 for stage in answer.stages)
    assert answer.depth == 20 and answer.reranked and answer.tokens > 0
    first = answer.items[0]
    assert first.hit is not None
    assert [place.name for place in first.hit.stages] == ["BM25", "cross-encoder"]
    assert first.hit.stages[-1].rank == 1
    assert first.hit.stages[-1].score == pytest.approx(first.raw_score)
    hybrid = engine.answer(SearchRequest("drum net", "hybrid", top=3))
    assert hybrid.items[0].hit is not None
    names = [place.name for place in hybrid.items[0].hit.stages]
    assert names[:3] == ["BM25", "embeddings", "hybrid"]


def test_filters_and_explanations(engine: Engine) -> None:
    answer = engine.answer(SearchRequest("drum net", "hybrid", 2, ("n=20",), explain=True))
    assert [item.id for item in answer.items] == ["d20"]
    explanation = answer.items[0].explanation
    assert explanation is not None and explanation["id"] == "d20" and explanation["stages"]
    with pytest.raises(InvalidError, match="nowhere"):
        engine.answer(SearchRequest("drum", "hybrid", where=("nowhere=1",)))


def assert_same(one: Any, other: Any) -> None:
    """The same JSON, its numbers to five places: pairs may have shared other batches."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert [*one] == [*other]
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_same(*pair)
    else:
        assert one == (pytest.approx(other, abs=1e-5) if isinstance(one, float) else other)


@pytest.mark.parametrize("name", ["hybrid", "reranking"])
@pytest.mark.parametrize("where", [(), ("n<15",)])
def test_an_explanation_is_that_of_the_library(
    name: str, where: tuple[str, ...], engine: Engine
) -> None:
    sieve = tamis.load_sieve(str(engine.served(name).folder))
    answer = engine.answer(SearchRequest("drum net", name, 3, where, explain=True))
    assert len(answer.items) == 3
    for item in answer.items:
        offline = sieve.explain("drum net", item.id, where=where).to_json()
        assert item.explanation is not None
        assert (item.explanation["rank"], item.explanation["words"] != ()) == (item.rank, True)
        assert_same(item.explanation, offline)


def time_is_up(monkeypatch: pytest.MonkeyPatch, *moments: bool) -> None:
    """Whether the time of a request is up each time that it is asked; the last holds on."""
    answers = chain(moments, repeat(moments[-1]))
    monkeypatch.setattr(Job, "is_over", property(lambda job: next(answers)))


def test_an_explanation_goes_by_what_a_deadline_allowed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_is_up(monkeypatch, True, False)  # when it would be scored; not when it is explained
    answer = engine.answer(SearchRequest("drum net", "reranking", 2, latency=600, explain=True))
    assert len(answer.items) == 2 and answer.depth == 0 and not answer.warnings
    for item in answer.items:
        assert item.explanation is not None and item.explanation["rank"] == item.rank
        assert "cross-encoder did not score it" in item.explanation["notes"][0]


def test_hits_are_explained_as_long_as_there_is_time(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_is_up(monkeypatch, False, False, True)  # scored, the first hit, the second
    answer = engine.answer(SearchRequest("drum net", "reranking", 3, latency=600, explain=True))
    assert answer.depth == 20
    assert [item.explanation is not None for item in answer.items] == [True, False, False]
    assert answer.warnings == ("1 of 3 hits were explained in time",)


def test_hits_are_explained_without_searching_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tamis.search.sources import IndexSource

    searches, search = [], IndexSource.search

    def counted(self: IndexSource, queries: Any, top: int = 1000) -> Any:
        searches.append(queries)
        return search(self, queries, top)

    monkeypatch.setattr(IndexSource, "search", counted)
    engine.answer(SearchRequest("drum net", "reranking", 5, explain=True))
    assert len(searches) == 1


def test_what_the_reranker_did_not_score_is_not_calibrated(reranking_sieve: Path) -> None:
    sieve = tamis.load_sieve(reranking_sieve, threads=1)
    vars(sieve)["calibration"] = Calibration(
        ("score", "lead"), (0.0, 0.0), (1.0, 1.0), (1.0, 0.0), 0.0, 0.5, 1.0, 9, 9, 9
    )
    hits = sieve.search("drum net sieve flour", top=30)
    assert [hit.calibrated for hit in hits] == [True] * 20 + [False] * (len(hits) - 20)
    assert len(hits) > 20 and hits[0].probability is not None and hits[-1].probability is None


def test_an_empty_search_finds_nothing(engine: Engine) -> None:
    for name in ("hybrid", "reranking"):
        assert engine.answer(SearchRequest("", name)).items == ()


def test_a_deadline_that_has_passed_leaves_the_order(engine: Engine) -> None:
    answer = rank_texts(engine, "drum", TEXTS, model="cross", latency=1e-9)
    assert answer.depth == 0 and not answer.reranked
    assert [item.index for item in answer.items] == list(range(len(TEXTS)))
    assert all(item.score is None and item.raw_score is None for item in answer.items)
    found = engine.answer(SearchRequest("drum net", "reranking", 5, latency=1e-9))
    without = tamis.load_sieve(str(engine.served("reranking").folder)).retriever
    run = without.search(tamis.Queries.of([tamis.Query("q", "drum net")]), 5)
    assert found.depth == 0 and [item.id for item in found.items] == run["q"].ids
    assert all(item.hit is not None and not item.hit.scored for item in found.items)


def test_a_long_deadline_changes_nothing(engine: Engine) -> None:
    for name in ("cross", "reranking", "hybrid"):
        free = rank_texts(engine, "drum", TEXTS, model=name)
        bound = rank_texts(engine, "drum", TEXTS, model=name, latency=600.0)
        assert scores_by_index(bound) == pytest.approx(scores_by_index(free), abs=1e-6)


def test_pairs_of_several_queries(engine: Engine) -> None:
    queries = ("drum", "net", "flour")
    for name in ("cross", "bi", "reranking"):
        answer = engine.answer(RankRequest(queries, documents(TEXTS[:3]), name))
        assert [item.index for item in answer.items] == [0, 1, 2]
        for number, query in enumerate(queries):
            [alone] = rank_texts(engine, query, [TEXTS[number]], model=name).items
            assert answer.items[number].score == pytest.approx(alone.score, abs=1e-5)


def test_a_limit_of_tokens_a_document(engine: Engine) -> None:
    text = "drum net grain flour fish sort"
    short = rank_texts(engine, "sieve", ["drum net"], model="cross").items[0]
    limited = rank_texts(engine, "sieve", [text], model="cross", document_tokens=2).items[0]
    assert limited.raw_score == pytest.approx(short.raw_score, abs=1e-6)
    assert limited.truncated_tokens == 4
    assert rank_texts(engine, "sieve", [text], model="bi", document_tokens=2).warnings


def test_a_text_that_does_not_fit_is_refused_where_that_is_wished(engine: Engine) -> None:
    long = "drum " * 40
    assert rank_texts(engine, "net", [long], model="cross").truncated_tokens > 0
    for name in ("cross", "bi"):
        with pytest.raises(TruncationError, match="text 1 has"):
            rank_texts(engine, "net", ["drum", long], model=name, truncate=False)


def test_what_is_refused_at_once(engine: Engine) -> None:
    with pytest.raises(UnknownModelError, match="no model 'other'"):
        rank_texts(engine, "drum", TEXTS, model="other")
    with pytest.raises(UnknownModelError, match="no documents to search"):
        engine.submit(SearchRequest("drum", "cross"))
    with pytest.raises(EmptyError):
        rank_texts(engine, "drum", [])
    with pytest.raises(EmptyError):
        rank_texts(engine, "  ", TEXTS)
    with pytest.raises(TooManyTextsError, match="1001 documents"):
        rank_texts(engine, "drum", ["a"] * 1001)
    with pytest.raises(InvalidError, match="document 1 has 100001 characters"):
        rank_texts(engine, "drum", ["a", "a" * 100_001])


class Slow:
    """Holds a batch up until it is let go."""

    def __init__(self, engine: Engine, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.entered, self.batches = threading.Event(), threading.Event(), list[int]()
        batcher = engine.served(name).batchers[0]
        score = batcher.scorer.score_tokenized

        class Held:
            tokenize = batcher.scorer.tokenize

            def score_tokenized(held, items: Any) -> Any:
                self.batches.append(len(items))
                self.entered.set()
                assert self.go.wait(60)
                return score(items)

        monkeypatch.setattr(batcher, "scorer", Held())


def test_requests_that_wait_share_a_batch(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(engine, "cross", monkeypatch)
    first = engine.submit(RankRequest(("drum",), documents(TEXTS), "cross"))
    assert slow.entered.wait(60)
    others = [engine.submit(RankRequest(("net",), documents(TEXTS), "cross")) for _ in range(5)]
    wait_until_queued(engine, "cross", 6)
    slow.go.set()
    assert all(job.future.result(60).depth == len(TEXTS) for job in [first, *others])
    assert slow.batches == [len(TEXTS), 5 * len(TEXTS)]


def wait_until_queued(engine: Engine, name: str, works: int) -> None:
    """Until so many requests stand before the batches: one is in one, the others wait."""
    batcher = engine.served(name).batchers[0]
    for _ in range(2000):
        with batcher._condition:
            if len(batcher._queue) >= works:
                return
        threading.Event().wait(0.01)
    raise AssertionError(f"{len(batcher._queue)} wait")


def test_work_is_dropped_where_nobody_waits_for_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(engine, "cross", monkeypatch)
    dropped: list[str] = []
    monkeypatch.setattr(engine.observer, "dropped", dropped.append)
    first = engine.submit(RankRequest(("drum",), documents(TEXTS), "cross"))
    assert slow.entered.wait(60)
    gone = engine.submit(RankRequest(("net",), documents(TEXTS), "cross"))
    kept = engine.submit(RankRequest(("flour",), documents(TEXTS), "cross"))
    wait_until_queued(engine, "cross", 3)
    gone.cancel()
    slow.go.set()
    assert kept.future.result(60).depth == first.future.result(60).depth == len(TEXTS)
    assert slow.batches == [len(TEXTS), len(TEXTS)] and dropped == ["cross"]
    assert engine.served("cross").admission.requests == 0


def test_a_search_of_a_sieve_is_dropped_with_its_pairs(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(engine, "reranking", monkeypatch)
    first = engine.submit(SearchRequest("drum", "reranking"))
    assert slow.entered.wait(60)
    gone = engine.submit(SearchRequest("net", "reranking"))
    wait_until_queued(engine, "reranking", 2)
    gone.cancel()
    slow.go.set()
    assert first.future.result(60).depth
    assert engine.answer(SearchRequest("fish", "reranking")).depth
    assert len(slow.batches) == 2


def test_a_full_queue_lets_in_whole_requests_or_none(
    tiny_cross_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine.open(settings(tiny_cross_encoder, queued_requests=2))
    slow = Slow(engine, "tiny", monkeypatch)
    jobs = [engine.submit(RankRequest(("drum",), documents(TEXTS))) for _ in range(2)]
    with pytest.raises(OverloadedError) as refused:
        engine.submit(RankRequest(("drum",), documents(TEXTS)))
    assert 0 < refused.value.retry_after < 60
    slow.go.set()
    assert [job.future.result(60).depth for job in jobs] == [len(TEXTS)] * 2
    assert rank_texts(engine, "drum", TEXTS).depth == len(TEXTS)
    engine.close()
    with pytest.raises(UnhealthyError):
        rank_texts(engine, "drum", TEXTS)


def test_a_budget_of_tokens(tiny_cross_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine.open(settings(tiny_cross_encoder, queued_tokens=30))
    slow = Slow(engine, "tiny", monkeypatch)
    job = engine.submit(RankRequest(("drum",), documents(TEXTS)))  # alone it may be larger
    with pytest.raises(OverloadedError, match="1 requests"):
        engine.submit(RankRequest(("drum",), documents(["a"])))
    slow.go.set()
    assert job.future.result(60).depth == len(TEXTS)
    engine.close()


def test_a_model_that_fails_ends_its_requests_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    batcher = engine.served("cross").batchers[0]
    good = batcher.scorer

    class Broken:
        tokenize = good.tokenize

        def score_tokenized(self, items: Any) -> Any:
            raise RuntimeError("secret text")

    class NotANumber(Broken):
        def score_tokenized(self, items: Any) -> Any:
            return np.full(len(items), np.nan, np.float32)

    for kind in (Broken, NotANumber):
        with monkeypatch.context() as patch:
            patch.setattr(batcher, "scorer", kind())
            with pytest.raises(InferenceError) as failed:
                rank_texts(engine, "drum", TEXTS, model="cross")
            assert "secret" not in failed.value.in_full
    assert rank_texts(engine, "drum", TEXTS, model="cross").depth == len(TEXTS)


def test_torch_is_set_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    calls: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    for name in ("cross", "bi", "reranking", "hybrid"):
        rank_texts(engine, "drum", TEXTS, model=name)
    assert calls == []
