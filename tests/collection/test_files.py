"""Folders of files: which are read, what their titles and texts are, and what is a fault."""

from __future__ import annotations

import builtins
import importlib
import logging
import os
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pypdf
import pytest
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from tamis.collection.base import Faults
from tamis.collection.files import FileDocuments, open_files
from tamis.collection.filetexts import read_text
from tamis.collection.running_heads import without_running_heads
from tamis.errors import InputError, LineError, MissingExtraError, install_command
from tamis.types import Document


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def documents_of(path: Path, skip: bool = False) -> FileDocuments:
    documents = open_files(path, Faults(skip=skip)).documents
    assert isinstance(documents, FileDocuments)
    return documents


def ids_of(path: Path) -> list[str]:
    return [document.id for document in documents_of(path)]


def title_and_text(path: Path) -> tuple[str, str]:
    content = read_text(path)
    return content.title, content.text


def pdf(path: Path, *pages: str, title: str = "") -> Path:
    writer = pypdf.PdfWriter()
    for text in pages:
        page = writer.add_blank_page(300, 300)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        lines = " T* ".join(f"({line}) Tj" for line in text.split("\n"))
        stream.set_data(f"BT /F1 12 Tf 14 TL 20 200 Td {lines} ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    if title:
        writer.add_metadata({"/Title": title})
    with path.open("wb") as file:
        writer.write(file)
    return path


# Which files


def test_a_folder_is_read_by_path(tmp_path: Path) -> None:
    write(tmp_path / "b.txt", "beta")
    write(tmp_path / "a" / "z.md", "# Zeta\n\ntext")
    write(tmp_path / "a" / "deep" / "y.HTML", "<p>ypsilon")
    write(tmp_path / "a.rst", "alpha")
    write(tmp_path / "table.xlsx", "x")
    write(tmp_path / "a" / "photo.JPG", "x")
    write(tmp_path / "a" / "photo.jpg", "x")
    write(tmp_path / "Makefile", "x")
    write(tmp_path / ".hidden.txt", "no")
    write(tmp_path / ".git" / "readme.txt", "no")
    write(tmp_path / "~$letter.docx", "\x05Ada")
    documents = documents_of(tmp_path)
    assert [document.id for document in documents] == ["a.rst", "a/deep/y.HTML", "a/z.md", "b.txt"]
    assert list(documents) == list(documents)
    assert documents.faults.left_out == Counter({".jpg": 2, ".xlsx": 1, "without a suffix": 1})
    assert list(documents)[2] == Document("a/z.md", "Zeta\n\ntext", "Zeta")


def test_links(tmp_path: Path) -> None:
    root = tmp_path / "root"
    outside = write(tmp_path / "outside.txt", "secret")
    write(root / ".data" / "real.txt", "real")
    (root / "linked.txt").symlink_to(root / ".data" / "real.txt")
    (root / "out.txt").symlink_to(outside)
    (root / "up").symlink_to(tmp_path)
    (root / "circle.txt").symlink_to(root / "circle.txt")
    (root / "gone.txt").symlink_to(root / "nothing.txt")
    documents = documents_of(root)
    assert [document.id for document in documents] == ["linked.txt"]
    assert documents.faults.left_out == Counter({"symbolic link": 4})


def test_one_file(tmp_path: Path) -> None:
    [document] = documents_of(write(tmp_path / "note.txt", "Just a note."))
    assert document == Document("note.txt", "Just a note.")


def test_name_and_format(tmp_path: Path) -> None:
    collection = open_files(write(tmp_path / "docs" / "a.txt", "x").parent, Faults())
    assert (collection.name, collection.format) == ("docs", "files")
    assert len(collection.queries) == len(collection.qrels) == 0


def test_nothing_to_read(tmp_path: Path) -> None:
    write(tmp_path / "a.xlsx", "x")
    with pytest.raises(InputError, match="holds no text") as caught:
        open_files(tmp_path, Faults())
    assert caught.value.hint.startswith("found: 1 .xlsx; read are: .txt")
    with pytest.raises(InputError, match="holds no text"):
        open_files(tmp_path / "a.xlsx", Faults())
    with pytest.raises(InputError, match="there is no file or folder"):
        open_files(tmp_path / "missing", Faults())


# Titles and texts


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("Sieves\n\nThey sort grain.\n", "Sieves"),
        ("\n\nSieves\n\nThey sort grain.\n", "Sieves"),
        ("Sieves sort\ngrain.\n\nMore.\n", ""),
        ("Only one line\n", ""),
        ("Only one line\n\n\n", ""),
        ("x" * 121 + "\n\nMore\n", ""),
    ],
)
def test_titles_of_plain_text(tmp_path: Path, content: str, title: str) -> None:
    assert title_and_text(write(tmp_path / "a.txt", content)) == (title, content)


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("# Sieves\n\ntext", "Sieves"),
        ("text\n\n## Sieves and drums ##\n# Later", "Sieves and drums"),
        ("# C#\ntext", "C#"),
        ("#hashtag\n\n# Real", "Real"),
        ("Sieves\n======\n\ntext", "Sieves"),
        ("Sieves\n---\n\ntext", "Sieves"),
        ("text\n\n---\n\n# Sieves", "Sieves"),
        ("- item\n---\n# Sieves", "Sieves"),
        ("```sh\n# a comment\n```\n# Sieves", "Sieves"),
        ("~~~\n```\n# no\n~~~\n# Sieves", "Sieves"),
        ("# The **`sieve`** [manual](x.md)", "The sieve manual"),
        ("# snake_case and 2 * 3 * 4", "snake_case and 2 * 3 * 4"),
        ("no heading\n", ""),
        ("---\n\n# Sieves\n\n---\n\nafter", "Sieves"),
    ],
)
def test_titles_of_markdown(tmp_path: Path, content: str, title: str) -> None:
    assert title_and_text(write(tmp_path / "a.md", content))[0] == title


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("# Sieves\n\nThey *sort*.\n## Drums ##\n", "Sieves\n\nThey *sort*.\nDrums\n"),
        ("[Back](../i.md) ![chart](c.png)", "Back chart"),
        (
            "[![badge](b.svg)](https://x.org/a_(b) 'c') [ref][1] a[0] f(x)",
            "badge [ref][1] a[0] f(x)",
        ),
        ("see `[x](y)` and `a[i](b)`, [`open`](o.md)", "see `[x](y)` and `a[i](b)`, `open`"),
        ("```py\n# note\na[i](b)\n```\n# C# [d](e)", "```py\n# note\na[i](b)\n```\nC# d"),
        ("code:\n\n    # note\n\ta[i](b)\n#hashtag", "code:\n\n    # note\n\ta[i](b)\n#hashtag"),
    ],
)
def test_signs_of_markdown_are_left_out(tmp_path: Path, content: str, text: str) -> None:
    assert title_and_text(write(tmp_path / "a.md", content))[1] == text


