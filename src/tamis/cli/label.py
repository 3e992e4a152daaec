"""`tamis label`: training examples from judgements, from BM25, from scores, from a teacher."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tamis.cli.label_options import LabelOptions, ScoreOptions, ServiceOptions, run_label
from tamis.cli.options import ADVANCED_PANEL, DeviceOptions, ReadOptions, with_options

app = typer.Typer(
    help="Make training examples: from judgements, from BM25, from scores, from a teacher.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

GENERATION_PANEL = "Queries from documents"
POOL = "pool"
WHOLE_DOCUMENTS = "whole"

NegativesPerQuery = Annotated[
    str,
    typer.Option(
        "--negatives",
        metavar="N|pool",
        help="Negatives per query. With pool all candidates are kept and training samples them "
        "anew in every epoch.",
    ),
]
MinGrade = Annotated[
    int, typer.Option("--grade", metavar="N", min=1, help="Lowest grade that counts as relevant.")
]
Teacher = Annotated[
    str | None,
    typer.Option(
        "--teacher",
        metavar="MODEL",
        help="A model folder, a hub id, or the address of a service: https://HOST/v2/rerank.",
    ),
]


def negatives_per_query(text: str) -> int | None:
    """A number of negatives, or None for the pool.

    >>> negatives_per_query("10"), negatives_per_query("pool")
    (10, None)
    """
    if text == POOL:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is no number of negatives; write 10 or {POOL}")
    return int(text)


@app.command("gold")
@with_options
def gold(
    options: LabelOptions,
    read: ReadOptions,
    grade: MinGrade = 1,
    negatives: NegativesPerQuery = POOL,
    negatives_from: Annotated[
        Literal["run", "random", "judged", "mixed"],
        typer.Option(
            help="Negatives from the candidates (run), from random documents, from documents "
            "judged 0, or from all three (mixed)."
        ),
    ] = "run",
) -> None:
    """Label from judgements: relevant documents are positive, other candidates negative.

    Example: tamis label gold -c my-docs --index my-index --split train -o gold.parquet
    """
    from tamis import label

    count = negatives_per_query(negatives)
    run_label(
        options,
        read,
        lambda inputs: label.gold(
            inputs, grade=grade, negatives=negatives_from, negatives_per_query=count,
            **options.settings(),
        ),
    )  # fmt: skip


@app.command("pseudo")
@with_options
def pseudo(
    options: LabelOptions,
    read: ReadOptions,
    negatives: NegativesPerQuery = "10",
    positives: Annotated[
        int, typer.Option(metavar="N", min=1, help="Top documents that are positive.")
    ] = 1,
    first_negative: Annotated[
        int | None,
        typer.Option(
            metavar="RANK",
            min=2,
            help="First rank of the negatives. Default: after the positives.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Only negatives that score this share below the top document, such as 0.2.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    from_documents: Annotated[
        bool,
        typer.Option(
            "--from-documents",
            help="Generate the queries from titles and sentences.",
            rich_help_panel=GENERATION_PANEL,
        ),
    ] = False,
    num_queries: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many queries to generate. Default: 1000.",
            rich_help_panel=GENERATION_PANEL,
        ),
    ] = None,
    query_source: Annotated[
        Literal["title", "sentence", "both"] | None,
        typer.Option(help="What becomes a query. Default: both.", rich_help_panel=GENERATION_PANEL),
    ] = None,
    passages: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="Passages that sentences are taken from. Default: words:150.",
            rich_help_panel=GENERATION_PANEL,
        ),
    ] = None,
) -> None:
    """Label without judgements: BM25's top document is positive, lower ones are negative.

    Example: tamis label pseudo -c my-index --queries log.txt -o pseudo.parquet
    """
    from tamis import label

    count = negatives_per_query(negatives)
    refused = {
        "--candidates": options.candidates,
        "--queries": options.queries,
        "--split": options.split,
        "--sample": options.sample,
        "--margin": margin is not None,
        "--first-negative": first_negative,
        "--positives": positives > 1,
    }
    if from_documents and any(refused.values()):
        raise typer.BadParameter(f"--from-documents goes without {', '.join(refused)}")
    if not from_documents and (num_queries or query_source or passages):
        raise typer.BadParameter(
            "--num-queries, --query-source and --passages are for --from-documents"
        )
    if from_documents:
        run_label(
            options,
            read,
            lambda inputs: label.synthetic(
                inputs, count=num_queries or 1000, made_of=query_source or "both",
                passages=passages or "words:150", negatives_per_query=count,
                depth=options.depth, seed=options.seed, threads=options.threads,
            ),
        )  # fmt: skip
    else:
        run_label(
            options,
            read,
            lambda inputs: label.pseudo(
                inputs, negatives_per_query=count, positives=positives, first=first_negative,
                margin=margin, **options.settings(),
            ),
        )  # fmt: skip


@app.command("weak")
@with_options
def weak(
    options: LabelOptions,
    scores: ScoreOptions,
    read: ReadOptions,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            help="What scores: lexical (BM25 over an index), alignment:WORD_VECTORS, or a model.",
        ),
    ] = "lexical",
    k1: Annotated[float, typer.Option(help="k1 of lexical scores (Lucene's default).")] = 1.2,
    b: Annotated[float, typer.Option(help="b of lexical scores (Lucene's default).")] = 0.75,
) -> None:
    """Label candidates with an unsupervised score, scaled to 0..5 within each query.

    Example: tamis label weak -c my-index --queries log.txt --model lexical -o weak.parquet
    """
    from tamis import label

    cache = scores.cache_file(options.output)
    run_label(
        options,
        read,
        lambda inputs: label.weak(
            inputs, model=model, k1=k1, b=b, passages=scores.passages or WHOLE_DOCUMENTS,
            cache=cache, **options.settings(),
        ),
    )  # fmt: skip


@app.command("teacher")
@with_options
def teacher(
    options: LabelOptions,
    scores: ScoreOptions,
    service: ServiceOptions,
    read: ReadOptions,
    where: DeviceOptions,
    teacher: Teacher = ...,  # type: ignore[assignment]
) -> None:
    """Label candidates with the scores of a stronger model, to distil it into a small one.

    Example: tamis label teacher -c my-index --candidates bm25.parquet --teacher strong
    -o teacher.parquet
    """
    from tamis import label

    assert teacher is not None
    cache, service_settings = scores.cache_file(options.output), service.settings(teacher)
    run_label(
        options,
        read,
        lambda inputs: label.teacher(
            inputs, model=teacher, passages=scores.passages or WHOLE_DOCUMENTS, cache=cache,
            **where.of(str(teacher)), **service_settings, **options.settings(),
        ),
    )  # fmt: skip


@app.command("transfer")
@with_options
def transfer(
    options: LabelOptions,
    scores: ScoreOptions,
    service: ServiceOptions,
    read: ReadOptions,
    where: DeviceOptions,
    method: Annotated[
        Literal["qa-docrank", "doc-labelled"],
        typer.Option(help="Let a teacher select the relevant passages, or take all of them."),
    ] = "qa-docrank",
    teacher: Teacher = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="SCORE",
            help="Passages above this score are relevant. Default: 0.5 for probabilities.",
        ),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="EXAMPLES",
            help="Choose the threshold on these gold examples of the teacher's own domain.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    calibrate_on: Annotated[
        str | None,
        typer.Option(
            metavar="COLLECTION",
            help="Documents of those examples. Default: -c.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = None,
    keep_best: Annotated[
        bool,
        typer.Option(
            "--keep-best",
            help="Keep the best passage of a document without a relevant one.",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = False,
    negatives_from: Annotated[
        Literal["nonrelevant", "refused", "both"],
        typer.Option(
            help="Negatives from documents judged not relevant, from passages that the teacher "
            "rejected (refused), or both."
        ),
    ] = "both",
    grade: MinGrade = 1,
) -> None:
    """Carry judgements from documents to their passages; test queries are refused.

    Example: tamis label transfer -c docs --index my-index --teacher strong -o passages.parquet
    """
    from tamis import label

    _check_transfer(method, teacher, threshold, calibrate, calibrate_on)
    cache, service_settings = scores.cache_file(options.output), service.settings(teacher or "")
    run_label(
        options,
        read,
        lambda inputs: label.transfer(
            inputs, model=teacher, threshold=threshold, calibrate_with=calibrate,
            calibrate_on=calibrate_on, keep_best=keep_best, negatives_from=negatives_from,
            grade=grade, passages=scores.passages, cache=cache,
            **where.of(teacher or ""), **service_settings, **options.settings(),
        ),
        default_ranking="ql",
    )  # fmt: skip


def _check_transfer(
    method: str,
    teacher: str | None,
    threshold: float | None,
    calibrate: Path | None,
    calibrate_on: str | None,
) -> None:
    if method == "doc-labelled" and (teacher or calibrate or threshold is not None):
        raise typer.BadParameter(
            "doc-labelled has no teacher: leave --teacher, --threshold and --calibrate out"
        )
    if method == "qa-docrank" and not teacher:
        raise typer.BadParameter("qa-docrank needs a --teacher; --method doc-labelled has none")
    if calibrate and threshold is not None:
        raise typer.BadParameter("--calibrate chooses the threshold: leave --threshold out")
    if calibrate_on and not calibrate:
        raise typer.BadParameter("--calibrate-on goes with --calibrate")
