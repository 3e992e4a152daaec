"""What verbs that score are given: documents, texts of queries, a run, scores that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

from tamis.cli.common import STDIO, reading, say, say_faults
from tamis.errors import InputError, OutputError

if TYPE_CHECKING:
    from tamis.collection._records import Columns
    from tamis.collection.base import Collection, Faults
    from tamis.models import Ranker
    from tamis.pipeline.cache import ScoreCache
    from tamis.search import Index
    from tamis.types import Queries, Run


def open_documents(
    name: str, format: str | None, columns: Columns, skip: bool
) -> tuple[Index | Collection, Queries | None, Faults]:
    """The documents of a collection or an index, the queries that came with them, and the bad
    lines met so far; a document without a text is none of them.
    """
    from tamis.collection.base import Faults
    from tamis.collection.detection import detect_format
    from tamis.collection.readers import is_id, open_collection
    from tamis.durable import folder_exists
    from tamis.search import Index

    if (
        not is_id(name)
        and format is None
        and folder_exists(Path(name))
        and detect_format(name) == "index"
    ):
        return Index.open(name), None, Faults()
    opened = open_collection(
        name,
        format=format,
        columns=columns,
        on_error="skip" if skip else "raise",
    )
    return opened, opened.queries, opened.faults


def with_texts(run: Run, file: str | None, known: Queries | None, skip: bool) -> Run:
    """The run with its queries' texts: of a file, else its own, else the collection's.

    Where bad lines are skipped, a query without a text is kept and has none.
    """
    from tamis.collection.base import Faults
    from tamis.collection.readers import read_queries
    from tamis.types import Queries, Query

    if file is not None:
        faults = Faults(skip=skip)
        known = read_queries(file, faults=faults)
        say_faults(faults)
    elif run.queries.texts is not None:
        return run
    if known is None or not len(known):
        raise InputError(
            "neither the run nor the collection has the queries' texts",
            hint="name a file of queries: --queries FILE",
        )
    if skip:
        strangers = [Query(name, "") for name in run.queries.ids if name not in known]
        known = Queries.of([*known, *strangers])
    return run.with_queries(known)


def check_cache(cache: Path | None, output: str, run: str) -> None:
    """Refuse to keep scores in the file of a run."""
    for what, name in (("output", output), ("run", run)):
        if cache is not None and name != STDIO and cache.absolute() == Path(name).absolute():
            raise typer.BadParameter(f"--cache {cache} is the {what}: name another file")


def check_output(output: str, force: bool) -> None:
    """Refuse before the work what could not be written after it."""
    path = Path(output)
    if output == STDIO:
        return
    if path.exists() and not force:
        raise OutputError(f"{path} exists already", hint="choose another name, or give --force")
    if not path.parent.is_dir():
        raise OutputError(f"there is no folder {path.parent}", hint="make it first")


def read_run_file(run: str, skip: bool) -> Run:
    """A run from a file or stdin; bad lines that are skipped are told."""
    from tamis.collection.base import Faults
    from tamis.collection.runs import read_run

    faults = Faults(skip=skip)
    with reading(run) as path:
        read = read_run(path, faults)
    say_faults(faults)
    return read


@contextmanager
def score_cache(path: Path | None, ranker: Ranker, always: bool) -> Iterator[ScoreCache | None]:
    """The scores kept in a file, if any are to be; says so when the work is interrupted.

    Where they are needed twice they are `always` kept, if only for as long as the work lasts.
    """
    from tamis.pipeline.cache import ScoreCache

    with ExitStack() as held:
        if path is None or ranker.identity is None:
            if not always:
                yield None
                return
            path = Path(held.enter_context(TemporaryDirectory())) / "scores"
        cache = held.enter_context(ScoreCache(path, ranker.identity or ranker.name))
        if cache.dropped:
            say(f"note: {cache.dropped:,} bytes at the end of {path} were not whole: dropped")
        try:
            yield cache
        except KeyboardInterrupt:
            kept = f"{len(cache):,} scores are kept in {path}"
            say(f"interrupted: {kept}: the same command goes on from there")
            raise typer.Exit(130) from None
