"""Queries made from documents, and the examples made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.labels import read_examples, write_examples
from tamis.labels._groups import generator
from tamis.labels.example_texts import row_texts
from tamis.labels.examples import LABEL_SOURCES, Examples
from tamis.labels.query_generation import body_start, read_headings, sentence_query, title_query
from tamis.labels.synthetic import synthetic
from tamis.pipeline.document_lookup import IndexLookup
from tamis.search import Index
from tamis.text.passages import parse_spec
from tamis.types import Document, Queries, Run, Source, Spec

LEFT = "one two three four five six seven eight nine ten"
WHOLE = parse_spec("whole")
FILLER = "this text about flour goes on for quite some words more"
KITCHEN = [
    Document("tamis", f"A drum with a fine mesh. Flour is rubbed through the mesh. 1: {FILLER}.",
             "Drum sieve"),
    Document("mill", f"Two heavy stones grind the grain. The mill stands on a hill. 2: {FILLER}.",
             "Flour mill"),
    Document("sack", f"A sack of jute holds flour. It stands below the flour mill. 3: {FILLER}.",
             "Flour sack"),
    Document("page", f"How to sift flour\n\nRub the flour with a scraper. 4: {FILLER}."),
    Document("one", f"First part: all of the flour. 5: {FILLER}.", "Appendix A"),
    Document("two", f"Second part: more of the flour. 6: {FILLER}.", "appendix  a"),
    Document("tiny", "Flour.", "Tiny text"),
    Document("3", "1 2 3 4 5 6 7 8 9 10 11 12. 1 2 3 4 5 6 7 8 9.", "12 34"),
]  # fmt: skip


class Other(Source):
    """A first stage that cannot score texts."""

    def __init__(self, index: Index) -> None:
        self.bm25 = index.bm25()

    def search(self, queries: Queries, top: int = 1000) -> Run:
        return self.bm25.search(queries, top)

    def spec(self) -> Spec:
        return {"kind": "other"}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return Index.build(KITCHEN, tmp_path_factory.mktemp("synthetic") / "index")


def texts(made: Examples, index: Index) -> tuple[list[str], list[str]]:
    return row_texts(made, np.arange(len(made)), IndexLookup(index))


def test_a_title_asks_for_the_text() -> None:
    shared = read_headings(KITCHEN).shared
    asked = {each.id: title_query(each, shared) for each in KITCHEN}
    assert {name: query.text for name, query in asked.items() if query} == {
        "tamis": "Drum sieve",
        "mill": "Flour mill",
        "sack": "Flour sack",
        "page": "How to sift flour",
    }
    page = asked["page"]
    assert page is not None
    assert page.origin.field == "text"
    assert KITCHEN[3].text[slice(*page.answer)].lstrip().startswith("Rub the flour")


def test_a_text_may_begin_with_its_title() -> None:
    document = Document("d", f" Drum sieve\nA drum. {LEFT}", "Drum sieve")
    assert document.text[body_start(document) :].startswith("\nA drum")
    assert body_start(Document("d", "A drum.", "Drum sieve")) == 0
    assert body_start(Document("d", "This first line is no heading.\nA drum.")) == 0
    assert body_start(Document("d", " ".join(["word"] * 13) + "\nA drum.")) == 0


def test_a_sentence_asks_for_the_rest_of_its_passage() -> None:
    text = f"Too short. A sentence of five words. The {LEFT}. {'Many ' * 41}more. 1 2 3 4 5 6."
    made = {
        query.text
        for seed in range(20)
        if (query := sentence_query(Document("d", text), WHOLE, generator(seed, "d")))
    }
    assert made == {"A sentence of five words.", f"The {LEFT}."}


def test_a_sentence_that_stands_there_twice_is_not_asked() -> None:
    once, twice = "Drums are beaten with two sticks.", "Grain is sorted by hand in the yard."
    text = f"{twice} {once} {twice} Flour falls through the mesh of the sieve."
    made = {
        query.text
        for seed in range(30)
        if (query := sentence_query(Document("d", text), WHOLE, generator(seed, "d")))
    }
    assert once in made and twice not in made


def test_a_passage_of_a_long_document_is_what_is_left() -> None:
    text = " ".join(f"Sentence number {n} of this long text." for n in range(100))
    query = sentence_query(Document("d", text), parse_spec("words:50"), generator(1, "d"))
    assert query is not None
    passage = text[slice(*query.answer)]
    assert query.text in passage
    assert 50 <= len(passage.split()) < 60


def test_nothing_is_made_of_too_little() -> None:
    for text in ("", "Flour.", "A sentence of five words.", "No end of the line"):
        assert sentence_query(Document("d", text), WHOLE, generator(0, "d")) is None
        assert title_query(Document("d", text, "A title")) is None


def test_the_document_is_positive_and_never_negative(index: Index) -> None:
    made = synthetic(index, index.bm25(), count=100, passages="whole")
    queries, read = texts(made, index)
    assert made.facts["counts"]["queries_from_titles"] == 3  # no other has a word of "drum sieve"
    assert made.facts["counts"]["queries_from_sentences"] == 2  # of 6 that something is found for
    assert set(np.unique(made.source)) == {LABEL_SOURCES.index("synthetic")}
    for row, (query, text) in enumerate(zip(queries, read, strict=True)):
        origin = made.origins[int(made.query[row])]
        is_positive = bool(made.is_role("positive")[row])
        assert (made.docs[int(made.doc[row])] == origin.doc_id) == is_positive
        of_a_title = query in ("Flour mill", "Flour sack", "How to sift flour")
        assert made.titled[row] != of_a_title
        assert of_a_title or query not in text


def test_titles_are_left_out_where_a_title_asks(index: Index) -> None:
    made = synthetic(index, index.bm25(), count=100, made_of=["title"])
    assert not made.titled.any()
    queries, read = texts(made, index)
    assert {"Flour mill", "Flour sack", "How to sift flour"} == set(queries)
    assert not any(text.startswith(("Drum sieve", "Flour ", "How to")) for text in read)
    assert "How to sift flour" not in "".join(read)


def test_a_document_with_the_same_sentence_is_no_negative(tmp_path: Path) -> None:
    said = "Click here to read about flour."
    shop = [Document(f"d{n}", f"{said} Sack number {n} of flour. {LEFT}") for n in range(4)]
    shop += [Document("other", f"Click to read something about flour in here. {LEFT}.")]
    index = Index.build(shop, tmp_path / "index")
    made = synthetic(index, Other(index), count=50, made_of=["sentence"], passages="whole")
    queries, _ = texts(made, index)
    for row in np.flatnonzero([query == said for query in queries]).tolist():
        assert made.value[row] == 1 or made.docs[int(made.doc[row])] == "other"


def test_negatives_are_passages_as_the_positive_is(tmp_path: Path) -> None:
    long = [
        Document(f"d{n}", " ".join(f"Sentence {m} of flour text {n}." for m in range(60)))
        for n in range(3)
    ]
    index = Index.build(long, tmp_path / "index")
    made = synthetic(index, index.bm25(), count=6, made_of=["sentence"], passages="words:40")
    _, read = texts(made, index)
    assert all(10 <= len(text.split()) < 50 for text in read)
    assert len({(int(s), int(e)) for s, e in zip(made.start, made.end, strict=True)}) > 2


def test_the_share_that_the_first_stage_answers_is_told(index: Index) -> None:
    source = index.bm25()
    made = synthetic(index, source, count=100, made_of=["title"])
    run = source.search(made.queries, 100)
    right = [
        run[query].ids[0] == made.origins[number].doc_id
        for number, query in enumerate(made.queries.ids)
    ]
    share = round(sum(right) / len(right), 4)
    assert made.facts["origin_at_rank_1"] == {"all": share, "title": share}


def test_the_share_without_the_query_is_that_of_an_index_without_it(tmp_path: Path) -> None:
    rest = "The mesh of a drum lets fine flour pass, and keeps all that is coarse."
    said = "Zebras never sift any flour."
    shop = [
        Document("d1", f"{said} {rest}"),
        Document("d2", "Flour that zebras like is never fine, say all who bake bread of it."),
        Document("d3", f"Flour, and {'much else besides it. ' * 20}"),
    ]
    index = Index.build(shop, tmp_path / "index")
    made = synthetic(index, index.bm25(), count=50, made_of=["sentence"], seed=3)
    assert {query.text for query in made.queries} == {said}
    assert made.facts["origin_at_rank_1"]["sentence"] == 1
    assert made.facts["origin_at_rank_1_without_query"] == {"all": 0, "sentence": 0}
    found = dict(index.bm25()(made.queries).ranking(0))
    assert found["d3"] < index.score_text(said, rest) < found["d2"]
    assert made.docs.take(made.doc) == ["d1", "d3"]
    without = synthetic(index, Other(index), count=50, made_of=["sentence"], seed=3)
    assert set(without.docs.take(without.doc)) == {"d1", "d2", "d3"}
    assert "origin_at_rank_1_without_query" not in without.facts


def test_the_seed_chooses(index: Index) -> None:
    options = {"count": 3, "made_of": ["sentence"], "negatives_per_query": 2}
    one = synthetic(index, Other(index), **options, seed=1)  # type: ignore[arg-type]
    assert one == synthetic(index, Other(index), **options, seed=1)  # type: ignore[arg-type]
    assert one != synthetic(index, Other(index), **options, seed=2)  # type: ignore[arg-type]
    assert one.groups == 3


def test_a_pool_holds_all_that_is_found(index: Index) -> None:
    made = synthetic(index, index.bm25(), count=4, negatives_per_query=None)
    assert made.is_role("pool").any()
    assert not made.is_role("negative").any()


def test_a_file_keeps_where_queries_come_from(index: Index, tmp_path: Path) -> None:
    made = synthetic(index, index.bm25(), count=100)
    write_examples(made, tmp_path / "made.parquet")
    read = read_examples(tmp_path / "made.parquet")
    assert read == made
    assert texts(read, index) == texts(made, index)


def test_what_cannot_be_done_says_so(tmp_path: Path) -> None:
    index = Index.build([Document("d1", "Flour.")], tmp_path / "one")
    with pytest.raises(InputError, match="no query can be made from 1 documents"):
        synthetic(index, index.bm25())
    with pytest.raises(InputError, match="nothing to make"):
        synthetic(index, index.bm25(), count=0)
    alone = Index.build([Document("d1", f"{LEFT}.", "Drum sieve")], tmp_path / "alone")
    with pytest.raises(InputError, match="nothing to set against"):
        synthetic(alone, alone.bm25())
