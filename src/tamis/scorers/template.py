"""A template such as `Query: {query} Document: {document} Relevant:` filled and tokenised.

The whole text is tokenised at once, so that no piece differs from what the model saw in training;
tokens are then taken out of the document's end, and out of the query's only where it has more
than half of the room and the document needs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tamis.backends.tokens import TokenIds, Tokens, clean, share_room
from tamis.errors import InputError

PAIRS_PER_BATCH = 64
FIELD = re.compile(r"\{(query|document)\}")


@dataclass(frozen=True)
class Template:
    """Words around a query and a document.

    >>> Template("Query: {query} Document: {document} Relevant:").fill("a", "b")
    ('Query: a Document: b Relevant:', (7, 8), (19, 20))
    """

    text: str

    def __post_init__(self) -> None:
        if sorted(FIELD.findall(self.text)) != ["document", "query"]:
            raise InputError(
                f"the template {self.text!r} does not name the query and the document once each",
                hint='for example "Query: {query} Document: {document} Relevant:"',
            )

    def fill(self, query: str, document: str) -> tuple[str, tuple[int, int], tuple[int, int]]:
        """The text, and where in it the query and the document stand."""
        values = {"query": query, "document": document}
        spans: dict[str, tuple[int, int]] = {}
        text = ""
        for number, piece in enumerate(FIELD.split(self.text)):
            added = values[piece] if number % 2 else piece
            if number % 2:
                spans[piece] = (len(text), len(text) + len(added))
            text += added
        return text, spans["query"], spans["document"]

    def encode(
        self, tokens: Tokens, pairs: Sequence[tuple[str, str]], longest: int
    ) -> tuple[list[TokenIds], list[int]]:
        """The token ids of each pair, at most `longest`, and how many were truncated."""
        ids: list[TokenIds] = []
        truncated_tokens: list[int] = []
        for start in range(0, len(pairs), PAIRS_PER_BATCH):
            batch = pairs[start : start + PAIRS_PER_BATCH]
            filled = [self.fill(clean(query), clean(document)) for query, document in batch]
            encodings = tokens.backend.encode_batch([text for text, _, _ in filled])
            for encoding, (_, query, document) in zip(encodings, filled, strict=True):
                mask = self._mask_to_fit(encoding.offsets, query, document, longest)
                all_ids = np.array(encoding.ids, np.int32)
                ids.append(all_ids if mask is None else all_ids[mask])
                truncated_tokens.append(len(all_ids) - len(ids[-1]))
        return ids, truncated_tokens

    def _mask_to_fit(
        self,
        offsets: list[tuple[int, int]],
        query: tuple[int, int],
        document: tuple[int, int],
        longest: int,
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        if len(offsets) <= longest:
            return None
        of_query, of_document = _inside(offsets, query), _inside(offsets, document)
        of_query = of_query[~np.isin(of_query, of_document)]
        room = longest - (len(offsets) - len(of_query) - len(of_document))
        if room < 2:
            raise InputError(
                f"the template alone fills {longest - room} of {longest} tokens",
                hint="shorten it or raise the maximum length",
            )
        kept_query_tokens, kept_document_tokens = share_room(len(of_query), len(of_document), room)
        keep = np.ones(len(offsets), np.bool_)
        keep[of_query[kept_query_tokens:]] = False
        keep[of_document[kept_document_tokens:]] = False
        return keep


def _inside(
    offsets: list[tuple[int, int]], span: tuple[int, int]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Which tokens have a character within the span."""
    places = np.array(offsets, np.int64).reshape(-1, 2)
    inside = (places[:, 1] > span[0]) & (places[:, 0] < span[1])
    return np.flatnonzero(inside & (places[:, 1] > places[:, 0]))
