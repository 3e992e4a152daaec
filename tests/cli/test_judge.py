"""`tamis judge` as a person uses it: by lines from a script, by single keys in a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from tamis.cli import judge as verb
from tamis.collection.beir import write_judged
from tamis.collection.judgements import read_qrels
from tamis.errors import InputError, OutputError, TamisError
from tamis.judging import IndexAlone
from tamis.manifest import write_manifest
from tamis.search import Index
from tamis.types import Document, Qrels, Queries, Query

DOCS = [
    Document("d1", "A drum sieve sorts grain.", "Drum sieve"),
    Document("d2", "Fishing nets catch fish.", "Nets"),
    Document("d3", "Flour passes the sieve; grain does not."),
    Document("d4", "\n".join(f"Line {n} of fish." for n in range(60)), "Long"),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("judge") / "tools.index"
    Index.build(DOCS, path)
    return path


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.txt").write_text("sorting grain\ncatch fish\nzebra\n")


class Said(NamedTuple):
    words: str
    screens: list[str]


@pytest.fixture
def judge(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the verb with these lines on stdin; what it said, by screens."""
    app = typer.Typer(add_completion=False)
    app.command()(verb.judge)

    def run(folder: Path, *arguments: str, lines: str) -> Said:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        app([str(folder), *arguments], standalone_mode=False)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "\x1b" not in captured.err
        return Said(captured.err, captured.err.split("\nquery ")[1:])

    return run


def pairs(path: str = "tools.index-judged") -> dict[str, dict[str, int]]:
    return read_qrels(path).to_dict()


def test_answers_by_lines(index: Path, judge: Any) -> None:
    said = judge(index, "log.txt", lines="y")
    assert "nothing is found for 1 query, left out" in said.words
    assert (
        "to judge: 4 documents for 2 queries; every answer is saved in tools.index-judged"
        in said.words
    )
    assert len(said.screens) == 2
    assert said.screens[0].startswith("1 of 2, document 1 of 2, about 1 min left\n")
    assert "before this: relevant" in said.screens[1]
    assert "tools.index-judged: 1 judgement (1 new) of 1 query, 1 relevant\n" in said.words
    assert "3 documents left, 0 skipped, 1 query judged in part\n" in said.words
    assert f"go on:   tamis judge {index} log.txt -o tools.index-judged\n" in said.words
    (grades,) = pairs().values()
    assert list(grades.values()) == [1]


def test_grades_skip_undo_and_keys_that_are_none(index: Path, judge: Any) -> None:
    said = judge(index, "log.txt", "-o", "a", lines="2nxuusyq")
    notes = [screen.splitlines()[-1] for screen in said.screens[:-1]]
    assert notes[1:6] == [
        "before this: perfectly relevant",
        "before this: not relevant",
        "unknown key: use y, 2, n, s, u, m or q",
        "taken back: judge this one again",
        "taken back: judge this one again",
    ]
    places = [screen.partition(",")[0] + screen[7:21] for screen in said.screens]
    assert places[0] == places[5]
    assert len(said.screens) == 8
    assert sum(map(len, pairs("a").values())) == 1
    assert "2 documents left, 1 skipped" in said.words


def test_nothing_to_undo_is_said(index: Path, judge: Any) -> None:
    said = judge(index, "log.txt", lines="uq")
    assert "nothing to undo in this session" in said.words
    assert "nothing was judged, nothing is written" in said.words
    assert not Path("tools.index-judged").exists()


def test_after_the_last_document_its_answer_can_be_taken_back(index: Path, judge: Any) -> None:
    said = judge(index, "log.txt", lines="yyyyunq")
    assert said.words.count("That was the last document.") == 2
    assert "all that was pooled is judged" in said.words
    assert sorted(g for grades in pairs().values() for g in grades.values()) == [0, 1, 1, 1]
    again = judge(index, "log.txt", lines="")
    assert "has 4 judgements: extended" in again.words
    assert not again.screens


def test_it_goes_on_with_the_same_pool(index: Path, judge: Any) -> None:
    judge(index, "log.txt", "-o", "whole", lines="nyn2")
    judge(index, "log.txt", lines="nyq")
    judge(index, "log.txt", lines="n2")
    assert pairs() == pairs("whole")