@pytest.mark.parametrize(
    ("front", "title"),
    [
        ("title: From the front\ndate: x\n", "From the front"),
        ("layout: post\ntitle:  'It''s'  \n", "It's"),
        ('title: "Quoted: yes"\n', "Quoted: yes"),
        ("layout: post\n", "Heading"),
        ("title: >\n  folded\n  twice\n", "folded twice"),
        ("title: [a list]\n", "Heading"),
        ("title: 1984\n", "1984"),
        ("title:\n", "Heading"),
        ("title: 2024-05-01\n", "2024-05-01"),
    ],
)
def test_front_matter(tmp_path: Path, front: str, title: str) -> None:
    path = write(tmp_path / "a.md", f"---\n{front}---\n# Heading\ntext")
    assert title_and_text(path) == (title, "Heading\ntext")


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("Sieves\n======\n\ntext", "Sieves"),
        (".. _label:\n\n======\n Sieves\n======\n\ntext", "Sieves"),
        ("text\n\nSieves\n~~~~~~\n", "Sieves"),
        ("text\n\n----\n\ntext", ""),
        ("A much longer title\n==\n", ""),
        ("===  ===\na    b\n===  ===\n", ""),
    ],
)
def test_titles_of_restructured_text(tmp_path: Path, content: str, title: str) -> None:
    assert title_and_text(write(tmp_path / "a.rst", content)) == (title, content)


