"""What is in an index, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tamis.collection.describe import Facts
from tamis.search.index import Index


def describe_index(path: Path) -> Facts:
    """Documents, terms, segments, the analyzer, and what was tuned."""
    index = Index.open(path)
    segments = index.snapshot.segments
    facts: dict[str, Any] = {
        "kind": "index",
        "documents": index.documents,
        "terms": index.total_terms,
        "distinct terms": index.distinct_terms,
        "terms per document": round(index.total_terms / max(index.documents, 1), 1),
        "analyzer": f"{index.analyzer.name}, version {index.analyzer.version}",
        "segments": len(segments),
        "size in MB": round(sum(f.stat().st_size for f in path.rglob("*") if f.is_file()) / 1e6, 1),
    }
    for name in ("bm25", "ql", "rm3"):
        if name in index.tuned:
            facts[f"tuned {name}"] = dict(index.tuned[name]["parameters"])
            facts[f"tuned {name} for"] = index.tuned[name]["measure"]
    return Facts(facts)
