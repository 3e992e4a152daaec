"""`tamis judge`: what the judge sees, and how keys are read."""

from __future__ import annotations

import os
import select
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tamis.cli.common import console, say, visible_renderable
from tamis.cli.options import Seed, with_options
from tamis.cli.sieves import is_sieve
from tamis.errors import InputError
from tamis.terminal import visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from tamis.judging import Judgeable, Judging, Pooled
    from tamis.text.analysis import Analyzer
    from tamis.types import Document

DEFAULT_DEPTH, DEFAULT_QUERIES, DEFAULT_SEED = 10, 50, 0
GRADES = {"y": 1, "1": 1, "2": 2, "n": 0, "0": 0}
GRADE_NAMES = {0: "not relevant", 1: "relevant", 2: "perfectly relevant"}
KEYS = ("[y]es, relevant", "[2] perfectly", "[n]ot", "[s]kip", "[u]ndo", "[m]ore text", "[q]uit")
MAX_LINE_WIDTH = 100
MAX_LINES_SHOWN_WHOLE = 16
MIN_ROWS = 5
"""Lines of a text that are shown however small the terminal is."""
END_OF_INPUT = ""


@with_options
def judge(
    folder: Annotated[Path, typer.Argument(metavar="SIEVE", help="A sieve, or an index.")],
    queries: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERIES",
            help="A file or collection with queries. Default: the queries of the sieve.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="The folder of judgements, extended if it exists. Default: SIEVE-judged.",
        ),
    ] = None,
    depth: Annotated[
        int, typer.Option(metavar="N", min=1, help="Documents per query and ranking.")
    ] = DEFAULT_DEPTH,
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, help="Judge a random sample of so many queries.")
    ] = DEFAULT_QUERIES,
    seed: Seed = DEFAULT_SEED,
) -> None:
    """Judge search results, document by document; every answer is saved at once.

    Example: tamis judge my.sieve queries.txt -o my-judged
    """
    from tamis.collection.loss_notes import counted
    from tamis.judging import (
        bm25_among,
        open_judgeable,
        open_judging,
        pool,
        queries_to_judge,
        sample_queries,
        sources_of,
    )

    path = output or Path(f"{folder.resolve().name}-judged")
    judgeable = open_judgeable(folder)
    with open_judging((), path, queries_file=queries or "queries.txt"):
        pass  # a folder that cannot be extended is refused before the search
    to_search = sample_queries(queries_to_judge(judgeable, folder, queries), sample, seed)
    say(f"searching for {counted(len(to_search), 'query')} …")
    sources = sources_of(judgeable)
    items = pool(sources, to_search, depth, seed)
    answered = len({item.query.id for item in items})
    if not items:
        raise InputError(
            f"nothing is found in {folder} for any of {counted(len(to_search), 'query')}",
            hint="are these queries for these documents?",
        )
    if answered < len(to_search):
        say(f"nothing is found for {counted(len(to_search) - answered, 'query')}, left out")
    with open_judging(items, path) as judging:
        if judging.num_before:
            before = counted(judging.num_before, "judgement")
            say(f"{path} has {before}: extended, nothing is asked twice")
        to_judge = f"{counted(judging.num_left, 'document')} for {counted(answered, 'query')}"
        say(f"to judge: {to_judge}; every answer is saved in {path}")
        with _keys() as read:
            Desk(judging, judgeable, read, bm25_among(sources, judgeable)).work()
        options = {"-o": path, "--depth": depth, "--sample": sample, "--seed": seed}
        _summary(judging, path, [str(folder), *([queries] if queries else [])], options)


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Reads the next key: one press in a terminal, else the first letter of a line.

    The terminal is put back as it was, whatever ends the block.
    """
    if not sys.stdin.isatty():
        yield lambda: _letter(sys.stdin.readline())
        return
    import termios
    import tty

    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    terminate = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    pressed: list[str] = []
    try:
        tty.setcbreak(stdin)
        yield lambda: _press(stdin, pressed)
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGTERM, terminate)


def _letter(line: str) -> str:
    """The first letter of a line, `?` for an empty line, END_OF_INPUT for no line."""
    return (line.strip().lower() or "?")[0] if line else END_OF_INPUT


def _press(stdin: int, pressed: list[str]) -> str:
    """The next key; those pressed meanwhile wait. Arrows and other long codes are one `?`."""
    if not pressed:
        while not select.select([stdin], [], [], 0.5)[0]:
            pass  # a Ctrl-C that came just before is noticed here, not only with the next key
        code = os.read(stdin, 64)
        if code[:1] in (b"", b"\x04"):  # hung up, Ctrl-D
            return END_OF_INPUT
        pressed += ["?"] if code[:1] == b"\x1b" else code.decode("utf-8", "replace").lower()
    return pressed.pop(0)


class Desk:
    """Where a judge sits: shows what is to_search, takes keys until there is nothing left."""

    def __init__(
        self,
        judging: Judging,
        judgeable: Judgeable,
        read: Callable[[], str],
        bm25: int | None = None,
    ) -> None:
        self.judging, self.judgeable, self.read = judging, judgeable, read
        self.bm25 = bm25
        """The place of BM25 in the pool; None where there is nothing to compare it with."""
        live = sys.stderr.isatty()
        self.out = console(stderr=True, width=80)
        self.width = min(self.out.width, MAX_LINE_WIDTH)
        self.height = self.out.height if live else 1 << 30
        self.note = ""
        """What became of the last key."""

    def work(self) -> None:
        """Ask until the end, a `q`, the end of the input, or Ctrl-C."""
        try:
            while (item := self.judging.current) is not None or self.judging.num_answered:
                if not (self._finish() if item is None else self._ask(item)):
                    break
                self._next_screen()
        except KeyboardInterrupt:
            pass
        self.out.print()

    def _ask(self, item: Pooled) -> bool:
        """One document, with as many pages of it as are wanted; whether to go on."""
        document = self.judgeable.index.document(item.doc_id)
        views = self._views(item, document)
        page = 0
        while True:
            self._show(item, document, views[page], more=len(views) > 1)
            key = self.read()
            if key in (END_OF_INPUT, "q"):
                return False
            if self._act(key):
                return True
            if key == "m":
                page = (page + 1) % len(views)
                self.note = "" if len(views) > 1 else "this is all of its text"
            self._next_screen()

    def _act(self, key: str) -> bool:
        """Do what a key says; whether another document is to be shown."""
        self.note = ""
        if key in GRADES:
            self.judging.answer(GRADES[key])
            self.note = f"before this: {GRADE_NAMES[GRADES[key]]}"
        elif key == "s":
            self.judging.skip()
            self.note = "before this: skipped"
        elif key == "u" and self.judging.undo():
            self.note = "taken back: judge this one again"
        elif key == "u":
            self.note = "nothing to undo in this session"
            return False
        elif key != "m":
            self.note = "unknown key: use y, 2, n, s, u, m or q"
            return False
        return key != "m"

    def _finish(self) -> bool:
        """After the last document: whether its answer was taken back."""
        self.out.print("That was the last document.  [u]ndo, [q]uit", end=" ", style="bold")
        return self.read() == "u" and self._act("u")

    def _views(self, item: Pooled, document: Document) -> list[View]:
        """The pages of a document; before those of a long one, its best passage."""
        from tamis.search.snippets import snippet

        analyzer = self.judgeable.index.analyzer
        terms = set(analyzer.terms(item.query.text))
        body = visible(document.text.replace("\r\n", "\n").expandtabs(4).strip("\n"))
        lines = self._wrapped(_marked(body, terms, analyzer))
        rows = self._rows_for_text(item, document)
        pages = [lines[at : at + rows] for at in range(0, len(lines), rows)]
        if len(lines) <= min(MAX_LINES_SHOWN_WHOLE, rows):
            return [View(lines, "" if body.strip() else "(no text)")]
        best = snippet(body, terms, analyzer, 80)
        passage = _styled(best.text, best.matches)
        count = f"{len(body.split()):,} words"
        return [
            View(self._wrapped(passage), f"the best passage of {count}"),
            *(View(page, f"page {n} of {len(pages)}, {count}") for n, page in enumerate(pages, 1)),
        ]

    def _rows_for_text(self, item: Pooled, document: Document) -> int:
        """How many lines of a text leave all else on the screen, the cursor's line too."""
        from rich.text import Text

        caption = note = Text("x")
        around = [*self._head(item, document), *self._foot(caption, note)]
        used = sum(max(1, len(text.wrap(self.out, self.width))) for text in around)
        return max(self.height - used - 1, MIN_ROWS)

    def _wrapped(self, text: Text) -> list[Text]:
        return list(text.wrap(self.out, self.width - 4))

    def _show(self, item: Pooled, document: Document, view: View, more: bool) -> None:
        """One screen: where we are, the query, the document, the keys."""
        from rich.text import Text

        self._print(*self._head(item, document))
        self._print(*(Text.assemble("    ", text) for text in view.lines))
        caption = Text(f"    {view.caption}", "dim italic") if view.caption else None
        note = Text(self.note, "dim") if self.note else None
        self._print(*self._foot(caption, note, more))

    def _head(self, item: Pooled, document: Document) -> list[Text]:
        """What stands above the text."""
        from rich.text import Text

        index = self.judgeable.index
        terms = set(index.analyzer.terms(item.query.text))
        title = _marked(visible(document.title or document.id), terms, index.analyzer)
        title.style = "bold"
        if document.title and document.title != document.id:
            title.append(f"  {visible(document.id)}", style="not bold dim")
        place, line = [_place(self.judging), *self._power()], self._line()
        return [*place, line, *_query_lines(item), line, title, Text()]

    def _foot(self, caption: Text | None, note: Text | None, more: bool = True) -> list[Text]:
        """What stands below the text."""
        from rich.text import Text

        keys = Text("  ".join(KEYS))
        keys.highlight_regex(r"\[.\]", "bold cyan")
        if not more:
            keys.highlight_regex(r"\[m\]ore text", "dim not bold default")
        question = Text("Does this document answer the query?")
        captioned = [] if caption is None else [Text(), caption]
        return [*captioned, self._line(), question, keys, *([] if note is None else [note])]

    def _line(self) -> Text:
        from rich.text import Text

        return Text("─" * self.width, "dim")

    def _power(self) -> list[Text]:
        """What the queries judged so far can show; never who is ahead, which would bias a judge."""
        from rich.text import Text

        power = None if self.bm25 is None else self.judging.power(0, self.bm25)
        if power is None:
            return []
        shows = f"judged queries: {power.queries}, enough to show a difference to BM25 of"
        return [Text(f"{shows} {power.smallest:.2f} reciprocal rank", "dim")]

    def _next_screen(self) -> None:
        if self.out.is_terminal:
            self.out.clear()
        else:
            self.out.print()

    def _print(self, *renderables: RenderableType) -> None:
        for renderable in renderables:
            self.out.print(visible_renderable(renderable), width=self.width)


