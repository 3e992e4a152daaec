"""What a file or folder is, whatever it is called."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tamis.collection.detection import detect_format
from tamis.collection.format_registry import FORMATS
from tamis.collection.judgements import write_qrels
from tamis.collection.runs import write_run
from tamis.collection.tables import Columns
from tamis.errors import InputError, UnknownFormatError
from tamis.manifest import write_manifest
from tamis.types import Qrels, Run

FILES = [
    ("jsonl", '{"id": 1, "text": "x"}\n{"id": 2}\n'),
    ("jsonl", '\n{"id": 1, "text": "x"}'),
    ("jsonl", '{"id": 1, "text": \n{"id": 2, "text": "y"}\n'),
    ("jsonl", '{"id": 1, "text": "' + "long " * 100_000 + '"}\n'),
    ("trectext", "<DOC>\n<DOCNO> FT911-1 </DOCNO>\n<TEXT>x</TEXT></DOC>\n"),
    ("trectext", "<?xml version='1.0'?>\n<docs>\n<doc id='1'><docno>1</docno></doc></docs>"),
    ("topics", "\n<top>\n<num> Number: 301\n<title> crime\n</top>\n"),
    ("topics-xml", "<?xml version='1.0'?>\n<topics task='x'>\n<topic number='1'/></topics>"),
    ("files", "<!DOCTYPE html>\n<html><body>hello</body></html>"),
    ("files", "%PDF-1.4\n\0\1\2"),
    ("csv", "id,title,text\n1,a,b\n"),
    ("csv", 'docno,"body"\n1,"a\nb"\n'),
    ("csv", "qid,question\n1,a\n"),
    ("tsv", "pid\tpassage\n1\ta\n"),
    ("tsv", "query_id\tquery\n1\ta\n"),
    ("reranking", "qid\tpid\tqueries\tpassage\trelevancy\n1\t2\ta\tb\t1\n"),
    ("reranking", "qid\tpid\tquery\tpassage\tlabel\n1\t2\ta\tb\t1\n"),
    ("beir-qrels", "query-id\tcorpus-id\tscore\n1\t2\t1\n"),
    ("id-text", "1\tone two\n2\tthree\n"),
    ("msmarco-docs", "D1\thttps://a.b/\tTitle\tBody text\n"),
    ("qrels", "301 0 FT911-1 1\n301 0 FT911-2 0\n"),
    ("qrels", "1\t0\t7\t1\n"),
    ("qrels", "q1 Q0 d1 -1\r\n"),
    ("run", "301 Q0 FT911-1 1 12.5 bm25\n301 Q0 FT911-2 2 -1e-3 bm25\n"),
    ("querylog", "how do I sift flour\ndrum sieve, cheap\n"),
    ("querylog", "1 0 2 x\n"),
    ("querylog", "the 10 best sieves 2 buy\na b c 1 2.5 me\n"),
    ("querylog", "q1 is d1 1 2.5 me\n"),
    ("querylog", "caf\xe9 {x}\n< 5 sieves\n"),
]


@pytest.mark.parametrize(("format", "text"), FILES)
@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, zstandard.compress, b"\xef\xbb\xbf".__add__]
)
def test_files(tmp_path: Path, format: str, text: str, pack: object) -> None:
    assert callable(pack)
    if pack == b"\xef\xbb\xbf".__add__ and text.startswith("%PDF"):
        return
    path = tmp_path / "misleading.parquet"
    path.write_bytes(pack(text.encode()))
    assert detect_format(path) == format
    assert format in FORMATS


def test_parquet_by_its_metadata(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_run(Run.from_dict({"q": {"d": 1.0}}), path)
    assert detect_format(path) == "run"
    write_qrels(Qrels.from_dict({"q": {"d": 1}}), path, force=True)
    assert detect_format(path) == "qrels"
    pq.write_table(pa.table({"id": ["1"]}), path)
    assert detect_format(path.rename(tmp_path / "a.txt")) == "parquet"


def test_columns_the_user_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("sku,words\n1,one\n")
    assert detect_format(path) == "querylog"
    assert detect_format(path, Columns(id="sku", text="words")) == "csv"


UNKNOWN = [
    (b"", "is empty"),
    (b"\n \n", "is empty"),
    (b"\x7fELF\0\0\1", "is not text, nor anything known"),
    ("id,text\n".encode("utf-16"), "is UTF-16"),
    (b"BZh91AY", "is packed with bzip2"),
    (b"\x1f\x9d\x90", "is packed with compress"),
    (b'[\n{"id": 1}\n]', "is JSON, but not one object a line"),
    (b'{\n  "id": 1\n}', "is JSON, but not one object a line"),
    (b"a\tb\tc\n", "is a table of an unknown kind, which begins with: 'a"),
    (b"<rss><item/></rss>", "has markup of an unknown kind"),
]


@pytest.mark.parametrize(("raw", "problem"), UNKNOWN)
def test_unknown(tmp_path: Path, raw: bytes, problem: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(raw)
    with pytest.raises(UnknownFormatError) as caught:
        detect_format(path)
    assert problem in str(caught.value)
    assert caught.value.hint


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file or folder"):
        detect_format(tmp_path / "absent")


def folder_with(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", ".")
        path.write_text(text)
    return root


def test_folders(tmp_path: Path) -> None:
    def new(name: str, **files: str) -> Path:
        (tmp_path / name).mkdir()
        return folder_with(tmp_path / name, **files)

    assert detect_format(new("a", corpus__jsonl="{}", readme__txt="x")) == "beir"
    assert detect_format(new("b", corpus__jsonl__gz="{}")) == "beir"
    assert detect_format(new("c", collection__tsv="1\tx")) == "msmarco"
    assert detect_format(new("d", msmarco_docs="x", notes__txt="x")) == "files"
    assert (
        detect_format(new("e", readme="about", ft911="<DOC><DOCNO>1</DOCNO>x</DOC>")) == "trectext"
    )
    assert detect_format(new("f", notes__md="# Title", data__bin="\0")) == "files"
    index = new("g", corpus__jsonl="{}")
    write_manifest(index, "index", 1)
    assert detect_format(index) == "index"


def test_folders_that_could_be_anything(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match="is empty"):
        detect_format(tmp_path)
    folder_with(tmp_path, data__bin="\0")
    with pytest.raises(UnknownFormatError, match="cannot tell what the folder") as caught:
        detect_format(tmp_path)
    assert "corpus.jsonl (BEIR)" in caught.value.hint
    folder_with(tmp_path, docs__jsonl='{"id": 1}', queries__jsonl='{"id": 1}')
    with pytest.raises(UnknownFormatError) as caught:
        detect_format(tmp_path)
    assert caught.value.hint.startswith(
        "if every file in it holds documents, say so: --format jsonl; looked for"
    )
