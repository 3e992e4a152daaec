"""The explanation of a result adds up to the score that a search gives, part by part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tamis
from tamis.errors import InputError
from tamis.explain.features import feature_contributions
from tamis.explain.fusion import rank_among_others
from tamis.explain.rescore import rescore
from tamis.explain.result import Search, ShownScores, explain_result
from tamis.explain.terms import without_term
from tamis.explain.trace import Step
from tamis.fitting.calibration import Calibration
from tamis.fitting.sieve import Sieve
from tamis.models import import_model
from tamis.pipeline.hybrid import Hybrid, hybrid, lexical_dense_hybrid
from tamis.pipeline.interpolation import Interpolate
from tamis.pipeline.rerank import Rerank, rerank
from tamis.rankers.features import FeatureSource
from tamis.rankers.lambdamart import LambdaMART, LambdaMARTSettings
from tamis.scorers.lexical import Lexical
from tamis.search import RM3, Index
from tamis.search.build import searched_text
from tamis.types import Document, Ids, Qrels, Queries, Query, Run, Stage, score_texts
from tamis.types.explanation import Explanation
from tamis.types.pipeline import Top

WORDS = "sieve drum net grain flour fish sort".split()
QUERY = "sieve drum unheard"


def documents() -> list[Document]:
    """All pairs of words, some said often, and a few fillers that make their terms rare."""
    pairs = [(one, other) for one in WORDS for other in WORDS if one != other]
    some = [
        Document(f"d{n:02}", f"a {one} the {other}. " + f"the {one}! " * (n % 4), f"on {other}s")
        for n, (one, other) in enumerate(pairs)
    ]
    return [*some, *(Document(f"f{n}", f"filler number{n} the") for n in range(100))]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.build(documents(), tmp_path_factory.mktemp("explain") / "index")


class Letters:
    """An encoder for tests: how often each letter occurs, at length one."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.array([[1.0 + text.count(letter) for letter in "aeiounrs"] for text in texts])
        unit: NDArray[np.float32] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(
            "f4"
        )
        return unit


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Index:
    index = Index.build(documents(), tmp_path_factory.mktemp("encoded") / "index")
    index.encode(Letters(), passages="words:3:2")
    return index


def queries_of(text: str) -> Queries:
    return Queries.of([Query("q", text)])


@pytest.mark.parametrize("ranking", ["bm25", "tuned", "ql", "rm3", "ql rm3"])
def test_the_terms_add_up_to_the_score_of_a_search(index: Index, ranking: str) -> None:
    source = {
        "bm25": index.bm25(), "tuned": index.bm25(2.5, 0.9), "ql": index.ql(40),
        "rm3": index.bm25().rm3(), "ql rm3": index.ql().rm3(5, 3, 0.3),
    }[ranking]  # fmt: skip
    run = source.search(queries_of(QUERY), 50)
    assert len(run.doc) > 5
    for rank, (name, score) in enumerate(run["q"], 1):
        found = explain_result(source, index, QUERY, name)
        assert (found.rank, found.score) == (rank, score)
        assert sum(part.contribution for part in found.terms) == pytest.approx(score, rel=1e-6)
        assert found.lexical is not None
        assert found.lexical.score == pytest.approx(score, rel=1e-6)


def test_bm25_by_hand(tmp_path: Path) -> None:
    texts = {"a": "drum drum net", "b": "net fish", "c": "grain grain grain grain"}
    index = Index.build(texts, tmp_path / "index")
    found = explain_result(index.bm25(0.9, 0.4), index, "drums fish zebra", "a")
    drum, fish, zebra = sorted(found.terms, key=lambda part: part.term)
    assert found.lexical is not None
    assert (found.lexical.length, found.lexical.average_length) == (3, 9 / 3)
    idf = np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    norm = 0.9 * ((1 - 0.4) + 0.4 * 3 / 3)
    assert drum.idf == pytest.approx(idf, rel=1e-6)
    assert drum.contribution == pytest.approx(idf * 2 / (2 + norm), rel=1e-6)
    assert (drum.status, drum.tf, drum.document_frequency) == ("matched", 2, 1)
    assert (fish.status, fish.tf, fish.document_frequency, fish.contribution) == (
        "missing",
        0,
        1,
        0,
    )
    assert (zebra.status, zebra.document_frequency, zebra.idf) == ("missing", 0, None)


