"""Label transfer by hand, and what must never happen: a test query before a teacher."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.labels import Examples, read_examples, write_examples
from tamis.labels.example_texts import row_texts
from tamis.labels.teacher_threshold import Calibration, best_threshold, calibrate
from tamis.labels.transfer import NegativesFrom, doc_labelled, qa_docrank
from tamis.pipeline import passage_scores
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import MappingLookup
from tamis.training.recipes import RECIPES
from tamis.training.samplers import batches
from tamis.types import Document, Ids, Pairs, Qrels, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale

DOCUMENTS = [
    Document("a", "Good one. Bad two. Good three."),  # relevant to q1
    Document("b", "Bad four. Bad five."),  # relevant to q1, with nothing good
    Document("c", "Good six. Bad seven."),  # judged 0
    Document("d", "Bad eight. Good one."),  # not judged, repeats a sentence of a
    Document("e", "Bad nine. Bad ten. Bad eleven."),  # not judged
]
LONG = [
    *DOCUMENTS[:4],
    Document("e", " ".join(f"Bad of number {n}." for n in range(30))),  # not judged
]
QUERIES = Queries.of([Query(f"q{n}", f"words of query {n}") for n in range(1, 5)])
RUN = Run.from_dict(
    {
        "q1": {"a": 5, "b": 4, "c": 3, "d": 2, "e": 1},
        "q2": {"c": 2, "e": 1},  # relevant: e, where nothing is good
        "q3": {"a": 1},  # relevant: c, which is not retrieved
        "q4": {"a": 1},  # a test query
    }
).with_queries(QUERIES)
QRELS = Qrels.from_dict({"q1": {"a": 1, "b": 2, "c": 0}, "q2": {"e": 1}, "q3": {"c": 1}})
TEST = Ids.of(["q4"])
SENTENCES = "sentences:1:1"
LIBRARY = MappingLookup({document.id: document for document in DOCUMENTS})


@dataclass
class Spy:
    """Finds what begins with Good relevant, and remembers what it was asked."""

    scale: Scale = "probability"
    seen: list[tuple[str, str]] = field(default_factory=list)
    left: int = 1000

    def score(self, pairs: Pairs) -> Scores:
        if len(self.seen) >= self.left:
            raise KeyboardInterrupt
        asked = [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]
        self.seen.extend(asked)
        values = np.array([0.9 if text.startswith("Good") else 0.5 for _, text in asked], "f4")
        return Scores(values, np.zeros(len(pairs), np.int32))


def rows(made: Examples, query: str, role: str) -> list[str]:
    """The texts that a query has in a role."""
    asked, texts = row_texts(made.with_queries(QUERIES), np.arange(len(made)), LIBRARY)
    which = zip(asked, texts, made.is_role(role), strict=True)  # type: ignore[arg-type]
    return [text for ask, text, is_it in which if is_it and ask == QUERIES[query].text]


def transferred(teacher: Spy | None = None, **options: Any) -> Examples:
    options = {"test": TEST, "passages": SENTENCES, **options}
    return qa_docrank(RUN, QRELS, DOCUMENTS, teacher or Spy(), **options)


@pytest.mark.parametrize("recipe", ["docrank", "docrank-small"])
def test_both_methods_are_trained_on_as_many_negatives_as_positives(recipe: str) -> None:
    inherited = doc_labelled(RUN, QRELS.select(Ids.of(["q1"])), LONG, test=TEST, passages=SENTENCES)
    chosen = qa_docrank(RUN, QRELS, DOCUMENTS, Spy(), test=TEST, passages=SENTENCES)
    assert (~inherited.is_role("positive")).sum() > 4 * inherited.is_role("positive").sum()
    for made in (inherited, chosen):
        learnt = np.concatenate(
            [row for batch in batches(made, RECIPES[recipe], 0) for row in batch]
        )
        positives = int(made.is_role("positive").sum())
        assert made.is_role("positive")[learnt].sum() == positives
        assert len(learnt) == 2 * positives


def test_every_passage_inherits_the_label_of_its_document() -> None:
    made = doc_labelled(RUN, QRELS, DOCUMENTS, test=TEST, passages=SENTENCES)
    assert rows(made, "q1", "positive") == [
        "Good one.", "Bad two.", "Good three.", "Bad four.", "Bad five.",
    ]  # fmt: skip
    # d's second sentence is a positive of a: it is not also a negative
    assert rows(made, "q1", "negative") == [
        "Good six.", "Bad seven.", "Bad eight.", "Bad nine.", "Bad ten.", "Bad eleven.",
    ]  # fmt: skip
    assert rows(made, "q2", "positive") == ["Bad nine.", "Bad ten.", "Bad eleven."]
    assert rows(made, "q3", "negative") == ["Good one.", "Bad two.", "Good three."]
    assert "q4" not in made.queries.ids
    assert made.value.tolist() == made.is_role("positive").astype(float).tolist()
    assert made.facts["counts"] == {
        "queries": 3,
        "documents": 5,
        "positive": 8,
        "negative": 11,
        "queries_without_a_relevant_candidate": 1,
        "relevant_candidates": 3,
        "relevant_documents_not_among_candidates": 1,
        "left out: negatives that are word for word a positive": 1,
    }


def test_only_passages_that_the_teacher_calls_relevant_are_positive() -> None:
    spy = Spy()
    made = transferred(spy)
    assert rows(made, "q1", "positive") == ["Good one.", "Good three."]
    negatives = rows(made, "q1", "negative")
    assert len(negatives) == 2
    assert set(negatives) <= {
        "Bad two.", "Bad four.", "Bad five.",
        "Good six.", "Bad seven.", "Bad eight.", "Bad nine.", "Bad ten.", "Bad eleven.",
    }  # fmt: skip
    # q2's relevant document has no such passage: .5 is not above .5
    assert list(made.queries.ids) == ["q1"]
    # only passages of relevant documents are scored
    assert Counter(query for query, _ in spy.seen) == {"words of query 1": 5, "words of query 2": 3}
    counts = made.facts["counts"]
    assert counts["passages_of_relevant_candidates"] == 8
    assert counts["passages_rejected_by_teacher"] == 6
    assert counts["relevant_candidates_without_a_positive_passage"] == 2
    assert made.facts["threshold"] == {"from": "a probability", "threshold": 0.5}


def test_the_best_passage_can_be_kept() -> None:
    made = transferred(keep_best=True)
    assert rows(made, "q1", "positive") == ["Good one.", "Good three.", "Bad four."]
    assert rows(made, "q2", "positive") == ["Bad nine."]  # the first of equals
    assert made.facts["keep_best"] is True


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("refused", {"Bad two.", "Bad four.", "Bad five."}),
        (
            "nonrelevant",
            {"Good six.", "Bad seven.", "Bad eight.", "Bad nine.", "Bad ten.", "Bad eleven."},
        ),
    ],
)
def test_where_negatives_come_from(wanted: NegativesFrom, expected: set[str]) -> None:
    found: set[str] = set()
    for seed in range(40):
        made = transferred(negatives_from=wanted, seed=seed)
        assert len(set(rows(made, "q1", "negative"))) == 2
        found |= set(rows(made, "q1", "negative"))
    assert found == expected


def test_the_draw_depends_on_the_seed_and_the_query_alone() -> None:
    assert transferred(seed=3) == transferred(seed=3)
    alone = qa_docrank(
        RUN, QRELS.select(Ids.of(["q1"])), DOCUMENTS, Spy(), test=TEST, passages=SENTENCES, seed=3
    )
    assert rows(alone, "q1", "negative") == rows(transferred(seed=3), "q1", "negative")
    draws = {tuple(rows(transferred(seed=seed), "q1", "negative")) for seed in range(10)}
    assert len(draws) > 3


def test_too_few_negatives_are_counted() -> None:
    made = transferred(depth=1)
    assert rows(made, "q1", "negative") == ["Bad two."]
    assert made.facts["counts"]["missing_negatives"] == 1


def test_a_document_judged_below_the_grade_is_neither() -> None:
    made = doc_labelled(RUN, QRELS, DOCUMENTS, test=TEST, grade=2, passages=SENTENCES)
    assert rows(made, "q1", "positive") == ["Bad four.", "Bad five."]
    assert "Good three." not in rows(made, "q1", "negative")
    assert made.facts["counts"]["excluded_candidates_below_grade"] == 2


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_positive_is_never_also_a_negative_of_its_query(data: st.DataObject) -> None:
    words = st.sampled_from(["Good x.", "Good y.", "Bad x.", "Bad y.", "Bad z."])
    texts = data.draw(st.lists(st.lists(words, min_size=1, max_size=4), min_size=2, max_size=6))
    documents = [Document(f"d{n}", " ".join(text)) for n, text in enumerate(texts)]
    run = Run.from_dict({"q1": {d.id: float(-n) for n, d in enumerate(documents)}})
    run = run.with_queries(QUERIES)
    count = data.draw(st.integers(1, len(documents)))
    qrels = Qrels.from_dict({"q1": {document.id: 1 for document in documents[:count]}})
    made = [doc_labelled(run, qrels, documents, test=TEST, passages=SENTENCES)]
    if any("Good" in text for text in " ".join(d.text for d in documents[:count]).split()):
        made.append(qa_docrank(run, qrels, documents, Spy(), test=TEST, passages=SENTENCES))
    library = MappingLookup({document.id: document for document in documents})
    for examples in made:
        _, read = row_texts(examples.with_queries(QUERIES), np.arange(len(examples)), library)
        positive = {t for t, is_it in zip(read, examples.is_role("positive"), strict=True) if is_it}
        negative = {t for t, is_it in zip(read, examples.is_role("negative"), strict=True) if is_it}
        assert not positive & negative
        assert positive
    if len(made) == 2:
        assert made[1].is_role("negative").sum() <= made[1].is_role("positive").sum()


def test_no_test_query_ever_reaches_a_teacher() -> None:
    asking = Qrels.from_dict({**QRELS.to_dict(), "q4": {"a": 1}})
    spy = Spy()
    with pytest.raises(InputError, match=r"1 of the 4 queries to label is a test query.*'q4'"):
        qa_docrank(RUN, asking, DOCUMENTS, spy, test=TEST, passages=SENTENCES)
    assert not spy.seen
    with pytest.raises(InputError, match="test query"):
        doc_labelled(RUN, asking, DOCUMENTS, test=TEST, passages=SENTENCES)
    # the run has q4, the judgements have not: it is passed over
    transferred(spy, keep_best=True)
    assert spy.seen
    assert QUERIES["q4"].text not in {query for query, _ in spy.seen}


@settings(max_examples=60, deadline=None)
@given(
    st.sets(st.sampled_from(["q1", "q2", "q3", "q4"]), min_size=1),
    st.sets(st.sampled_from(["q1", "q2", "q3", "q4"])),
)
def test_whatever_is_asked_for_no_test_query_is_scored(asked: set[str], test: set[str]) -> None:
    spy = Spy()
    qrels = Qrels.from_dict({query: {"a": 1, "e": 1} for query in asked})
    try:
        qa_docrank(RUN, qrels, DOCUMENTS, spy, test=Ids.of(test), passages=SENTENCES)
    except InputError:
        pass
    else:
        assert not asked & test
    if asked & test:
        assert not spy.seen
    assert not {query for query, _ in spy.seen} & {QUERIES[name].text for name in test}


def test_a_teacher_without_classes_needs_a_threshold() -> None:
    spy = Spy(scale="logit")
    with pytest.raises(InputError, match="no classes: their scale is logit"):
        transferred(spy)
    assert not spy.seen
    made = transferred(spy, threshold=0.6)
    assert made.facts["threshold"] == {"from": "the caller", "threshold": 0.6}
    chosen = Calibration(0.7, 0.75, 4, 8)
    assert transferred(spy, threshold=chosen) == made
    assert transferred(spy, threshold=chosen).facts["threshold"] == {
        "from": "calibration", "threshold": 0.7, "balanced accuracy": 0.75,
        "positives": 4, "negatives": 8,
    }  # fmt: skip
    with pytest.raises(InputError, match=r"none of 8 passages relevant: the best scores 0\.9"):
        transferred(threshold=0.95)


def test_a_threshold_between_neighbouring_scores_keeps_them_apart() -> None:
    # the number midway, as a float32, is the higher of the two
    low = float(np.nextafter(np.float32(0.5), np.float32(1)))
    high = float(np.nextafter(np.float32(low), np.float32(1)))

    class Close(Spy):
        def score(self, pairs: Pairs) -> Scores:
            found = super().score(pairs)
            close = np.where(found.values > 0.6, high, low).astype(np.float32)
            return Scores(close, found.truncated_tokens)

    chosen = best_threshold(np.array([low, high], np.float32), np.array([False, True]))
    assert np.float32(chosen.threshold) == high
    made = transferred(Close(scale="logit"), threshold=chosen)
    assert rows(made, "q1", "positive") == ["Good one.", "Good three."]


def test_nothing_relevant_was_retrieved() -> None:
    nothing = QRELS.select(Ids.of(["q3"]))
    with pytest.raises(InputError, match="none of 1 judged queries"):
        qa_docrank(RUN, nothing, DOCUMENTS, Spy(), test=TEST)


def test_killed_it_goes_on_to_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_scores, "FULL_CHUNK_PAIRS", 1)
    write_examples(transferred(), tmp_path / "whole")
    for kill in (0, 1, 4):  # before the first document, the second, the third
        with pytest.raises(KeyboardInterrupt), ScoreCache(tmp_path / f"s{kill}", "spy") as cache:
            transferred(Spy(left=kill), cache=cache)
        spy = Spy()
        with ScoreCache(tmp_path / f"s{kill}", "spy") as cache:
            write_examples(transferred(spy, cache=cache), tmp_path / f"{kill}")
        assert len(spy.seen) == {0: 8, 1: 5, 4: 3}[kill]
        assert (tmp_path / f"{kill}").read_bytes() == (tmp_path / "whole").read_bytes()


def test_the_threshold_by_hand() -> None:
    scores = np.array([5, 4, 3, 3, 2, 1], np.float32)
    relevant = np.array([True, True, True, False, False, False])
    # above 3.5: 2 of 3 and 3 of 3; above 2.5: 3 of 3 and 2 of 3: equal, so the higher one
    assert best_threshold(scores, relevant) == Calibration(3.5, (2 * 3 + 3 * 3) / (2 * 3 * 3), 3, 3)
    order = np.array([3, 0, 5, 1, 4, 2])
    assert best_threshold(scores[order], relevant[order]).threshold == 3.5
    with pytest.raises(InputError, match="no higher"):
        best_threshold(-scores, relevant)
    with pytest.raises(InputError, match="no higher"):
        best_threshold(np.ones(6, np.float32), relevant)
    with pytest.raises(InputError, match="0 others"):
        best_threshold(scores, np.ones(6, bool))


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=12).filter(
        lambda rows: len({relevant for _, relevant in rows}) == 2
    )
)
def test_no_other_threshold_is_better(rows: list[tuple[int, bool]]) -> None:
    scores = np.array([score for score, _ in rows], np.float32)
    relevant = np.array([is_it for _, is_it in rows])

    def accuracy(above: float) -> float:
        called = scores > above
        return float(called[relevant].mean() + (~called[~relevant]).mean()) / 2

    best = max(accuracy(number / 2) for number in range(-8, 8))
    if best <= 0.5:
        with pytest.raises(InputError, match="no higher"):
            best_threshold(scores, relevant)
    else:
        chosen = best_threshold(scores, relevant)
        assert accuracy(chosen.threshold) == pytest.approx(best)
        assert chosen.balanced_accuracy == pytest.approx(best)


def test_calibrating_on_examples(tmp_path: Path) -> None:
    gold = Examples.of_rows(
        [("q1", "a", 1, "positive"), ("q1", "e", 0, "pool"), ("q2", "b", 0, "negative")],
        source="gold",
    ).with_queries(QUERIES)
    spy = Spy(scale="logit")
    with ScoreCache(tmp_path / "scores", "spy") as cache:
        chosen = calibrate(spy, gold, DOCUMENTS, cache=cache)
        again = calibrate(Spy(left=0), gold, DOCUMENTS, cache=cache)
    assert chosen == again == Calibration(pytest.approx(0.7), 1.0, 1, 2)  # type: ignore[arg-type]
    assert len(spy.seen) == 3
    assert calibrate(Spy(), gold, DOCUMENTS) == chosen
    with pytest.raises(InputError, match="'a' of the examples"):
        calibrate(spy, gold, DOCUMENTS[1:])
    scored = Examples.of_rows([("q1", "a", 3, "pool")], source="weak", kind="scaled")
    with pytest.raises(InputError, match="relevant and other"):
        calibrate(spy, scored, DOCUMENTS)


def test_files_hold_it_all(tmp_path: Path) -> None:
    made = transferred()
    write_examples(made, tmp_path / "examples.parquet")
    read = read_examples(tmp_path / "examples.parquet")
    assert read == made
    assert read.facts == made.facts
