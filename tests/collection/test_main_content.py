"""The main content of pages: boilerplate is left out, content never, and hostile pages are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.collection import files, main_content
from tamis.collection.base import Faults
from tamis.collection.files import open_files
from tamis.collection.html_text import parse_page, read_page
from tamis.collection.main_content import read_main_content

PAGE = """<title>Sieves</title><header><nav><ul><li><a href="/">Home</a></li>
<li><a href="/shop">Shop</a></li></ul></nav></header><main><h1>Sieves</h1>
<p>A drum sieve sorts the grain by its size.</p><ul><li>oats<li>rye</ul>
<table><tr><th>Mesh</th><td>2 mm</td></tr></table></main>
<footer><p>All rights reserved.</p></footer>"""
CONTENT = "Sieves\nA drum sieve sorts the grain by its size.\noats\nrye\nMesh 2 mm"


def test_boilerplate_is_left_out() -> None:
    pytest.importorskip("resiliparse")
    assert read_main_content(PAGE) == ("Sieves", CONTENT)


@pytest.mark.parametrize(
    "page",
    [
        *("text alone", "<p>text", "<div>a</div><div>b</div>", "<nav>Home</nav>"),
        *("<footer>foot</footer>", "<ul><li><a href=x>Home</a></ul>", "<pre>a\nb</pre>", "", "<p>"),
        *("<p>a\ud800b", "<table><tr><td>a<td>b</table>"),
    ],
)
def test_a_page_that_is_all_content_is_not_empty(page: str) -> None:
    assert read_main_content(page) == read_page(page)


@pytest.mark.parametrize(
    "page",
    [
        *("<div>" * 300, "<b>" * 20, f"<p {'a ' * 10_000}>", "<!-- --!>", "x" * 2_000_001),
        "<b><table><tr><td></b></td></tr></table>" * 100,
    ],
)
def test_pages_that_cost_too_much_are_read_whole(
    page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr(main_content, "has_extractor", lambda: True)
    monkeypatch.setattr(main_content, "require", refuse)
    assert read_main_content(page + PAGE) == read_page(page + PAGE)


def test_nesting_is_that_of_the_page() -> None:
    page = parse_page("<div><ul>" + "<li><p>a" * 500 + "</ul></div><div><b>x</b><b>y</b></div>")
    assert (page.deepest, page.most_formatting) == (2, 1)
    assert parse_page(f"<img src='{'x' * 99_999}'>").longest_tag < 20


def test_without_the_extra_all_text_is_read_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main_content, "has_extractor", lambda: False)
    monkeypatch.setattr(files, "has_extractor", lambda: False)
    (tmp_path / "a.html").write_text(PAGE)
    faults = Faults()
    [document] = open_files(tmp_path, faults).documents
    assert document.text.endswith("All rights reserved.")
    [note] = faults.notes()
    assert note == "HTML pages keep their navigation and footers; pip install 'tamis[html]'"


def test_the_name_of_a_site_is_left_out_and_a_heading_stays() -> None:
    text = "<p>A tamis is a drum sieve that sifts flour and purees fruit.</p>" * 5
    site = "<header class=top>\n <a href='/'>Kitchen Shop</a>\n</header>"
    heading = "<header><a href='/s'>Sieves</a> <h1>Drum sieves</h1></header>"
    page = f"<title>T</title><body>{site}<main><article>{heading}{text}</article></main>"
    read = read_main_content(page)[1]
    assert "Kitchen Shop" not in read
    assert "Drum sieves" in read and "sifts flour" in read


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("it&#x27;s &#X2014;", "it's —"),
        ("&#0039;&#39;&#39", "'''"),
        ("&#xFFFFFFFFFF; &#0; &#" + "9" * 5000, "\ufffd \ufffd \ufffd"),
        ("&#x; &#z; &#;", "&#x; &#z; &#;"),
    ],
)
def test_character_references_by_number(written: str, shown: str) -> None:
    assert read_page(f"<p>{written}") == ("", shown)
