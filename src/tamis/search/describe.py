"""Facts about an index: documents, terms, embeddings, tuned parameters."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tamis.collection.describe import Facts
from tamis.collection.loss_notes import counted
from tamis.search.dense import count_documents_without_embeddings
from tamis.search.field_values import open_fields
from tamis.search.filters import ID
from tamis.search.index import Index


def describe_index(path: Path) -> Facts:
    """Documents, terms, segments, the analyzer, embeddings, and what was tuned."""
    index = Index.open(path)
    segments = index.snapshot.segments
    facts: dict[str, Any] = {
        "kind": "index",
        "documents": index.num_documents,
        **(
            {"documents_without_terms": empty}
            if (empty := index.num_documents_without_terms)
            else {}
        ),
        "terms": index.total_terms,
        "distinct_terms": index.distinct_terms,
        "terms_per_document": round(index.total_terms / max(index.num_documents, 1), 1),
        "analyzer": f"{index.analyzer.name}, version {index.analyzer.version}",
        "segments": len(segments),
        "size_mb": round(_size(path) / 1e6, 1),
    }
    if fields := field_facts(index):
        facts["fields"] = fields
    for name in ("bm25", "ql", "rm3"):
        if name in index.tuned:
            facts[f"tuned_{name}"] = dict(index.tuned[name]["parameters"])
            facts[f"tuned_{name}_for"] = index.tuned[name]["measure"]
    if index.snapshot.damage is not None:
        return Facts(facts, (f"the embeddings are damaged: {index.snapshot.damage}",))
    if index.snapshot.embeddings:
        facts["embeddings"] = _embedding_facts(index)
    missing = count_documents_without_embeddings(index.snapshot)
    if not index.snapshot.embeddings or not missing:
        return Facts(facts)
    return Facts(facts, (f"{missing:,} documents have no embeddings: encode them with --dense",))


def field_facts(index: Index) -> dict[str, str]:
    """The fields, each with its type and how many documents have it."""
    segments = index.snapshot.segments
    if any(open_fields(segment.files) is None for segment in segments):
        return {}
    types = {name: kind for name, kind in index.snapshot.field_types.items() if name != ID}
    counts = dict.fromkeys(types, 0)
    for segment in segments:
        live = segment.live()
        for name in types.keys() & segment.columns.keys():
            has_field = np.zeros(len(live), bool)
            has_field[segment.columns[name].all_documents()] = True
            counts[name] += int((live & has_field).sum())
    return {
        name: f"{kind}, {counts[name]:,} of {counted(index.num_documents, 'document')}"
        for name, kind in types.items()
        if counts[name]
    }


def _size(folder: Path) -> int:
    """How many bytes the files have, those left out that a writer removes meanwhile."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += (Path(place) / name).stat().st_size
    return size


def _embedding_facts(index: Index) -> dict[str, Any]:
    """The embeddings of all segments together."""
    encoded = index.snapshot.embeddings
    model, facts = encoded[0].model, encoded[0].facts
    weights = f" (weights {model.sha256[:12]}…)" if model.sha256 else ""
    totals = ("rows", "truncated_documents", "truncated_tokens", "left_out")
    rows, documents, tokens, left_out = (
        sum(embeddings.facts[name] for embeddings in encoded) for name in totals
    )
    described = {
        "model": f"{model.name}{weights}",
        "reference": model.reference,
        "rows": rows,
        "dimensions": facts["dimensions"],
        "passages": ", sentences by ".join(facts["passages"].values()),
        "truncated_tokens": f"{tokens:,} in {documents:,} documents",
        "words_in_no_passage": left_out or "",
    }
    return {name: value for name, value in described.items() if value != ""}