def test_expanded_terms_are_those_of_rm3(index: Index) -> None:
    source = replace(index.bm25(), feedback=RM3(4, 3, 0.5))
    found = explain_result(source, index, "sieve")
    expanded = [part for part in found.terms if part.status == "expanded"]
    assert expanded and "siev" not in [part.term for part in expanded]
    assert sum(part.weight for part in found.terms) == pytest.approx(1)


def test_a_word_taken_out_scores_as_the_edited_text_does(index: Index) -> None:
    found = explain_result(index.bm25(), index, QUERY, "d00")
    assert {word.term for word in found.words} == {"siev", "drum"}
    for word in found.words:
        edited = without_term(index.document("d00"), word.term, index.bm25())
        expected = index.bm25().score_text(QUERY, searched_text(edited))
        assert word.score_without == pytest.approx(expected, rel=1e-6)
        assert word.change == pytest.approx(expected - found.score, rel=1e-6)
        assert word.change < 0


def test_a_word_is_taken_out_of_title_and_text(tmp_path: Path) -> None:
    """What is left is written by hand: a form of the word stands in each."""
    text, title = "Sieves sort. A sieve!", "Drum sieves"
    index = Index.build([Document("a", text, title), Document("b", "net")], tmp_path / "index")
    edited = without_term(index.document("a"), "siev", index.bm25())
    assert (edited.title, edited.text) == ("Drum ", " sort. A !")
    by_word = {word.term: word for word in explain_result(index.bm25(), index, "drum sieve").words}
    assert by_word["siev"].words == ("sieves", "Sieves", "sieve")
    idf, norm = np.log(1 + (2 - 1 + 0.5) / (1 + 0.5)), 0.9 * (0.6 + 0.4 * 2 / 3)  # 2 of 6/2 terms
    assert by_word["siev"].score_without == pytest.approx(idf * 1 / (1 + norm), rel=1e-6)


def test_without_words_to_search_for_those_of_the_index_are_taken_out(
    encoded: Index, tmp_path: Path
) -> None:
    """Embeddings alone score the edited text as a search of it does."""
    dense = encoded.dense(Letters())
    found = explain_result(dense, encoded, "drum nets", "d07")
    assert found.terms == () and {word.term for word in found.words} == {"drum", "net"}
    for word in found.words:
        edited = without_term(encoded.document("d07"), word.term, encoded.bm25())
        alone = Index.build([edited], tmp_path / word.term)
        alone.encode(Letters(), passages="words:3:2")
        [(_, expected)] = alone.dense(Letters()).search(queries_of("drum nets"), 1)["q"]
        assert word.score_without == pytest.approx(expected, abs=1e-6)
        assert word.change == pytest.approx(expected - found.score, abs=1e-6)
    assert any(abs(word.change) > 1e-4 for word in found.words)


def test_neighbours_stand_above_and_below(index: Index) -> None:
    run = index.bm25().search(queries_of("drum net fish"), 50)["q"]
    place = next(
        n for n in range(1, 49) if len({score for _, score in list(run)[n - 1 : n + 2]}) == 3
    )
    (above, high), (this, score), (below, low) = list(run)[place - 1 : place + 2]
    found = explain_result(index.bm25(), index, "drum net fish", this).neighbours
    assert [(each.id, each.rank) for each in found] == [(above, place), (below, place + 2)]
    assert [each.difference for each in found] == pytest.approx([score - high, score - low])
    assert found[0].difference < 0 < found[1].difference