@pytest.mark.parametrize(
    ("content", "title", "text"),
    [
        (
            "<!doctype html><html><head><title>Sieves &amp; drums</title>"
            "<style>p {}</style><script>var x = '<p>no</p>';</script></head>"
            "<body><h1>Heading</h1><p>caf&eacute; &#8212; <b>bold</b>\nnext</p>"
            "<ul><li>one<li>two</ul><script>no()</script><!-- no --></body></html>",
            "Sieves & drums",
            "Heading\ncafé — bold next\none\ntwo",
        ),
        ("<h1>The\n <i>sieve</i></h1>a<br/>b<br>c", "The sieve", "The sieve\na\nb\nc"),
        ("<h1></h1><h1>Second</h1>", "Second", "Second"),
        ("<b>a</b>\n<i>b</i>", "", "a b"),
        ("<head><title>T</title><span>in line</span>", "T", "in line"),
        ("<title>T</title>bare text", "T", "bare text"),
        ("<svg><title>icon</title></svg><p>x", "", "x"),
        ("<table><tr><td>a<td>b</tr><tr><td>c</table>", "", "a b\nc"),
        ("<pre>x = 1\ny = 2</pre>z\nz", "", "x = 1\ny = 2\nz z"),
        ("1 < 2 &lt; 3 &nbsp;&unknown;", "", "1 < 2 < 3 &unknown;"),
    ],
)
def test_html(tmp_path: Path, content: str, title: str, text: str) -> None:
    assert title_and_text(write(tmp_path / "a.html", content)) == (title, text)


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-8"])
def test_encodings_by_mark(tmp_path: Path, name: str, encoding: str) -> None:
    path = write(tmp_path / name, "Körner 🌾".encode(encoding))
    assert title_and_text(path) == ("", "Körner 🌾")


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ("<meta charset=windows-1252>", "cp1252"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r"),
        ('<?xml version="1.0" encoding="Shift_JIS"?>', "shift-jis"),
        ('<meta charset="utf-16">', "utf-8"),
    ],
)
def test_encodings_a_page_declares(tmp_path: Path, head: str, encoding: str) -> None:
    word = {"koi8-r": "сито", "shift-jis": "ふるい"}.get(encoding, "“Körner”")
    if encoding == "utf-8":
        word = "Körner"
    assert title_and_text(write(tmp_path / "a.htm", f"{head}<p>{word}".encode(encoding))) == (
        "",
        word,
    )


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.rst", "a.html"])
def test_windows_1252(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "old sieves\n“Körner” for 3 €".encode("cp1252"))
    write(tmp_path / "b.txt", "Körner")
    documents = documents_of(tmp_path)
    for _ in range(2):
        assert "“Körner” for 3 €" in next(iter(documents)).text
        assert len(list(documents)) == 2
    note = f"1 file read as Windows-1252, first: {path}:2: byte 0x93 is not UTF-8"
    assert documents.faults.notes() == [note]


def test_line_ends(tmp_path: Path) -> None:
    assert title_and_text(write(tmp_path / "a.txt", "a\r\n\r\nb\rc")) == ("a", "a\n\nb\nc")


def test_pdf(tmp_path: Path) -> None:
    pdf(tmp_path / "a.pdf", "Sieves\nThey sort grain.", "Page two.", title="The sieve")
    [document] = documents_of(tmp_path)
    assert document == Document("a.pdf", "Sieves\nThey sort grain.\n\nPage two.", "The sieve")


