"""`tamis label weak`, `tamis label transfer` and `tamis label teacher`: labels that are scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tamis.cli.common import Force, Json, OnError, QueriesFile, say, say_faults
from tamis.cli.label_inputs import Given, RankingName, lexical, open_any_ranker
from tamis.cli.label_queries import (
    among,
    choose_ranking,
    first_stage,
    judgements,
    open_to_label,
    queries_to_label,
    say_held_out,
    source_of,
)
from tamis.cli.label_show import Show, finish
from tamis.cli.rerank_inputs import check_output, score_cache
from tamis.errors import InputError

if TYPE_CHECKING:
    from tamis.labels import Examples
    from tamis.labels.calibrating import Calibration
    from tamis.models import Ranker
    from tamis.pipeline.cache import ScoreCache
    from tamis.types import Ids, Run

CollectionName = Annotated[
    str,
    typer.Option(
        "-c", "--collection", help="Where documents, queries and judgements are; or an index."
    ),
]
Output = Annotated[
    Path, typer.Option("-o", "--output", metavar="EXAMPLES", help="The examples, a Parquet file.")
]
RunFile = Annotated[
    str | None,
    typer.Option("--run", metavar="RUN", help="The candidates; searched for if unset."),
]
RankingOption = Annotated[
    RankingName | None,
    typer.Option(help="Search for candidates by BM25 (if unset) or by query likelihood."),
]
IndexFolder = Annotated[
    Path | None,
    typer.Option("--index", metavar="INDEX", help="Where to search; not if -c is an index."),
]
QrelsBySplit = Annotated[
    list[str] | None,
    typer.Option(
        "--qrels", metavar="[SPLIT=]FILE", help="Judgements in place of the collection's."
    ),
]
Split = Annotated[
    str | None, typer.Option("--split", help="Label the queries that this split has judged.")
]
Depth = Annotated[int, typer.Option("--depth", min=1, help="How many candidates a query.")]
Passages = Annotated[
    str | None,
    typer.Option("--passages", metavar="SPEC", help="Label passages: words:100, words:150:75, …"),
]
Sample = Annotated[
    int | None, typer.Option("--sample", min=1, help="Label so many queries only, seeded.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of whatever is drawn.")]
Threads = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="All cores if unset; of a service, requests at once."),
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", metavar="FILE", help="Where scores are kept; OUTPUT.scores if unset."),
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Keep no scores.")]
ServiceModel = Annotated[
    str, typer.Option("--service-model", metavar="NAME", help="The model a service is asked for.")
]
KeyVariable = Annotated[
    str | None,
    typer.Option(
        "--key-variable", metavar="NAME", help="The environment variable with a service's key."
    ),
]


def weak(
    collection: CollectionName,
    output: Output,
    model: Annotated[
        str,
        typer.Option(
            "--model", help="What scores: lexical (BM25 over an index), alignment:VECTORS, a model."
        ),
    ] = "lexical",
    k1: Annotated[float, typer.Option(help="k1 of lexical; Lucene's own is 1.2.")] = 1.2,
    b: Annotated[float, typer.Option(help="b of lexical; Lucene's own is 0.75.")] = 0.75,
    run: RunFile = None,
    ranking: RankingOption = None,
    index: IndexFolder = None,
    queries: QueriesFile = None,
    qrels: QrelsBySplit = None,
    split: Split = None,
    depth: Depth = 100,
    passages: Passages = None,
    sample: Sample = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    seed: Seed = 0,
    threads: Threads = None,
    show: Show = None,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Label candidates with an unsupervised score, put on 0 to 5 within each query.

    Example: tamis label weak -c my-index --queries log.txt --model lexical -o weak.parquet
    """
    from tamis.labels.weak import weak as label

    ranking = choose_ranking(ranking, run, "bm25")
    check_output(str(output), force)
    given = open_to_label(collection, index, queries, qrels, split, on_error, ranking)
    found = _candidates(given, run, depth, sample, seed, threads)
    ranker = lexical(given, k1, b) if model == "lexical" else open_any_ranker(model, given, threads)
    with _kept(output, cache, no_cache, ranker) as scores:
        made = label(
            found, ranker.scorer, given.documents, passages=passages or "whole", depth=depth,
            cache=scores, missing=on_error, model=ranker.name, seed=seed,
        )  # fmt: skip
    _end(made, given, output, run, sample, show, json, force)


