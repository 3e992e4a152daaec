"""Rankings against an independent, slow search; documents added, replaced, deleted, merged."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamis.errors import InputError, OutputError
from tamis.search.index import Index, verify
from tamis.search.rankings import BM25, QueryLikelihood
from tamis.text.analysis import FunctionAnalyzer
from tamis.types import Document, Ids, Queries, Query, Run, TermStatistics

single = np.float32
Score = Callable[[str, float, int, int], float]


def quantised(length: int) -> int:
    """A length after a round trip through Lucene's byte: four significant bits above 39."""
    if length < 40:
        return length
    shift = (length - 24).bit_length() - 4
    return 24 + ((length - 24) >> shift << shift)


class Reference:
    """Every document scored in plain Python, as the formulas say."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.vectors = {d.id: Counter(f"{d.title} {d.text}".split()) for d in documents}
        self.df = Counter(term for vector in self.vectors.values() for term in vector)
        self.ttf: Counter[str] = Counter()
        for vector in self.vectors.values():
            self.ttf.update(vector)
        self.count = sum(1 for vector in self.vectors.values() if vector)
        self.total = self.ttf.total()

    def bm25(self, k1: float, b: float) -> Score:
        average = single(self.total / max(self.count, 1))

        def score(term: str, weight: float, frequency: int, length: int) -> float:
            df = self.df[term]
            scaled = single(weight) * single(math.log(1 + (self.count - df + 0.5) / (df + 0.5)))
            one, part = single(1), single(b)
            norm = single(k1) * ((one - part) + part * single(quantised(length)) / average)
            inverse = one / norm if norm > 0 else single(np.inf)
            return float(scaled - scaled / (one + single(frequency) * inverse))

        return score

    def ql(self, mu: float) -> Score:
        def score(term: str, weight: float, frequency: int, length: int) -> float:
            p = (self.ttf[term] + 1) / (self.total + 1)
            value = math.log(1 + frequency / (mu * p)) + math.log(mu / (quantised(length) + mu))
            return max(weight * value, 0.0)

        return score

    def scores(self, query: Mapping[str, float], score: Score) -> dict[str, float]:
        found = {}
        for doc_id, vector in self.vectors.items():
            shared = [term for term in query if term in vector]
            if shared:
                parts = (score(t, query[t], vector[t], vector.total()) for t in shared)
                found[doc_id] = math.fsum(parts)
        return found


def queries(*texts: str) -> Queries:
    return Queries(Ids.of(f"q{n:04}" for n in range(len(texts))), texts)


def built(documents: Sequence[Document], path: Path) -> Index:
    return Index.build(documents, path, analyzer="whitespace", force=True)


def assert_best(run: Run, expected: Mapping[str, float], k: int, total: float = 10) -> None:
    """The run's first query has the k best documents, in the order of trec_eval, with these scores.

    `total` is the sum of the weights: scores are exact to a share of the highest possible one.
    """
    found, close = list(run.ranking(0)), 1e-7 * (1 + total)
    assert len(found) == min(k, len(expected))
    for doc_id, score in found:
        assert score == pytest.approx(expected[doc_id], rel=1e-6, abs=close)
    order = [(score, doc_id.encode()) for doc_id, score in found]
    assert order == sorted(order, reverse=True)
    if found:
        least, kept = found[-1][1], dict(found)
        left_out = [score for doc_id, score in expected.items() if doc_id not in kept]
        assert all(score <= least + close + 1e-6 * least for score in left_out)


words = st.sampled_from(["a", "b", "c", "d", "e", "f", "gg", "hh"])
texts = st.lists(words, max_size=60).map(" ".join)
collections = st.lists(texts, min_size=1, max_size=40).map(
    lambda found: [Document(f"d{n}", text) for n, text in enumerate(found)]
)
weights = st.dictionaries(
    st.one_of(words, st.just("unknown")),
    st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(1e-3, 1e3)),
    max_size=6,
)
saturations = st.one_of(st.just(0.0), st.floats(1e-6, 3))
"""Below that k1 has no place in a float of 32 bits."""
some = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


@some
@given(collections, weights, st.integers(1, 50), saturations, st.floats(0, 1))
def test_bm25_is_that_of_a_plain_search(
    tmp_path: Path,
    documents: list[Document],
    query: dict[str, float],
    k: int,
    k1: float,
    b: float,
) -> None:
    index = built(documents, tmp_path / "index")
    run = index.bm25(k1, b).search_weighted(queries(""), [query], k)
    reference = Reference(documents)
    asked = {term: weight for term, weight in query.items() if weight > 0}
    assert_best(run, reference.scores(asked, reference.bm25(k1, b)), k, sum(asked.values()))


@some
@given(collections, weights, st.integers(1, 50), st.floats(1, 5000))
def test_query_likelihood_is_that_of_a_plain_search(
    tmp_path: Path, documents: list[Document], query: dict[str, float], k: int, mu: float
) -> None:
    index = built(documents, tmp_path / "index")
    run = index.ql(mu).search_weighted(queries(""), [query], k)
    reference = Reference(documents)
    asked = {term: weight for term, weight in query.items() if weight > 0}
    assert_best(
        run, reference.scores(asked, reference.ql(float(single(mu)))), k, sum(asked.values())
    )


def test_a_score_by_hand(tmp_path: Path) -> None:
    index = built(
        [Document("d1", "a a b"), Document("d2", "b"), Document("d3", "c")], tmp_path / "i"
    )
    run = index.bm25(k1=0.9, b=0.4)(queries("a b"))
    a, b = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)
    norm = 0.9 * (0.6 + 0.4 * 3 / (5 / 3))
    assert dict(run.ranking(0))["d1"] == pytest.approx(a * 2 / (2 + norm) + b * 1 / (1 + norm))
    likely = index.ql(mu=100)(queries("c"))
    p = (1 + 1) / (5 + 1)
    expected = math.log(1 + 1 / (100 * p)) + math.log(100 / 101)
    assert dict(likely.ranking(0)) == pytest.approx({"d3": expected})


@pytest.fixture(scope="module")
def many() -> list[Document]:
    """More documents than fit a window, with words of all frequencies and many equal scores."""
    chance = random.Random(3)
    vocabulary = [f"w{n}" for n in range(2000)]
    likely = [1 / (n + 1) for n in range(2000)]
    texts = chance.choices(vocabulary, likely, k=70_000 * 8)
    documents = []
    for n in range(70_000):
        length = 1 + n * 7 % 8
        documents.append(
            Document(f"{n * 7919 % 70_000:05}", " ".join(texts[n * 8 : n * 8 + length]))
        )
    return documents


@pytest.fixture(scope="module")
def large(many: list[Document], tmp_path_factory: pytest.TempPathFactory) -> Index:
    return built(many, tmp_path_factory.mktemp("large") / "index")


def some_queries() -> list[dict[str, float]]:
    chance = random.Random(4)
    found: list[dict[str, float]] = []
    for _ in range(150):
        ranks = [int(chance.paretovariate(0.35)) % 2000 for _ in range(chance.randint(1, 12))]
        found.append({f"w{rank}": chance.choice([1, 1, 2, 0.37]) for rank in ranks})
    return found


def test_the_best_k_are_the_first_k_of_all(large: Index) -> None:
    """A search for all keeps no threshold: nothing can be left out."""
    asked = some_queries()
    names = queries(*[""] * len(asked))
    for source in (large.bm25(), large.ql(), large.bm25(k1=0, b=0)):
        everything = source.search_weighted(names, asked, 100_000)
        for k in (1, 10, 100, 1000):
            assert source.search_weighted(names, asked, k) == everything.top(k)


def test_a_search_over_windows_is_that_of_a_plain_search(
    large: Index, many: list[Document]
) -> None:
    reference = Reference(many)
    for query in some_queries()[:5]:
        run = large.bm25().search_weighted(queries(""), [query], 100_000)
        assert_best(run, reference.scores(query, reference.bm25(0.9, 0.4)), 100_000)


def test_threads_and_batches_change_nothing(large: Index) -> None:
    asked = some_queries()
    names = queries(*[""] * len(asked))
    one = large.bm25(threads=1).search_weighted(names, asked, 50)
    assert large.bm25(threads=3).search_weighted(names, asked, 50) == one
    for n in (0, 70, 149):
        alone = large.bm25().search_weighted(queries(""), [asked[n]], 50)
        assert list(alone.ranking(0)) == list(one.ranking(n))


def all_rankings(index: Index) -> list[Run]:
    asked = queries("a", "b gg", "c d e f", "hh hh a", "unknown", "")
    sources = [index.bm25(), index.ql(), index.bm25().rm3(3, 4), index.ql(50).rm3(weight=0.2)]
    return [(source % k)(asked) for source in sources for k in (3, 1000)]


@some
@given(collections, st.randoms(use_true_random=False))
def test_any_order_of_documents_gives_the_same_ranking(
    tmp_path: Path, documents: list[Document], chance: random.Random
) -> None:
    before = all_rankings(built(documents, tmp_path / "index"))
    chance.shuffle(documents)
    assert all_rankings(built(documents, tmp_path / "index")) == before


@some
@given(collections, st.integers(0, 40), st.integers(0, 40))
def test_three_segments_are_as_good_as_one(
    tmp_path: Path, documents: list[Document], first: int, second: int
) -> None:
    one = built(documents, tmp_path / "one")
    index = built(documents[:first], tmp_path / "three")
    index.add(documents[first : first + second])
    index.add(documents[first + second :])
    assert all_rankings(index) == all_rankings(one)
    assert_same_statistics(index, one, [document.id for document in documents])
    index.merge()
    assert len(index.snapshot.segments) == 1
    assert all_rankings(index) == all_rankings(one)


def assert_same_statistics(index: TermStatistics, other: TermStatistics, ids: list[str]) -> None:
    assert (index.num_documents, index.total_terms) == (other.num_documents, other.total_terms)
    for term in ["a", "b", "gg", "unknown"]:
        assert index.document_frequency(term) == other.document_frequency(term)
        assert index.collection_frequency(term) == other.collection_frequency(term)
    for doc_id in ids:
        assert index.document_vector(doc_id) == other.document_vector(doc_id)
    assert index.score_text("a b", "a b c") == other.score_text("a b", "a b c")


@some
@given(collections, st.sets(st.integers(0, 39)), st.sets(st.integers(0, 39)), st.booleans())
def test_deleted_documents_were_never_there(
    tmp_path: Path, documents: list[Document], gone: set[int], later: set[int], merge: bool
) -> None:
    index = built(documents[:20], tmp_path / "index")
    index.add(documents[20:])
    index.delete(f"d{n}" for n in gone)
    index.delete(f"d{n}" for n in later)
    left = [document for document in documents if int(document.id[1:]) not in gone | later]
    if merge:
        index.merge()
    fresh = built(left, tmp_path / "fresh")
    assert all_rankings(Index.open(index.path)) == all_rankings(fresh)
    assert_same_statistics(index, fresh, [document.id for document in left])
    assert list(index) == left
    for n in gone | later:
        assert f"d{n}" not in index
        with pytest.raises(KeyError):
            index.document(f"d{n}")


def test_a_document_with_a_known_id_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    index = built([Document("d1", "a"), Document("d2", "b")], tmp_path / "index")
    index.add([Document("d1", "c"), Document("d3", "a")])
    assert (len(index), index.document("d1").text) == (3, "c")
    assert index.document_frequency("a") == 1
    assert all_rankings(index) == all_rankings(
        built([Document("d2", "b"), Document("d1", "c"), Document("d3", "a")], tmp_path / "other")
    )
    index.delete(["d1", "d2", "d3", "never there"])
    assert len(index) == 0
    assert index.bm25()(queries("a")).ranking(0).ids == []
    verify(index.path)


def test_little_memory_gives_more_segments_and_the_same_ranking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [Document(f"d{n}", f"a b{n % 7} c{n % 3}") for n in range(50)]
    one = built(documents, tmp_path / "one")
    monkeypatch.setattr("tamis.search.build.BATCH_DOCUMENTS", 2)
    monkeypatch.setattr("tamis.search.build.POSTING_MEMORY", 1 << 40)
    several = built(documents, tmp_path / "several")
    assert len(several.snapshot.segments) > 1
    assert all_rankings(several) == all_rankings(one)
    with pytest.raises(InputError, match="'d3' occurs twice"):
        built([*documents, Document("d3", "again")], tmp_path / "twice")


def test_an_index_of_nothing_finds_nothing(tmp_path: Path) -> None:
    index = built([], tmp_path / "index")
    assert [run.doc.tolist() for run in all_rankings(index)] == [[]] * 8
    assert (len(index), index.document_frequency("a"), index.score_text("a", "a")) == (0, 0, 0.0)
    index.add([Document("d1", "a")])
    assert index.bm25()(queries("a")).ranking(0).ids == ["d1"]


def test_odd_texts_are_indexed_and_searched(tmp_path: Path) -> None:
    long, right, wide = "x" * 10_000, "שלום עולם", "世界"
    documents = [
        Document("empty", ""),
        Document("stop", "the of and"),
        Document("long", long),
        Document("nul", "sieve\0drum"),
        Document("right", right),
        Document("wide", wide, title="\U0001f600"),
    ]
    index = Index.build(documents, tmp_path / "index")
    run = index.bm25()(queries("", "the", "sieve drum", right, wide, "\ud800 sieve", long))
    found = [set(run.ranking(n).ids) for n in range(7)]
    assert found == [set(), set(), {"nul"}, {"right"}, {"wide"}, {"nul"}, {"long"}]
    with pytest.raises(InputError, match="surrogate"):
        index.add([Document("half", "\ud800")])
    assert len(Index.open(index.path)) == 6
    verify(index.path)


def test_zero_scores_are_found_and_stand_last(tmp_path: Path) -> None:
    """Dirichlet gives a frequent term in a long document less than nothing: that counts as 0."""
    documents = [Document("long", "a " + "b " * 3000), Document("d1", "a"), Document("d2", "a")]
    found = list(built(documents, tmp_path / "index").ql(mu=10)(queries("a")).ranking(0))
    assert [doc_id for doc_id, _ in found] == ["d2", "d1", "long"]
    assert found[-1][1] == 0


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    index = built([Document("d1", "a")], tmp_path / "index")
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="weight"):
            index.bm25().search_weighted(queries(""), [{"a": weight}], 10)
    for source in (lambda: BM25(k1=-1), lambda: BM25(b=2), lambda: QueryLikelihood(0)):
        with pytest.raises(InputError):
            source()
    with pytest.raises(InputError, match="no texts"):
        index.bm25()(Queries(Ids.of(["q1"])))
    with pytest.raises(OutputError, match="exists already"):
        Index.build([], index.path)
    with pytest.raises(InputError, match="no index"):
        Index.open(tmp_path / "nothing")
    with pytest.raises(InputError, match="memory"):
        Index.build([], tmp_path / "other", memory=1000)


def test_the_analyzer_of_the_index_is_the_analyzer_of_its_queries(tmp_path: Path) -> None:
    dashes = FunctionAnalyzer("dashes", "1", lambda text: text.split("-"))
    path = tmp_path / "index"
    Index.build([Document("d1", "a-b")], path, analyzer=dashes)
    assert Index.open(path, dashes).bm25()(queries("b")).ranking(0).ids == ["d1"]
    with pytest.raises(InputError, match="'dashes'"):
        Index.open(path)
    with pytest.raises(InputError, match="version '2'"):
        Index.open(path, FunctionAnalyzer("dashes", "2", str.split))


def test_a_reader_goes_on_while_the_index_changes(tmp_path: Path) -> None:
    documents = [Document(f"d{n}", "a b") for n in range(100)]
    writer = built(documents, tmp_path / "index")
    reader = Index.open(writer.path)
    before = all_rankings(built(documents, tmp_path / "same"))
    writer.add([Document("d1", "c")])
    writer.delete(["d2"])
    writer.merge()
    assert all_rankings(reader) == before
    assert reader.document("d2").text == "a b"
    assert len(Index.open(writer.path)) == 99


def test_a_title_is_searched_with_the_text(tmp_path: Path) -> None:
    index = Index.build([Document("d1", "sort grain", title="Sieves")], tmp_path / "index")
    assert index.document_vector("d1") == {"siev": 1, "sort": 1, "grain": 1}
    assert index.bm25()(Queries.of([Query("q", "sieve")])).ranking(0).ids == ["d1"]


def test_the_score_of_a_text_is_that_of_a_document_with_it(tmp_path: Path) -> None:
    documents = [Document("d1", "a a b c"), Document("d2", "b c d"), Document("d3", "e f g h")]
    index = built(documents, tmp_path / "index")
    for source in (index.bm25(), index.ql(20)):
        found = dict(source(queries("a b d")).ranking(0))
        for doc_id, score in found.items():
            text = index.document(doc_id).text
            assert source.score_text("a b d", text) == pytest.approx(score, rel=1e-6)
