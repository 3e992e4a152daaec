"""`tamis explain result`: what it prints, the JSON that Python gives too, and the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.pages.page import Page, assert_inside

from tamis.cli.app import run
from tamis.explain.page import explanation_page
from tamis.pages.bars import value_bars
from tamis.search import Index
from tamis.types import Document

EVIL = "<script>alert(1)</script> drum \x1b[2J sieve"


@pytest.fixture
def index(tmp_path: Path) -> Index:
    documents = [
        Document("a", "A drum sieve sorts grain. " * 8, "Drum & <b>sieve</b>"),
        Document("b", "A net catches fish."),
        Document("evil", EVIL),
        Document("c", "Flour passes a sieve."),
    ]
    return Index.build(documents, tmp_path / "index")


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    capsys.readouterr()
    assert run(["explain", "result", *arguments]) == code
    read = capsys.readouterr()
    return read.out if code == 0 else read.err


def test_what_is_printed_fits_80_columns(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed([str(index.path), "drum sieves zebra", "a", "c"], capsys).splitlines()
    text = "\n".join(lines)
    for part in ("rank", "Passage", "Stages", "Terms", "Without a word", "Against c, by term"):
        assert part in text
    quoted = lines.index("Passage") + 2
    assert all(len(line) <= 80 for line in [*lines[:quoted], *lines[quoted + 1 :]])
    zebra = next(line for line in lines if line.startswith("zebra"))
    assert zebra.split() == ["zebra", "missing", "0", "0", "–", "0.0000"]


def test_no_text_acts_on_the_terminal(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed([str(index.path), "drum \x1b[2J", "evil"], capsys)
    assert "\x1b" not in text and "␛" in text


def test_json_is_what_python_gives(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    values = json.loads(printed([str(index.path), "drum", "a", "--json"], capsys))
    head = values.pop("schema"), values.pop("schema_version")
    assert head == ("tamis.explanation", 1)
    assert values == json.loads(json.dumps(index.explain("drum", "a").to_json()))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["drum", "nobody"], "there is no document 'nobody'"),
        ([" "], "the query is empty"),
        (["zebra"], "nothing was found"),
        (["drum", "a", "nobody"], "there is no document 'nobody'"),
    ],
)
def test_errors_are_two_lines(
    index: Index, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error, hint = printed([str(index.path), *arguments], capsys, code=1).splitlines()
    assert error.startswith(f"error: {problem}") and hint.startswith("hint: ")


def test_a_folder_of_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error, _ = printed([str(tmp_path), "drum"], capsys, code=1).splitlines()
    assert "is neither a sieve nor an index" in error


def test_the_page_shows_what_the_terminal_shows(
    index: Index, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "page.html"
    text = printed([str(index.path), "drum sieve zebra", "a", "b", "--html", str(file)], capsys)
    page = Page(file.read_text("utf-8"))
    assert_inside(page)
    assert page.headings()[0] == 1 and set(page.headings()) == {1, 2}
    row = page.row("zebra", 7)
    assert row[1:6] == ["missing", "0", "0", "–", "0.0000"]
    for line in text.splitlines():
        if line.startswith(("siev", "drum")):
            shown = " ".join(line.split())
            assert any(" ".join(row).startswith(shown) for row in page.rows)
    assert page.count("mark") > 2
    assert printed([str(index.path), "drum", "--html", str(file)], capsys, code=1)


def test_the_page_escapes_what_documents_say(index: Index) -> None:
    page = explanation_page(index.explain("drum <i>", "evil", "a"))
    assert "<script>alert" not in page and "&lt;script&gt;" in page and "<i>" not in page
    Page(page)


def test_bars_share_one_scale() -> None:
    bars = [bar.split('width="')[1].split('"')[0] for bar in value_bars([1.0, -0.5])]
    assert float(bars[0]) == pytest.approx(2 * float(bars[1]), abs=0.2)
    assert value_bars([]) == []
