"""What a page calls runs that came as files, and an evaluation under other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tamis.evaluation.evaluate import Evaluation
from tamis.evaluation.significance import Comparison

Value = TypeVar("Value")
COMPRESSION_SUFFIXES = (".gz", ".zst")


def names_of_files(files: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """A name for each file, never its path: the stem, or more of it where two would be the same.

    `taken` are names that other runs have already.

    >>> names_of_files(["runs/bm25.trec.gz", "-"]), names_of_files(["a/x.trec", "b/x.trec"])
    (['bm25', 'stdin'], ['x (a)', 'x (b)'])
    >>> names_of_files(["x.trec", "x.parquet"]), names_of_files(["bm25-k1_0.9"])
    (['x.trec', 'x.parquet'], ['bm25-k1_0.9'])
    """
    forms = [_forms(file) for file in files]
    names: list[str] = []
    for number, own in enumerate(forms):
        others = [form for at, form in enumerate(forms) if at != number]
        free = (
            name
            for at, name in enumerate(own)
            if name not in [*taken, *names, *(other[at] for other in others)]
        )
        names.append(next(free, f"{own[0]} ({number + 1})"))
    return names


def _forms(file: str) -> tuple[str, str, str]:
    """What a file may be called, the shortest first."""
    if file == "-":
        return "stdin", "stdin", "stdin"
    path = Path(file)
    stem = path.name
    for ending in COMPRESSION_SUFFIXES:
        stem = stem.removesuffix(ending)
    if Path(stem).suffix[1:].isalpha():  # the .9 of bm25-k1_0.9 belongs to the name
        stem = Path(stem).stem
    return stem, path.name, f"{stem} ({path.absolute().parent.name})"


def rename_runs(
    evaluation: Evaluation, comparisons: Sequence[Comparison], names: Mapping[str, str]
) -> tuple[Evaluation, list[Comparison]]:
    """The same evaluation and comparisons; a run that is not in `names` keeps its name."""

    def renamed(by_run: Mapping[str, Value]) -> dict[str, Value]:
        return {names.get(run, run): value for run, value in by_run.items()}

    evaluation = replace(
        evaluation,
        per_query=renamed(evaluation.per_query),
        missing=renamed(evaluation.missing),
        unjudged=renamed(evaluation.unjudged),
        rankings=renamed(evaluation.rankings),
    )
    return evaluation, [
        replace(
            one, run=names.get(one.run, one.run), baseline=names.get(one.baseline, one.baseline)
        )
        for one in comparisons
    ]