def test_running_heads_of_a_pdf_are_left_out(tmp_path: Path) -> None:
    def pages(count: int) -> list[str]:
        return [f"ACME Handbook\nSieve {'abcde'[n]}\nPage {n + 1} of 5" for n in range(count)]

    [document] = documents_of(pdf(tmp_path / "a.pdf", *pages(5)))
    assert (document.title, document.text) == (
        "Sieve a",
        "Sieve a\n\nSieve b\n\nSieve c\n\nSieve d\n\nSieve e",
    )
    assert title_and_text(pdf(tmp_path / "b.pdf", *pages(2)))[1] == "\n\n".join(pages(2))


PAGES = {
    "most": (["H\na", "b\n1", "H\nc", "H\nd\n3", "H"], ["a", "b\n1", "c", "d\n3", "H"]),
    "half": (["H\na", "H\nb", "H\nc", "d", "e", "f"], None),
    "inside": (["a\nb\nc\nH\nd\ne\nf", "g\nh\ni\nH\nj\nk\nl", "m\nn\no\nH\np\nq\nr"], None),
    "same pages": (["H\n1", "H\n2", "H\n3"], None),
    "a table": (["1.5 2\na", "1.6 2\nb", "1.7 3\nc"], None),
    "page numbers": (["a\n- 1 -", "b\n- 2 -", "", "c\n- 4 -"], ["a", "b", "", "c"]),
}


@pytest.mark.parametrize("name", PAGES)
def test_which_lines_are_running_heads(name: str) -> None:
    pages, expected = PAGES[name]
    assert without_running_heads(pages) == (expected or pages)


@pytest.mark.parametrize(
    ("author", "written", "fields"),
    [
        ("Ada Byron", "D:20240517235900+01'00'", {"author": "Ada Byron", "date": "2024-05-17"}),
        ("", "2024-05-17", {"date": "2024-05-17"}),
        (" ", "D:20241399", {}),
    ],
)
def test_properties_of_a_pdf(
    author: str, written: str, fields: dict[str, str], tmp_path: Path
) -> None:
    writer = pypdf.PdfWriter(clone_from=pdf(tmp_path / "a.pdf", "Sieves"))
    writer.add_metadata({"/Author": author, "/CreationDate": written})
    with (tmp_path / "a.pdf").open("wb") as file:
        writer.write(file)
    assert read_text(tmp_path / "a.pdf").fields == fields


@pytest.mark.parametrize(
    ("head", "fields"),
    [
        (
            '<META content="Ada &amp; Co" NAME=author><meta name="date" content="2023">'
            "<meta property='article:published_time' content='2024-05-17T10:00:00Z' />",
            {"author": "Ada & Co", "date": "2024-05-17"},
        ),
        ('<meta name="date" content="2024-05"><meta name="author">', {"date": "2024-05"}),
        ('<meta name="date" content="May"><metal name="author" content="x">', {}),
        ('<meta a="' * 9000, {}),
        ("<meta " + "a" * 60_000 + ">", {}),
    ],
)
def test_properties_of_a_page(head: str, fields: dict[str, str], tmp_path: Path) -> None:
    assert read_text(write(tmp_path / "a.html", f"{head}<p>Sieves")).fields == fields


def test_a_pdf_without_a_title(tmp_path: Path) -> None:
    assert title_and_text(pdf(tmp_path / "a.pdf", "Sieves\nThey sort."))[0] == "Sieves"


# Faults