def teacher(
    collection: CollectionName,
    output: Output,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "--teacher",
            help="A model folder, a hub id, or the address of a service: https://HOST/v2/rerank.",
        ),
    ],
    service_model: ServiceModel = "",
    key_variable: KeyVariable = None,
    run: RunFile = None,
    ranking: RankingOption = None,
    index: IndexFolder = None,
    queries: QueriesFile = None,
    qrels: QrelsBySplit = None,
    split: Split = None,
    depth: Depth = 100,
    passages: Passages = None,
    sample: Sample = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    seed: Seed = 0,
    threads: Threads = None,
    show: Show = None,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Label candidates with the scores of a strong model, for a small one to learn.

    Example: tamis label teacher -c my-index --run bm25.parquet --model strong -o teacher.parquet
    """
    from tamis.labels.teacher import teacher as label

    ranking = choose_ranking(ranking, run, "bm25")
    check_output(str(output), force)
    given = open_to_label(collection, index, queries, qrels, split, on_error, ranking)
    found = _candidates(given, run, depth, sample, seed, threads)
    ranker = open_any_ranker(model, given, threads, service_model, key_variable)
    with _kept(output, cache, no_cache, ranker) as scores:
        made = label(
            found, ranker.scorer, given.documents, passages=passages or "whole", depth=depth,
            cache=scores, missing=on_error, model=ranker.name, seed=seed,
        )  # fmt: skip
    _end(made, given, output, run, sample, show, json, force)


def transfer(
    collection: CollectionName,
    output: Output,
    method: Annotated[
        Literal["qa-docrank", "doc-labelled"],
        typer.Option(help="Ask a teacher which passages are relevant, or take all."),
    ] = "qa-docrank",
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "--teacher", help="The teacher of qa-docrank: a model or a service."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Relevant is what scores above; 0.5 for a teacher of classes."),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="EXAMPLES", help="Choose the threshold on gold examples of its own domain."
        ),
    ] = None,
    calibrate_on: Annotated[
        str | None,
        typer.Option(metavar="COLLECTION", help="What those examples are of; -c if unset."),
    ] = None,
    keep_best: Annotated[
        bool,
        typer.Option("--keep-best", help="Keep the best passage where none is called relevant."),
    ] = False,
    negatives_from: Annotated[
        Literal["nonrelevant", "refused", "both"],
        typer.Option(help="Other documents' passages, passages the teacher refused, or both."),
    ] = "both",
    grade: Annotated[int, typer.Option(min=1, help="Relevant from this grade on.")] = 1,
    service_model: ServiceModel = "",
    key_variable: KeyVariable = None,
    run: RunFile = None,
    ranking: Annotated[
        RankingName | None,
        typer.Option(help="Search for candidates by query likelihood (if unset) or by BM25."),
    ] = None,
    index: IndexFolder = None,
    queries: QueriesFile = None,
    qrels: QrelsBySplit = None,
    split: Split = None,
    depth: Depth = 100,
    passages: Passages = None,
    sample: Sample = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    seed: Seed = 0,
    threads: Threads = None,
    show: Show = None,
    on_error: OnError = "raise",
    json: Json = False,
    force: Force = False,
) -> None:
    """Carry documents' judgements to their passages; test queries are refused.

    Example: tamis label transfer -c docs --index my-index --teacher strong -o passages.parquet
    """
    from tamis.labels.transfer import (
        DOC_LABELLED,
        QA_DOCRANK,
        doc_labelled,
        qa_docrank,
        refuse_test,
    )

    _check_transfer(method, model, threshold, calibrate, calibrate_on)
    ranking = choose_ranking(ranking, run, "ql")
    check_output(str(output), force)
    given = open_to_label(collection, index, queries, qrels, split, on_error, ranking)
    judged, test = judgements(given), _test_queries(given)
    if (judged.queries.positions_in(test) >= 0).all():
        refuse_test(judged.queries, test)
    found = _candidates(given, run, depth, sample, seed, threads, judged.queries)
    judged = judged.select(found.queries.ids)
    if model is None:
        made = doc_labelled(
            found, judged, given.documents, test=test, grade=grade, depth=depth,
            passages=passages or DOC_LABELLED, missing=on_error, seed=seed,
        )  # fmt: skip
        _end(made, given, output, run, sample, show, json, force)
        return
    ranker = open_any_ranker(model, given, threads, service_model, key_variable)
    with _kept(output, cache, no_cache, ranker) as scores:
        asked = None if calibrate_on else queries
        chosen = _calibrated(ranker, calibrate, calibrate_on or collection, asked, scores)
        made = qa_docrank(
            found, judged, given.documents, ranker.scorer, test=test,
            threshold=chosen or threshold, keep_best=keep_best, negatives_from=negatives_from,
            grade=grade, depth=depth, passages=passages or QA_DOCRANK, cache=scores,
            missing=on_error, model=ranker.name, seed=seed,
        )  # fmt: skip
    _end(made, given, output, run, sample, show, json, force)


def _check_transfer(
    method: str,
    model: str | None,
    threshold: float | None,
    calibrate: Path | None,
    calibrate_on: str | None,
) -> None:
    if method == "doc-labelled" and (model or calibrate or threshold is not None):
        raise typer.BadParameter("doc-labelled has no teacher: leave --teacher and threshold out")
    if method == "qa-docrank" and not model:
        raise typer.BadParameter("qa-docrank needs a --teacher; --method doc-labelled has none")
    if calibrate and threshold is not None:
        raise typer.BadParameter("--threshold and --calibrate are two ways to say the same")
    if calibrate_on and not calibrate:
        raise typer.BadParameter("--calibrate-on goes with --calibrate")


def _candidates(
    given: Given,
    run: str | None,
    depth: int,
    sample: int | None,
    seed: int,
    threads: int | None,
    judged: Ids | None = None,
) -> Run:
    """What the first stage finds for the queries that are to be labelled, or a sample of them."""
    import numpy as np

    asked = among(queries_to_label(given, run, judged), judged)
    if sample is not None and sample < len(asked):
        drawn = np.random.default_rng(seed).permutation(len(asked))[:sample]
        asked = asked.select(np.sort(drawn))
    return first_stage(given, asked, run, depth, threads)


def _test_queries(given: Given) -> Ids:
    test = given.held_out.ids
    if not len(test):
        say("note: no split here is a test split, so no query is held out")
    return test


@contextmanager
def _kept(
    output: Path, cache: Path | None, no_cache: bool, ranker: Ranker
) -> Iterator[ScoreCache | None]:
    if cache and no_cache:
        raise typer.BadParameter("--cache and --no-cache contradict each other")
    path = None if no_cache else cache or Path(f"{output}.scores")
    with score_cache(path, ranker, always=False) as scores:
        yield scores


def _calibrated(
    ranker: Ranker,
    examples: Path | None,
    collection: str,
    queries: str | None,
    cache: ScoreCache | None,
) -> Calibration | None:
    """The threshold chosen on examples, none of which may be of a test query."""
    if examples is None:
        return None
    from tamis.labels import read_examples
    from tamis.labels.calibrating import calibrate
    from tamis.labels.examples import TEST_HASHES
    from tamis.labels.held_out import without_leaks
    from tamis.labels.transfer import refuse_test
    from tamis.pipeline.library import library

    given = open_to_label(collection, None, queries, None, None, "raise")
    read = read_examples(examples)
    known = given.known_queries
    if known is not None:
        read = read.with_queries(known)
    hashes = given.held_out.hashes | {*read.facts.get(TEST_HASHES, ())}
    with library(given.documents, read.docs) as texts:
        left, leaks = without_leaks(read, replace(given.held_out, hashes=hashes), texts)
    refuse_test(read.queries.ids, leaks)
    read = left
    chosen = calibrate(
        ranker.scorer, read, given.documents, cache=cache, name=f"{examples} of {collection}"
    )
    say(
        f"threshold: {chosen.threshold:.4g}, balanced accuracy {chosen.balanced_accuracy:.3f} on "
        f"{chosen.positives:,} relevant and {chosen.negatives:,} other texts"
    )
    return chosen


def _end(
    made: Examples,
    given: Given,
    output: Path,
    run: str | None,
    sample: int | None,
    show: int | None,
    json: bool,
    force: bool,
) -> None:
    """Write the examples and say what they are."""
    from tamis.cli.first_stage import describe
    from tamis.labels.examples import TEST_HASHES

    if not len(made):
        raise InputError("no query has a candidate with a text", hint="is it the right collection?")
    searched = f"{describe(source_of(given))} of {given.index.path.name}" if given.index else ""
    told = {
        "collection": Path(given.name).name,
        "split": given.split,
        "sample of queries": sample,
        "first stage": run or searched,
        TEST_HASHES: sorted(given.held_out.hashes),
    }
    finish(made, given.documents, output, told, show, json, force)
    say_held_out(given)
    say_faults(given.faults)
