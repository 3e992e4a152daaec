"""What is in an index, in words."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from tamis.collection.describe import Facts
from tamis.search.dense import documents_without_vectors
from tamis.search.index import Index


def describe_index(path: Path) -> Facts:
    """Documents, terms, segments, the analyzer, vectors, and what was tuned."""
    index = Index.open(path)
    segments = index.snapshot.segments
    facts: dict[str, Any] = {
        "kind": "index",
        "documents": index.num_documents,
        **(
            {"documents without a term": empty}
            if (empty := index.num_documents_without_terms)
            else {}
        ),
        "terms": index.total_terms,
        "distinct terms": index.distinct_terms,
        "terms per document": round(index.total_terms / max(index.num_documents, 1), 1),
        "analyzer": f"{index.analyzer.name}, version {index.analyzer.version}",
        "segments": len(segments),
        "size in MB": round(_size(path) / 1e6, 1),
    }
    for name in ("bm25", "ql", "rm3"):
        if name in index.tuned:
            facts[f"tuned {name}"] = dict(index.tuned[name]["parameters"])
            facts[f"tuned {name} for"] = index.tuned[name]["measure"]
    if index.snapshot.damaged is not None:
        return Facts(facts, (f"the vectors are damaged: {index.snapshot.damaged}",))
    if index.snapshot.encoded:
        facts["vectors"] = _vectors(index)
    missing = documents_without_vectors(index.snapshot)
    if not index.snapshot.encoded or not missing:
        return Facts(facts)
    return Facts(facts, (f"{missing:,} documents have no vectors: encode them with --dense",))


def _size(folder: Path) -> int:
    """How many bytes the files have, those left out that a writer removes meanwhile."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += (Path(place) / name).stat().st_size
    return size


def _vectors(index: Index) -> dict[str, Any]:
    """The vectors of all segments together."""
    encoded = index.snapshot.encoded
    model, facts = encoded[0].model, encoded[0].facts
    weights = f" (weights {model.sha256[:12]}…)" if model.sha256 else ""
    totals = ("rows", "truncated_documents", "truncated_tokens", "left_out")
    rows, documents, tokens, left_out = (
        sum(vectors.facts[name] for vectors in encoded) for name in totals
    )
    found = {
        "model": f"{model.name}{weights}",
        "found in": model.reference,
        "rows": rows,
        "dimensions": facts["dimensions"],
        "passages": ", sentences by ".join(facts["passages"].values()),
        "tokens cut": f"{tokens:,} in {documents:,} documents",
        "words in no passage": left_out or "",
    }
    return {name: value for name, value in found.items() if value != ""}
