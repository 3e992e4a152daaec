"""Texts whose embeddings an index holds, for training that leaves documents as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.pipeline.document_lookup import DocumentLookup, IndexLookup
from tamis.pipeline.embedding_scores import locate_embeddings
from tamis.search.embeddings import CountingEncoder, Rows, probe, same_encoder
from tamis.text.passages import parse_spec, split, text_of

DOCUMENTS_PER_BATCH = 1024
MAX_EMBEDDINGS = 100_000
"""Some 150 MB; the others are made when needed."""
TextEmbeddings = tuple[list[str], Rows, NDArray[np.int32]]
"""Texts, their embeddings, and how many tokens of each were truncated."""


def stored_texts(
    lookup: DocumentLookup,
    ids: Sequence[str],
    encoder: CountingEncoder,
    max_embeddings: int = MAX_EMBEDDINGS,
) -> Iterator[TextEmbeddings]:
    """The passages of these documents with their embeddings in the index.

    Nothing where the documents are not in an index, or another encoder made its embeddings.
    """
    snapshot = lookup.snapshot if isinstance(lookup, IndexLookup) else None
    if snapshot is None or not snapshot.embeddings or snapshot.damage:
        return
    facts = snapshot.embeddings[0].facts["passages"]
    spec = parse_spec(facts["passages"])
    if spec.unit == "tokens" or spec.record() != facts:  # not to be split again in the same way
        return
    if not same_encoder(snapshot.embeddings[0].probe, probe(encoder)):
        return
    remaining = max_embeddings
    for start in range(0, len(ids), DOCUMENTS_PER_BATCH):
        some = list(ids[start : start + DOCUMENTS_PER_BATCH])
        segment_of, first, sizes = locate_embeddings(snapshot, snapshot.ids.numbers(some))
        for number, document in enumerate(lookup.fetch(some)):
            embeddings, size = snapshot.segment_embeddings[segment_of[number]], int(sizes[number])
            texts = [
                text_of(document, passage, spec.title) for passage in split(document, spec).passages
            ]
            if embeddings is None or size != len(texts) or remaining < size:
                continue
            rows = first[number] + np.arange(size)
            remaining -= size
            yield texts, embeddings.rows(rows)[rows], embeddings.truncated_tokens[rows]
