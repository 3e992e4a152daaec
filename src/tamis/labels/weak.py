"""Weak labels: what an unsupervised score says of query and text, as a number to learn.

The first step of Yadav, Bethard and Surdeanu (equation 3): a score, of BM25 or of alignment, is
put on 0 to 5 between the least and the greatest of one question's candidates. Every row has the
role `pool`: a regression learns from all of them, and no row is called right or wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tamis.labels.candidates import Missing, open_candidates, same_role
from tamis.labels.examples import Examples
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import Documents
from tamis.search.rankings import BM25
from tamis.text.passages import PassageSpec
from tamis.types import Run, Scorer

MAX_WEAK_LABEL = 5.0
LUCENE_BM25 = BM25(k1=1.2, b=0.75)
"""Lucene's own defaults, with which the scores of the paper were made."""


def weak(
    run: Run,
    scorer: Scorer,
    documents: Documents,
    *,
    passages: str | PassageSpec = "whole",
    depth: int = 100,
    cache: ScoreCache | None = None,
    missing: Missing = "raise",
    model: str = "",
    seed: int = 0,
) -> Examples:
    """The scores of every query's first `depth` documents, or of their passages, put on 0 to 5.

    `scorer` is any; the paper has `Lexical(index, LUCENE)` and `Alignment`. Where all scores of a
    query are equal, or it has one candidate only, its values are 0 and `counts` says so. `model`
    is what the facts call the scorer; `seed` draws passages where the spec samples them.

    >>> from tamis.types import Document, Pairs, Queries, Query, Scores
    >>> class Length:
    ...     scale = "regression"
    ...     def score(self, pairs):
    ...         lengths = np.array([len(text) for text in pairs.texts], np.float32)
    ...         return Scores(lengths[pairs.index[:, 1]], np.zeros(len(pairs), np.int32))
    >>> documents = [Document("a", "x"), Document("b", "xxx"), Document("c", "xxxxx")]
    >>> run = Run.from_dict({"q": {"a": 3.0, "b": 2.0, "c": 1.0}})
    >>> run = run.with_queries(Queries.of([Query("q", "text")]))
    >>> weak(run, Length(), documents).value.tolist()
    [0.0, 2.5, 5.0]
    """
    with open_candidates(
        run, documents, passages, depth=depth, scorer=scorer, missing=missing, seed=seed
    ) as candidates:
        texts = candidates.texts(candidates.rows)
        scores = candidates.score(texts, scorer, cache)
        value, equal = scale_scores(candidates.query[texts.row], scores)
        return candidates.examples(
            texts,
            value,
            same_role(len(texts), "pool"),
            source="weak",
            kind="scaled",
            facts={"labelled_by": "weak", "scorer": model or type(scorer).__name__, "depth": depth},
            counts={"queries_with_all_scores_equal": equal},
        )


def scale_scores(
    query: NDArray[np.integer], scores: NDArray[np.float32]
) -> tuple[NDArray[np.float32], int]:
    """Scores put on 0 to 5 among those of the same query, and how many queries have equal ones.

    Queries must ascend.

    >>> value, equal = scale_scores(np.array([0, 0, 0, 1, 1]), np.float32([-1, 1, 0, 7, 7]))
    >>> value.tolist(), equal
    ([0.0, 5.0, 2.5, 0.0, 0.0], 1)
    """
    if not len(scores):
        return scores, 0
    starts = np.flatnonzero(np.diff(query, prepend=query[0] - 1))
    sizes = np.diff(np.append(starts, len(query)))
    exact = scores.astype(np.float64)
    least = np.minimum.reduceat(exact, starts)
    span = np.maximum.reduceat(exact, starts) - least
    equal = span == 0
    share = (exact - np.repeat(least, sizes)) / np.repeat(np.where(equal, 1.0, span), sizes)
    return (share * MAX_WEAK_LABEL).astype(np.float32), int(equal.sum())
