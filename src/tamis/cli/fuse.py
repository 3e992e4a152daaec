"""`tamis fuse`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tamis.cli.common import reading, say, split_name, writing_to
from tamis.cli.options import Force, OnError, with_options


@with_options
def fuse(
    runs: Annotated[list[str], typer.Argument(metavar="[NAME=]RUN...", help="Two runs or more.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="RUN", help="The run to write; - is stdout.")
    ],
    method: Annotated[
        Literal["rrf", "sum"],
        typer.Option(help="Reciprocal rank fusion, or a weighted sum of normalised scores."),
    ] = "rrf",
    k: Annotated[int, typer.Option("-k", help="rrf: the constant k.")] = 60,
    fusion_weight: Annotated[
        list[float] | None,
        typer.Option(
            "-w", "--fusion-weight", metavar="W", help="sum: one weight per run, in their order."
        ),
    ] = None,
    normalise: Annotated[
        Literal["minmax", "z", "filled", "none"],
        typer.Option(help="sum: how scores are normalised per query."),
    ] = "minmax",
    tune: Annotated[
        str | None,
        typer.Option(
            "--tune",
            metavar="QRELS",
            help="sum: choose the weight of two runs on these judgements.",
        ),
    ] = None,
    measure: Annotated[
        str, typer.Option("-m", "--measure", help="The measure that --tune maximises.")
    ] = "nDCG@10",
    top: Annotated[
        int | None,
        typer.Option("--top", metavar="N", min=1, help="Documents per query. Default: all."),
    ] = None,
    on_error: OnError = "raise",
    force: Force = False,
) -> None:
    """Fuse several runs over the same queries into one.

    Example: tamis fuse bm25.trec dense.trec -o hybrid.trec --method sum --tune train-qrels.txt
    """
    from tamis.collection.base import Faults
    from tamis.collection.judgements import read_qrels
    from tamis.collection.runs import read_run, write_run
    from tamis.pipeline import fuse as fusing

    if len(runs) < 2:
        raise typer.BadParameter("name two runs or more")
    weights = fusion_weight
    if method == "rrf" and (weights or tune):
        raise typer.BadParameter("--fusion-weight and --tune are for --method sum")
    if tune and (len(runs) != 2 or weights):
        raise typer.BadParameter("--tune chooses the weight of exactly two runs")
    faults = Faults(skip=on_error == "skip")
    names, inputs = [], []
    for name, path in map(split_name, runs):
        names.append(name or path)
        with reading(path) as file:
            inputs.append(read_run(file, faults))
    if tune:
        judged = read_qrels(tune, faults)
        tuned = fusing.tune_weight(inputs[0], inputs[1], judged, measure, normalise)
        best, alone = tuned.values[tuned.weight], tuned.values[0.0]
        say(
            f"weight of {names[1]}: {tuned.weight:g}, {measure} {best:.4f} "
            f"({names[0]} alone: {alone:.4f})"
        )
        say("note: measured on the queries it was tuned on; test it on others")
        weights = [1 - tuned.weight, tuned.weight]
    fused = (
        fusing.reciprocal_rank(inputs, k)
        if method == "rrf"
        else fusing.weighted_sum(inputs, weights, normalise)
    )
    with writing_to(output) as out:
        for note in write_run(fused.top(top) if top else fused, out, force=force):
            say(f"note: {note}")
