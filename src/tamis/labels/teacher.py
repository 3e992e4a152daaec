"""A teacher's scores as numbers to learn: how a strong model becomes one that runs on a laptop.

The scores are kept as they are, on whatever scale the teacher has, which `facts` names. Every row
has the role `pool`: a student learns from all of them, and none is called right or wrong.
"""

from __future__ import annotations

from tamis.labels.candidates import Missing, open_candidates, same_role
from tamis.labels.examples import Examples
from tamis.pipeline.cache import ScoreCache
from tamis.pipeline.document_lookup import Documents
from tamis.text.passages import PassageSpec
from tamis.types import Run, Scorer


def teacher(
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
    """The scores of every query's first `depth` documents, or of their passages.

    `scorer` is any, one of a service too (`labels.rerank_service`). Scores kept in `cache` are not
    computed again. `model` is what the facts call the teacher; `seed` draws passages where the
    spec samples them.

    >>> import numpy as np
    >>> from tamis.types import Document, Pairs, Queries, Query, Scores
    >>> class Length:
    ...     scale = "regression"
    ...     def score(self, pairs):
    ...         lengths = np.array([len(text) for text in pairs.texts], np.float32)
    ...         return Scores(lengths[pairs.index[:, 1]], np.zeros(len(pairs), np.int32))
    >>> run = Run.from_dict({"q": {"a": 3.0, "b": 2.0}})
    >>> run = run.with_queries(Queries.of([Query("q", "text")]))
    >>> teacher(run, Length(), [Document("a", "drum"), Document("b", "net")]).value.tolist()
    [4.0, 3.0]
    """
    with open_candidates(
        run, documents, passages, depth=depth, scorer=scorer, missing=missing, seed=seed
    ) as candidates:
        texts = candidates.texts(candidates.rows)
        return candidates.examples(
            texts,
            candidates.score(texts, scorer, cache),
            same_role(len(texts), "pool"),
            source="teacher",
            kind="score",
            facts={
                "labelled_by": "teacher",
                "teacher": model or type(scorer).__name__,
                "scale": scorer.scale,
                "depth": depth,
            },
            counts={},
        )
