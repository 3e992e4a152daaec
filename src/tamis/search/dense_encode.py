"""Encoding the documents of an index: what is missing is encoded, what a merge moves is kept.

Documents are encoded block after block into `dense_work`, so that memory does not grow with them
and a kill loses one block at most. One commit at the end names the embeddings of all segments.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tamis import durable
from tamis.errors import InputError
from tamis.search.commit import ENCODING_PREFIX, Commit
from tamis.search.embeddings import (
    EmbeddingModel,
    Embeddings,
    Rows,
    carry_columns,
    encode_with_truncation,
    for_documents,
    probe,
    quantise,
    same_encoder,
    write_embeddings,
)
from tamis.search.encode_journal import Columns, Work
from tamis.search.segments import Segment
from tamis.search.snapshot import Snapshot, open_segment
from tamis.text.passages import PassageSpec, Tokens, parse_spec, split, text_of
from tamis.types import Document, Encoder

BLOCK_ROWS = 512
"""A block ends with the document that brings it to so many rows."""
FIRST_BLOCK_ROWS = 32
"""The first block is smaller, and each of the next twice as large, so that the time left is told
after seconds where a block takes minutes."""


@dataclass(frozen=True)
class Job:
    """What to encode with, and how documents are split."""

    encoder: Encoder
    model: EmbeddingModel
    spec: PassageSpec
    tokens: Tokens | None
    probe: Rows

    def facts(self) -> dict[str, Any]:
        """What is noted down of how embeddings were made."""
        return {"model": asdict(self.model), "passages": self.spec.record()}


def make_job(
    encoder: Encoder,
    model: EmbeddingModel | None,
    passages: str | None,
    tokens: Tokens | None,
    existing: Sequence[Embeddings],
) -> Job:
    """A job that goes on with existing embeddings; by default in the same passages."""
    recorded = existing[0].facts["passages"]["passages"] if existing else "whole"
    spec = parse_spec(passages or recorded)
    model_record = (model or EmbeddingModel(type(encoder).__name__)).of(encoder)
    job = Job(for_documents(encoder), model_record, spec, tokens, probe(encoder))
    for embeddings in existing:
        was = embeddings.facts["passages"]
        if was != spec.record():
            raise _other_settings(
                f"passages {' by '.join(was.values())}", " by ".join(spec.record().values())
            )
        if embeddings.model.document_prompt != model_record.document_prompt:
            raise _other_settings(
                f"the prompt {embeddings.model.document_prompt!r} before every document",
                repr(model_record.document_prompt),
            )
        dtypes = embeddings.model.dtype, model_record.dtype
        if not same_encoder(embeddings.probe, job.probe, *dtypes):
            raise _other_settings(f"the encoder {embeddings.model.name}", model_record.name)
    return job


def _other_settings(recorded: str, requested: str) -> InputError:
    return InputError(
        f"the documents were encoded with {recorded}, not {requested}",
        hint="encode with the same, or encode all documents again with --encode-again (force=True)",
    )


def without_embeddings(commit: Commit) -> Commit:
    """The commit without any embeddings."""
    bare = (replace(entry, vectors=None, vectors_digest=None) for entry in commit.segments)
    return replace(commit, segments=tuple(bare))


def carry_embeddings(folder: Path, merged: Commit, old: Snapshot) -> Commit:
    """A commit of merged segments with the embeddings that their documents had in the old ones."""
    old_embeddings = old.embeddings
    if not old_embeddings:
        return merged
    live = [segment.live() for segment in old.segments]
    sizes = [open_segment(folder, entry).size for entry in merged.segments]
    columns = carry_columns(list(zip(old_embeddings, live, strict=True)), sizes)
    left_out = sum(embeddings.facts["left_out"] for embeddings in old_embeddings)
    entries = []
    for entry, segment_columns in zip(merged.segments, columns, strict=True):
        name = f"vectors-{merged.next}"
        merged = replace(merged, next=merged.next + 1)
        facts = {
            "model": old_embeddings[0].facts["model"],
            "passages": old_embeddings[0].facts["passages"],
        }
        digest = write_embeddings(
            folder / name, segment_columns, old_embeddings[0].probe, **facts, left_out=left_out
        )
        left_out = 0  # counted once
        entries.append(replace(entry, vectors=name, vectors_digest=digest))
    return replace(merged, segments=tuple(entries))


def encode_missing(folder: Path, commit: Commit, segments: Iterable[Segment], job: Job) -> Commit:
    """Encode every segment of the commit that has no embeddings; the commit with all of them."""
    pairs = zip(commit.segments, segments, strict=True)
    missing = [(entry, segment) for entry, segment in pairs if entry.vectors is None]
    total = sum(segment.fact("documents") for _, segment in missing)
    entries = {entry.folder: entry for entry in commit.segments}
    with durable.Progress("encoding", total, "documents") as progress:
        for entry, segment in missing:
            header = {"segment": entry.digest, "weights": job.model.sha256, **job.spec.record()}
            work = Work(folder / f"{ENCODING_PREFIX}{entry.folder}", header, job.probe)
            _encode_segment(work, segment, job, progress)
            name = f"vectors-{commit.next}"
            commit = replace(commit, next=commit.next + 1)
            digest = work.finish(folder / name, job.facts())
            entries[entry.folder] = replace(entry, vectors=name, vectors_digest=digest)
    return replace(commit, segments=tuple(entries.values()))


def remove_work(folder: Path) -> None:
    """Remove what encoding has left beside the segments."""
    for work in folder.glob(f"{ENCODING_PREFIX}*"):
        shutil.rmtree(work, ignore_errors=True)


def _encode_segment(work: Work, segment: Segment, job: Job, progress: durable.Progress) -> None:
    live = segment.live()
    progress.total = (progress.total or 0) - int(live[: work.num_documents].sum())
    documents = islice(enumerate(segment.store), work.num_documents, None)
    live_documents = ((number, document) for number, document in documents if live[number])
    for block in _blocks(live_documents, job):
        work.append(block.num_documents, block.left_out, _encode_block(block, job.encoder))
        progress.advance(block.count)
    work.append(segment.size, 0, None)


@dataclass(frozen=True)
class _Block:
    """Texts of the documents up to a number, with the document and the passage of each."""

    num_documents: int
    count: int
    left_out: int
    texts: list[str]
    places: list[tuple[int, int]]
    ids: list[str]


def _blocks(documents: Iterable[tuple[int, Document]], job: Job) -> Iterator[_Block]:
    texts: list[str] = []
    places: list[tuple[int, int]] = []
    ids: list[str] = []
    count = left_out = number = 0
    rows = min(FIRST_BLOCK_ROWS, BLOCK_ROWS)
    for number, document in documents:
        splits = split(document, job.spec, tokens=job.tokens)
        texts += [text_of(document, passage, job.spec.title) for passage in splits.passages]
        places += [(number, passage.number) for passage in splits.passages]
        ids += [document.id] * len(splits.passages)
        count, left_out = count + 1, left_out + splits.left_out
        if len(texts) >= rows:
            yield _Block(number + 1, count, left_out, texts, places, ids)
            texts, places, ids, count, left_out = [], [], [], 0, 0
            rows = min(2 * rows, BLOCK_ROWS)
    if count:
        yield _Block(number + 1, count, left_out, texts, places, ids)


def _encode_block(block: _Block, encoder: Encoder) -> Columns | None:
    if not block.texts:
        return None
    rows, truncated_tokens = encode_with_truncation(encoder, block.texts)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise InputError(
            f"the embedding of document {block.ids[int(bad[0])]!r} has NaN or infinity",
            hint="the encoder cannot read it: delete the document or change its text; "
            "what was encoded before is kept",
        )
    place = np.array(block.places, np.int32)
    return {
        "float32": rows, **quantise(rows),
        "document": place[:, 0], "passage": place[:, 1], "truncated_tokens": truncated_tokens,
    }  # fmt: skip
