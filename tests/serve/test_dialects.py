"""The shapes of others, without a server: bodies to requests, answers to bodies."""

from __future__ import annotations

from typing import Any

import pytest

from tamis.serve.dialects.base import Parsed
from tamis.serve.dialects.cohere import Cohere
from tamis.serve.dialects.superset import Score, Superset
from tamis.serve.dialects.tamis import Tamis, parse_search
from tamis.serve.dialects.tei import Tei
from tamis.serve.errors import (
    EmptyError,
    InferenceError,
    InvalidError,
    OverloadedError,
    ServiceError,
    TruncationError,
    UnauthorizedError,
    UnhealthyError,
)
from tamis.serve.requests import RankAnswer, RankedItem, Times


def answer_to(parsed: Parsed) -> RankAnswer:
    """The last document best, the first not scored in time."""
    last = len(parsed.request.documents) - 1
    items = [
        RankedItem(number, parsed.request.documents[number].id, last - number + 1, number / 10,
                   False, number - 0.5, 0)
        for number in range(last, 0, -1)
    ]  # fmt: skip
    items.append(RankedItem(0, parsed.request.documents[0].id, last + 1, None, False, None, 0))
    return RankAnswer(
        "m", tuple(items[: parsed.request.top]), last, last + 1, 42, 0, Times(), out_of_time=True
    )


def ask(dialect: Any, body: dict[str, Any]) -> Any:
    parsed = dialect.parse(body)
    return dialect.answer(answer_to(parsed), parsed, "id-1")


def test_tei_gives_a_bare_array() -> None:
    body = {"query": "q", "texts": ["a", "b", "c"], "truncate": None}
    assert ask(Tei(), body) == [
        {"index": 2, "score": 0.2},
        {"index": 1, "score": 0.1},
        {"index": 0, "score": 0.0},
    ]
    assert ask(Tei(), {**body, "raw_scores": True, "return_text": True})[:1] == [
        {"index": 2, "score": 1.5, "text": "c"}
    ]
    assert Tei().parse(body).request.truncate
    assert not Tei().parse({**body, "truncate": False}).request.truncate
    nulls = {"return_text": None, "raw_scores": None}
    assert ask(Tei(), {**body, **nulls}) == ask(Tei(), body)


def ranked(parsed: Parsed) -> RankAnswer:
    """As of a fused sieve with too little time: ranks that are not by score, and two without."""
    scores = {3: (0.4, -2.0), 1: (0.5, -1.0), 4: (0.4, -3.0), 0: (None, 7.5), 2: (None, None)}
    items = [
        RankedItem(number, str(number), rank, score, False, raw, 0)
        for rank, (number, (score, raw)) in enumerate(scores.items(), 1)
    ]
    return RankAnswer("m", tuple(items), 3, 5, 42, 0, Times(), out_of_time=True)


@pytest.mark.parametrize(
    ("dialect", "documents", "score"),
    [
        (Tei(), "texts", "score"),
        (Cohere(), "documents", "relevance_score"),
        (Superset(), "documents", "relevance_score"),
        (Superset(), "documents", "score"),
        (Score(), "documents", "relevance_score"),
    ],
)
def test_results_are_in_the_order_of_their_scores(dialect: Any, documents: str, score: str) -> None:
    parsed = dialect.parse({"query": "q", documents: [*"abcde"]})
    answer = dialect.answer(ranked(parsed), parsed, "id-1")
    results = answer if isinstance(answer, list) else answer["results"]
    # of equal ones the better rank first, and what was not scored last
    assert [result["index"] for result in results] == [1, 3, 4, 0, 2]
    assert [result[score] for result in results] == [0.5, 0.4, 0.4, 0.0, 0.0]


@pytest.mark.parametrize("wish", [{"raw_scores": True}, {"use_activation": False}])
@pytest.mark.parametrize(("dialect", "documents"), [(Tei(), "texts"), (Superset(), "documents")])
def test_raw_scores_keep_what_was_not_scored_last(
    dialect: Any, documents: str, wish: dict[str, bool]
) -> None:
    if isinstance(dialect, Tei):
        wish = {"raw_scores": True}
    parsed = dialect.parse({"query": "q", documents: [*"abcde"], **wish})
    answer = dialect.answer(ranked(parsed), parsed, "id-1")
    results = answer if isinstance(answer, list) else answer["results"]
    assert [result["index"] for result in results] == [1, 3, 4, 0, 2]
    assert [result["score"] for result in results] == [-1.0, -2.0, -3.0, -3.0, -3.0]


