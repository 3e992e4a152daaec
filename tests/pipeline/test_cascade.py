"""The cascade's arithmetic by hand, that it skips only what cannot matter, and that it says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.evaluation import agree
from tamis.pipeline import cascade as module
from tamis.pipeline.cascade import (
    Cascade,
    calibrate,
    calibrate_with,
    cascade,
    cascade_and_calibrate,
)
from tamis.pipeline.cascade_model import TRUST, Calibration, Candidates, chances, fit
from tamis.pipeline.cascade_vectors import StoredVectors
from tamis.pipeline.rerank import Rerank, rerank
from tamis.search import Index
from tamis.testing import check_stage
from tamis.types import Document, Pairs, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale

DRAW = np.random.default_rng(7)
COUNT, DEPTH, SIZE = 120, 60, 8
ROWS = DRAW.standard_normal((COUNT, SIZE)).astype(np.float32)
ASKED = DRAW.standard_normal((30, SIZE)).astype(np.float32)
DOCUMENTS = [Document(f"d{n:03}", f"text {n}") for n in range(COUNT)]
QUERIES = Queries.of([Query(f"q{n:02}", f"ask {n}") for n in range(len(ASKED))])
TASTE = DRAW.standard_normal((len(ASKED), SIZE))
"""What the full scorer wants beside what the vectors of queries say."""


def number(text: str) -> int:
    return int(text.split()[-1])


@dataclass
class Full:
    """A score made of the cosine, a taste of the query's own for some directions, and noise."""

    scale: Scale = "regression"
    scored: list[tuple[str, str]] = field(default_factory=list)

    def score(self, pairs: Pairs) -> Scores:
        values = []
        for q, t in pairs.index.tolist():
            self.scored.append((pairs.queries[q], pairs.texts[t]))
            query, text = number(pairs.queries[q]), number(pairs.texts[t])
            row = ROWS[text] / np.linalg.norm(ROWS[text])
            odd = np.sin(12.9898 * query + 78.233 * text) / 5
            values.append(3 * row @ unit(ASKED[query]) + row @ TASTE[query] + odd + query / 10)
        return Scores(np.array(values, np.float32), np.zeros(len(values), np.int32))


@dataclass(frozen=True)
class Known:
    """The vectors of the texts above, as a source and as an encoder."""

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return ASKED[[number(text) for text in texts]]

    def documents(self, query: NDArray[Any], ids: list[str]) -> NDArray[np.float32]:
        return ROWS[[int(name[1:]) for name in ids]]

    def has(self, ids: list[str]) -> NDArray[np.bool_]:
        return np.array([int(name[1:]) < COUNT for name in ids], bool)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        kinds = {"ask": ASKED, "text": ROWS}
        known = [text.split()[0] in kinds and text.split()[-1].isdigit() for text in texts]
        return np.array(
            [
                kinds[text.split()[0]][number(text)] if there else np.full(SIZE, len(text))
                for text, there in zip(texts, known, strict=True)
            ],
            np.float32,
        )

    def spec(self) -> dict[str, Any]:
        return {"vectors": "known"}


