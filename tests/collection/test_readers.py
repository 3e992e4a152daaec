"""Opening collections and queries, and what a written format could not hold."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
import zstandard

from tamis.collection.base import Collection, Faults
from tamis.collection.format_registry import FORMATS
from tamis.collection.formats import Format
from tamis.collection.querylog import query_id
from tamis.collection.readers import open_collection, read_queries
from tamis.collection.tables import Columns
from tamis.collection.writers import write_collection, write_queries
from tamis.errors import InputError, OutputError
from tamis.types import Document, Qrels, Queries, Query

DOCS = [
    Document("d1", "Sieves\tsort\ngrain.", "Sieves", {"Größe": "3", "url": "u"}),
    Document("d2", "Drums are round."),
]
QUERIES = Queries.of([Query("q1", "sieve"), Query("q2", "drum\nkit", {"narrative": "n"})])
QRELS = {"test": Qrels.from_dict({"q1": {"d1": 2, "d2": 0}})}
SMALL = Collection("small", "made", DOCS, lambda: QUERIES, lambda: QRELS)


def test_notes_of_msmarco(tmp_path: Path) -> None:
    assert write_collection(SMALL, tmp_path / "m", "msmarco") == [
        "titles were put before the text of 1 document: MS MARCO files have no column for them",
        "the fields of 1 document were left out: there is no column for them",
        "tabs or line breaks in 1 text were replaced by spaces: a line here is one record",
        "the fields of 1 query were left out: there is no column for them",
        "tabs or line breaks in 1 query were replaced by spaces: a line here is one record",
    ]
    again = open_collection(tmp_path / "m")
    assert [d.text for d in again.documents] == ["Sieves Sieves sort grain.", "Drums are round."]
    assert again.queries.texts == ("sieve", "drum kit")
    assert dict(again.qrels) == QRELS


def test_msmarco_files(tmp_path: Path) -> None:
    docs = [Document("d1", "ends in a return\r")]
    write_collection(
        Collection("m", "made", docs, lambda: QUERIES, lambda: QRELS), tmp_path / "m", "msmarco"
    )
    assert {path.name: path.read_text() for path in (tmp_path / "m").iterdir()} == {
        "collection.tsv": "d1\tends in a return \n",
        "qrels.test.tsv": "q1\t0\td1\t2\nq1\t0\td2\t0\n",
        "queries.test.tsv": "q1\tsieve\n",
        "queries.unjudged.tsv": "q2\tdrum kit\n",
    }


def test_msmarco_files_of_no_split(tmp_path: Path) -> None:
    (tmp_path / "collection.tsv").write_text("d1\tA drum.\n")
    (tmp_path / "queries.tsv").write_text("q1\tdrum\n")
    (tmp_path / "qrels.tsv").write_text("q1\t0\td1\t1\n")
    found = open_collection(tmp_path)
    assert found.queries.texts == ("drum",)
    assert dict(found.qrels) == {"all": Qrels.from_dict({"q1": {"d1": 1}})}


def test_files_that_a_beir_folder_would_pass_over(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": "A drum."}\n')
    (tmp_path / "queries.tsv").write_text("q1\tdrum\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\n")
    found = open_collection(tmp_path)
    assert [document.id for document in found.documents] == ["d1"]
    with pytest.raises(InputError, match=r"queries\.tsv would not be read"):
        _ = found.queries
    with pytest.raises(InputError, match=r"qrels\.txt would not be read") as told:
        _ = found.qrels
    assert "--qrels" in told.value.hint
    given = open_collection(
        tmp_path, queries=str(tmp_path / "queries.tsv"), qrels={"all": str(tmp_path / "qrels.txt")}
    )
    assert given.queries.texts == ("drum",) and given.qrels["all"]["q1"] == {"d1": 1}


def test_notes_of_files_of_documents(tmp_path: Path) -> None:
    assert write_collection(SMALL, tmp_path / "d.jsonl.gz", "jsonl") == [
        "dropped, because the file holds documents only: 2 queries",
        "dropped, because the file holds documents only: 2 judgements",
    ]
    assert [*open_collection(tmp_path / "d.jsonl.gz").documents] == DOCS


def test_notes_of_trec_files(tmp_path: Path) -> None:
    assert write_collection(SMALL, tmp_path / "t", "trectext") == [
        "the field 'Größe' of 1 document was left out: it cannot be a tag"
    ]
    notes = write_queries(QUERIES, tmp_path / "log", "querylog")
    assert notes[0] == "the ids of 2 queries were dropped: a query log cannot hold them"


def test_ids_a_format_cannot_hold(tmp_path: Path) -> None:
    bad = Collection("bad", "made", [Document("d\t1", "x")])
    with pytest.raises(InputError, match=r"id 'd\\t1' has a tab"):
        write_collection(bad, tmp_path / "m", "msmarco")
    judged = Collection(
        "bad", "made", DOCS, qrels=lambda: {"test": Qrels.from_dict({"q": {"d\n1": 1}})}
    )
    with pytest.raises(InputError, match=r"id 'd\\n1' has a tab or a line break"):
        write_collection(judged, tmp_path / "b", "beir")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("format", [f.name for f in FORMATS.values() if f.write_collection])
def test_what_exists_is_not_replaced(tmp_path: Path, format: str) -> None:
    write_collection(SMALL, tmp_path / "x", format)
    with pytest.raises(OutputError, match="exists already"):
        write_collection(SMALL, tmp_path / "x", format)
    write_collection(SMALL, tmp_path / "x", format, force=True)
    assert [d.id for d in open_collection(tmp_path / "x").documents] == ["d1", "d2"]


def test_formats_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write a collection as 'run'"):
        write_collection(SMALL, tmp_path / "x", "run")
    with pytest.raises(InputError, match="cannot write queries as 'beir'"):
        write_queries(QUERIES, tmp_path / "x", "beir")


@pytest.mark.parametrize("format", FORMATS.values(), ids=lambda format: format.name)
def test_a_format_reads_what_it_holds(format: Format) -> None:
    readers = {
        "collection": format.open_collection,
        "documents": format.open_collection,
        "queries": format.read_queries or format.open_collection,
        "qrels": format.read_qrels or format.open_collection,
        "run": format.read_run,
    }
    assert format.holds and all(readers[content] for content in format.holds)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packed_beir_with_other_queries_and_judgements(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    folder = tmp_path / "b"
    write_collection(SMALL, folder, "beir")
    suffix = ".gz" if pack is gzip.compress else ".zst"
    for path in [folder / "corpus.jsonl", folder / "queries.jsonl", folder / "qrels/test.tsv"]:
        path.with_name(path.name + suffix).write_bytes(pack(path.read_bytes()))
        path.unlink()
    again = open_collection(folder)
    assert ([*again.documents], again.queries, again.qrels) == (DOCS, QUERIES, QRELS)
    (tmp_path / "log").write_text("sieve\n")
    (tmp_path / "judged").write_text(f"{query_id('sieve')} 0 d1 1\n")
    other = open_collection(folder, queries=tmp_path / "log", qrels={"mine": tmp_path / "judged"})
    assert other.queries.texts == ("sieve",)
    assert {split: qrels.to_dict() for split, qrels in other.qrels.items()} == {
        "mine": {query_id("sieve"): {"d1": 1}}
    }
    assert [*other.documents] == DOCS
    assert open_collection(folder, queries=tmp_path / "log").qrels == QRELS


def test_two_files_for_one_thing(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("{}")
    (tmp_path / "corpus.jsonl.gz").write_text("{}")
    with pytest.raises(InputError, match=r"has corpus\.jsonl and corpus\.jsonl\.gz"):
        open_collection(tmp_path)


def test_what_is_not_a_collection(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("q1 Q0 d1 1 2.5 me\n")
    with pytest.raises(InputError, match="is not a collection: it is run, TREC run"):
        open_collection(path)
    with pytest.raises(InputError, match="is not queries: it is run"):
        read_queries(path)
    with pytest.raises(InputError, match="there is no file or folder") as caught:
        open_collection(tmp_path / "absent")
    assert caught.value.hint == "a collection is a path, tamis:pydocs or ir_datasets:ID"
    with pytest.raises(InputError, match="there is no file or folder"):
        open_collection(path, format="jsonl", queries=tmp_path / "absent")
    with pytest.raises(InputError, match="there is no format 'json'"):
        open_collection(path, format="json")
    with pytest.raises(InputError, match="there is no collection tamis:docs"):
        open_collection("tamis:docs")


def test_columns_of_formats(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"key": "d1", "text": "one"}')
    (tmp_path / "queries.jsonl").write_text('{"key": "q1", "text": "one"}')
    with pytest.raises(InputError, match=r"corpus\.jsonl:1: no field '_id'"):
        [*open_collection(tmp_path).documents]
    collection = open_collection(tmp_path, columns=Columns(id="key"))
    assert [d.id for d in collection.documents] == ["d1"]
    assert [*collection.queries.ids] == ["q1"]
    (tmp_path / "t").write_text(TREC)
    with pytest.raises(InputError, match="has no columns to name: it is trectext"):
        open_collection(tmp_path / "t", columns=Columns(id="key"))


def test_splits_that_cannot_name_a_file(tmp_path: Path) -> None:
    odd = Collection("odd", "made", DOCS, qrels=lambda: {"../x": QRELS["test"]})
    with pytest.raises(InputError, match="cannot name a file"):
        write_collection(odd, tmp_path / "b", "beir")


def test_queries_of_a_folder(tmp_path: Path) -> None:
    write_collection(SMALL, tmp_path / "b", "beir")
    assert read_queries(tmp_path / "b") == QUERIES


def test_queries_with_bad_lines_skipped(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one\n\n\nfour\n")
    faults = Faults(skip=True)
    queries = read_queries(tmp_path / "log", faults=faults)
    assert {*queries.ids} == {query_id("one"), query_id("four")}
    assert faults.count == 2


def test_msmarco_documents(tmp_path: Path) -> None:
    (tmp_path / "msmarco-docs.tsv").write_text("D1\thttps://a\tTitle\tBody\nD2\t\t\tText\n")
    (tmp_path / "msmarco-doctrain-queries.tsv.gz").write_bytes(gzip.compress(b"1\twhat\n"))
    (tmp_path / "msmarco-doctrain-qrels.tsv").write_text("1 0 D1 1\n")
    collection = open_collection(tmp_path)
    assert [*collection.documents] == [
        Document("D1", "Body", "Title", {"url": "https://a"}),
        Document("D2", "Text"),
    ]
    assert collection.queries["1"].text == "what"
    assert collection.qrels["train"]["1"] == {"D1": 1}
    (single,) = [*open_collection(tmp_path / "msmarco-docs.tsv", format="msmarco-docs").documents][
        :1
    ]
    assert single.title == "Title"


TREC = """\
<DOC>
<DOCNO> FT911-1 </DOCNO>
<DATE>910514
</DATE>
<HEADLINE>
<P>FT  14 MAY 91 / Profits &amp; losses</P>
</HEADLINE>
<LP>The lead.</LP>
<TEXT>
<P>
AT&T fell &lt;5%.
</P>
</TEXT>
<TEXT>More.</TEXT>
</DOC>
<DOC><DOCNO>G1</DOCNO><DOCHDR>http://x</DOCHDR><br>Web
<b>page</b></DOC> <DOC><DOCNO>G2</DOCNO>x</DOC>
"""


def test_trec_documents_as_they_come(tmp_path: Path) -> None:
    (tmp_path / "ft911_1").write_text(TREC, newline="\r\n")
    assert [*open_collection(tmp_path).documents] == [
        Document(
            "FT911-1",
            "The lead.\nAT&T fell <5%.\nMore.",
            "FT  14 MAY 91 / Profits & losses",
            {"date": "910514"},
        ),
        Document("G1", "Web\n page", "", {"dochdr": "http://x"}),
        Document("G2", "x"),
    ]


TOPICS = """\
<top>