def test_score_gives_raw_scores_in_the_order_of_the_request() -> None:
    parsed = Score().parse({"query": "q", "documents": [*"abcde"], "use_activation": False})
    data = Score().answer(ranked(parsed), parsed, "id-1")["data"]
    assert [datum["index"] for datum in data] == [0, 1, 2, 3, 4]
    assert [datum["score"] for datum in data] == [-3.0, -1.0, -3.0, -2.0, -3.0]


@pytest.mark.parametrize("dialect", [Superset(), Cohere(), Score()])
def test_a_wish_that_is_not_done_is_warned_of(dialect: Any) -> None:
    body = {"query": "q", "documents": ["a", "b"]}
    warnings = ask(dialect, {**body, "truncate_prompt_tokens": 9})["meta"]["warnings"]
    assert warnings[0] == "truncate_prompt_tokens is not used"
    assert "truncate_prompt_tokens" not in str(ask(dialect, body))


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (UnhealthyError("x"), 503, "Unhealthy"),
        (InferenceError("x"), 424, "Backend"),
        (OverloadedError("x", retry_after=1), 429, "Overloaded"),
        (InvalidError("x"), 422, "Validation"),
        (TruncationError("x"), 422, "Tokenizer"),
        (EmptyError("x"), 400, "Empty"),
    ],
)
def test_the_errors_of_tei(error: ServiceError, status: int, kind: str) -> None:
    code, body = Tei().error(error, "id-1")
    assert (code, body["error_type"]) == (status, kind)
    assert {*body} == {"error", "error_type"} and isinstance(body["error"], str)


def test_tei_does_not_truncate_from_the_left() -> None:
    with pytest.raises(InvalidError, match="left"):
        Tei().parse({"query": "q", "texts": ["a"], "truncation_direction": "left"})


def test_cohere_v2_has_no_document_unless_it_is_asked_for() -> None:
    body = {"model": "m", "query": "q", "documents": ["a", {"text": "b", "k": 1}], "top_n": 1}
    answer = ask(Cohere(), body)
    assert answer["results"] == [{"index": 1, "relevance_score": 0.1}] and answer["id"] == "id-1"
    assert answer["meta"]["api_version"] == {"version": "2"}
    assert answer["meta"]["tokens"] == {"input_tokens": 42}
    assert answer["meta"]["warnings"] == ["1 of 2 documents were re-ranked in time"]
    wished = ask(Cohere(), {**body, "return_documents": True})
    assert wished["results"][0]["document"] == {"text": "b", "k": 1}
    parsed = Cohere().parse({**body, "max_tokens_per_doc": 7, "priority": 3})
    assert parsed.request.document_tokens == 7 and parsed.request.model == "m"
    assert Cohere().parse({**body, "top_n": 0}).request.top is None
    assert Cohere().error(UnauthorizedError("no", hint="h"), "i") == (
        401, {"id": "i", "message": "no; h"},
    )  # fmt: skip


@pytest.mark.parametrize("documents", ["documents", "texts", "input", "passages", "items"])
@pytest.mark.parametrize("count", ["top_n", "top_k"])
@pytest.mark.parametrize("wish", ["return_documents", "return_text", "return_input"])
def test_the_superset_takes_every_spelling(documents: str, count: str, wish: str) -> None:
    answer = ask(Superset(), {"query": "q", documents: ["a", "b", "c"], count: 2, wish: True})
    assert [result["document"] for result in answer["results"]] == [{"text": "c"}, {"text": "b"}]
    assert {*answer} >= {"id", "model", "results", "meta", "usage"}
    assert answer["usage"] == {"prompt_tokens": 42, "total_tokens": 42}


def test_the_superset_returns_ids_and_never_null() -> None:
    documents = ["a", {"id": 7, "text": "b"}, {"id": "x", "text": "c", "title": "T", "n": [1]}]
    answer = ask(Superset(), {"query": "q", "documents": documents, "return_documents": None})
    assert [result.get("id") for result in answer["results"]] == ["x", 7, None]
    assert all("document" not in result for result in answer["results"])
    assert answer["results"][0]["score"] == answer["results"][0]["relevance_score"] == 0.2
    parsed = Superset().parse({"query": "q", "documents": documents})
    assert parsed.request.documents[2].title == "T"