def fused_pipelines(index: Index) -> dict[str, tuple[Hybrid, Stage | None]]:
    words, dense = index.bm25(), index.dense(Letters())
    lexical = Lexical(index)
    plain = rerank(lexical, index, passages="words:3:2", depth=15, missing="skip")
    return {
        "filled and z": (lexical_dense_hybrid(words, dense), None),
        "minmax": (hybrid(words, dense, method="sum", weights=(0.3, 0.7)), None),
        "rrf": (hybrid(words, dense, k=10), None),
        "fused with the score before": (hybrid(words, dense, k=10), Interpolate(plain, 0.25)),
        "fused with words": (
            lexical_dense_hybrid(words, dense), Interpolate(plain, 0.5, "lexical_score"),
        ),
        "weight 0": (lexical_dense_hybrid(words, dense), Interpolate(plain, 0.0)),
        "weight 1": (lexical_dense_hybrid(words, dense), Interpolate(plain, 1.0)),
        "own weight": (
            lexical_dense_hybrid(words, dense), replace(plain, interpolate=0.4),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", [
    "filled and z", "minmax", "rrf", "fused with the score before", "fused with words", "weight 0",
    "weight 1", "own weight",
])  # fmt: skip
def test_the_parts_of_a_fusion_add_up_to_its_score(encoded: Index, name: str) -> None:
    source, stage = fused_pipelines(encoded)[name]
    whole = source % 60 if stage is None else source % 60 >> stage
    run = whole.search(queries_of("drum net"), 60)
    for place, (doc_id, score) in enumerate(run["q"]):
        found = explain_result(whole, encoded, "drum net", doc_id)
        assert (found.rank, found.score) == (place + 1, score)
        for step in found.stages:
            parts = [part for part in found.parts if part.stage == step.name]
            if parts:
                total = sum(part.contribution for part in parts)
                assert total == pytest.approx(step.score, rel=1e-6, abs=1e-7)
                assert total == sum(part.weight * part.normalised for part in parts)
        has_parts = {part.stage for part in found.parts}
        if stage is None or place < 15:
            assert found.stages[-1].name in has_parts


@pytest.mark.parametrize(
    "name",
    [
        "filled and z",
        "minmax",
        "rrf",
        "fused with the score before",
        "fused with words",
        "weight 1",
    ],
)
def test_the_text_as_it_is_scores_what_the_search_gives(encoded: Index, name: str) -> None:
    """What re-scores edited texts gives the very score to a text that was not edited."""
    source, stage = fused_pipelines(encoded)[name]
    whole = source % 60 if stage is None else source % 60 >> stage
    asked = Search.of(whole, encoded, "drum net")
    for doc_id, score in list(asked.run["q"])[:15]:
        found = asked._found(doc_id)
        again = rescore(asked.steps, "drum net", [encoded.document(doc_id)], found)
        assert float(again.score[0]) == pytest.approx(score, rel=1e-5, abs=1e-5)


def test_reciprocal_ranks_without_a_word_by_hand(tmp_path: Path) -> None:
    """Without “sieve” a says as much as c and less than b; of ties the larger id stands first.

    Its own old score, the highest, is no rival.
    """
    texts = {"a": "drum sieve", "b": "drum drum", "c": "drum fish", "d": "flour", "e": "flour"}
    index = Index.build(texts, tmp_path / "index")
    one, other = index.bm25(0.9, 0.0), index.bm25(2.0, 0.0)  # no length: c is like a
    fused = hybrid(one, other, k=10)
    assert one.search(queries_of("drum sieve"), 5)["q"].ids == ["a", "b", "c"]
    found = explain_result(fused, index, "drum sieve", "a")
    assert found.score == pytest.approx(2 / (10 + 1))
    without = {word.term: word.score_without for word in found.words}
    assert without["siev"] == pytest.approx(2 / (10 + 3))
    # without “drum”: sieve alone, rarer than drum, said once; still above b's two drums
    assert without["drum"] == pytest.approx(2 / (10 + 1))
    outside = rescore(Search.of(fused, index, "drum sieve").steps, "drum sieve", [
        Document("x", "drum fish"), Document("bb", "drum fish"),
    ])  # fmt: skip
    assert outside.score.tolist() == pytest.approx([2 / (10 + 3), 2 / (10 + 4)])
    run = one.search(queries_of("drum sieve"), 5)
    rounded = float(np.nextafter(run.score[2], np.float32(9)))  # c's score but for rounding
    assert rank_among_others(run, "bb", rounded) == 4


