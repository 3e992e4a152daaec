"""`tamis fuse`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tamis.cli.common import Force, OnError, reading, say, writing_to


def fuse(
    runs: Annotated[list[str], typer.Argument(metavar="RUN RUN...", help="Two or more runs.")],
    output: Annotated[str, typer.Option("-o", "--output", help="The fused run; - is stdout.")],
    method: Annotated[
        Literal["rrf", "sum"],
        typer.Option(help="Reciprocal rank, or weighted sum of normalised scores."),
    ] = "rrf",
    k: Annotated[int, typer.Option("-k", help="The constant of reciprocal rank fusion.")] = 60,
    weight: Annotated[
        list[float] | None,
        typer.Option("-w", "--weight", help="A weight a run, in their order; for sum."),
    ] = None,
    normalise: Annotated[
        Literal["minmax", "z", "filled", "none"],
        typer.Option(help="How sum puts scores on one scale."),
    ] = "minmax",
    tune: Annotated[
        str | None,
        typer.Option(
            "--tune", metavar="QRELS", help="Choose the weight of two runs on these judgements."
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option("-m", "--measure", help="What --tune tunes for.")
    ] = "nDCG@10",
    top: Annotated[
        int | None, typer.Option("--top", min=1, help="Keep the best of each query.")
    ] = None,
    on_error: OnError = "raise",
    force: Force = False,
) -> None:
    """Make one run of several over the same queries.

    Example: tamis fuse bm25.trec dense.trec -o hybrid.trec --method sum --tune train-qrels.txt
    """
    from tamis.collection.base import Faults
    from tamis.collection.judgements import read_qrels
    from tamis.collection.runs import read_run, write_run
    from tamis.pipeline import fuse as fusing

    if len(runs) < 2:
        raise typer.BadParameter("fusing takes two runs or more")
    if method == "rrf" and (weight or tune):
        raise typer.BadParameter("--weight and --tune are for --method sum")
    if tune and (len(runs) != 2 or weight):
        raise typer.BadParameter("--tune chooses the weight of exactly two runs")
    faults = Faults(skip=on_error == "skip")
    read = []
    for path in runs:
        with reading(path) as file:
            read.append(read_run(file, faults))
    if tune:
        judged = read_qrels(tune, faults)
        tuned = fusing.tune_weight(read[0], read[1], judged, measure, normalise)
        best, alone = tuned.values[tuned.weight], tuned.values[0.0]
        say(f"weight of {runs[1]}: {tuned.weight:g}, {measure} {best:.4f} ({runs[0]} {alone:.4f})")
        say("note: that is measured on the judgements it was chosen on; test on others")
        weight = [1 - tuned.weight, tuned.weight]
    fused = (
        fusing.reciprocal_rank(read, k)
        if method == "rrf"
        else fusing.weighted_sum(read, weight, normalise)
    )
    with writing_to(output) as out:
        for note in write_run(fused.top(top) if top else fused, out, force=force):
            say(f"note: {note}")
