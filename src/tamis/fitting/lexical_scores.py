"""The lexical score that a document of a hybrid's run has of its own.

The column `lexical_score` gives a document that the lexical ranking did not list the lowest score
of that list, or zero where the list is short: right for a ranking within the query, but another
number under a filter or in a deeper search.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tamis.pipeline.hybrid import Hybrid
from tamis.search.sources import IndexSource
from tamis.types import Run, Source
from tamis.types.columns import LEXICAL_SCORE


def lexical_part(source: Source) -> Source | None:
    """What gives a hybrid's runs their lexical scores; other sources have no such part."""
    return source.sources[0] if isinstance(source, Hybrid) else None


def with_own_lexical_scores(
    run: Run, lexical: Source | None, known: Mapping[str, float] | None = None
) -> Run:
    """A run of a hybrid in which each document has its own lexical score, also where `lexical` did
    not list it; any other run as it is.

    A filled score is the lowest of its query, so only these rows are scored again. `known` are the
    scores of documents that the index does not have, by their ids in the run.
    """
    texts = run.queries.texts
    if LEXICAL_SCORE in run.extra and known is not None:
        own = [known[run.docs[number]] for number in run.doc.tolist()]
        return run.with_extra(**{LEXICAL_SCORE: np.array(own, run.extra[LEXICAL_SCORE].dtype)})
    if LEXICAL_SCORE not in run.extra or not isinstance(lexical, IndexSource) or texts is None:
        return run
    scores = run.extra[LEXICAL_SCORE].copy()
    for number, text in enumerate(texts):
        rows = np.arange(run.offsets[number], run.offsets[number + 1])
        for row in rows[scores[rows] == scores[rows].min(initial=np.inf)]:
            scores[row] = _own_score(lexical, text, run.docs[int(run.doc[row])])
    return run.with_extra(**{LEXICAL_SCORE: scores})


def _own_score(lexical: IndexSource, query: str, doc_id: str) -> float:
    try:
        return lexical.score_document(query, doc_id)
    except KeyError:  # deleted since it was found
        return 0.0
