"""The documents of a stage in its spec: an index, a store or a collection, and how each reopens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import get_args

from tamis.collection._records import Columns
from tamis.collection.base import Collection, OnError
from tamis.collection.readers import open_collection
from tamis.collection.store import DocumentStore
from tamis.pipeline.document_lookup import Documents
from tamis.registry import Opening, absolute, check_choice, check_keys, spec_of
from tamis.search import Index
from tamis.search.index_spec import index_spec, open_index
from tamis.types import Document, Spec
from tamis.types.pipeline import SPEC_VERSION


def documents_spec(documents: Documents) -> Spec:
    """Where documents are taken from; of kind `python` where they are not on disk."""
    if isinstance(documents, Index):
        return _spec("index", index=index_spec(documents))
    if isinstance(documents, DocumentStore):
        return _spec("store", path=str(absolute(documents.path)))
    if isinstance(documents, Collection) and documents.reference is not None:
        reference = documents.reference
        settings = {**asdict(reference.columns), "format": reference.format}
        options = {name: value for name, value in settings.items() if value is not None}
        place = (
            {"name": reference.place}
            if reference.is_id
            else {"path": str(absolute(reference.place))}
        )
        return _spec("collection", **place, **options, on_error=reference.on_error)
    return spec_of("documents", documents)


def all_documents(documents: Documents) -> Iterable[Document]:
    """Every document, wherever they are taken from."""
    if isinstance(documents, Collection):
        return documents.documents
    return documents.values() if isinstance(documents, Mapping) else documents


def _spec(kind: str, **values: object) -> Spec:
    return {"documents": kind, "version": SPEC_VERSION, **values}


def open_index_documents(values: Spec, opening: Opening) -> Index:
    """See `registry.OPENERS`."""
    check_keys("documents of an index", values, {"index": dict})
    return open_index(values["index"], opening)


def open_store(values: Spec, opening: Opening) -> DocumentStore:
    """See `registry.OPENERS`."""
    check_keys("documents of a store", values, {"path": str})
    path = opening.path(values["path"])
    return opening.share(f"store {path}", lambda: DocumentStore(path))


def open_collection_documents(values: Spec, opening: Opening) -> Collection:
    """See `registry.OPENERS`."""
    place = "name" if "name" in values else "path"
    optional = dict.fromkeys(("format", "id", "text", "title"), str)
    check_keys("documents of a collection", values, {place: str, "on_error": str}, optional)
    check_choice("on_error", values["on_error"], get_args(OnError))
    return open_collection(
        values["name"] if place == "name" else opening.path(values["path"]),
        format=values.get("format"),
        columns=Columns(*(values.get(column) for column in ("id", "text", "title"))),
        on_error=values["on_error"],
    )