def test_a_word_taken_out_scores_as_the_public_scorer_scores_the_edited_text(
    encoded: Index,
) -> None:
    stage = rerank(Lexical(encoded), encoded, depth=20, model="words")
    found = explain_result(encoded.bm25() % 20 >> stage, encoded, QUERY, "d00")
    assert found.words
    for word in found.words:
        edited = without_term(encoded.document("d00"), word.term, encoded.bm25())
        [expected] = score_texts(Lexical(encoded), QUERY, [searched_text(edited)])
        assert word.parts_without["words"] == pytest.approx(float(expected), rel=1e-6)
        assert word.score_without == pytest.approx(float(expected), rel=1e-6)


def test_a_document_outside_the_candidates_is_scored_and_has_no_rank(encoded: Index) -> None:
    source = lexical_dense_hybrid(encoded.bm25(), encoded.dense(Letters()))
    narrow = replace(source, depth=5)
    stage = Interpolate(rerank(Lexical(encoded), encoded, depth=4), 0.5)
    whole = narrow % 5 >> stage
    among = set(whole.search(queries_of("drum net"), 5)["q"].ids)
    outside = next(name for name in ("d01", "d30", "d41") if name not in among)
    found = explain_result(whole, encoded, "drum net", outside)
    assert found.rank is None and "not among the 5 candidates" in found.notes[0]
    assert [step.rank for step in found.stages] == [None] * len(found.stages)
    assert np.isfinite(found.score)
    last = [part for part in found.parts if part.stage == "fusion"]
    assert sum(part.contribution for part in last) == pytest.approx(found.score, rel=1e-6)
    text = searched_text(encoded.document(outside))
    before = next(part for part in found.parts if part.stage == "hybrid" and part.name == "BM25")
    expected = encoded.bm25().score_text("drum net", text)
    assert (before.score or 0.0) == pytest.approx(expected, rel=1e-6)


def test_the_ranks_of_parts_are_those_of_their_rankings(tmp_path: Path) -> None:
    """Of equal scores the larger id stands first, in the parts of a fusion too."""
    index = Index.build(dict.fromkeys("abcd", "a drum sieve"), tmp_path / "ties")
    words = rerank(Lexical(index), index, depth=4, model="words")
    fused = index.bm25() % 4 >> Interpolate(words, 0.5)
    for place, name in enumerate("dcba", 1):
        found = explain_result(fused, index, "drum", name)
        assert [part.rank for part in found.parts] == [place, place]
        assert [stage.rank for stage in found.stages] == [place] * 3


@pytest.mark.parametrize("fused", [False, True])
def test_a_document_below_the_depth_of_a_model_is_not_scored_without_its_words(
    index: Index, fused: bool
) -> None:
    """Its number only keeps the order: the change to a model's score would mean nothing."""
    model = rerank(Lexical(index), index, depth=3, model="words")
    whole = index.bm25() % 20 >> (Interpolate(model, 0.5) if fused else model)
    ids = whole.search(queries_of("drum net"), 20)["q"].ids
    scale = ShownScores(lambda run: np.linspace(1, 0, len(run.doc)), calibrated=True)
    found = explain_result(whole, index, "drum net", ids[9], ids[0], scale=scale)
    assert found.words == () and found.rank == 10
    assert found.notes == ("words did not score it: it keeps its order below",)
    assert found.probability is None
    assert found.shown_score == 0.0  # last beside the three that were scored
    assert found.against is not None
    parts = {part.name: part.contribution for part in found.against.parts}
    assert parts["order below words"] == found.score
    differences = [part.difference for part in found.against.parts]
    assert sum(differences) == pytest.approx(found.against.difference, abs=1e-6)
    scored = explain_result(whole, index, "drum net", ids[2], scale=scale)
    assert scored.words and not scored.notes and scored.calibrated


def test_words_beyond_the_first_32_are_said_to_be_left_out(tmp_path: Path) -> None:
    words = [f"w{n}" for n in range(40)]
    index = Index.build({"a": " ".join(words), "b": "w1"}, tmp_path / "index")
    found = explain_result(index.bm25(), index, " ".join(words), "a")
    assert len(found.words) == 32
    assert found.notes == (
        "scored without each of 32 of its 40 matched words, those that bring the most",
    )
    assert not explain_result(index.bm25(), index, " ".join(words[:32]), "a").notes


def test_a_query_of_stop_words_alone_is_told_apart(index: Index) -> None:
    found = explain_result(index.bm25(), index, "the of?!", "d00")
    assert found.notes == (
        "the search finds no document: this one has no rank",
        "the query has no terms: it is all stop words or punctuation",
    )


