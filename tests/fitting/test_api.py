"""`tamis.fit` and a sieve from Python: whatever people hand in, and their natural mistakes."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.errors import DamagedError, InputError, TamisError
from tamis.fitting.systems import KINDS
from tamis.types import Query, Run

WORDS = "sieve drum net grain flour fish sort".split()
PAIRS = [f"{one} {other}" for one in WORDS for other in WORDS if one != other]
QUERIES = {f"q{n:02}": f"{text} x{n} y{n}" for n, text in enumerate(PAIRS)}
QRELS = {f"q{n:02}": {str(n): 1} for n in range(len(PAIRS))}


def fit(out: Path, documents: Any = None, **options: Any) -> tamis.Sieve:
    given = {"base": None, "threads": 1, "out": out, **options}
    return tamis.fit(PAIRS if documents is None else documents, **given)


@pytest.mark.parametrize("form", ["strings", "pairs", "dictionaries", "records", "frame"])
def test_documents_of_any_form(form: str, tmp_path: Path) -> None:
    rows = [{"id": str(n), "text": text} for n, text in enumerate(PAIRS)]
    documents: Any = {
        "strings": PAIRS,
        "pairs": [(row["id"], row["text"]) for row in rows],
        "dictionaries": rows,
        "records": [tamis.Document(row["id"], row["text"]) for row in rows],
    }.get(form)
    if form == "frame":
        documents = pytest.importorskip("pandas").DataFrame(rows)
    sieve = fit(tmp_path / "s", documents, queries=QUERIES, qrels=QRELS)
    assert sieve.verified and sieve.result.queries.test == 17
    assert sieve.search("drum net", 1)[0].text in ("drum net", "net drum")


def test_judgements_by_split_and_a_run_of_ones_own(tmp_path: Path) -> None:
    names = list(QRELS)
    splits = {"train": {name: QRELS[name] for name in names[:20]},
              "test": {name: QRELS[name] for name in names[20:]}}  # fmt: skip
    own = {name: {str((n + k) % 42): 9.0 - k for k in range(5)} for n, name in enumerate(names)}
    heard: list[str] = []
    sieve = fit(tmp_path / "s", queries=QUERIES, qrels=splits, user_run=own, log=heard.append)
    result = sieve.result
    assert (result.queries.train, result.queries.test) == (20, 22)
    assert {"BM25", "your run"} <= {system.name for system in result.systems}
    assert result.selection is not None and result.user_run == "a run handed in from Python"
    assert result.selected == "your run" and result.test_means["your run"]["RR@10"] == 1
    frame = tamis.fit(sieve.index, out=tmp_path / "t", base=None, queries=QUERIES,
                      qrels={"test": splits["test"]}).result  # fmt: skip
    assert frame.queries.test == 22


def test_a_sieve_over_a_run_of_ones_own_says_what_it_retrieves_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = {name: {str(n): 1.0} for n, name in enumerate(QUERIES)}
    sieve = fit(tmp_path / "s", queries=QUERIES, qrels=QRELS, user_run=own)
    assert sieve.result.selected == "your run"
    with caplog.at_level("INFO", "tamis"):
        sieve.search("drum net")
    assert "by BM25 in place of your own retriever" in caplog.text


def test_queries_and_texts_of_any_form(tmp_path: Path) -> None:
    sieve = fit(tmp_path / "s")
    first = sieve.search("drum net", 2)
    assert sieve.search(Query("q", "drum net"), 2) == first  # type: ignore[arg-type]
    assert sieve.search({"id": "q", "text": "drum net"}, 2) == first  # type: ignore[arg-type]
    many = sieve.search_many(["sort fish", "drum net", "drum net"], 2)
    assert list(many) == ["sort fish", "drum net"] and many["drum net"] == first
    assert [one.index for one in sieve.rerank("drum", (text for text in ("net", "drum")))] == [1, 0]
    assert [one.index for one in sieve.rerank("", ["a", "b", "c"])] == [0, 1, 2], "ties"
    assert len(sieve.rerank("drum", ["net", "drum"], top=1)) == 1
    assert sieve.rerank("drum", []) == []
    sieve.warm_up()


WRONG: list[dict[str, Any]] = [
    {"max_time": None}, {"max_time": [1]}, {"max_time": timedelta(1)}, {"max_time": float("inf")},
    {"max_time": 0}, {"max_time": "soon"}, {"depth": "a"}, {"depth": 1.5}, {"depth": 0},
    {"seed": -1}, {"seed": "x"}, {"threads": "2"}, {"threads": 0}, {"out": None}, {"out": 3},
    {"kinds": ()}, {"kinds": [3]}, {"kinds": [type(KINDS[0])]}, {"kinds": [KINDS[0], KINDS[0]]},
    {"on_error": "ignore"}, {"base": 3}, {"base": "none"}, {"measure": "nonsense"},
    {"qrels": {"train": {}, "test": {}}}, {"qrels": {"q0": None}}, {"qrels": Run.from_dict({})},
    {"qrels": QRELS}, {"queries": 3}, {"documents": None}, {"documents": []}, {"documents": 3},
    {"documents": Run.from_dict({"q": {"d": 1.0}})}, {"documents": [None]},
    {"documents": [("a", "x"), ("a", "y")]},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: next(iter(wrong)))
def test_natural_mistakes_are_our_errors_with_a_hint(wrong: dict[str, Any], tmp_path: Path) -> None:
    given = {"documents": PAIRS, "out": tmp_path / "s", "base": None, **wrong}
    with pytest.raises(TamisError) as raised:
        tamis.fit(given.pop("documents"), **given)
    assert raised.value.hint
    assert not (tmp_path / "s").exists()


def test_natural_mistakes_with_a_sieve(tmp_path: Path) -> None:
    sieve: Any = fit(tmp_path / "s")
    for call in (
        lambda: sieve.search("a", top="3"), lambda: sieve.search("a", top=0),
        lambda: sieve.search(["a"]), lambda: sieve.search(None),
        lambda: sieve.rerank("a", "text"), lambda: sieve.rerank("a", None),
        lambda: sieve.rerank(None, ["a"]), lambda: sieve.rerank("a", [1]),
        lambda: tamis.load_sieve(None), lambda: tamis.load_sieve(sieve),  # type: ignore[arg-type]
        lambda: tamis.load_sieve(tmp_path / "nothing"),
    ):  # fmt: skip
        with pytest.raises(InputError) as raised:
            call()
        assert raised.value.hint


def test_a_sieve_that_lacks_something_is_damaged(tmp_path: Path) -> None:
    fit(tmp_path / "s", queries=QUERIES, qrels=QRELS)
    path = tmp_path / "s" / "tamis.json"
    whole = json.loads(path.read_text())
    optional = {"kind", "layout", "tamis", "test", "request", "calibration", "provisional"}
    for key in set(whole) - optional - {"more_judged_queries_needed", "cost"}:
        path.write_text(json.dumps({name: whole[name] for name in whole if name != key}))
        with pytest.raises(DamagedError, match="damaged") as raised:
            sieve = tamis.load_sieve(tmp_path / "s")
            sieve.search("drum")
            assert sieve.result
        assert raised.value.hint
    path.write_text(json.dumps(whole))
    (tmp_path / "s" / "evaluation.json").write_text("{")
    with pytest.raises(DamagedError):
        assert tamis.load_sieve(tmp_path / "s").result
