"""Texts whose vectors an index holds, for training that leaves documents as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.pipeline.document_lookup import IndexLibrary, Library
from tamis.pipeline.embedding_scores import places
from tamis.search.embeddings import CountingEncoder, Rows, probe, same_encoder
from tamis.text.passages import parse_spec, split, text_of

DOCUMENTS = 1024
"""How many documents are read at a time."""
MOST = 100_000
"""How many vectors are taken at most, some 150 MB of them; the others are made when needed."""
Known = tuple[list[str], Rows, NDArray[np.int32]]
"""Texts, their vectors, and how many tokens of each were cut."""


def stored_texts(library: Library, ids: Sequence[str], encoder: CountingEncoder) -> Iterator[Known]:
    """The passages of these documents with the vectors that an index has of them, if that is where
    the documents are and the encoder made them.
    """
    snapshot = library.snapshot if isinstance(library, IndexLibrary) else None
    if snapshot is None or not snapshot.encoded or snapshot.damaged:
        return
    facts = snapshot.encoded[0].facts["passages"]
    spec = parse_spec(facts["passages"])
    if spec.unit == "tokens" or spec.record() != facts:  # not to be split again in the same way
        return
    if not same_encoder(snapshot.encoded[0].probe, probe(encoder)):
        return
    left = MOST
    for start in range(0, len(ids), DOCUMENTS):
        some = list(ids[start : start + DOCUMENTS])
        segment_of, first, sizes = places(snapshot, snapshot.ids.numbers(some))
        for number, document in enumerate(library.fetch(some)):
            vectors, size = snapshot.dense[segment_of[number]], int(sizes[number])
            found = [
                text_of(document, passage, spec.title) for passage in split(document, spec).passages
            ]
            if vectors is None or size != len(found) or left < size:
                continue
            rows = first[number] + np.arange(size)
            left -= size
            yield found, vectors.rows(rows)[rows], vectors.cut[rows]
