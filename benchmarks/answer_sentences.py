"""A second collection of evidence: the sentence of a SQuAD paragraph that holds the answer.

    TAMIS_DATA=… python -m benchmarks.answer_sentences OUT
    tamis task evidence OUT --model bm25

OUT is a BEIR folder that `tamis task evidence` reads: the sentences of SQuAD's paragraphs, and the
one with the answer judged 1. The answer itself is not written. SQuAD has correct answers alone, so
a query with one would leak what is to be found. A question is left out where its answer stands in
several sentences, since nothing says which is meant, or in none as a whole.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tamis.collection.base import Collection
from tamis.collection.beir import write_beir
from tamis.collection.loss_notes import LossNotes
from tamis.collection.readers import open_collection
from tamis.tasks.evidence_data import PARAGRAPH, POSITION
from tamis.text.sentences import split_sentences
from tamis.types import Document, Qrels, Queries, Query

ANSWER = "answer"
USED = "used"


def sentences_of(paragraph: Document) -> list[Document]:
    """The sentences of a paragraph as documents.

    >>> [sentence.text for sentence in sentences_of(Document("p", "Ada sieves. Bob sleeps."))]
    ['Ada sieves.', 'Bob sleeps.']
    """
    return [
        Document(f"{paragraph.id}#{n}", text, "", {PARAGRAPH: paragraph.id, POSITION: str(n)})
        for n, (start, end) in enumerate(split_sentences(paragraph.text))
        for text in [paragraph.text[start:end]]
    ]


def left_out(holders: int, sentences: int) -> str:
    """Why a question is left out, by how many sentences there are and hold its answer, or `used`.

    >>> left_out(1, 4), left_out(1, 1)
    ('used', 'the paragraph is one sentence')
    """
    if sentences == 1:
        return "the paragraph is one sentence"
    if holders == 1:
        return USED
    return "no sentence holds the answer" if not holders else "several sentences hold the answer"


def convert(squad: Collection, out: Path, *, force: bool = False) -> Counter[str]:
    """Write the folder; how many questions are used, and how many left out and why."""
    paragraphs = {document.id: sentences_of(document) for document in squad.documents}
    counts: Counter[str] = Counter()
    questions: dict[str, Query] = {}
    splits: dict[str, Qrels] = {}
    for split, qrels in squad.qrels.items():
        judged: dict[str, dict[str, int]] = {}
        for query in squad.queries.select(qrels.queries.positions_in(squad.queries.ids)):
            (paragraph,) = qrels[query.id]
            holders = [s.id for s in paragraphs[paragraph] if query.fields[ANSWER] in s.text]
            why = left_out(len(holders), len(paragraphs[paragraph]))
            counts[why] += 1
            if why == USED:
                questions[query.id] = Query(query.id, query.text, {PARAGRAPH: paragraph})
                judged[query.id] = {holders[0]: 1}
        splits[split] = Qrels.from_dict(judged)
    sentences = [sentence for some in paragraphs.values() for sentence in some]
    made = Collection(
        out.name, "beir", sentences, lambda: Queries.of(questions.values()), lambda: splits
    )
    write_beir(made, out, LossNotes(), force)
    return counts


def main(arguments: Sequence[str] | None = None) -> None:
    """Convert, and say how many questions there are."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.answer_sentences", description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )  # fmt: skip
    parser.add_argument("out", type=Path)
    parser.add_argument("--force", action="store_true")
    given = parser.parse_args(arguments)
    squad = open_collection(Path(os.environ["TAMIS_DATA"]) / "squad")
    for why, count in convert(squad, given.out, force=given.force).most_common():
        print(f"{count:,} questions: {why}")


if __name__ == "__main__":
    main()
