"""Front matter of Markdown: which fields it gives, and what becomes of broken front matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.collection.base import Faults
from tamis.collection.files import open_files
from tamis.collection.front_matter import read_front_matter
from tamis.types import Document


def fields_in(block: str, mark: str = "---") -> dict[str, str]:
    matter = read_front_matter(f"{mark}\n{block}\n{mark}\ntext")
    assert matter.problem is None, matter.problem
    assert matter.fields is not None
    return dict(matter.fields)


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        ("author: Ada\ntags: [drum, fine]", {"author": "Ada", "tags": '["drum","fine"]'}),
        ("date: 2024-05-01", {"date": "2024-05-01"}),
        ("date: 2024-5-1 10:00:00 +02:00", {"date": "2024-05-01T10:00:00+02:00"}),
        ("dates:\n- 2024-05-01", {"dates": '["2024-05-01"]'}),
        ("date: 0000-00-00", {"date": "0000-00-00"}),
        ("version: 1.10\nplace: 01234\ntime: 12:30:00\ncountry: NO", None),
        ("year: 1958\ndraft: true", {"year": "1958", "draft": "true"}),
        ("a: null\nb: ~\nc:\nd: []\ne: ''", {}),
        ("author:\n  name: Ada\n  born: 1815", {"author": '{"name":"Ada","born":1815}'}),
        ("2: one", {"2": "one"}),
        ('a: b\n"quoted name": x', {"a": "b", "quoted name": "x"}),
    ],
)
def test_yaml(block: str, fields: dict[str, str] | None) -> None:
    if fields is None:  # as they are written
        fields = dict(line.split(": ") for line in block.split("\n"))
    assert fields_in(block) == fields


def test_toml() -> None:
    block = (
        'title = "Sieves"\ndate = 2024-05-01\nat = 2024-05-01T10:00:00Z\nweight = 1.10\n'
        'tags = ["a", "b"]\n[extra]\nx = 1'
    )
    assert read_front_matter(f"+++\n{block}\n+++\n").title == "Sieves"
    assert fields_in(block, "+++") == {
        "date": "2024-05-01",
        "at": "2024-05-01T10:00:00+00:00",
        "weight": "1.10",
        "tags": '["a","b"]',
        "extra": '{"x":1}',
    }


@pytest.mark.parametrize(
    "text",
    [
        *("", "text", "---", "---\n", "+++\n", "---\nno end: here\n", "+++\nno = 'end'\n"),
        *(
            "---\n# A heading between lines\n---\ntext",
            "---\n\nspace: before\n---\n",
            "--- \n---\n",
        ),
    ],
)
def test_no_front_matter(text: str) -> None:
    assert read_front_matter(text).end == 0


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("---\ntitle: Sieves\na: b: c\n---\nText", 3, "mapping values are not allowed"),
        ("---\ntitle: Sieves\n- a\n---\nText", 3, "not YAML"),
        ("---\ntitle: Sieves\na: [b\n---\nText", 3, "not YAML"),
        ("---\ntitle: Sieves\na: !!python/object/apply:os.getcwd []\n---\nText", 3, "constructor"),
        ("---\ntitle: Sieves\na: &x [1]\nb: *x\n---\nText", 4, "alias"),
        (f"---\ntitle: Sieves\na: {'[' * 60_000}\n---\nText", 3, "nested more than 20 deep"),
        (f"---\ntitle: Sieves\na: {'x' * 70_000}\n---\nText", 2, "more than 65,536 characters"),
        (f"---\ntitle: Sieves\nb: {'- ' * 30_000}\n---\nText", 3, "not YAML"),
        ("---\ntitle: Sieves\n? [a, b]\n: c\n---\nText", 3, "unhashable key"),
    ],
)
def test_broken_front_matter_is_left_out_and_counted(
    text: str, line: int, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text(text)
    (tmp_path / "b.md").write_text("# Good")
    collection = open_files(tmp_path, Faults())
    for _ in range(2):  # counted once, however often it is read
        first, _good = collection.documents
        assert first == Document("a.md", "Text", "Sieves")
    [note] = collection.faults.notes()
    assert note.startswith(f"front matter of 1 file left out, first: {tmp_path}/a.md:{line}: ")
    assert problem in note


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ("a = 1\nb = = 2", 3),
        (f"a = {'[' * 60_000}", 2),
        ("a = 1\na = 2", 3),
        (f"a = {'9' * 30}", 2),
    ],
)
def test_broken_toml(block: str, line: int) -> None:
    matter = read_front_matter(f"+++\n{block}\n+++\nText")
    assert matter.problem is not None
    assert matter.problem.line == line
    assert not matter.fields


def test_fields_reach_the_documents(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("---\ntitle: Sieves\ntags: [a, b]\n---\n# Drum\n")
    [document] = open_files(tmp_path, Faults()).documents
    assert document == Document("a.md", "Drum\n", "Sieves", {"tags": '["a","b"]'})


@pytest.mark.parametrize("value", ["[broken", "{a: 1", "*name", "|"])
def test_a_broken_title_is_no_title(value: str) -> None:
    matter = read_front_matter(f"---\ntitle: {value}\na: [\n---\n# Heading\n")
    assert (matter.problem is not None, matter.title) == (True, "")