def test_fields_to_rank_by() -> None:
    documents = [{"text": "t", "title": "head", "body": "b"}, {"body": "only"}]
    body = {"query": "q", "documents": documents, "rank_fields": ["title", "body"]}
    parsed = Superset().parse(body)
    assert [document.text for document in parsed.request.documents] == ["head\nb", "only"]
    with pytest.raises(InvalidError, match=r"documents\.1 has none of the rank_fields"):
        Superset().parse({**body, "rank_fields": ["title", "text"]})
    with pytest.raises(InvalidError, match=r"documents\.1 has no text"):
        Superset().parse({"query": "q", "documents": documents})


def test_the_error_of_the_superset_serves_all_clients() -> None:
    status, body = Superset().error(InvalidError("bad", hint="do", param="top_n"), "id-1")
    assert status == 422 and {*body} == {"id", "message", "detail", "hint", "error"}
    assert body["detail"] == body["message"] == "bad; do"
    assert body["error"] == {
        "message": "bad; do", "type": "invalid_request_error", "param": "top_n",
        "code": "invalid_request",
    }  # fmt: skip


@pytest.mark.parametrize("query", ["queries", "query", "text_1", "data_1"])
@pytest.mark.parametrize("documents", ["documents", "items", "text_2", "data_2"])
def test_score_takes_every_spelling_and_keeps_the_order(query: str, documents: str) -> None:
    answer = ask(Score(), {query: "q", documents: ["a", "b", "c"]})
    assert answer["data"] == [
        {"index": number, "object": "score", "score": number / 10} for number in range(3)
    ]
    assert [result["index"] for result in answer["results"]] == [2, 1, 0]
    raw = ask(Score(), {query: "q", documents: ["a", "b"], "use_activation": False})
    assert [datum["score"] for datum in raw["data"]] == [0.0, 0.5]  # the first: not in time


def test_score_pairs_queries_with_documents() -> None:
    answer = ask(Score(), {"queries": ["p", "q"], "documents": ["a", "b"]})
    assert "results" not in answer and len(answer["data"]) == 2
    assert len(ask(Score(), {"text_1": "p", "text_2": "a"})["data"]) == 1
    with pytest.raises(InvalidError, match="2 queries for 3 documents"):
        Score().parse({"queries": ["p", "q"], "documents": ["a", "b", "c"]})


def test_our_own_shape() -> None:
    answer = ask(Tamis(), {"query": "q", "documents": [{"id": "x", "text": "a"}, "bc"]})
    assert answer["hits"][0] == {
        "index": 1, "id": "1", "rank": 1, "title": "", "passage": "bc", "start": 0, "end": 2,
        "fields": {}, "score": 0.1, "probability": None, "calibrated": False, "raw_score": 0.5,
        "scored": True, "stages": [], "truncated_tokens": 0, "explanation": None,
    }  # fmt: skip
    assert answer["hits"][1]["score"] is None and not answer["hits"][1]["scored"]
    assert answer["reranked"] and answer["depth"] == 1 and answer["candidates"] == 2
    request = parse_search({"query": "q", "top": 3, "filters": "a=b", "latency_ms": 200})
    assert (request.top, request.where, request.latency) == (3, ("a=b",), 0.2)
    assert parse_search({"query": "q", "where": ["a=b", "c>1"]}).where == ("a=b", "c>1")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"query": "q"},
        {"query": 3, "documents": ["a"]},
        {"query": None, "documents": ["a"]},
        {"query": "q", "documents": "a"},
        {"query": "q", "documents": [3]},
        {"query": "q", "documents": [None]},
        {"query": "q", "documents": [{"text": 3}]},
        {"query": "q", "documents": [["a"]]},
        {"query": "q", "documents": {"a": 1}},
        {"query": "q", "documents": ["a"], "top_n": -1},
        {"query": "q", "documents": ["a"], "top_n": "2"},
        {"query": "q", "documents": ["a"], "top_n": 1.5},
        {"query": "q", "documents": ["a"], "top_n": True},
        {"query": "q", "documents": ["a"], "latency_ms": -1},
        {"query": "q", "documents": ["a"], "latency_ms": 1e300},
        {"query": "q", "documents": ["a"], "return_documents": "yes"},
    ],
)
def test_wrong_types_are_refused_by_name(body: dict[str, Any]) -> None:
    for dialect in (Superset(), Cohere()):
        with pytest.raises(InvalidError) as refused:
            dialect.parse(body)
        assert refused.value.hint


def test_an_error_does_not_repeat_the_text() -> None:
    with pytest.raises(InvalidError) as refused:
        Superset().parse({"query": "q", "documents": [["secret"]], "top_n": "secret"})
    assert "secret" not in refused.value.in_full
