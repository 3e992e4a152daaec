"""How a collection falls into passages: how many, how long, and what a sample leaves out."""

from __future__ import annotations

from typing import Any

from tamis.collection.base import Collection
from tamis.collection.describe import distribution
from tamis.durable import Progress
from tamis.text.passages import PassageSpec, Tokens, split
from tamis.types import Document, Passage


def passage_statistics(
    collection: Collection, spec: PassageSpec, *, tokens: Tokens | None = None, seed: int = 0
) -> dict[str, Any]:
    """Facts by name on the passages of a collection; goes through every document once.

    >>> from tamis.text.passages import parse_spec
    >>> documents = [Document("d1", "One. Two. Three."), Document("d2", "")]
    >>> facts = passage_statistics(Collection("toy", "none", documents), parse_spec("words:1"))
    >>> facts["count"], facts["documents without any"]
    (3, 1)
    """
    per_document: list[int] = []
    words: list[int] = []
    windows_left_out, words_left_out = 0, 0
    with Progress("splitting documents", unit="documents") as progress:
        for document in collection.documents:
            found = split(document, spec, tokens=tokens, seed=seed)
            per_document.append(len(found.passages))
            words += [_words(document, passage) for passage in found.passages]
            windows_left_out += found.windows - len(found.passages)
            words_left_out += found.left_out
            progress.advance()
    facts: dict[str, Any] = {
        **spec.record(),
        "documents": len(per_document),
        "count": sum(per_document),
        "per document": distribution(per_document),
        "words": distribution(words),
        "documents without any": per_document.count(0),
    }
    if spec.most:
        facts["sampled out"] = {"passages": windows_left_out, "words": words_left_out}
    return facts


def _words(document: Document, passage: Passage) -> int:
    text = document.title if passage.field == "title" else document.text
    return len(text[passage.start : passage.end].split())
