"""What documents, queries and file names hold cannot act on the terminal of who looks at them."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tamis.cli.app import run
from tamis.cli.common import say, show, show_facts
from tamis.durable import Progress
from tamis.evaluation import evaluate
from tamis.evaluation.comparison_tables import Plain
from tamis.evaluation.tables import rich_table
from tamis.terminal import visible
from tamis.types import Qrels, Run

BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
CONTROLS = "".join(map(chr, [*range(32), *range(0x7F, 0xA0)])) + BIDIRECTIONAL
SCREEN, LINK, C1 = "\x1b[2J", "\x1b]8;;http://x\x07", "\x9b31m"
MARKUP = "[red]x[/red] [/] :smile: [link=http://x]y"
EVIL = f"{SCREEN}{LINK}{C1}\u202e\x08\x7f{MARKUP}"
EVIL_RUN = "out\x1b[2J[red].parquet"
SCRIPT = "<script>alert(1)</script>"


def acting(text: str) -> set[str]:
    """The characters of a text that a terminal acts on, but for new lines and tabs."""
    return {character for character in text if character in CONTROLS} - {"\n", "\t"}


def acted_on(captured: Iterable[str]) -> set[str]:
    return set().union(*map(acting, captured))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection in which everything is hostile that may be."""
    monkeypatch.chdir(tmp_path)
    Path("docs/qrels").mkdir(parents=True)
    documents = [
        {"_id": f"d1{EVIL}", "title": f"Drum {EVIL}", "text": f"A {EVIL} drum sieve sorts grain."},
        {"_id": "d2", "title": SCRIPT, "text": f"Nets catch fish {SCRIPT} {EVIL}."},
        {"_id": f"d3{SCRIPT}", "title": "", "text": "A drum of fish and grain, long enough."},
    ]
    Path("docs/corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    queries = [
        {"_id": "q1", "text": f"drum {EVIL}", "description": EVIL},
        {"_id": f"q2{SCRIPT}", "text": f"fish {SCRIPT}"},
        {"_id": f"q3{EVIL}", "text": f"grain {EVIL} sorted"},
    ]
    Path("docs/queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in queries))
    rows = f"q1\td1{EVIL}\t1\nq2{SCRIPT}\td2\t1\n"
    Path("docs/qrels/test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    rows = f"q3{EVIL}\td1{EVIL}\t1\n"
    Path("docs/qrels/train.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    assert run(["index", "docs", "-o", "index"]) == 0
    return tmp_path


def test_every_control_character_is_replaced_by_one_that_is_shown() -> None:
    shown = visible(CONTROLS)
    assert len(shown) == len(CONTROLS)
    assert acting(shown) == set()
    assert {unicodedata.category(character) for character in shown} == {"So", "Cc"}
    assert [character for character in shown if unicodedata.category(character) == "Cc"] == [
        "\t",
        "\n",
    ]
    assert visible("Grüße, 世界 🙂") == "Grüße, 世界 🙂"
    assert visible("\udcff") == "\ufffd"


def test_hits_are_shown_without_what_acts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["search", "index", f"drum fish {EVIL}"]) == 0
    shown = capsys.readouterr()
    assert acted_on(shown) == set()
    assert "␛[2J" in shown.out
    assert shown.out.count(MARKUP) >= 3  # in the title, the id and the text


def test_json_keeps_what_documents_hold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["search", "index", "drum", "--json"]) == 0
    assert f"d1{EVIL}" in {hit["id"] for hit in json.loads(capsys.readouterr().out)["hits"]}


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "docs"],
        ["info", "index"],
        ["info", EVIL_RUN],
        ["evaluate", "docs/qrels/test.tsv", EVIL_RUN],
        ["evaluate", "docs/qrels/test.tsv", EVIL_RUN, "out.parquet", "--baseline", "out.parquet"],
        ["evaluate", "docs/qrels/test.tsv", EVIL_RUN, "--markdown"],
        ["evaluate", "docs/qrels/test.tsv", EVIL_RUN, "--latex"],
        ["label", "gold", "-c", "docs", "--index", "index", "--split", "train", "--show", "5"],
        ["rerank", EVIL_RUN, "-c", "index", "--model", "lexical"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]).replace("\x1b", "ESC"),
)
def test_no_verb_sends_control_characters(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["search", "index", "docs", "-o", "out.parquet"]) == 0
    Path(EVIL_RUN).write_bytes(Path("out.parquet").read_bytes())
    capsys.readouterr()
    output = ["-o", "made.parquet"] if arguments[0] in ("label", "rerank") else []
    code = run([*arguments, *output])
    shown = capsys.readouterr()
    assert acted_on(shown) == set()
    assert shown.out + shown.err
    assert code == 0, shown.err


def test_an_error_is_two_lines_without_what_acts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.jsonl").write_text(f'{{"id": {json.dumps(EVIL)}, "text": "a"}}\n' * 2)
    capsys.readouterr()
    assert run(["index", "bad.jsonl", "-o", "other"]) == 1
    assert run(["search", f"no{EVIL}\nhint: rm -r", "words"]) == 1
    assert run(["search", "index", "words", f"--{EVIL}"]) == 2
    shown = capsys.readouterr()
    assert acted_on(shown) == set()
    starts = [line.partition(":")[0] for line in shown.err.splitlines()]
    assert starts == ["error", "hint"] * 3


def test_the_desk_of_a_judge(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.StringIO("m\ny\nn\ny\nn\nu\nq\n"))
    assert run(["judge", "index", "docs", "-o", "my.qrels"]) == 0
    shown = capsys.readouterr()
    assert acted_on(shown) == set()
    assert MARKUP in shown.err.replace("\n", " ")


def test_a_table_stays_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name [/]", "value", box=None, title=f"t{SCREEN}")
    table.add_row(f"a{SCREEN}\r[/b]", Text("|"))
    table.add_row("long enough to be first", "|")
    show(table, f"{EVIL}", Text(EVIL))
    show_facts({f"name{EVIL}": EVIL, "more": {EVIL: 1}})
    shown = capsys.readouterr().out
    assert acting(shown) == set()
    assert len({line.index("|") for line in shown.splitlines() if "|" in line}) == 1


def test_tables_for_any_console_take_names_literally() -> None:
    runs = {MARKUP: Run.from_dict({"q": {"d": 1.0}}), "b": Run.from_dict({"q": {"e": 1.0}})}
    found = evaluate(Qrels.from_dict({"q": {"d": 1}}), runs, ["nDCG@10"])
    out = Console(file=io.StringIO(), width=200)
    out.print(rich_table(found), Plain(MARKUP, ("a", "b"), ((MARKUP, MARKUP),)).rich())
    assert out.file.getvalue().count("[red]x[/red] [/]") == 4  # type: ignore[attr-defined]


def test_words_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    progress = Progress(f"reading {EVIL}", 10)
    progress._said -= 100
    progress.advance()
    shown = capsys.readouterr().err
    assert acting(shown) == set()
    assert shown.count(MARKUP) == 2


def test_reports_escape_what_data_holds(folder: Path) -> None:
    assert run(["search", "index", "docs", "-o", "out.parquet"]) == 0
    evaluated = ["evaluate", "docs/qrels/test.tsv", "out.parquet", "-c", "docs"]
    assert run([*evaluated, "--html", "report.html"]) == 0
    assert run(["fit", "docs", "--base", "none", "-o", "a.sieve"]) == 0
    for page in ("report.html", "a.sieve/report.html"):
        text = Path(page).read_text()
        assert SCRIPT not in text
        assert "&lt;script&gt;" in text
