"""Word, PowerPoint, notebooks and e-books: titles, texts, and files that are broken or hostile."""

from __future__ import annotations

import builtins
import importlib
import io
import json
import zipfile
from collections import Counter
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tamis.collection.base import Faults
from tamis.collection.file_content import Unreadable
from tamis.collection.files import PACKAGES, open_files
from tamis.collection.filetexts import read_text
from tamis.collection.readers import open_collection
from tamis.collection.zip_parts import MAX_UNPACKED_BYTES
from tamis.errors import LineError, MissingExtraError

WORD_SPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def title_and_text(path: Path) -> tuple[str, str]:
    content = read_text(path)
    return content.title, content.text


def rewritten(path: Path, **parts: bytes) -> Path:
    """The archive with other bytes in some parts, named by the end of their names."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, parts.get(Path(name).stem, content))
    return path


# Word


def docx(path: Path, title: str = "") -> Path:
    document = pytest.importorskip("docx").Document()
    document.core_properties.title = title
    document.add_paragraph("Before the heading.")
    document.add_heading("Sieves", level=1)
    document.add_paragraph("They sort grain.")
    table = document.add_table(rows=1, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Mesh", "2 mm"
    document.add_paragraph("After\tthe table.")
    document.save(str(path))
    return path


def test_docx(tmp_path: Path) -> None:
    text = "Before the heading.\nSieves\nThey sort grain.\nMesh 2 mm\nAfter\tthe table."
    assert title_and_text(docx(tmp_path / "a.docx")) == ("Sieves", text)
    assert title_and_text(docx(tmp_path / "a.docx", "The sieve")) == ("The sieve", text)


def test_docx_text_that_paragraphs_leave_out(tmp_path: Path) -> None:
    body = (
        "<w:p><w:r><w:t>Kept, </w:t></w:r><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t>moved away</w:t></w:r></w:moveFrom></w:p>"
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>content control</w:t></w:r></w:p></w:sdtContent>"
        "</w:sdt>"
        "<w:p><w:r><w:t>around </w:t><mc:AlternateContent xmlns:mc="
        '"http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:Choice Requires="w">'
        "<w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></mc:Choice><mc:Fallback>"
        "<w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></mc:Fallback>"
        "</mc:AlternateContent><w:t>the box</w:t></w:r></w:p>"
    )
    xml = f'<w:document xmlns:w="{WORD_SPACE}"><w:body>{body}</w:body></w:document>'
    path = rewritten(docx(tmp_path / "a.docx"), document=xml.encode())
    assert title_and_text(path)[1] == "Kept, inserted\ncontent control\nbox\naround the box"


def test_docx_pictures_are_not_unpacked(tmp_path: Path) -> None:
    path = docx(tmp_path / "a.docx")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/media/film.bin", bytes(MAX_UNPACKED_BYTES + 1))
    assert title_and_text(path)[0] == "Sieves"


# PowerPoint


def pptx(path: Path) -> Path:
    presentation = pytest.importorskip("pptx").Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "Sieves"
    slide.placeholders[1].text = "They sort grain.\nAnd flour."
    slide.notes_slide.notes_text_frame.text = "Speak slowly."
    last = presentation.slides.add_slide(presentation.slide_layouts[6])
    table = last.shapes.add_table(1, 2, 0, 0, 100, 100).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Mesh", "2 mm"
    presentation.save(str(path))
    return path


def test_pptx(tmp_path: Path) -> None:
    text = "Sieves\nThey sort grain.\nAnd flour.\nSpeak slowly.\n\nMesh 2 mm"
    assert title_and_text(pptx(tmp_path / "a.pptx")) == ("Sieves", text)


# Notebooks


def notebook(path: Path, cells: Any, **others: Any) -> Path:
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, **others}))
    return path


def test_notebook(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": ["# a comment\n", "x = 1"], "outputs": [{"text": "no"}]},
        {"cell_type": "markdown", "source": "# Sieves\n\nThey sort."},
        *("no cell", {"cell_type": "raw"}, {"source": [3, None, "kept"]}),
    ]
    text = "# a comment\nx = 1\n\n# Sieves\n\nThey sort.\n\nkept"
    assert title_and_text(notebook(tmp_path / "a.ipynb", cells)) == ("Sieves", text)
    path = notebook(tmp_path / "b.ipynb", cells, metadata={"title": "The sieve"})
    assert title_and_text(path)[0] == "The sieve"


def test_notebook_of_version_3(tmp_path: Path) -> None:
    cells = [{"cell_type": "heading", "level": 2, "source": "Sieves"}, {"input": "x = 1"}]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"worksheets": [{"cells": cells}]}))
    assert title_and_text(path) == ("Sieves", "## Sieves\n\nx = 1")


# E-books


CONTAINER = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
PACKAGE = """<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>
<dc:title>The sieve</dc:title><dc:title>a subtitle</dc:title></metadata><manifest>
<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="two" href="text/two.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="text/chapter%20one.xhtml" media-type="application/xhtml+xml"/>
<item id="style" href="a.css" media-type="text/css"/></manifest>
<spine><itemref idref="nav"/><itemref idref="one"/><itemref idref="two"/><itemref idref="style"/>
</spine></package>"""


def epub(path: Path, **changes: str) -> Path:
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": changes.get("container", CONTAINER),
        "OEBPS/book.opf": changes.get("package", PACKAGE),
        "OEBPS/nav.xhtml": "<p>Contents",
        "OEBPS/text/chapter one.xhtml": "<h1>One</h1><p>They sort grain.",
        "OEBPS/text/two.xhtml": changes.get("two", "<h1>Two</h1>"),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content, zipfile.ZIP_DEFLATED if name != "mimetype" else 0)
    return path


def test_epub(tmp_path: Path) -> None:
    assert title_and_text(epub(tmp_path / "a.epub")) == (
        "The sieve",
        "One\nThey sort grain.\n\nTwo",
    )


# Properties


def test_author_and_date_are_fields(tmp_path: Path) -> None:
    created = datetime(2024, 5, 17, 23, 59)
    for kind, write in {"docx": docx, "pptx": pptx}.items():
        path = write(tmp_path / f"a.{kind}")
        opened = (docx_package if kind == "docx" else pptx_package)(path)
        opened.core_properties.author, opened.core_properties.created = "Ada Byron", created
        opened.save(str(path))
    dated = "<dc:creator>Ada Byron</dc:creator><dc:date>2024-05-17T23:59:00Z</dc:date></metadata>"
    epub(tmp_path / "a.epub", package=PACKAGE.replace("</metadata>", dated))
    for kind in ("docx", "pptx", "epub"):
        fields = read_text(tmp_path / f"a.{kind}").fields
        assert fields == {"author": "Ada Byron", "date": "2024-05-17"}, kind


def docx_package(path: Path) -> Any:
    return pytest.importorskip("docx").Document(str(path))


def pptx_package(path: Path) -> Any:
    return pytest.importorskip("pptx").Presentation(str(path))


# Single files


@pytest.mark.parametrize("kind", ["docx", "pptx", "ipynb", "epub"])
def test_one_file_is_known_by_looking_inside(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    make = {"docx": docx, "pptx": pptx, "epub": epub}
    if kind == "ipynb":
        notebook(path, [{"cell_type": "markdown", "source": "# Sieves"}])
    else:
        make[kind](path)
    collection = open_collection(path)
    assert collection.format == "files"
    [document] = collection.documents
    assert "ieve" in document.title


@pytest.mark.parametrize("suffix", [".docx", ".pptx", ".ipynb", ".epub"])
def test_an_empty_file_is_a_document_without_text(suffix: str, tmp_path: Path) -> None:
    if suffix in PACKAGES:
        pytest.importorskip(PACKAGES[suffix])
    (tmp_path / f"a{suffix}").touch()
    faults = Faults()
    assert [document.text for document in open_files(tmp_path, faults).documents] == [""]
    assert faults.empty == 1


# Faults


def fault_of(path: Path) -> str:
    with pytest.raises(LineError) as caught:
        list(open_files(path.parent, Faults()).documents)
    assert caught.value.path == str(path)
    assert caught.value.hint
    return caught.value.problem


@pytest.mark.parametrize("make", [docx, pptx, epub])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.99])
def test_an_archive_that_is_cut_short(make: Any, part: float, tmp_path: Path) -> None:
    path = make(tmp_path / f"a.{make.__name__}")
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * part)])
    assert "cannot be read" in fault_of(path)


@pytest.mark.parametrize("make", [docx, pptx, epub])
def test_bytes_that_are_changed_never_crash(make: Any, tmp_path: Path) -> None:
    path = make(tmp_path / f"a.{make.__name__}")
    raw = path.read_bytes()
    for place in range(0, len(raw), max(1, len(raw) // 60)):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 0x55]) + raw[place + 1 :])
        try:
            read_text(path)
        except Unreadable as error:
            assert error.problem


@pytest.mark.parametrize("make", [docx, pptx])
def test_another_archive(make: Any, tmp_path: Path) -> None:
    path = make(tmp_path / f"a.{make.__name__}")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "a")
    assert "cannot be read" in fault_of(path)
    path.write_bytes(b"not an archive")
    assert "cannot be read" in fault_of(path)


def test_a_presentation_is_no_word_document(tmp_path: Path) -> None:
    path = pptx(tmp_path / "a.pptx").rename(tmp_path / "a.docx")
    assert "cannot be read" in fault_of(path)


BOMB = b"<a>" + b" " * (MAX_UNPACKED_BYTES + 1) + b"</a>"
DEEP = b"<a>" * 100_000
ENTITIES = b"""<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><a>&c;</a>"""


@pytest.mark.parametrize("xml", [BOMB, DEEP, ENTITIES, b"", b"<a", b"\xff\xfe\0"])
@pytest.mark.parametrize("make", [docx, pptx])
def test_hostile_xml(make: Any, xml: bytes, tmp_path: Path) -> None:
    path = rewritten(make(tmp_path / f"a.{make.__name__}"), document=xml, presentation=xml)
    assert path.stat().st_size < 1_000_000
    assert "cannot be read" in fault_of(path)


def test_a_bomb_says_how_much_is_read(tmp_path: Path) -> None:
    path = rewritten(docx(tmp_path / "a.docx"), document=BOMB)
    assert "unpacks to more than 32 MB" in fault_of(path)


def test_a_part_that_is_longer_than_it_says(tmp_path: Path) -> None:
    path = epub(tmp_path / "a.epub", two="x" * 100_000)
    raw = path.read_bytes()
    size = (100_000).to_bytes(4, "little")
    assert raw.count(size) == 2
    path.write_bytes(raw.replace(size, (10).to_bytes(4, "little")))
    assert "Bad CRC-32" in fault_of(path)


def test_an_archive_with_a_long_directory(tmp_path: Path) -> None:
    path = tmp_path / "a.epub"
    names = io.BytesIO()
    with zipfile.ZipFile(names, "w") as archive:
        for number in range(300):
            archive.writestr(f"{number}{'x' * 20_000}", "")
    path.write_bytes(names.getvalue())
    assert "its directory is too long" in fault_of(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"container": "<container/>"},
        {"container": CONTAINER.replace("book.opf", "other.opf")},
        {"package": "<package"},
        {"package": ENTITIES.decode()},
        {"package": PACKAGE.replace("two.xhtml", "../../../etc/passwd")},
        {"two": "x" * (MAX_UNPACKED_BYTES + 1)},
    ],
)
def test_broken_books(changes: dict[str, str], tmp_path: Path) -> None:
    assert "this EPUB cannot be read" in fault_of(epub(tmp_path / "a.epub", **changes))


def test_a_deep_book_is_read(tmp_path: Path) -> None:
    package = PACKAGE.replace("<metadata>", "<metadata>" + "<x>" * 100_000 + "</x>" * 100_000)
    path = epub(tmp_path / "a.epub", package=package, two="<div>" * 100_000 + "deep")
    assert title_and_text(path) == ("The sieve", "One\nThey sort grain.\n\ndeep")


@pytest.mark.parametrize(
    "content", ["{", "[]", "3", '{"cells": 3}', '{"a": 1}', "[" * 100_000, "\xff"]
)
def test_broken_notebooks(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(content.encode("latin-1"))
    assert "notebook" in fault_of(path)


# The extra


def hide_office(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> ModuleType:
        if name in ("docx", "pptx", "lxml.etree"):
            raise ModuleNotFoundError(name=name)
        return builtins.__import__(name)

    monkeypatch.setattr(importlib, "import_module", without)


def test_without_the_extra_files_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_office(monkeypatch)
    for name in ("a.docx", "b.docx", "c.pptx", "d.txt"):
        (tmp_path / name).write_text("x")
    faults = Faults()
    assert [document.id for document in open_files(tmp_path, faults).documents] == ["d.txt"]
    assert faults.left_out == Counter({".docx": 2, ".pptx": 1})
    assert faults.notes() == [
        "3 files of other kinds left out: 2 .docx, 1 .pptx",
        ".docx and .pptx files are left out; pip install 'tamis[office]'",
    ]


def test_without_the_extra_office_files_alone_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_office(monkeypatch)
    (tmp_path / "a.docx").write_text("x")
    with pytest.raises(MissingExtraError) as caught:
        open_files(tmp_path, Faults())
    assert caught.value.hint == "pip install 'tamis[office]'"