def test_the_winning_passage_has_its_place_and_its_own_score(encoded: Index) -> None:
    scorer = Lexical(encoded)
    stage = rerank(scorer, encoded, passages="words:3:2", depth=20)
    found = explain_result(encoded.bm25() % 20 >> stage, encoded, "drum sieve", "d00")
    document = encoded.document("d00")
    assert found.passage is not None and found.passage.score is not None
    text = document.text[found.passage.start : found.passage.end]
    assert found.passage.text == text and found.passage.passages > 1
    [expected] = score_texts(scorer, "drum sieve", [f"{document.title} {text}"])
    assert found.passage.score == pytest.approx(float(expected))
    assert found.passage.score == pytest.approx(found.score)


def test_against_another_document_the_differences_add_up(encoded: Index) -> None:
    source = lexical_dense_hybrid(encoded.bm25(), encoded.dense(Letters()))
    first, second = source.search(queries_of("drum net"), 2)["q"].ids
    found = explain_result(source, encoded, "drum net", first, second)
    assert found.against is not None and found.against.id == second
    assert found.against.rank == 2 and found.against.difference > 0
    differences = [part.difference for part in found.against.parts]
    assert sum(differences) == pytest.approx(found.against.difference, abs=1e-6)
    terms = {part.name: part for part in found.against.terms}
    assert terms["drum"].contribution - terms["drum"].other == terms["drum"].difference


def test_the_features_of_boosted_trees_add_up_to_the_score(index: Index) -> None:
    pytest.importorskip("xgboost", reason="xgboost is not installed")
    names = ["drum net", "sieve fish", "grain flour", "sort drum"]
    queries = Queries.of([Query(f"q{n}", text) for n, text in enumerate(names)])
    run = index.bm25().search(queries, 12)
    qrels = Qrels.from_dict({query: {run[query].ids[2]: 1} for query in run})
    settings = LambdaMARTSettings(n_estimators=4, threads=1)
    ranker = LambdaMART.fit(run, qrels, FeatureSource(columns=("score",)), settings)
    whole = index.bm25() % 12 >> ranker
    for doc_id, score in whole.search(queries_of("drum net"), 12)["q"]:
        found = explain_result(whole, index, "drum net", doc_id)
        assert [feature.name for feature in found.features] == ["score", "bias"]
        total = sum(feature.contribution for feature in found.features)
        assert total == pytest.approx(score, rel=1e-5, abs=1e-6)
        assert found.words == () and "scores no text alone" in found.notes[-1]


def test_each_feature_has_its_own_contribution(index: Index) -> None:
    """A column that is the same everywhere brings nothing, wherever it stands."""
    pytest.importorskip("xgboost", reason="xgboost is not installed")
    names = ["drum net", "sieve fish", "grain flour", "sort drum"]
    queries = Queries.of([Query(f"q{n}", text) for n, text in enumerate(names)])
    run = index.bm25().search(queries, 20)
    run = run.with_extra(flat=np.full(len(run.doc), 7, np.float32))
    qrels = Qrels.from_dict({query: dict.fromkeys(run[query].ids[:6], 1) for query in run})
    settings = LambdaMARTSettings(n_estimators=4, gamma=0.0, threads=1)
    for columns in (("flat", "score"), ("score", "flat")):
        source = FeatureSource(columns=columns, normalisation="none")
        ranker = LambdaMART.fit(run, qrels, source, settings)
        before = run.select(Ids.of(["q0"]))
        after = ranker(before)
        doc_id, score = next(iter(after["q0"]))
        found = feature_contributions([Step(ranker, before, after)], doc_id)
        by_name = {feature.name: feature for feature in found}
        assert [*by_name] == ["score", "flat", "bias"]  # the largest first
        assert (by_name["flat"].contribution, by_name["flat"].value) == (0, 7)
        assert by_name["score"].value == pytest.approx(dict(before["q0"])[doc_id])
        own = score - by_name["bias"].contribution
        assert by_name["score"].contribution == pytest.approx(own, rel=1e-5) and own != 0


