"""The commit: which segments, with which deletions, are the index now.

A change writes new folders first and then this one file, whole, over the old one; what the new
commit does not name is removed after it. So whoever is killed leaves the old index or the new.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from tamis import durable, manifest
from tamis.errors import DamagedError, InputError

KIND, LAYOUT = "index", 1
NAME = "commit.json"
ENCODING_PREFIX = "encoding-"
"""Prefix of the folder in which the embeddings of a segment grow, kept if that is stopped."""


@dataclass(frozen=True)
class SegmentEntry:
    """A segment's folder, those of its deletions and its embeddings if any, and their digests."""

    folder: str
    digest: str
    deleted: str | None = None
    deleted_digest: str | None = None
    vectors: str | None = None
    vectors_digest: str | None = None


@dataclass(frozen=True)
class Commit:
    """One state of an index; `next` numbers the next folder, so that no name is used twice."""

    segments: tuple[SegmentEntry, ...]
    next: int
    note: str
    """The digest of the index's `tamis.json`."""
    tuned: Mapping[str, Any] = field(default_factory=dict)
    """What was tuned on the index: bm25, ql, rm3, and which ranking last."""
    num_changes: int = 0
    """How many documents were added, replaced or deleted since the index was built."""


def write_commit(folder: Path, commit: Commit) -> None:
    """Make this the state of the index."""
    text = json.dumps(asdict(commit), indent=1)
    with durable.new_file(folder / NAME, force=True) as file:
        file.write_text(f"{text}\n{xxhash.xxh3_64_hexdigest(text.encode())}\n", "utf-8")


def read_commit(folder: Path) -> Commit:
    """The state of the index now, verified together with its `tamis.json`."""
    path = folder / NAME
    if not path.is_file():
        manifest.expect(folder, KIND, LAYOUT)
        raise DamagedError(f"{path} is missing", hint="build the index again")
    raw = path.read_bytes()
    text, _, digest = raw.removesuffix(b"\n").rpartition(b"\n")
    if not raw.endswith(b"\n") or digest != xxhash.xxh3_64_hexdigest(text).encode():
        raise DamagedError(f"{path} is not what was written", hint="build the index again")
    commit = json.loads(text)
    if not (folder / manifest.NAME).is_file() or note_digest(folder) != commit["note"]:
        raise DamagedError(
            f"{folder / manifest.NAME} is not what was written", hint="build the index again"
        )
    manifest.expect(folder, KIND, LAYOUT)
    entries = tuple(SegmentEntry(**entry) for entry in commit["segments"])
    changes = commit.get("num_changes", 0)
    return Commit(entries, commit["next"], commit["note"], commit["tuned"], changes)


def commit_bytes(folder: Path) -> bytes | None:
    """The commit as it lies on disk, to see whether a writer has changed it; None for none."""
    try:
        return (folder / NAME).read_bytes()
    except OSError:
        return None


def commit_stamp(folder: Path) -> tuple[int, int] | None:
    """What changes whenever a commit is written: the number and time of its file."""
    try:
        status = (folder / NAME).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def note_digest(folder: Path) -> str:
    """The digest of the folder's `tamis.json`."""
    return xxhash.xxh3_64_hexdigest((folder / manifest.NAME).read_bytes())


def expect_index(folder: Path) -> None:
    """Refuse what is not a folder that holds an index."""
    if not durable.folder_exists(folder):
        raise InputError(
            f"there is no index or sieve {folder}",
            hint="is the path right? tamis index builds an index, tamis fit a sieve",
        )
    if not (folder / NAME).is_file():
        manifest.expect(folder, KIND, LAYOUT)


def remove_unnamed(folder: Path, commit: Commit) -> None:
    """Remove the folders that this commit does not name; readers keep what they have mapped."""
    in_use = {
        f"{prefix}{entry.folder}" for entry in commit.segments for prefix in ("", ENCODING_PREFIX)
    }
    for entry in commit.segments:
        in_use |= {name for name in (entry.deleted, entry.vectors) if name is not None}
    ours = ("segment-*", "deleted-*", "vectors-*", f"{ENCODING_PREFIX}*", ".*.part", ".*.lock")
    for path in [path for pattern in ours for path in folder.glob(pattern)]:
        if path.name not in in_use:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
