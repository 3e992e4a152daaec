"""What verbs that score read: documents, query texts, a run, cached scores."""

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
    from tamis.cli.options import ReadOptions
    from tamis.collection.base import Collection, Faults
    from tamis.models import Ranker
    from tamis.pipeline.cache import ScoreCache
    from tamis.search import Index
    from tamis.types import Queries, Run


def open_documents(
    name: str, read: ReadOptions
) -> tuple[Index | Collection, Queries | None, Faults]:
    """The documents of a collection or an index, its queries, and the bad lines met so far."""
    from tamis.collection.base import Faults
    from tamis.collection.detection import detect_format
    from tamis.collection.readers import is_id
    from tamis.durable import folder_exists
    from tamis.search import Index

    if (
        not is_id(name)
        and read.format is None
        and folder_exists(Path(name))
        and detect_format(name) == "index"
    ):
        return Index.open(name), None, Faults()
    collection = read.open(name)
    return collection, collection.queries, collection.faults


def open_inputs(
    run: str, collection: str | None, queries: str | None, read: ReadOptions
) -> tuple[Index | Collection, Run, bool, Faults]:
    """Documents, candidates with the texts of their queries, and whether a table brought both.

    A re-ranking table brings its candidates, and without a collection its documents as well.
    """
    from tamis.collection.candidate_table import RERANKING, CandidateTable
    from tamis.collection.detection import detect_if_possible

    skip = read.skips_bad_lines
    is_table = run != STDIO and RERANKING.name in (read.format, detect_if_possible(run))
    if collection is None:
        if not is_table:
            raise typer.BadParameter(
                "-c COLLECTION is missing: of runs only a re-ranking table brings its documents"
            )
        table = read.open(run)
        assert isinstance(table, CandidateTable)
        return table, with_texts(table.candidates(), queries, None, skip), True, table.faults
    documents, own_queries, faults = open_documents(collection, read)
    candidates = with_texts(read_run_file(run, skip), queries, own_queries, skip)
    return documents, candidates, is_table, faults


def with_texts(run: Run, file: str | None, queries: Queries | None, skip: bool) -> Run:
    """The run with its queries' texts: of a file, else its own, else the collection's.

    Where bad lines are skipped, a query without a text is kept and has none.
    """
    from tamis.collection.base import Faults
    from tamis.collection.readers import read_queries
    from tamis.types import Queries, Query

    if file is not None:
        faults = Faults(skip=skip)
        queries = read_queries(file, faults=faults)
        say_faults(faults)
    elif run.queries.texts is not None:
        return run
    if queries is None or not len(queries):
        raise InputError(
            "neither the run nor the collection has the queries' texts",
            hint="name a file of queries: --queries FILE",
        )
    if skip:
        unknown = [Query(name, "") for name in run.queries.ids if name not in queries]
        queries = Queries.of([*queries, *unknown])
    return run.with_queries(queries)


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


def read_run_file(file: str, skip: bool) -> Run:
    """A run from a file or stdin; skipped lines are reported."""
    from tamis.collection.base import Faults
    from tamis.collection.runs import read_run

    faults = Faults(skip=skip)
    with reading(file) as path:
        run_read = read_run(path, faults)
    say_faults(faults)
    return run_read


@contextmanager
def score_cache(path: Path | None, ranker: Ranker, always: bool) -> Iterator[ScoreCache | None]:
    """The scores kept in a file, if any are to be; says so when the work is interrupted.

    Where they are needed twice they are `always` kept, if only for as long as the work lasts.
    """
    from tamis.pipeline.cache import ScoreCache

    with ExitStack() as stack:
        if path is None or ranker.identity is None:
            if not always:
                yield None
                return
            path = Path(stack.enter_context(TemporaryDirectory())) / "scores"
        cache = stack.enter_context(ScoreCache(path, ranker.identity or ranker.name))
        if cache.dropped:
            say(f"note: {cache.dropped:,} bytes at the end of {path} were not whole: dropped")
        try:
            yield cache
        except KeyboardInterrupt:
            say(f"interrupted: {len(cache):,} scores are cached in {path}; "
                "run the same command to continue")  # fmt: skip
            raise typer.Exit(130) from None