<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that participate in
international criminal activity.

<narr> Narrative:
A relevant document must name R&D &amp; more.
</top>
<top>
<num>302</num>
<title>Topic: Poliomyelitis</title>
</top>
"""


def test_classic_topics_as_they_come(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(TOPICS)
    queries = read_queries(tmp_path / "t")
    assert [query.text for query in queries] == ["International Organized Crime", "Poliomyelitis"]
    assert queries["301"].fields == {
        "description": "Identify organizations that participate in\n"
        "international criminal activity.",
        "narrative": "A relevant document must name R&D & more.",
    }


def test_a_topic_that_begins_like_a_label(tmp_path: Path) -> None:
    queries = Queries.of([Query("1", "topic: models"), Query("2", "Number: theory")])
    write_queries(queries, tmp_path / "t", "topics")
    assert read_queries(tmp_path / "t") == queries


def test_trec_ids_are_compared_across_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("<DOC>\n<DOCNO>d1</DOCNO>x</DOC>\n")
    with pytest.raises(InputError, match="b:1: document id 'd1' occurs a second time"):
        [*open_collection(tmp_path).documents]


XML_TOPICS = """\
<topics task="covid">
<topic number="1" type="x">
<query>coronavirus origin</query>
<question>what is its &lt;origin&gt;?</question>
<narrative>seeking <i>range</i> of
</narrative>
</topic>
<topic number="2">a patient with fever</topic>
<topic><num>3</num><title>third</title><subtopic>a</subtopic><subtopic>b</subtopic></topic>
</topics>
"""


def test_xml_topics_as_they_come(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(XML_TOPICS)
    queries = read_queries(tmp_path / "t")
    assert queries.texts == ("coronavirus origin", "a patient with fever", "third")
    assert {n: v for n, v in queries["1"].fields.items() if v} == {
        "type": "x",
        "question": "what is its <origin>?",
        "narrative": "seeking range of",
    }
    assert queries["3"].fields["subtopic"] == "a\nb"


def test_control_characters_in_xml_are_noted(tmp_path: Path) -> None:
    notes = write_queries(Queries.of([Query("1", "a\x01b")]), tmp_path / "t", "topics-xml")
    assert notes == ["control characters in 1 value were replaced by spaces: XML has none"]
    assert read_queries(tmp_path / "t")["1"].text == "a b"


@pytest.mark.skipif("TAMIS_DATA" not in os.environ, reason="TAMIS_DATA is not set")
def test_a_real_collection(tmp_path: Path) -> None:
    cacm = open_collection(Path(os.environ["TAMIS_DATA"]) / "cacm")
    documents = [*cacm.documents]
    assert (len(documents), len(cacm.queries), len(cacm.qrels["test"].doc)) == (3204, 64, 796)
    for format in ("trectext", "beir", "store"):
        assert write_collection(cacm, tmp_path / format, format) == []
        again = open_collection(tmp_path / format)
        assert [*again.documents] == documents
        assert again.queries == cacm.queries
        assert again.qrels == cacm.qrels
