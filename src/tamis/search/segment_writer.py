"""Changes of an index before they are committed: segments appended, documents taken out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tamis import durable
from tamis.errors import InputError
from tamis.search.build import take_first, write_segment
from tamis.search.commit import Commit, SegmentEntry
from tamis.search.files import ArraysReader, ArraysWriter
from tamis.search.segments import Segment
from tamis.search.snapshot import open_segment
from tamis.text.analysis import Analyzer
from tamis.types import Document, Ids


def append(
    folder: Path, commit: Commit, documents: Iterable[Document], analyzer: Analyzer, memory: int
) -> Commit:
    """Write documents as new segments; those of the commit lose the documents that come again."""
    new: list[SegmentEntry] = []
    first, remaining = take_first(documents)
    while first is not None:
        name = f"segment-{commit.next}"
        with durable.new_folder(folder / name) as new_folder:
            write_segment(remaining, new_folder, analyzer, memory)
        entry = SegmentEntry(name, ArraysReader(folder / name).digest)
        commit = replace(commit, next=commit.next + 1)
        ids = open_segment(folder, entry).ids
        for earlier in new:
            _refuse_repeated(ids, open_segment(folder, earlier).ids)
        if commit.segments:
            commit = delete_documents(folder, commit, ids)
        new.append(entry)
        first, remaining = take_first(remaining)
    return replace(commit, segments=(*commit.segments, *new))


def _refuse_repeated(ids: Ids, earlier: Ids) -> None:
    again = np.flatnonzero(ids.positions_in(earlier) >= 0)
    if len(again):
        raise InputError(
            f"document id {ids[int(again[0])]!r} occurs twice",
            hint="give every document its own id",
        )


def delete_documents(folder: Path, commit: Commit, doc_ids: Ids) -> Commit:
    """The commit without the documents of these ids."""
    entries: list[SegmentEntry] = []
    for entry in commit.segments:
        segment = open_segment(folder, entry)
        positions = doc_ids.positions_in(segment.ids)
        deleted = ~segment.live()
        newly = np.isin(segment.number, positions[positions >= 0]) & ~deleted
        if (deleted | newly).all():
            continue
        if newly.any():
            name = f"deleted-{commit.next}"
            commit = replace(commit, next=commit.next + 1)
            with durable.new_folder(folder / name) as new_folder:
                write_deleted(new_folder, segment, deleted | newly)
            digest = ArraysReader(folder / name).digest
            entry = replace(entry, deleted=name, deleted_digest=digest)
        entries.append(entry)
    return replace(commit, segments=tuple(entries))


def write_deleted(folder: Path, segment: Segment, deleted: NDArray[np.bool_]) -> None:
    """Write which documents of a segment are gone, and what its terms lose with them."""
    offsets, terms, frequencies = segment.term_vectors(np.flatnonzero(deleted))
    lost, where = np.unique(terms, return_inverse=True)
    occurrences = np.zeros(len(lost), np.int64)
    np.add.at(occurrences, where, frequencies)
    files = ArraysWriter(folder)
    files.write("flags", deleted.astype(np.uint8))
    files.write("terms", lost.astype(np.int32))
    files.write("documents-of", np.bincount(where, minlength=len(lost)).astype(np.int32))
    files.write("occurrences", occurrences)
    files.finish(
        documents=int(deleted.sum()),
        with_terms=int((np.diff(offsets) > 0).sum()),
        total_terms=int(occurrences.sum()),
    )