def test_errors_say_what_to_do(index: Index) -> None:
    source = index.bm25()
    for query, doc_id, message in (
        ("  ", None, "the query is empty"),
        ("drum", "d99", "there is no document 'd99'"),
        ("unheard", None, "nothing was found"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            explain_result(source, index, query, doc_id)
        assert caught.value.hint


def test_a_query_without_a_known_term_has_a_plain_answer(index: Index) -> None:
    found = explain_result(index.bm25(), index, "unheard", "d00")
    assert (found.rank, found.score, found.words) == (None, 0.0, ())
    assert "no document has a term of the query" in found.notes


def test_a_ranker_scores_no_document_that_is_no_candidate(index: Index) -> None:
    class Own(Stage):
        def __call__(self, run: Run) -> Run:
            return run

        def spec(self) -> dict[str, object]:
            return {}

    with pytest.raises(InputError, match="Own scores no other"):
        explain_result(index.bm25() >> Top(2) >> Own(), index, "drum", "f1")


def test_an_index_explains_what_it_finds(index: Index) -> None:
    hit = index.search("drum sieve")[0]
    found = index.explain("drum sieve")
    assert (found.id, found.rank, found.score) == (hit.id, 1, hit.raw_score)
    assert found.shown_score == pytest.approx(hit.score) and found.probability is None
    assert found.passage is not None
    assert (found.passage.start, found.passage.end) == (hit.start, hit.end)
    json.dumps(found.to_json())


@pytest.fixture(scope="module")
def sieve(tmp_path_factory: pytest.TempPathFactory, tiny_cross_encoder: Path) -> Sieve:
    """Without judgements: BM25 and embeddings fused."""
    base = tmp_path_factory.mktemp("base") / "tiny"
    import_model(tiny_cross_encoder, base, kind="bi-encoder", pooling="mean", max_length=24)
    return tamis.fit(documents(), out=tmp_path_factory.mktemp("s") / "s", base=str(base), threads=1)


def test_a_sieve_explains_what_it_finds(sieve: Sieve) -> None:
    hits = sieve.search("drum net", top=20)
    for hit in (hits[0], hits[10]):
        found = sieve.explain("drum net", hit.id)
        assert (found.id, found.rank, found.score) == (hit.id, hit.rank, hit.raw_score)
        assert found.shown_score == pytest.approx(hit.score) and not found.calibrated
        assert found.stages[0].name == "hybrid"
        assert {part.name for part in found.parts} >= {"BM25", "embeddings"}
    assert sieve.explain("drum net").id == hits[0].id


def test_a_calibrated_sieve_gives_the_probability_and_its_tested_threshold(sieve: Sieve) -> None:
    names, two = ("model", "words"), (1.0, 1.0)
    own = Calibration(names, (0.0, 0.0), two, (0.5, 0.1), -1.0, 0.375, 1.0, 9, 9, 9)
    record = {**sieve.manifest, "calibration": asdict(own)}
    calibrated = replace(sieve, manifest={**record, "threshold_test": {"answered": 1}})
    [hit] = calibrated.search("drum net", top=1)
    found = calibrated.explain("drum net")
    assert found.calibrated and found.threshold == 0.375
    assert found.probability == pytest.approx(hit.score)
    untested = replace(sieve, manifest={**record, "threshold_test": None})
    assert untested.explain("drum net").threshold is None


def test_a_sieve_s_words_are_scored_by_its_own_encoder(sieve: Sieve) -> None:
    found = sieve.explain("drum net")
    source = sieve.retriever
    assert isinstance(source, Hybrid) and found.words
    encoder = source.sources[1].encoder  # type: ignore[attr-defined]
    for word in found.words:
        edited = without_term(sieve.index.document(found.id), word.term, sieve.index.bm25())
        [expected] = score_texts(encoder, "drum net", [searched_text(edited)])
        assert word.parts_without["embeddings"] == pytest.approx(float(expected), abs=1e-5)


def test_a_sieve_scores_a_document_that_it_does_not_find(sieve: Sieve) -> None:
    assert isinstance(sieve.stage, Interpolate)
    found: Explanation = sieve.explain("drum net", "f3")
    assert found.shown_score is not None and 0 <= found.shown_score <= 1
    assert isinstance(sieve.stage.stage, Rerank)