def unit(row: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(row / np.linalg.norm(row))


def candidates(seed: int = 1) -> Run:
    draw = np.random.default_rng(seed)
    found = {
        f"q{n:02}": {
            f"d{d:03}": float(ROWS[d] @ ASKED[n] + 2 * draw.standard_normal())
            for d in draw.choice(COUNT, DEPTH + 5, replace=False).tolist()
        }
        for n in range(len(ASKED))
    }
    return Run.from_dict(found).with_queries(QUERIES)


RUN = candidates()
CALIBRATION = calibrate_with(rerank(Full(), DOCUMENTS, depth=DEPTH), Known(), candidates(seed=2))


def stage(agreement: float = 0.9, k: int = 10, **changes: Any) -> Cascade:
    full = rerank(Full(), DOCUMENTS, depth=DEPTH, **changes)
    return Cascade(full, Known(), CALIBRATION, agreement, k)


def test_a_guess_by_hand() -> None:
    # two documents: the first is known to score 3, its mean is 1; likeness .5, reach 1
    model = Calibration(1.0, 0.0, 0.0, 0.5, 2.0, 1.0, 1.0, 9)
    pair = Candidates(np.zeros((2, 2)), np.array([[1, 0.5], [0.5, 1]]))
    guessed, deviation = model.guess(pair, np.array([0]), np.array([3.0]), np.array([1]))
    own, across, inner = 0.25 + 4, 0.25 + 4 * np.exp(-0.5), 0.25 + 4 + 1
    assert guessed == pytest.approx([1 + across / inner * 2])
    widened = (TRUST + 2 * 2 / inner) / (TRUST + 1)
    assert deviation**2 == pytest.approx([(own + 1 - across**2 / inner) * widened])


def test_without_known_scores_the_guess_is_the_mean() -> None:
    model = Calibration(1.0, 2.0, 3.0, 0.5, 2.0, 1.0, 1.0, 9)
    two = Candidates(np.array([[1.0, 0.0], [0.0, 0.5]]), np.eye(2))
    guessed, deviation = model.guess(two, np.array([], int), np.array([]), np.array([0, 1]))
    assert guessed.tolist() == [3.0, 2.5]
    assert deviation**2 == pytest.approx([0.25 + 4 + 1] * 2)


def test_candidates_whose_first_scores_are_equal_or_whose_vector_is_zero() -> None:
    found = Candidates.of(np.array([2.0, 2.0]), np.array([1.0, 0]), np.array([[0, 0], [3.0, 4]]))
    assert found.facts.tolist() == [[0, 0], [0, 0.6]]
    assert found.likeness.tolist() == [[0, 0], [0, 1]]


def test_fit_finds_what_scores_were_drawn_with() -> None:
    draw = np.random.default_rng(3)
    truth = Calibration(2.0, 0.5, 4.0, 1.0, 1.5, 0.6, 0.4, 60)
    queries = []
    for _ in range(truth.queries):
        some = Candidates.of(
            draw.standard_normal(40), draw.standard_normal(4), draw.standard_normal((40, 4))
        )
        together = truth.covariance(some) + truth.noise**2 * np.eye(40)
        queries.append((some, draw.multivariate_normal(truth.mean(some), together)))
    found = fit(queries)
    assert found.noise == pytest.approx(truth.noise, rel=0.1)
    assert found.level == pytest.approx(truth.level, abs=0.5)
    assert found.first == pytest.approx(truth.first, abs=0.1)
    assert found.cosine == pytest.approx(truth.cosine, abs=1)
    assert found.spread == pytest.approx(truth.spread, rel=0.5)
    assert Calibration(**json.loads(json.dumps(found.record()))) == found


def test_the_stage_keeps_the_contract() -> None:
    check_stage(stage(), RUN)


def test_what_is_scored_is_scored_as_in_full_and_stands_first() -> None:
    full = rerank(Full(), DOCUMENTS, depth=DEPTH)(RUN)
    found = stage().cascade(RUN).run
    for query in RUN:
        mine, whole = found[query], dict(full[query])
        scored = mine.extra["passage"] >= 0
        assert scored.tolist() == sorted(scored.tolist(), reverse=True)
        assert all(whole[d] == s for (d, s), yes in zip(mine, scored, strict=True) if yes)
        skipped = mine.extra["skipped"]
        deep = {*RUN[query].ids[DEPTH:]}
        assert {d for d, s, k in zip(mine.ids, scored, skipped, strict=True) if not s | k} == deep
        assert mine.ids[DEPTH:] == RUN[query].ids[DEPTH:]
        assert dict(zip(mine.ids, mine.extra["first"].tolist(), strict=True)) == dict(RUN[query])


def test_nothing_is_scored_that_is_skipped_and_nothing_twice() -> None:
    scorer = Full()
    found = Cascade(rerank(scorer, DOCUMENTS, depth=DEPTH), Known(), CALIBRATION).cascade(RUN)
    asked = {(f"q{number(q):02}", f"d{number(t):03}") for q, t in scorer.scored}
    assert len(asked) == len(scorer.scored)
    rows = [
        (query, doc)
        for query in found.run
        for doc, skipped in zip(
            found.run[query].ids, found.run[query].extra["skipped"], strict=True
        )
        if skipped
    ]
    assert rows and not asked & set(rows)


@pytest.mark.parametrize("agreement", [0.7, 0.9, 0.97])
def test_the_agreement_is_kept_on_other_candidates(agreement: float) -> None:
    full = rerank(Full(), DOCUMENTS, depth=DEPTH)(RUN)
    found = stage(agreement).cascade(RUN)
    overlap = agree(full, found.run, 10).means()["overlap"]
    assert overlap >= agreement - 0.03
    assert (found.missed <= 10 * (1 - agreement) + 1e-9).all()
    assert overlap == pytest.approx(1 - found.missed.mean() / 10, abs=0.08)


def test_more_agreement_costs_more_and_all_of_it_costs_everything() -> None:
    skipped = [int(stage(a)(RUN).extra["skipped"].sum()) for a in (0.5, 0.9, 0.98, 1.0)]
    assert skipped == sorted(skipped, reverse=True)
    assert skipped[0] > skipped[1] > 0
    everything = stage(1.0)(RUN)
    assert skipped[-1] < 0.02 * len(everything.doc)


def test_the_scores_so_far_are_learned_from() -> None:
    # without the likeness of documents the taste of a query cannot be guessed: more is scored
    blind = replace(stage(), calibration=replace(CALIBRATION, spread=1e-6, noise=1.0))
    assert stage()(RUN).extra["skipped"].sum() > 1.1 * blind(RUN).extra["skipped"].sum()


def test_blocks_of_queries_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = stage()(RUN)
    monkeypatch.setattr(module, "BLOCK", 4)
    assert stage()(RUN) == whole


def test_facts_count_what_was_skipped() -> None:
    found = stage().cascade(RUN)
    facts = found.facts()
    assert facts["documents skipped"] + facts["documents scored"] == len(RUN) * DEPTH
    assert facts["documents skipped"] == int(found.run.extra["skipped"].sum())
    assert facts["queries of which some were skipped"] <= len(RUN)
    assert 0.9 <= facts["expected agreement of the top 10"] <= 1
    json.dumps(facts)


def test_documents_and_queries_without_text_go_below() -> None:
    documents = [replace(d, text="") if d.id < "d040" else d for d in DOCUMENTS]
    queries = Queries.of([Query(q.id, "" if q.id == "q03" else q.text) for q in QUERIES])
    run = RUN.with_queries(queries)
    done = Cascade(rerank(Full(), documents, depth=DEPTH), Known(), CALIBRATION).cascade(run)
    found = done.run
    assert done.facts()["not re-ranked"]["queries without text"] == 1
    assert done.facts()["not re-ranked"]["documents without text"] > 0
    assert list(found["q03"]) == list(RUN["q03"])
    assert not found["q03"].extra["skipped"].any()
    for query in found:
        scored = found[query].extra["passage"] >= 0
        assert not any(d < "d040" for d, yes in zip(found[query].ids, scored, strict=True) if yes)


def test_fewer_documents_than_k_are_all_scored() -> None:
    found = stage(k=50).cascade(RUN.top(45)).run
    assert not found.extra["skipped"].any()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"agreement": 0.0}, "cannot be 0"),
        ({"agreement": 1.1}, "cannot be 1.1"),
        ({"k": 0}, "no top 0"),
        ({"interpolate": 0.5}, "do not depend"),
        ({"latency": 0.5}, "do not depend"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        stage(**changes)


def test_too_few_queries_to_calibrate_on_and_queries_without_texts() -> None:
    full = rerank(Full(), DOCUMENTS)
    few = RUN.select(QUERIES.ids.select(np.arange(3)))
    with pytest.raises(InputError, match="3 queries"):
        calibrate_with(full, Known(), few)
    with pytest.raises(InputError, match="no texts"):
        stage()(Run.from_dict({"q": {"d001": 1.0}}))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    path = tmp_path_factory.mktemp("cascade") / "index"
    index = Index.build(DOCUMENTS, path)
    index.encode(Known())
    return index


def test_an_index_gives_the_same_as_its_vectors(index: Index) -> None:
    full: Rerank = rerank(Full(), index, depth=DEPTH)
    calibration = calibrate(full, index, Known(), candidates(seed=2))
    assert calibration == CALIBRATION
    made = cascade(full, index, Known(), calibration)
    assert made(RUN) == stage()(RUN)
    assert made.spec()["vectors"]["index"]["path"] == str(index.path)


def test_a_run_calibrated_on_its_own_queries(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = Full()
    full: Rerank = rerank(scorer, index, depth=DEPTH)
    with pytest.raises(InputError, match="30 queries are too few"):
        cascade_and_calibrate(full, index, Known(), RUN)
    monkeypatch.setattr(module, "CALIBRATED", 12)
    scorer.scored.clear()
    done = cascade_and_calibrate(full, index, Known(), RUN)
    assert list(done.run) == list(RUN)
    assert len(scorer.scored) == len(set(scorer.scored)) == done.facts()["documents scored"]
    skipped = [int(done.run[query].extra["skipped"].sum()) for query in done.run]
    whole = np.linspace(0, 29, 12).astype(int).tolist()
    assert [n for n in whole if skipped[n]] == []
    assert sum(skipped) > 100
    assert (done.missed[whole] == 0).all() and done.missed.sum() > 0
    expected = full(RUN)
    for n in whole:
        assert done.run.ranking(n).ids == expected.ranking(n).ids


def test_a_document_that_the_index_has_not_is_named(index: Index) -> None:
    stored = StoredVectors.of(index, Known())
    with pytest.raises(InputError, match="'d999'"):
        stored.documents(ASKED[0], ["d000", "d999"])


def test_documents_that_the_index_has_not_are_left_below(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = {
        query: {**dict(RUN[query]), "d998": 99.0, "d999": -99.0} if query < "q05" else RUN[query]
        for query in RUN
    }
    run = Run.from_dict({query: dict(found) for query, found in strange.items()})
    run = run.with_queries(QUERIES)
    full: Rerank = rerank(Full(), index, depth=DEPTH, missing="skip")
    done = cascade(full, index, Known(), CALIBRATION).cascade(run)
    assert done.facts()["not re-ranked"] == {"documents not in the collection": 5}
    for query in ("q00", "q04"):
        ids, passage = done.run[query].ids, done.run[query].extra["passage"]
        assert passage[ids.index("d998")] == -1 and ids.index("d998") >= DEPTH - 1
    assert not done.run["q00"].extra["skipped"][done.run["q00"].ids.index("d998")]
    monkeypatch.setattr(module, "CALIBRATED", 12)
    assert cascade_and_calibrate(full, index, Known(), run).facts()["not re-ranked"] == {
        "documents not in the collection": 5
    }
    with pytest.raises(InputError, match="'d998' of the run has no vector"):
        cascade(replace(full, missing="raise"), index, Known(), CALIBRATION)(run)


def test_facts_say_how_the_order_changed(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    full: Rerank = rerank(Full(), index, depth=DEPTH)
    expected = full.rerank(RUN).facts()["order"]
    everything = cascade(full, index, Known(), CALIBRATION, agreement=1.0).cascade(RUN)
    assert everything.facts()["order"] == expected
    monkeypatch.setattr(module, "CALIBRATED", 12)
    joined = cascade_and_calibrate(full, index, Known(), RUN, agreement=1.0)
    assert joined.facts()["order"] == expected
    assert "not re-ranked" not in joined.facts()


def test_of_several_passages_the_nearest_counts(tmp_path: Path) -> None:
    rows = {"One.": [1, 0], "Two.": [0.6, 0.8], "One. Two.": [9, 9]}

    class Sentences:
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.array([rows.get(text.strip(), [0.5, 0.5]) for text in texts], np.float32)

    documents = [Document("b", "Two. One."), Document("a", "One."), Document("c", "Two.")]
    index = Index.build(documents, tmp_path / "index")
    index.encode(Sentences(), passages="sentences:1:1")
    stored = StoredVectors.of(index, Sentences())
    near = stored.documents(np.array([0.0, 1.0]), ["b", "a", "c"])
    assert near == pytest.approx(np.array([[0.6, 0.8], [1, 0], [0.6, 0.8]]))
    assert stored.documents(np.array([1.0, 0.0]), ["b"]).tolist() == [[1, 0]]


def test_chances_of_nobody() -> None:
    assert len(chances(np.array([]), np.array([]), 0.0)) == 0