def test_judgements_of_other_queries_stay(index: Path, judge: Any) -> None:
    write_judged([Query("q9", "nets")], Qrels.from_dict({"q9": {"d1": 1}}), Path("mine"), "judged")
    said = judge(index, "log.txt", "-o", "mine", lines="n")
    assert "mine has 1 judgement: extended" in said.words
    assert pairs("mine")["q9"] == {"d1": 1}
    assert len(pairs("mine")) == 2


def test_a_long_text_begins_with_its_best_stretch(index: Path, judge: Any) -> None:
    Path("one.txt").write_text("line 30 of fish\n")
    said = judge(index, "one.txt", "--depth", "1", lines="mm")
    best, whole, best_again = said.screens
    assert "… " in best
    assert "the best passage of 240 words" in best
    assert "    Line 0 of fish.\n    Line 1 of fish.\n" in whole
    assert "    Line 59 of fish.\n\n    page 1 of 1, 240 words" in whole
    assert best_again.startswith(best.split("─")[0])


def test_a_short_text_is_all_there(index: Path, judge: Any) -> None:
    Path("one.txt").write_text("drum\n")
    said = judge(index, "one.txt", lines="m")
    assert "Drum sieve  d1\n\n    A drum sieve sorts grain.\n" in said.screens[0]
    assert "this is all of its text" in said.screens[1]


def test_a_document_cannot_touch_the_terminal(tmp_path: Path, judge: Any) -> None:
    evil = Document("d1", "\x1b[2J sieve \x07\x9b1m", title="\x1b]0;sieve\x07")
    Index.build([evil], tmp_path / "evil")
    Path("q.jsonl").write_text(json.dumps({"id": "q", "text": "sieve \x1b[1m"}) + "\n")
    judge(tmp_path / "evil", "q.jsonl", lines="y")
    assert pairs("evil-judged") == {"q": {"d1": 1}}


def test_topics_show_what_was_meant(index: Path, judge: Any) -> None:
    topic = (
        "<top>\n<num> Number: 7\n<title> fish\n<desc> Description:\nWhat catches fish?\n</top>\n"
    )
    Path("topics").write_text(topic)
    assert "description: What catches fish?" in judge(index, "topics", lines="q").screens[0]


def test_a_sieve_brings_its_own_queries(
    index: Path, judge: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Queries.of([Query("a", "grain"), Query("b", "fish")])
    opened = IndexAlone(Index.open(index), known)
    monkeypatch.setattr("tamis.judging.pools.load_sieve", lambda folder: opened)
    Path("my.sieve").mkdir()
    write_manifest(Path("my.sieve"), "sieve", 1)
    judge(Path("my.sieve"), "--sample", "1", lines="nn")
    assert len(pairs("my.sieve-judged")) == 1


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ([], "has no queries to judge"),
        (["none.txt"], "zebra|nothing is found"),
        (["log.txt", "-o", "bad"], "bad is a file"),
        (["missing.txt"], "missing.txt"),
    ],
)
def test_what_cannot_be_judged(index: Path, judge: Any, arguments: list[str], problem: str) -> None:
    Path("none.txt").write_text("zebra\n")
    Path("bad").write_text("q1 d1\n")
    with pytest.raises(TamisError, match=problem) as raised:
        judge(index, *arguments, lines="y")
    assert isinstance(raised.value, OutputError if "bad" in problem else InputError)
    assert raised.value.hint
    assert Path("bad").read_text() == "q1 d1\n"
    assert not Path("tools.index-judged").exists()


def test_neither_sieve_nor_index(judge: Any) -> None:
    Path("folder").mkdir()
    with pytest.raises(InputError, match="is not a tamis"):
        judge(Path("folder"), "log.txt", lines="y")


CODE = "import sys, typer; from tamis.cli.judge import judge; typer.run(judge)"


