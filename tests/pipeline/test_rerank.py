"""Re-ranking by hand, whatever is wrong with a document, and the same from any library."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tamis
from tamis.collection.base import Collection, Streamed
from tamis.collection.store import open_store, write_store
from tamis.errors import InputError
from tamis.pipeline import passage_scores
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import open_lookup
from tamis.pipeline.rerank import Rerank, rerank
from tamis.pipeline.score_merge import interpolate_scores, place_unscored_below
from tamis.search import Index
from tamis.testing import check_stage
from tamis.types import Document, Ids, Pairs, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale

DOCUMENTS = [
    Document("a", "One two three. Four five."),
    Document("b", "Six. Seven eight nine ten."),
    Document("c", "eleven", "Twelve"),
    Document("d", "thirteen fourteen"),
    Document("e", "", "fifteen sixteen"),
    Document("f", ""),
]
QUERIES = Queries.of([Query("q1", "five"), Query("q2", "ten"), Query("q3", "three one")])
RUN = Run.from_dict(
    {
        "q1": {"a": 9, "b": 8, "c": 7, "d": 6, "e": 5, "f": 4},
        "q2": {"f": 3, "c": 2, "b": 1},
        "q3": {"d": 0.5, "a": 0.25},
    }
).with_queries(QUERIES)


@dataclass
class Words:
    """The number of words of a text, and half a point for each that the query has too."""

    scale: Scale = "regression"
    limit: int = 1000
    seen: list[Pairs] = field(default_factory=list)

    def score(self, pairs: Pairs) -> Scores:
        self.seen.append(pairs)
        values, truncated_tokens = [], []
        for query, text in pairs.index.tolist():
            words = pairs.texts[text].lower().replace(".", " ").split()
            truncated_tokens.append(max(0, len(words) - self.limit))
            kept = words[: self.limit]
            values.append(len(kept) + sum(w in pairs.queries[query].split() for w in kept) / 2)
        return Scores(np.array(values, np.float32), np.array(truncated_tokens, np.int32))


def ranked(run: Run) -> dict[str, list[tuple[str, float]]]:
    return {query: list(run[query]) for query in run}


def test_by_hand() -> None:
    run = rerank(Words(), DOCUMENTS, depth=4)(RUN)
    # a: five words, one of them the query's; the title counts; e and f lie below the depth
    assert list(run["q1"]) == [("a", 5.5), ("b", 5), ("d", 2), ("c", 2), ("e", 1), ("f", 0)]
    # f has no text and no title: it cannot be scored and goes below
    assert list(run["q2"]) == [("b", 5.5), ("c", 2), ("f", 1)]
    assert list(run["q3"]) == [("a", 6), ("d", 2)]
    assert run["q1"].extra["previous_score"].tolist() == [9, 8, 6, 7, 5, 4]
    assert run["q1"].extra["passage"].tolist() == [0, 0, 0, 0, -1, -1]
    assert run["q2"].extra["passage"].tolist() == [0, 0, -1]
    assert run.queries is RUN.queries


def test_passages_are_aggregated_and_the_winner_kept() -> None:
    run = rerank(Words(), DOCUMENTS, passages="sentences:1:1")(RUN)
    assert list(run["q1"])[:2] == [("b", 4), ("a", 3)]
    assert run["q1"].extra["passage"].tolist() == [1, 0, 0, 0, 0, -1]
    mean = rerank(Words(), DOCUMENTS, passages="sentences:1:1", aggregate="mean")(RUN)
    assert dict(mean["q1"])["a"] == (3 + 2.5) / 2
    first = rerank(Words(), DOCUMENTS, passages="sentences:1:1", aggregate="first")(RUN)
    assert dict(first["q1"])["b"] == 1


def test_further_columns_travel_along() -> None:
    run = rerank(Words(), DOCUMENTS, depth=2)(RUN.with_extra(old=np.arange(len(RUN.doc))))
    assert run["q3"].ids == ["a", "d"]
    assert run["q3"].extra["old"].tolist() == [10, 9]


def test_cuts_are_counted() -> None:
    done = rerank(Words(limit=3), DOCUMENTS, depth=2).rerank(RUN)
    assert done.run["q1"].extra["truncated_tokens"].tolist() == [2, 2, 0, 0, 0, 0]
    assert done.facts()["scored"]["truncated"] == {
        "tokens": 6,
        "passages": 3,
        "documents": 3,
    }


def test_what_changed() -> None:
    done = rerank(Words(), DOCUMENTS, depth=4).rerank(RUN)
    order = done.facts()["order"]
    assert order["queries_with_another_first_document"] == 2
    assert order["mean_previous_rank_of_first"] == round((1 + 3 + 2) / 3, 1)
    assert order["mean_new_in_top_10"] == 0
    # q1 keeps the order of five of six pairs and c and d tie now: tau-b 5 / sqrt(6 · 5); q2 and
    # q3 turn the only pair that was scored
    tau = (5 / np.sqrt(30) - 1 - 1) / 3
    assert order["kendall_tau"] == pytest.approx(tau, abs=1e-3)
    many = {f"d{n:02}": 30.0 - n for n in range(30)}
    documents = [Document(doc, "word " * (n + 1)) for n, doc in enumerate(many)]
    run = Run.from_dict({"q": many}).with_queries(Queries.of([Query("q", "x")]))
    turned = rerank(Words(), documents).rerank(run).facts()["order"]
    assert turned == {
        "queries_with_another_first_document": 1,
        "mean_previous_rank_of_first": 30,
        "mean_new_in_top_10": 10,
        "kendall_tau": -1,
    }


def test_interpolation_by_hand() -> None:
    run = rerank(Words(), DOCUMENTS, depth=3, interpolate=0.25)(RUN)
    # first 9, 8, 7 on 0..1: 1, .5, 0; new 5.5, 5, 2: 1, 3/3.5, 0
    expected = {"a": 1.0, "b": 0.75 * 0.5 + 0.25 * 3 / 3.5, "c": 0.0}
    assert [doc for doc, _ in run["q1"]] == ["a", "b", "c", "d", "e", "f"]
    assert [score for _, score in run["q1"]] == pytest.approx([*expected.values(), -1, -2, -3])
    assert rerank(Words(), DOCUMENTS, interpolate=1.0)(RUN)["q2"].ids == ["b", "c", "f"]
    with pytest.raises(InputError, match="the run has no column 'words'"):
        rerank(Words(), DOCUMENTS, interpolate=0.5, fuse_with_column="words")(RUN)
    with pytest.raises(InputError, match="fuse_with_column"):
        rerank(Words(), DOCUMENTS, fuse_with_column="words")
    only_first = rerank(Words(), DOCUMENTS, depth=3, interpolate=0.0)(RUN)
    assert only_first["q2"].ids == ["c", "b", "f"]


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 1e9, 1e37]))
@settings(max_examples=60, deadline=None)
def test_what_is_not_scored_keeps_its_order_below(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 40, 5)
    rankings = {
        f"q{n}": {f"d{d}": float(rng.integers(0, 9)) for d in range(count)}
        for n, count in enumerate(sizes.tolist())
    }
    run = Run.from_dict(rankings)
    scored = rng.random(len(run.doc)) < 0.4
    new = (rng.normal(size=len(run.doc)) * size).astype(np.float32)
    after = Run(
        run.queries,
        run.docs,
        run.offsets,
        run.doc,
        place_unscored_below(run, scored, new),
        {"new": scored},
    )
    for number in range(len(run)):
        was, now = run.ranking(number), after.ranking(number)
        flags = scored[run.offsets[number] : run.offsets[number + 1]]
        count = int(flags.sum())
        assert now.extra["new"][:count].all()
        assert now.doc[count:].tolist() == was.doc[~flags].tolist()


def test_interpolating_aligns_rows_that_change_places() -> None:
    scored = np.ones(len(RUN.doc), bool)
    new = np.arange(len(RUN.doc), dtype=np.float32)
    assert interpolate_scores(RUN.with_extra(old=RUN.score), scored, new, 0.5, "old").tolist() == (
        interpolate_scores(RUN, scored, new, 0.5).tolist()
    )
    other = RUN.with_extra(old=-RUN.score)
    assert interpolate_scores(other, scored, new, 0.0, "old")[:6].tolist() == pytest.approx(
        1 - interpolate_scores(RUN, scored, new, 0.0)[:6]
    )
    mixed = interpolate_scores(RUN, scored, new, 1.0)
    assert mixed[:6].tolist() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])
    assert interpolate_scores(RUN, scored, new, 0.0)[:6].tolist() == pytest.approx(mixed[:6][::-1])


def test_a_missing_document_is_named_or_skipped() -> None:
    some = DOCUMENTS[1:]
    with pytest.raises(InputError, match=r"document 'a' of query 'q1' .* \(nor are 1 others\)"):
        rerank(Words(), some)(RUN)
    done = rerank(Words(), some, missing="skip", depth=3).rerank(RUN)
    assert done.run["q1"].ids == ["b", "c", "a", "d", "e", "f"]
    assert done.run["q3"].ids == ["d", "a"]
    assert done.facts()["not_reranked"] == {
        "documents_without_text": 1,
        "documents_not_in_the_collection": 2,
    }
    scorer = Words()
    with pytest.raises(InputError):
        rerank(scorer, some)(RUN)
    assert not scorer.seen, "a document that lacks must be known before anything is scored"


def test_a_query_without_text_keeps_its_order_and_scores() -> None:
    queries = Queries.of([Query("q1", " \n"), Query("q2", "ten"), Query("q3", "x")])
    done = rerank(Words(), DOCUMENTS).rerank(RUN.with_queries(queries))
    assert list(done.run["q1"]) == list(RUN["q1"])
    assert done.run["q1"].extra["passage"].tolist() == [-1] * 6
    assert done.facts()["not_reranked"]["queries_without_text"] == 1
    with pytest.raises(InputError, match="have no texts"):
        rerank(Words(), DOCUMENTS)(Run.from_dict({"q": {"a": 1.0}}))


@dataclass
class Broken(Words):
    """Gives no number for a text about seven."""

    value: float = np.nan

    def score(self, pairs: Pairs) -> Scores:
        scores = super().score(pairs)
        bad = [n for n, (_, t) in enumerate(pairs.index) if "Seven" in pairs.texts[t]]
        scores.values[bad] = self.value
        return scores


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_named(value: float) -> None:
    with pytest.raises(InputError, match=r"passage 1 of document 'b' for query 'q1' is"):
        rerank(Broken(value=value), DOCUMENTS, passages="sentences:1:1")(RUN)


def test_a_score_that_is_no_number_loses_nothing_else(tmp_path: Path) -> None:
    whole = rerank(Words(), DOCUMENTS, passages="sentences:1:1")(RUN)
    settings: dict[str, Any] = {"documents": DOCUMENTS, "passages": "sentences:1:1"}
    done = rerank(Broken(), **settings, missing="skip").rerank(RUN)
    # b stands in q1 and q2; f has no text
    assert done.facts()["not_reranked"] == {
        "documents_without_text": 2,
        "documents_with_invalid_score": 2,
    }
    for query in RUN:
        kept = [pair for pair in whole[query] if pair[0] not in "bf"]
        assert list(done.run[query])[: len(kept)] == kept
    assert dict(zip(done.run["q1"].ids, done.run["q1"].extra["passage"].tolist(), strict=True)) == {
        "a": 0, "e": 0, "d": 0, "c": 0, "b": -1, "f": -1,
    }  # fmt: skip
    with ScoreCache(tmp_path / "scores", "broken") as cache:
        with pytest.raises(InputError, match="document 'b' for query 'q1'"):
            rerank(Broken(), **settings, cache=cache)(RUN)
        good = len(cache)
        assert good > 0
        again = rerank(Broken(), **settings, cache=cache, missing="skip").rerank(RUN)
        assert again.scores.computed == 2, "only what was no number is asked for again"
        assert len(cache) == good
    assert again.run == done.run


def test_odd_texts_are_scored() -> None:
    odd = {
        "long": "word " * 1_000_000,
        "emoji": "🙂 " * 20,
        "control": "a\x00b\x07c \x1b[31m",
        "half": "\ud800 lone",
        "blank": " \t\n ",
    }
    documents = [Document(name, text) for name, text in odd.items()]
    scores = {name: float(n) for n, name in enumerate(odd)}
    run = Run.from_dict({"q": scores}).with_queries(Queries.of([Query("q", "\x07 🙂 \udc00")]))
    done = rerank(Words(limit=100), documents, passages="words:150:75:30").rerank(run)
    assert len(done.run["q"]) == 5
    assert done.run["q"].ids[-1] == "blank"
    # windows of 150 words at 75: first, last and 28 between are kept; the rest is counted
    assert done.facts()["scored"]["words_in_no_passage"] > 900_000
    assert done.run["q"].extra["passage"][-1] == -1


def test_settings_are_refused_before_anything_is_scored() -> None:
    for options, said in [
        ({"aggregate": "sum"}, "sum of logits"),
        ({"depth": 0}, "cannot re-rank the first 0"),
        ({"interpolate": 1.5}, "cannot weigh 1.5"),
        ({"aggregate": "bert-3s:0:0:0", "interpolate": 0.5}, "weighs the first stage itself"),
        ({"latency": 0.0}, "latency"),
        ({"passages": "words"}, "is not a way to split"),
        ({"aggregate": "best"}, "is not an aggregation"),
    ]:
        with pytest.raises(InputError, match=said):
            rerank(Words(scale="logit"), DOCUMENTS, **options)  # type: ignore[arg-type]


def test_the_contract_of_stages_is_kept(tmp_path: Path) -> None:
    for options in ({}, {"depth": 2}, {"interpolate": 0.5}, {"aggregate": "bert-3s:0.5:1:1"}):
        stage = rerank(Words(), DOCUMENTS, **options)
        check_stage(stage, RUN)
    spec = rerank(Words(), DOCUMENTS, passages="sentences:2:1", model="my-model").spec()
    assert json.loads(json.dumps(spec)) == {
        "stage": "rerank", "version": 1, "model": "my-model", "passages": "sentences:2:1",
        "scorer": {"scorer": "python", "version": 1, "class": "Words"},
        "documents": {"documents": "python", "version": 1, "class": type(DOCUMENTS).__name__},
        "sentences": "tamis-rules 1", "aggregate": "max", "depth": 100, "missing": "raise",
        "seed": 0,
    }  # fmt: skip


def test_in_a_pipeline(tmp_path: Path) -> None:
    index = Index.build(DOCUMENTS, tmp_path / "index")
    pipeline = index.bm25() % 1000 >> tamis.rerank(Words(), index, depth=100) % 1
    assert pipeline(QUERIES)["q2"].ids == ["b"]
    assert pipeline.spec()["stage"]["first"]["stage"] == "rerank"


LIBRARIES: list[Callable[[Path], Any]] = [
    lambda folder: {document.id: document for document in DOCUMENTS},
    lambda folder: iter(DOCUMENTS),
    lambda folder: Streamed(lambda: iter(DOCUMENTS)),
    lambda folder: Collection("c", "none", Streamed(lambda: iter(DOCUMENTS))),
    lambda folder: _store(folder),
    lambda folder: _grown_index(folder),
]


def _store(folder: Path) -> Any:
    write_store(Collection("c", "none", DOCUMENTS), folder / "store")
    return open_store(folder / "store").documents


def _grown_index(folder: Path) -> Any:
    """An index of several segments in which documents were replaced and deleted."""
    index = Index.build([Document("a", "old"), Document("z", "old")], folder / "index")
    index.add(DOCUMENTS)
    index.delete(["z"])
    return index


@pytest.mark.parametrize("make", LIBRARIES)
def test_documents_come_from_anywhere(make: Callable[[Path], Any], tmp_path: Path) -> None:
    expected = rerank(Words(), DOCUMENTS, depth=4)(RUN)
    assert rerank(Words(), make(tmp_path), depth=4)(RUN) == expected
    gone = Run.from_dict({"q1": {"a": 2.0, "z": 1.0}}).with_queries(QUERIES)
    with pytest.raises(InputError, match="document 'z' of query 'q1' is not in the collection"):
        rerank(Words(), make(tmp_path / "again"))(gone)


def test_of_a_stream_only_what_is_wanted_is_kept() -> None:
    with open_lookup(iter(DOCUMENTS), Ids.of(["a", "z"])) as opened:
        assert opened.has(Ids.of(["a", "b", "z"])).tolist() == [True, False, False]
        assert opened.fetch(["a"]) == DOCUMENTS[:1]


@pytest.mark.parametrize(("pairs", "fetched"), [(1, 1), (2, 3), (5, 2)])
def test_chunks_change_nothing(pairs: int, fetched: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rerank(Words(), DOCUMENTS, passages="sentences:1:1")(RUN)
    monkeypatch.setattr(passage_scores, "FULL_CHUNK_PAIRS", pairs)
    monkeypatch.setattr(passage_scores, "DOCUMENTS_PER_FETCH", fetched)
    scorer = Words()
    assert rerank(scorer, DOCUMENTS, passages="sentences:1:1")(RUN) == expected
    assert max(len(seen) for seen in scorer.seen) <= pairs + 1
    assert all(len(set(seen.texts)) == len(seen.texts) for seen in scorer.seen)


def test_a_pair_is_scored_once_in_a_chunk() -> None:
    same = [Document("a", "One. One. Two."), Document("b", "Two."), Document("c", "One.")]
    rankings = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"c": 1.0}}
    run = Run.from_dict(rankings).with_queries(QUERIES)
    scorer = Words()
    done = rerank(scorer, same, passages="sentences:1:1", aggregate="sum").rerank(run)
    assert [len(seen) for seen in scorer.seen] == [3]
    assert dict(done.run["q1"]) == {"a": 3, "b": 1, "c": 1}
    assert done.facts()["scored"]["pairs"] == {"scored": 3, "from_cache": 3}


def test_a_chunk_holds_only_so_much_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_scores, "FULL_CHUNK_CHARACTERS", 40)
    scorer = Words()
    rerank(scorer, DOCUMENTS)(RUN)
    assert len(scorer.seen) > 3


@dataclass
class Slow(Words):
    """Takes some time for each text."""

    pause: float = 0.01

    def score(self, pairs: Pairs) -> Scores:
        time.sleep(self.pause * len(pairs))
        return super().score(pairs)


def test_a_latency_bounds_the_depth() -> None:
    documents = [Document(f"d{n:03}", "word " * (n + 1)) for n in range(100)]
    rankings = {q: {f"d{n:03}": 100.0 - n for n in range(100)} for q in ("q1", "q2", "q3")}
    run = Run.from_dict(rankings).with_queries(QUERIES)
    done = rerank(Slow(), documents, latency=0.2).rerank(run)
    depths = done.depths()
    assert (depths >= 1).all()
    assert depths.max() <= 20
    reached = int(depths[2])
    # the reached ones are turned round, the rest keep their order below
    expected = [*reversed(range(reached)), *range(reached, 100)]
    assert done.run["q3"].ids == [f"d{n:03}" for n in expected]
    facts = done.facts()["scored"]
    assert facts["documents_per_query"]["max"] == depths.max()
    assert facts["milliseconds_per_query"]["max"] < 1000
    assert rerank(Slow(pause=0), documents, latency=5.0).rerank(run).depths().tolist() == [100] * 3


def test_a_latency_that_suffices_for_nothing_still_scores_one() -> None:
    done = rerank(Slow(pause=0.02), DOCUMENTS, latency=0.001).rerank(
        RUN.select(Ids.of(["q1", "q3"]))
    )
    assert done.facts()["scored"]["documents_per_query"]["max"] == 1
    assert done.facts()["scored"]["queries_over_time_limit"] == 2


def test_tokens_are_the_scorers_own() -> None:
    class Letters:
        """Every letter is a token; each is as long as its place."""

        def encode(self, text: str, add_special_tokens: bool) -> Any:
            assert not add_special_tokens
            offsets = [(n, n + 1) for n, c in enumerate(text) if c.isalpha()]
            return type("Encoding", (), {"offsets": offsets})

    class Lettered(Words):
        tokens = type("Tokens", (), {"backend": Letters()})

    scorer = Lettered()
    rerank(scorer, DOCUMENTS, passages="tokens:4:2")(RUN.top(1))
    assert list(scorer.seen[0].texts)[:3] == ["One t", "e two", "wo th"]
    with pytest.raises(InputError, match="needs a tokenizer"):
        rerank(Words(), DOCUMENTS, passages="tokens:4:2")(RUN)


def test_the_stage_is_made_lazily_available() -> None:
    assert tamis.rerank is rerank
    assert isinstance(rerank(Words(), DOCUMENTS), Rerank)
