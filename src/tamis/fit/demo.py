"""The demo: a plain ranking of Python's own documentation, judged on questions we wrote."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from tamis.collection.pydocs import PyDocs, open_pydocs
from tamis.evaluation import Evaluation, evaluate
from tamis.types import Document, Ids, Queries, Run, Source, Spec

MEASURES = ("nDCG@10", "RR@10", "R@100", "Success@10")
_WORD = re.compile(r"[a-z0-9]+")


class TermOverlap(Source):
    """Ranks documents by the query's words they hold, rare words counting more: idf, no more."""

    def __init__(self, documents: list[Document]) -> None:
        self.docs, numbers = Ids.numbering([document.id for document in documents])
        self._postings: dict[str, list[int]] = defaultdict(list)
        for number, document in zip(numbers.tolist(), documents, strict=True):
            for word in _words(f"{document.title} {document.text}"):
                self._postings[word].append(number)

    def search(self, queries: Queries, top: int) -> Run:
        """The documents that share a word with the query."""
        offsets: list[int] = [0]
        doc: list[int] = []
        score: list[float] = []
        for text in queries.texts or ():
            points: dict[int, float] = defaultdict(float)
            for word in _words(text):
                found = self._postings.get(word, [])
                for number in found:
                    points[number] += math.log(1 + len(self.docs) / len(found))
            doc += points.keys()
            score += points.values()
            offsets.append(len(doc))
        columns = np.array(offsets), np.array(doc, np.int32), np.array(score, np.float32)
        return Run(queries, self.docs, *columns).top(top)

    def spec(self) -> Spec:
        """See `Source.spec`."""
        return {"source": "term-overlap"}


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


@dataclass(frozen=True)
class Demo:
    """What the demo found."""

    collection: PyDocs
    run: Run
    evaluation: Evaluation


def run_demo(top: int = 100) -> Demo:
    """Rank the documents for the test questions and measure the ranking."""
    collection = open_pydocs()
    qrels = collection.qrels["test"]
    queries = collection.queries
    asked = queries.select(qrels.queries.positions_in(queries.ids))
    run = (TermOverlap(list(collection.documents)) % top)(asked)
    return Demo(collection, run, evaluate(qrels, {"term overlap": run}, MEASURES))
