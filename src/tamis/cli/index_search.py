"""`tamis index` and `tamis search`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tamis.cli.common import (
    Force,
    Format,
    IdColumn,
    Json,
    OnError,
    TextColumn,
    TitleColumn,
    reading,
    say,
    say_faults,
    writing_to,
)
from tamis.cli.dense import (
    Dense,
    DropDense,
    Model,
    Passages,
    dense_source,
    encode,
    open_encoder,
    search_saying,
)
from tamis.cli.sieves import (
    is_searchable,
    is_sieve,
    opened_sieve,
    say_what_was_tested,
    show_sieve_hits,
)
from tamis.errors import InputError, command

if TYPE_CHECKING:
    from tamis.search import Index
    from tamis.types import Queries, Source

IndexFolder = Annotated[Path, typer.Argument(metavar="INDEX", help="A folder `tamis index` wrote.")]
Top = Annotated[int | None, typer.Option("--top", min=1, help="How many documents a query.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Queries searched at once; all cores if unset.")
]
SearchField = Annotated[
    str | None, typer.Option(help="Search this field of the queries, such as description.")
]


def size(text: str) -> int:
    """A number of bytes from `2GB`, `500 MB` or plain digits.

    >>> size("2GB"), size("1500000")
    (2000000000, 1500000)
    """
    match = re.fullmatch(r"([0-9.]++)\s*+([kmgt]?)(i?)b?", text.strip().lower())
    try:
        number = float(match[1]) if match else None
    except ValueError:
        number = None
    if match is None or number is None:
        raise typer.BadParameter(f"{text!r} is no amount of memory; write 2GB or 500MB")
    return int(number * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " "))


def index(
    collection: Annotated[
        str | None,
        typer.Argument(help="What to index: any collection; not needed to delete or merge."),
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="INDEX", help="The folder of the index.")
    ] = ...,  # type: ignore[assignment]
    add: Annotated[
        bool, typer.Option("--add", help="Add to the index; documents with a known id replace it.")
    ] = False,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", metavar="ID", help="Delete this id; repeatable.")
    ] = None,
    delete_from: Annotated[
        str | None, typer.Option(metavar="FILE", help="Delete the ids in a file, one a line.")
    ] = None,
    merge: Annotated[bool, typer.Option("--merge", help="Make the segments one.")] = False,
    dense: Dense = None,
    passages: Passages = None,
    drop_dense: DropDense = False,
    analyzer: Annotated[
        str | None,
        typer.Option(
            help="english (default), unicode, whitespace, or snowball:LANGUAGE; kept in the index."
        ),
    ] = None,
    memory: Annotated[str, typer.Option(help="How much memory the build may take.")] = "1GB",
    format: Format = None,
    id: IdColumn = None,
    text: TextColumn = None,
    title: TitleColumn = None,
    on_error: OnError = "raise",
    force: Force = False,
) -> None:
    """Index a collection for search, add to an index, delete from it, compact or encode it.

    Example: tamis index docs.jsonl -o my-index
    """
    from tamis.collection._records import Columns
    from tamis.collection.loss_notes import counted
    from tamis.collection.readers import open_collection
    from tamis.search import Index

    changing = add or merge or delete or delete_from or drop_dense or (dense and not collection)
    if collection is None and (add or not changing):
        raise typer.BadParameter("name a collection to index")
    if collection is not None and changing and not add:
        raise typer.BadParameter("a collection is added with --add")
    if changing and (analyzer or (force and not dense)):
        raise typer.BadParameter("--analyzer and --force are for a new index")
    if passages and not dense:
        raise typer.BadParameter("--passages is for --dense")
    bytes_ = size(memory)
    encoder = open_encoder(dense, passages) if dense else None
    opened = None
    if collection is not None:
        columns = Columns(id=id, text=text, title=title)
        opened = open_collection(collection, format=format, columns=columns, on_error=on_error)
    if not changing:
        assert opened is not None
        made = Index.build(opened.documents, output, analyzer or "english", bytes_, force)
    else:
        made = Index.open(output)
        gone = [*(delete or []), *_ids(delete_from)]
        if gone:
            found = made.delete(gone)
            say(f"deleted {found:,} of {len(set(gone)):,} documents named")
        if opened is not None:
            made.add(opened.documents, bytes_)
        if drop_dense:
            made.drop_vectors()
    if encoder:
        encode(made, *encoder, passages, force)
    if merge:
        made.merge(bytes_)
    _compile_kernels(made)
    if opened is not None:
        say_faults(opened.faults)
    empty = made.documents_without_terms
    without = f" ({empty:,} without a term)" if empty else ""
    say(
        f"{output}: {counted(made.documents, 'document')}{without}, "
        f"{counted(made.total_terms, 'term')} ({made.distinct_terms:,} distinct), "
        f"{counted(len(made.snapshot.segments), 'segment')}"
    )


def _compile_kernels(made: Index) -> None:
    """Search once, so that what is compiled on first use is compiled before anyone waits for it."""
    from tamis.types import Queries, Query

    for document in made:
        made.bm25().search(Queries.of([Query("q", document.text[:200])]), 10)
        break


def _ids(file: str | None) -> list[str]:
    if file is None:
        return []
    with reading(file) as path:
        return [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]


def search(
    folder: IndexFolder,
    queries: Annotated[
        str, typer.Argument(help="Words to search for; with -o a file or collection of queries.")
    ],
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="RUN", help="Search all queries into a run."),
    ] = None,
    top: Top = None,
    ranking: Annotated[
        Literal["bm25", "ql", "dense", "hybrid"] | None,
        typer.Option(
            help="BM25, query likelihood, vectors, or words and vectors fused by scores; "
            "what was tuned if unset, else BM25."
        ),
    ] = None,
    model: Model = None,
    k1: Annotated[float | None, typer.Option(help="BM25: how slowly frequency saturates.")] = None,
    b: Annotated[float | None, typer.Option(help="BM25: how much length counts, 0 to 1.")] = None,
    mu: Annotated[float | None, typer.Option(help="Query likelihood: smoothing.")] = None,
    rm3: Annotated[
        bool | None,
        typer.Option("--rm3/--no-rm3", help="Search again with words of the first documents."),
    ] = None,
    terms: Annotated[int | None, typer.Option(help="RM3: terms taken up.")] = None,
    documents: Annotated[int | None, typer.Option(help="RM3: documents looked at.")] = None,
    weight: Annotated[float | None, typer.Option(help="RM3: share of the query itself.")] = None,
    search_field: SearchField = None,
    pass_on: Annotated[
        str | None,
        typer.Option(help="Make this field the query text in the run, for what comes after."),
    ] = None,
    threads: Threads = None,
    on_error: OnError = "skip",
    json: Json = False,
    force: Force = False,
) -> None:
    """Search an index or a sieve: words for a person, or many queries into a run.

    Example: tamis search my-index "how do I cancel"
    """
    from tamis.search import Index, default_source

    _refuse_mistaken(folder, queries, output)
    if is_sieve(folder):
        settings = ranking, model, rm3, k1, b, mu, terms, documents, weight
        if any(setting is not None for setting in settings):
            raise typer.BadParameter("a sieve knows how it ranks: leave --ranking and the like out")
        sieve = opened_sieve(folder, threads)
        if output is None:
            show_sieve_hits(sieve, queries, top or 10, json)
            return
        say_what_was_tested(sieve)
        _search_all(sieve.source, queries, output, top, search_field, pass_on, on_error, force)
        return
    opened = Index.open(folder)
    if opened.snapshot.damaged is not None:
        say(f"warning: the vectors are damaged, words can be searched: {opened.snapshot.damaged}")
    asked = {"k1": k1, "b": b, "mu": mu, "terms": terms, "documents": documents, "weight": weight}
    given = {name: value for name, value in asked.items() if value is not None}
    by_words = None if ranking == "dense" or ranking == "hybrid" else ranking
    if ranking == "dense" and (given or rm3):
        raise typer.BadParameter(f"--{next(iter(given), 'rm3')} is not for --ranking dense")
    source: Source = default_source(opened, by_words, rm3, given, threads)
    if ranking in ("dense", "hybrid"):
        source = dense_source(opened, ranking, source, model, threads)
    elif model:
        raise typer.BadParameter("--model is for --ranking dense or hybrid")
    if output is None:
        from tamis.cli.hits import show_hits

        show_hits(opened, source, queries, top or 10, json)
        return
    _search_all(source, queries, output, top, search_field, pass_on, on_error, force)


def _refuse_mistaken(folder: Path, words: str, output: str | None) -> None:
    """Refuse words in place of the folder, and a file in place of words."""
    from tamis.collection.readers import is_id

    into = [] if output is None else ["-o", output]
    if is_searchable(words) and not is_searchable(folder):
        raise InputError(
            f"{folder} is no index and no sieve, but {words} is",
            hint=f"the folder comes first: {command('search', words, folder, *into)}",
        )
    if output is None and (is_id(words) or _holds_queries(words)):
        raise InputError(
            f"{words} is {_what_is(words)}, not words to search for",
            hint="search all its queries into a run: "
            f"{command('search', folder, words, '-o', 'run.trec')}; for the words "
            f"themselves put a blank before them: ' {words}'",
        )


def _holds_queries(words: str) -> bool:
    """Whether words name a file, or a folder with queries."""
    from tamis.collection.beir import QUERIES

    return Path(words).is_file() or (Path(words) / QUERIES).is_file()


def _what_is(words: str) -> str:
    return "a file" if Path(words).is_file() else "a collection"


def _search_all(
    source: Source,
    queries: str,
    output: str,
    top: int | None,
    search_field: str | None,
    pass_on: str | None,
    on_error: str,
    force: bool,
) -> None:
    """Search many queries into a run."""
    from tamis.collection.base import Faults
    from tamis.collection.loss_notes import counted
    from tamis.collection.readers import read_queries
    from tamis.collection.runs import write_run

    faults = Faults(skip=on_error == "skip")
    with reading(queries) as path:
        read = read_queries(queries if not path.exists() else path, faults=faults)
    if faults.count:
        bad = counted(faults.count, "query")
        say(f"warning: {bad} left out, first: {faults.first[0]}")
    asked_for = read.searching(search_field) if search_field else read
    run = search_saying(source, asked_for, top or 1000)
    if pass_on:
        run = run.with_queries(read.searching(pass_on))
    elif search_field:
        run = run.with_queries(read)
    with writing_to(output) as out:
        for note in write_run(run, out, force=force):
            say(f"note: {note}")
    empty = int((run.sizes() == 0).sum())
    say(f"{len(run):,} queries searched with {describe(source)}, {empty:,} without a result")


def describe(source: Source) -> str:
    """A source in words: its ranking and parameters."""
    return _described(source.spec())


def _described(spec: dict[str, Any]) -> str:
    if spec["source"] == "hybrid":
        parts = zip(spec["weights"], spec["of"], strict=True)  # `tamis search` fuses by scores
        return " and ".join(f"{weight:g} of {_described(each)}" for weight, each in parts)
    if spec["source"] == "dense":
        return f"dense {spec['model']}"
    if spec["source"] == "top":
        return _described(spec["of"])
    if spec["source"] == "then":
        return f"{_described(spec['first'])}{_described_stage(spec['stage'])}"
    missing_information = ("source", "version", "index")
    parameters = {name: value for name, value in spec.items() if name not in missing_information}
    feedback = parameters.pop("rm3", None)
    named = f"{parameters.pop('ranking')} {listed(parameters)}"
    return f"{named} and rm3 {listed(feedback)}" if feedback else named


def _described_stage(spec: dict[str, Any]) -> str:
    if spec["stage"] == "interpolate":
        if spec["weight"] == 0:  # the order of the retriever stays
            return ""
        return f"{_described_stage(spec['of'])}, fusion weight {spec['weight']:g}"
    if "depth" not in spec:
        return f", re-ranked by {spec['stage']}"
    return f", re-ranked to {spec['depth']:,}"


def listed(parameters: dict[str, Any]) -> str:
    """Parameters in one line."""
    return " ".join(f"{name}={value:g}" for name, value in parameters.items())


def queries_to_search(queries: str, field: str | None) -> Queries:
    """Queries from a file, or one of their fields."""
    from tamis.collection.readers import read_queries

    read = read_queries(queries)
    return read.searching(field) if field else read
