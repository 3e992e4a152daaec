"""What `tamis info` says of a table of candidates: its columns, relevancies and group sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.collection.candidate_rows import INTEGER
from tamis.types import Ids, Qrels

FEW_CANDIDATES = 50
"""Queries with at most so many candidates are counted apart."""


def candidate_facts(qrels: Qrels) -> dict[str, Any]:
    """Facts by name on a table whose every row is a judgement.

    >>> facts = candidate_facts(Qrels.from_dict({"1": {"7": 1, "9": 0}, "3": {"7": 0, "8": 0}}))
    >>> facts["candidates"]["by_relevancy"]["1"]
    {'pairs': 1, 'share': 0.25}
    >>> facts["columns"]["qid"]
    {'type': 'int', 'distinct': 2, 'contiguous': False}
    """
    return {"columns": _columns(qrels), "candidates": _candidates(qrels)}


def _columns(qrels: Qrels) -> dict[str, Any]:
    grades = np.unique(qrels.grade).tolist()
    return {
        "qid": _ids(qrels.queries),
        "pid": _ids(qrels.docs),
        "query": {"type": "string"},
        "passage": {"type": "string"},
        "relevancy": {"type": "int", "binary": {*grades} <= {0, 1}},
    }


def _ids(ids: Ids) -> dict[str, Any]:
    """The type of ids, how many there are, and whether whole numbers leave no gap."""
    strings = list(ids)
    if not strings or not all(map(INTEGER.fullmatch, strings)):
        return {"type": "string", "distinct": len(ids)}
    numbers = np.array([int(string) for string in strings])
    is_contiguous = bool(numbers.max() - numbers.min() + 1 == len(numbers))
    return {"type": "int", "distinct": len(ids), "contiguous": is_contiguous}


def _candidates(qrels: Qrels) -> dict[str, Any]:
    from tamis.collection.describe import distribution

    sizes, num_pairs = np.diff(qrels.offsets), len(qrels.doc)
    is_relevant = qrels.grade > 0
    num_relevant = np.diff(np.concatenate([[0], np.cumsum(is_relevant)])[qrels.offsets])
    grades, counts = np.unique(qrels.grade, return_counts=True)
    most = int(sizes.max(initial=0))
    return {
        "pairs": num_pairs,
        "by_relevancy": {
            str(grade): {"pairs": count, "share": _share(count, num_pairs)}
            for grade, count in zip(grades.tolist(), counts.tolist(), strict=True)
        },
        "relevant_per_other": _share(int(is_relevant.sum()), int((~is_relevant).sum())),
        "per_query": distribution(sizes),
        "relevant_per_query": distribution(num_relevant),
        "largest_groups": {"candidates": most, **_part(sizes == most)},
        "small_groups": {"at_most": FEW_CANDIDATES, **_part(sizes <= FEW_CANDIDATES)},
        "queries_with_none_relevant": _part(num_relevant == 0),
        "queries_with_only_relevant": _part(num_relevant == sizes),
    }


def _part(is_counted: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, float]:
    count = int(is_counted.sum())
    return {"queries": count, "share": _share(count, len(is_counted))}


def _share(count: int, total: int) -> float:
    return round(count / total, 6) if total else 0.0
