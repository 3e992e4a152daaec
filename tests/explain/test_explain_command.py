"""`tamis explain result`: what it prints, the JSON that Python gives too, and the page."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.pages.page import Page, assert_inside

from tamis.cli.app import run
from tamis.cli.explain_show import _style, show_explanation
from tamis.explain.page import explanation_page
from tamis.explain.tables import facts_of, tables_of
from tamis.pages.bars import value_bars
from tamis.search import Index
from tamis.types import Document
from tamis.types.explanation import (
    Difference,
    Explanation,
    FeatureContribution,
    FusionPart,
    PartDifference,
)

EVIL = "<script>alert(1)</script> drum \x1b[2J sieve"


@pytest.fixture
def index(tmp_path: Path) -> Index:
    documents = [
        Document("a", "A drum sieve sorts grain. " * 8, "Drum & <b>sieve</b>"),
        Document("b", "A net catches fish."),
        Document("evil", EVIL),
        Document("c", "Flour passes a sieve.", "", {"kind": "soup"}),
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


def on_terminal(found: Explanation, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a terminal of 80 columns."""
    from rich.console import Console

    screen = Console(width=80, force_terminal=True, file=io.StringIO(), color_system=None)
    monkeypatch.setattr("tamis.cli.common.console", lambda: screen)
    show_explanation(found)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue().splitlines()


def test_a_long_query_is_wrapped_beside_its_name(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = on_terminal(index.explain("drum sieve grain " * 20, "a"), monkeypatch)
    assert lines[0].startswith("query  ") and "drum sieve grain drum" in lines[0]
    assert lines[1].startswith(" " * 13) and "grain" in lines[1]
    assert next(line.split() for line in lines if line.startswith("document")) == ["document", "a"]
    assert all(len(line) <= 80 for line in lines)


def test_every_table_fits_80_columns(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    found = index.explain("drum sieve", "a")
    long = "supercalifragilistic" * 2
    terms = tuple(
        replace(part, term=long, weight=-0.00123, idf=12.5, tf=1234, contribution=-12.25)
        for part in found.terms
    )
    words = tuple(
        replace(word, term=long, words=(long,), score_without=-12.5, gradient=0.5, attention=1.0)
        for word in found.words
    )
    stages = tuple(replace(stage, name=long, rank_before=1000) for stage in found.stages)
    stages = tuple(replace(stage, score_before=-50.5, score=-50.5) for stage in stages)
    parts = (FusionPart(long, long, 1000, -12.5, -12.5, 0.5, -12.5),)
    other = PartDifference(long, -12.5, 12.5, -25.0)
    against = Difference("b", "", 1000, 1.0, 0.5, (other,), (other,))
    wide = replace(found, terms=terms, words=words, stages=stages, parts=parts, against=against)
    lines = on_terminal(wide, monkeypatch)
    assert all(len(line) <= 80 for line in lines)
    for table in tables_of(wide):  # none was made a list
        head = " ".join(table.heads)
        assert any(" ".join(line.split()) == head for line in lines), head


def test_a_passage_is_shown_from_its_first_match_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = Index.build({"a": "Grain is sorted. " * 30 + "A drum sieve."}, tmp_path / "long")
    lines = printed([str(index.path), "drum", "a"], capsys).splitlines()
    shown = lines[lines.index("Passage") + 2]
    assert shown.startswith(("…Grain", "…is", "…sorted"))
    assert shown.endswith("A drum sieve.")
    lines = printed([str(index.path), "grain", "a"], capsys).splitlines()
    shown = lines[lines.index("Passage") + 2]
    assert shown.startswith("Grain is sorted.") and shown.endswith("…")


def test_numbers_below_zero_have_one_sign_and_no_colour_of_their_own(index: Index) -> None:
    found = replace(index.explain("drum", "a"), score=-2.5)
    assert facts_of(found)["score"] == "−2.5000"
    assert _style("score", "−2.5000", "") == "" and _style("change", "−2.5000", "") == "red"


def test_no_text_acts_on_the_terminal(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed([str(index.path), "drum \x1b[2J", "evil"], capsys)
    assert "\x1b" not in text and "␛" in text


def test_json_is_what_python_gives(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    values = json.loads(printed([str(index.path), "drum", "a", "--json"], capsys))
    head = values.pop("schema"), values.pop("schema_version")
    assert head == ("tamis.explanation", 1)
    assert values == json.loads(json.dumps(index.explain("drum", "a").to_json()))


def test_ranks_are_those_of_the_search_with_its_conditions(
    index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--where", "kind=soup", "--json"]
    found = json.loads(printed([str(index.path), "sieve", "c", *where], capsys))
    assert found["rank"] == 1 and len(index.search("sieve")) > 1
    error, hint = printed([str(index.path), "sieve", "--where", "size=1"], capsys, 1).splitlines()
    assert error.startswith("error: ") and "size" in error and hint.startswith("hint: ")


def keys_of(values: object) -> set[str]:
    """All keys at any depth, but those that are names of terms, parts or parameters."""
    if isinstance(values, dict):
        named = {"parameters", "parts_without"}
        inside = (keys_of(value) for key, value in values.items() if key not in named)
        return {*values}.union(*inside)
    return set().union(*map(keys_of, values)) if isinstance(values, list) else set()


def documented_keys(section: str) -> set[str]:
    text = (Path(__file__).parents[2] / "docs/reference/json.md").read_text("utf-8")
    return set(re.findall(r"`(\w+)`", text.split(f"## `{section}`")[1].split("\n## ")[0]))


def test_every_key_is_documented(index: Index) -> None:
    found = index.explain("drum sieve zebra", "a", "c")
    part = FusionPart("fusion", "BM25", 1, 0.5, 0.5, 1.0, 0.5)
    values = replace(found, parts=(part,), features=(FeatureContribution("tf", 1.0, 0.5),))
    whole = json.loads(json.dumps(values.to_json()))
    assert all(whole[key] for key in ("words", "neighbours", "terms", "passage", "stages"))
    keys, documented = keys_of(whole), documented_keys("tamis.explanation")
    assert keys <= documented
    first_cells = {"schema", "bm25", "ql", "mu", "k1", "b", "rm3_terms", "rm3_documents"}
    first_cells |= {"rm3_weight", "matched", "missing", "expanded", "explanation", "text"}
    assert documented <= keys | first_cells


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["drum", "nobody"], "there is no document 'nobody'"),
        ([" "], "the query is empty"),
        (["zebra"], "nothing was found"),
        (["drum", "a", "nobody"], "there is no document 'nobody'"),
        (["drum", "a", "a"], "document 'a' is compared with itself"),
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


def test_the_ranks_and_scores_of_a_stage_are_told_apart(index: Index) -> None:
    """On a phone each number stands beside the head of its column alone."""
    [stages] = [
        table for table in tables_of(index.explain("drum", "a")) if table.heading == "Stages"
    ]
    assert len({*stages.heads}) == len(stages.heads)
    assert stages.heads[1:5] == ("rank before", "rank after", "score before", "score after")


def test_bars_share_one_scale() -> None:
    bars = [bar.split('width="')[1].split('"')[0] for bar in value_bars([1.0, -0.5])]
    assert float(bars[0]) == pytest.approx(2 * float(bars[1]), abs=0.2)
    assert value_bars([]) == []