class Terminal:
    """The verb in a terminal of 24 rows, as a person has it."""

    def __init__(self, *arguments: str, columns: int = 80) -> None:
        self.ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, columns))
        self.before = termios.tcgetattr(theirs)
        self.job = subprocess.Popen(
            [sys.executable, "-c", CODE, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: _own(theirs),
            env={**os.environ, "TERM": "xterm", "COLUMNS": "", "LINES": ""},
        )
        self.theirs, self.seen = theirs, ""

    def wait_for(self, words: str) -> str:
        """Read until these words are on the screen; what was read."""
        read, until = "", time.monotonic() + 30
        while words not in read and time.monotonic() < until:
            if select.select([self.ours], [], [], 0.1)[0]:
                read += os.read(self.ours, 1 << 16).decode(errors="replace")
        assert words in read, read
        return read

    def press(self, key: bytes, words: str) -> str:
        os.write(self.ours, key)
        return self.wait_for(words)

    def end(self) -> int:
        """The exit code; the terminal must be as it was."""
        code = self.job.wait(10)
        assert termios.tcgetattr(self.theirs) == self.before
        return code

    def close(self) -> None:
        self.job.kill()
        self.job.wait()
        os.close(self.ours)
        os.close(self.theirs)


def _own(terminal: int) -> None:
    """Make this the terminal of a process, so that Ctrl-C reaches it: a process in the background
    may have handed down that it is ignored.
    """
    import fcntl

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


@pytest.fixture
def terminal(index: Path) -> Iterator[Terminal]:
    made = Terminal(str(index), "log.txt")
    yield made
    made.close()


def test_single_keys_in_a_terminal(terminal: Terminal) -> None:
    screen = terminal.wait_for("uit")
    assert "\x1b[2J" not in screen  # what was said before stays
    assert "\x1b[1;33m" in screen  # words of the query are marked
    screen = terminal.press(b"y", "before this: relevant")
    assert "\x1b[2J" in screen
    assert "document 2 of 2" in screen
    assert sum(map(len, pairs().values())) == 1  # on disk while the next is asked
    terminal.press(b"\x1b[A", "unknown key")  # an arrow
    terminal.press(b"n2", "before this: perfectly")  # typed ahead
    terminal.press(b"u", "taken back")
    terminal.press(b"\x04", "2 judgements (2 new)")  # Ctrl-D
    assert terminal.end() == 0


def test_ctrl_c_ends_politely(terminal: Terminal) -> None:
    terminal.wait_for("uit")
    terminal.press(b"n", "not relevant")
    terminal.press(b"\x03", "1 judgement (1 new)")
    assert terminal.end() == 0


def test_ended_from_outside_the_terminal_is_put_back(terminal: Terminal) -> None:
    terminal.wait_for("uit")
    terminal.press(b"n", "not relevant")
    terminal.job.send_signal(signal.SIGTERM)
    assert terminal.end() == 143
    assert sum(map(len, pairs().values())) == 1


def test_killed_it_goes_on_where_it_was(terminal: Terminal, index: Path, judge: Any) -> None:
    terminal.wait_for("uit")
    terminal.press(b"y", "before this: relevant")
    terminal.job.kill()
    terminal.job.wait()
    said = judge(index, "log.txt", lines="nnn")
    assert "has 1 judgement: extended" in said.words
    assert sorted(g for grades in pairs().values() for g in grades.values()) == [0, 0, 0, 1]


@pytest.mark.parametrize("columns", [80, 60])
def test_where_one_is_stays_on_the_screen(columns: int, index: Path) -> None:
    Path("one.txt").write_text("line 30 of fish\n")
    terminal = Terminal(str(index), "one.txt", "--depth", "1", columns=columns)
    try:
        terminal.wait_for("uit")
        terminal.press(b"m", "page 1 of")
        screen = terminal.press(b"x", "unknown key").rpartition("\x1b[2J")[2]
        assert "query 1 of 1" in screen and "best passage" not in screen
        assert len(screen.strip().split("\n")) == 23, "the cursor stands in the last row"
    finally:
        terminal.close()


def test_a_text_longer_than_the_screen_comes_in_pages(index: Path) -> None:
    Path("one.txt").write_text(f"line 30 of fish{', or so I have been told' * 9}\n")
    terminal = Terminal(str(index), "one.txt", "--depth", "1")
    try:
        terminal.wait_for("uit")
        for page in range(1, 8):
            screen = terminal.press(b"m", f"page {page} of 7").rpartition("\x1b[2J")[2]
            # After the page come the rule, the question, the keys, a note and the cursor.
            assert screen.partition("page")[0].count("\n") + 1 <= 24 - 5
        terminal.press(b"m", "the best passage")
    finally:
        terminal.close()