@pytest.mark.parametrize(
    ("name", "content", "line", "problem"),
    [
        ("a.txt", "one\nSöhne\n".encode() + b"K\xf6rner", 3, "byte 0xf6 is not UTF-8"),
        ("a.txt", b"one\ntwo\nK\xf6rner \x81", 3, "byte 0xf6 is not UTF-8"),
        ("a.txt", b"\xef\xbb\xbfK\xf6rner", 1, "byte 0xf6 is not UTF-8"),
        ("a.html", b"<meta charset=utf-8><p>K\xf6rner", 1, "byte 0xf6 is not UTF-8"),
        ("a.html", b"\n<meta charset=martian>", 2, "unknown encoding 'martian'"),
        ("a.txt", b"one\n\0\0", 2, "a zero byte"),
        ("a.pdf", b"not a PDF", 1, "this PDF cannot be read"),
    ],
)
def test_faults(tmp_path: Path, name: str, content: bytes, line: int, problem: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(LineError, match=problem) as caught:
        list(documents_of(tmp_path))
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert caught.value.hint


def test_faults_can_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\0")
    write(tmp_path / "b.txt", "good")
    with pytest.raises(LineError) as caught:
        list(documents_of(tmp_path))
    assert "leave such files out: --on-error skip" in str(caught.value.hint)
    documents = documents_of(tmp_path, skip=True)
    assert [document.id for document in documents] == ["b.txt"]
    assert documents.faults.count == 1


@pytest.mark.parametrize(
    ("name", "content", "title", "empty"),
    [
        ("a.txt", b"", "", 1),
        ("a.pdf", b"", "", 1),
        ("a.md", b"---\ntitle: x\n---\n \n", "x", 0),
        ("a.html", b"<title>x</title><script>x</script>", "x", 0),
    ],
)
def test_a_file_without_text_is_kept(
    name: str, content: bytes, title: str, empty: int, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    documents = documents_of(tmp_path)
    [document] = documents
    assert (document.title, document.text.strip()) == (title, "")
    assert documents.faults.empty == empty


def test_a_scan(tmp_path: Path) -> None:
    writer = pypdf.PdfWriter()
    writer.add_blank_page(10, 10)
    with (tmp_path / "a.pdf").open("wb") as file:
        writer.write(file)
    documents = documents_of(tmp_path)
    assert [document.text for document in documents] == [""]
    assert documents.faults.first_empty == ["a.pdf"]


@pytest.mark.parametrize("cut", [20, 200, 400])
def test_a_pdf_cut_short(tmp_path: Path, cut: int, caplog: pytest.LogCaptureFixture) -> None:
    path = pdf(tmp_path / "a.pdf", "Sieves")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(LineError):
        list(documents_of(tmp_path))
    assert not caplog.messages, "the error says it"
    logging.getLogger("pypdf._reader").warning("heard again")
    assert caplog.messages == ["heard again"]


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    write(Path(os.fsdecode(bytes(tmp_path) + b"/K\xf6rner.txt")), "text")
    with pytest.raises(LineError, match="name is not UTF-8"):
        list(documents_of(tmp_path))


def test_a_file_that_vanishes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "text")
    documents = documents_of(tmp_path)
    path.unlink()
    with pytest.raises(LineError, match="cannot be read: No such file"):
        list(documents)


def test_pdf_needs_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.pdf", "x")

    def without(name: str) -> ModuleType:
        if name == "pypdf":
            raise ModuleNotFoundError(name=name)
        return builtins.__import__(name)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(MissingExtraError) as caught:
        open_files(tmp_path, Faults())
    assert caught.value.hint == install_command("pdf")
    write(tmp_path / "b.txt", "text")
    faults = Faults()
    assert [document.id for document in open_files(tmp_path, faults).documents] == ["b.txt"]
    assert faults.left_out[".pdf"] == 1
    assert faults.missing_extras == [f".pdf files are left out; {install_command('pdf')}"]
    write(tmp_path / "c.html", "<p>text</p>")
    monkeypatch.setattr("tamis.collection.files.has_extractor", lambda: False)
    open_files(tmp_path, faults)
    assert faults.missing_extras[1] == (
        ".pdf files are left out, HTML pages keep their navigation and footers; "
        + install_command("pdf", "html")
    )
