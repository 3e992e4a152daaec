"""`tamis index` and `tamis search`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tamis.cli.common import reading, say, say_faults, writing_to
from tamis.cli.dense import (
    Dense,
    DensePassages,
    EmbeddingCacheOptions,
    Memory,
    dense_source,
    encode,
    open_encoder,
    parse_size,
    search_and_report,
)
from tamis.cli.hits import show_hits
from tamis.cli.options import (
    ADVANCED_PANEL,
    DeviceOptions,
    Force,
    Json,
    OnError,
    ReadOptions,
    Threads,
    WhereOption,
    with_options,
)
from tamis.cli.sieves import (
    is_searchable,
    is_sieve,
    opened_sieve,
    say_what_was_tested,
    show_sieve_hits,
)
from tamis.errors import InputError, command
from tamis.terminal import visible

if TYPE_CHECKING:
    from tamis.search import Index
    from tamis.search.hits import Hit
    from tamis.types import Queries, Source

IndexFolder = Annotated[
    Path, typer.Argument(metavar="INDEX", help="A folder that tamis index wrote.")
]
QueryField = Annotated[
    str | None,
    typer.Option(
        "--query-field",
        metavar="NAME",
        help="Search with this field of the queries, such as description.",
        rich_help_panel=ADVANCED_PANEL,
    ),
]
RANKING_PANEL = "Ranking"


@with_options
def index(
    collection: Annotated[
        str, typer.Argument(metavar="COLLECTION", help="The collection to index.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="INDEX", help="The index to write.")
    ],
    read: ReadOptions,
    cache: EmbeddingCacheOptions,
    device: DeviceOptions,
    dense: Dense = None,
    passages: DensePassages = None,
    analyzer: Annotated[
        str,
        typer.Option(help="english, unicode, whitespace, or a stemmer such as snowball:german."),
    ] = "english",
    memory: Memory = "1GB",
    force: Force = False,
) -> None:
    """Index a collection for search; with --dense also encode it. To change it: tamis update.

    Example: tamis index docs.jsonl -o my-index
    """
    from tamis.search import Index

    if passages and not dense:
        raise typer.BadParameter("--passages is for --dense")
    max_bytes = parse_size(memory)
    encoder = open_encoder(dense, passages, device) if dense else None
    documents = read.open(collection)
    built = Index.build(documents.documents, output, analyzer, max_bytes, force)
    if encoder:
        encode(built, *encoder, passages, cache, force=False)
    compile_kernels(built)
    say_faults(documents.faults)
    say_index(built)


def say_index(index: Index) -> None:
    """Say how large an index is."""
    from tamis.collection.loss_notes import counted

    empty = index.num_documents_without_terms
    without = f" ({empty:,} without a term)" if empty else ""
    say(
        f"{index.path}: {counted(index.num_documents, 'document')}{without}, "
        f"{counted(index.total_terms, 'term')} ({index.distinct_terms:,} distinct), "
        f"{counted(len(index.snapshot.segments), 'segment')}"
    )


def compile_kernels(index: Index) -> None:
    """Search once, so that kernels are compiled before the first query."""
    from tamis.types import Queries, Query

    for document in index:
        index.bm25().search(Queries.of([Query("q", document.text[:200])]), 10)
        break


@with_options
def search(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="An index or a sieve.")],
    queries: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="The words to search for; with -o a file or collection of queries.",
        ),
    ],
    device: DeviceOptions,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="RUN", help="Search all queries and write a run."),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(
            "--top", metavar="N", min=1, help="Documents per query. Default: 10; with -o 1000."
        ),
    ] = None,
    where: WhereOption = None,
    ranking: Annotated[
        Literal["bm25", "ql", "dense", "hybrid"] | None,
        typer.Option(
            help="BM25, query likelihood, embeddings, or BM25 and embeddings fused. "
            "Default: bm25, or what tamis tune selected.",
            rich_help_panel=RANKING_PANEL,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="dense, hybrid: the bi-encoder. Default: the one the index was encoded with.",
            rich_help_panel=RANKING_PANEL,
        ),
    ] = None,
    k1: Annotated[
        float | None,
        typer.Option(help="BM25: term frequency saturation.", rich_help_panel=RANKING_PANEL),
    ] = None,
    b: Annotated[
        float | None,
        typer.Option(help="BM25: length normalisation, 0 to 1.", rich_help_panel=RANKING_PANEL),
    ] = None,
    mu: Annotated[
        float | None,
        typer.Option(help="Query likelihood: Dirichlet smoothing.", rich_help_panel=RANKING_PANEL),
    ] = None,
    rm3: Annotated[
        bool | None,
        typer.Option(
            "--rm3/--no-rm3",
            help="Expand the query by RM3 relevance feedback.",
            rich_help_panel=RANKING_PANEL,
        ),
    ] = None,
    rm3_terms: Annotated[
        int | None,
        typer.Option(metavar="N", help="RM3: expansion terms.", rich_help_panel=RANKING_PANEL),
    ] = None,
    rm3_documents: Annotated[
        int | None,
        typer.Option(metavar="N", help="RM3: feedback documents.", rich_help_panel=RANKING_PANEL),
    ] = None,
    rm3_weight: Annotated[
        float | None,
        typer.Option(
            metavar="W", help="RM3: weight of the original query.", rich_help_panel=RANKING_PANEL
        ),
    ] = None,
    query_field: QueryField = None,
    rerank_field: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Write this field of the queries into the run, for a re-ranker.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    threads: Threads = None,
    on_error: OnError = "skip",
    json: Json = False,
    force: Force = False,
) -> None:
    """Search an index or a sieve: one query for a person, or many into a run.

    Example: tamis search my-index "how do I cancel"
    """
    from tamis.search import Index, default_source

    if output is not None and json:
        raise typer.BadParameter("--json prints the hits of one query: leave it or -o out")
    _refuse_mistaken(folder, queries, output)
    options = {
        "k1": k1, "b": b, "mu": mu,
        "terms": rm3_terms, "documents": rm3_documents, "weight": rm3_weight,
    }  # fmt: skip
    parameters = {name: value for name, value in options.items() if value is not None}
    if is_sieve(folder):
        if parameters or any(option is not None for option in (ranking, model, rm3)):
            raise typer.BadParameter(
                "a sieve has its own ranking: leave --ranking and the like out"
            )
        sieve = opened_sieve(folder, threads, device)
        if output is None:
            show_sieve_hits(sieve, queries, top or 10, where or (), json)
            return
        say_what_was_tested(sieve)
        source = sieve.source.where(*where) if where else sieve.source
        _search_all(source, queries, output, top, query_field, rerank_field, on_error, force)
        return
    searched_index = Index.open(folder)
    if searched_index.snapshot.damage is not None:
        damage = searched_index.snapshot.damage
        say(f"warning: the embeddings are damaged, BM25 still works: {damage}")
    if ranking == "dense" and (parameters or rm3):
        raise typer.BadParameter("BM25, query likelihood and RM3 are not for --ranking dense")
    lexical = None if ranking == "dense" or ranking == "hybrid" else ranking
    source = default_source(searched_index, lexical, rm3, parameters, threads)
    if ranking == "dense" or ranking == "hybrid":
        source = dense_source(searched_index, ranking, source, model, threads, device)
    elif model:
        raise typer.BadParameter("--model is for --ranking dense or hybrid")
    source = source.where(*where or ())
    if output is None:
        hits = _index_hits(searched_index, source, ranking, queries, top or 10)
        show_hits(hits, queries, searched_index, json, raw_scores=True, where=where or ())
        return
    _search_all(source, queries, output, top, query_field, rerank_field, on_error, force)


def _index_hits(
    index: Index, source: Source, ranking: str | None, words: str, top: int
) -> list[Hit]:
    """What a ranking of an index finds."""
    from tamis.search.hits import cosine_score, lexical_score, logistic_score
    from tamis.types import Queries, Query

    run = search_and_report(source, Queries.of([Query("words", words)]), top)
    functions = {"dense": cosine_score, "hybrid": logistic_score}
    function = functions.get(ranking or "", lexical_score)
    return index.hits(run, function(run.score))


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
    query_field: str | None,
    rerank_field: str | None,
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
        all_queries = read_queries(queries if not path.exists() else path, faults=faults)
    if faults.count:
        skipped = counted(faults.count, "query")
        say(f"warning: {skipped} skipped, first: {faults.first[0]}")
    searched = all_queries.searching(query_field) if query_field else all_queries
    run = search_and_report(source, searched, top or 1000)
    if rerank_field:
        run = run.with_queries(all_queries.searching(rerank_field))
    elif query_field:
        run = run.with_queries(all_queries)
    with writing_to(output) as out:
        for note in write_run(run, out, force=force):
            say(f"note: {note}")
    empty = int((run.sizes() == 0).sum())
    say(f"{len(run):,} queries searched with {describe(source)}, {empty:,} without results")


def describe(source: Source) -> str:
    """A source in words: its ranking and parameters."""
    return _describe_spec(source.spec())


def _describe_spec(spec: dict[str, Any]) -> str:
    if "where" in spec:
        conditions = " and ".join(visible(condition) for condition in spec["where"])
        unfiltered = {name: value for name, value in spec.items() if name != "where"}
        return f"{_describe_spec(unfiltered)} where {conditions}"
    if spec["source"] == "hybrid":
        pairs = zip(spec["weights"], spec["of"], strict=True)
        return " + ".join(f"{weight:g} × {_describe_spec(source)}" for weight, source in pairs)
    if spec["source"] == "dense":
        return f"dense {spec['model']}"
    if spec["source"] == "top":
        return _describe_spec(spec["of"])
    if spec["source"] == "then":
        return f"{_describe_spec(spec['first'])}{_describe_stage(spec['stage'])}"
    hidden = ("source", "version", "index")
    parameters = {name: value for name, value in spec.items() if name not in hidden}
    feedback = parameters.pop("rm3", None)
    ranking = f"{parameters.pop('ranking')} {listed(parameters)}"
    return f"{ranking} and rm3 {listed(feedback)}" if feedback else ranking


def _describe_stage(spec: dict[str, Any]) -> str:
    if spec["stage"] == "interpolate":
        if spec["weight"] == 0:  # the order of the retriever stays
            return ""
        return f"{_describe_stage(spec['of'])}, fusion weight {spec['weight']:g}"
    if "depth" not in spec:
        return f", re-ranked by {spec['stage']}"
    return f", re-ranked to {spec['depth']:,}"


def listed(parameters: dict[str, Any]) -> str:
    """Parameters in one line."""
    return " ".join(f"{name}={value:g}" for name, value in parameters.items())


def queries_to_search(queries: str, field: str | None) -> Queries:
    """Queries from a file, or one of their fields."""
    from tamis.collection.readers import read_queries

    all_queries = read_queries(queries)
    return all_queries.searching(field) if field else all_queries