@dataclass(frozen=True)
class View:
    """Some lines of a document, and what they are of it."""

    lines: list[Text]
    caption: str


def _query_lines(item: Pooled) -> list[Text]:
    """The query, with its description and narrative."""
    from rich.text import Text

    fields = {name: item.query.fields.get(name) for name in ("description", "narrative")}
    details = [f"{name}: {visible(text)}" for name, text in fields.items() if text]
    return [Text(visible(item.query.text), "bold"), *(Text(line, "dim") for line in details)]


def _marked(text: str, terms: set[str], analyzer: Analyzer) -> Text:
    return _styled(text, [(s, e) for term, s, e in analyzer.spans(text) if term in terms])


def _styled(text: str, matches: Iterable[tuple[int, int]]) -> Text:
    from rich.text import Text

    styled = Text(text)
    for start, end in matches:
        styled.stylize("bold yellow", start, end)
    return styled


def _place(judging: Judging) -> Text:
    from rich.text import Text

    at = judging.place()
    assert at is not None
    minutes = max(1, round(judging.seconds_left() / 60))
    time = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
    return Text(
        f"query {at.query} of {at.num_queries}, document {at.document} of {at.num_documents}, "
        f"about {time} left",
        "dim",
    )


def _summary(
    judging: Judging, path: Path, arguments: list[str], options: Mapping[str, object]
) -> None:
    """Where the judgements are, how many, and what to do with them."""
    from tamis.collection.judgements import read_qrels, split_files
    from tamis.collection.loss_notes import counted

    if not (path.exists() and split_files(path)):
        say("nothing was judged, nothing is written")
        return
    qrels = read_qrels(path)
    relevant = int((qrels.grade > 0).sum())
    say(
        f"{path}: {counted(len(qrels.grade), 'judgement')} ({judging.num_answered:,} new) of "
        f"{counted(len(qrels), 'query')}, {relevant:,} relevant"
    )
    if judging.num_left or judging.num_skipped:
        partly = judging.count_partly_judged()
        half = f", {counted(partly, 'query')} judged in part" if partly else ""
        say(f"{counted(judging.num_left, 'document')} left, {judging.num_skipped:,} skipped{half}")
        defaults = {
            ("--depth", DEFAULT_DEPTH),
            ("--sample", DEFAULT_QUERIES),
            ("--seed", DEFAULT_SEED),
        }
        changed = [pair for pair in options.items() if pair not in defaults]
        words = [str(word) for pair in changed for word in pair]
        say(f"go on:   {shlex.join(['tamis', 'judge', *arguments, *words])}")
    else:
        say("all that was pooled is judged")
    sieve, run = arguments[0], f"{path}.run.parquet"
    say(f"measure: {shlex.join(['tamis', 'search', sieve, str(path), '-o', run])}")
    say(f"         {shlex.join(['tamis', 'evaluate', str(path), run])}")
    more = ["--queries", arguments[1]] if len(arguments) > 1 else []
    fit = ["tamis", "fit", sieve, *more, "--qrels", str(path)]
    fit += ["-o", sieve, "--force"] if is_sieve(sieve) else ["-o", f"{path}.sieve"]
    say(f"learn and test: {shlex.join(fit)}")
