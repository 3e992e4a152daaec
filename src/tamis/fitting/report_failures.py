"""Where the selected system fails: relevant documents that no candidate list has, and the ceiling.

The ceiling is the measure of the same candidates in a perfect order: no re-ranker gets above it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tamis.evaluation import evaluate
from tamis.types import Document, Ids, Qrels, Queries, Run

DEEPER = 1000
"""How far down relevant documents are looked for that are not among the candidates."""
NEXT_DEPTH = 4
"""So many times the candidates are suggested where relevant documents lie just below them."""


@dataclass(frozen=True)
class MissingDocument:
    """A document judged relevant that is not among the candidates, and why."""

    query: str
    doc_id: str
    cause: str
    rank: int | None
    """Where the retriever has it; None where it is not among the first thousand."""


@dataclass(frozen=True)
class Failures:
    """What limits the selected system on test queries."""

    measure: str
    value: float
    """Of the selected system."""
    ceiling: float
    """Of its candidates in a perfect order."""
    depth: int
    relevant: int
    """Documents that are judged relevant."""
    missing: tuple[MissingDocument, ...]

    @property
    def causes(self) -> dict[str, int]:
        """How many documents are missing for each cause, the most frequent first."""
        return dict(Counter(one.cause for one in self.missing).most_common())

    @property
    def next_depth(self) -> int:
        """The depth to try next."""
        return NEXT_DEPTH * self.depth

    @property
    def within_next_depth(self) -> int:
        """How many of the missing documents a deeper list would have."""
        return sum(one.rank is not None and one.rank <= self.next_depth for one in self.missing)


def find_failures(
    qrels: Qrels,
    run: Run,
    measure: str,
    *,
    depth: int,
    deeper: Run | None = None,
    explain: Callable[[str, str], str] = lambda query, doc_id: "",
) -> Failures:
    """The ceiling of a run, and the relevant documents that it lacks.

    `deeper` is what the retriever finds beyond the candidates; `explain` gives the cause for a
    query and a document that it does not have either.

    >>> qrels = Qrels.from_dict({"q": {"a": 1, "b": 1}})
    >>> failures = find_failures(qrels, Run.from_dict({"q": {"c": 2, "a": 1}}), "RR@10", depth=2)
    >>> failures.value, failures.ceiling, [one.doc_id for one in failures.missing]
    (0.5, 1.0, ['b'])
    """
    ideal = _ideal(qrels, run)
    evaluation = evaluate(qrels, {"selected": run, "ideal": ideal}, [measure])
    missing, relevant = [], 0
    for query in qrels:
        wanted = [doc for doc, grade in qrels[query].items() if grade > 0]
        relevant += len(wanted)
        have = set(run[query].ids) if query in run else set()
        ranks = _ranks(deeper, query)
        for doc in wanted:
            if doc not in have:
                rank = ranks.get(doc)
                cause = f"ranked below the top {depth}" if rank else explain(query, doc)
                missing.append(MissingDocument(query, doc, cause, rank))
    means = [evaluation.mean(name, measure) for name in ("selected", "ideal")]
    return Failures(measure, means[0], means[1], depth, relevant, tuple(missing))


def _ideal(qrels: Qrels, run: Run) -> Run:
    """The candidates by their grades."""
    return Run.from_dict(
        {query: {doc: float(qrels[query].get(doc, 0)) for doc in run[query].ids}
         for query in run if query in qrels}
    )  # fmt: skip


def _ranks(run: Run | None, query: str) -> dict[str, int]:
    if run is None or query not in run:
        return {}
    return {doc: rank for rank, doc in enumerate(run[query].ids, 1)}


def no_common_word(
    query: str, document: Document, terms: Callable[[str], list[str]], depth: int = DEEPER
) -> str:
    """Why a retriever that goes by words does not find a document.

    >>> no_common_word("drum", Document("d", "a net"), str.split)
    'shares no word with the query'
    """
    shared = set(terms(query)) & set(terms(f"{document.title} {document.text}"))
    if not shared:
        return "shares no word with the query"
    return f"shares words, but is not in the top {depth:,}"


def queries_with_missing(qrels: Qrels, run: Run, queries: Queries) -> Queries:
    """The queries that lack a relevant document."""
    lacking = [
        query
        for query in qrels
        if any(
            grade > 0 and (query not in run or doc not in run[query].ids)
            for doc, grade in qrels[query].items()
        )
    ]
    return queries.select(Ids.of(lacking).positions_in(queries.ids))
