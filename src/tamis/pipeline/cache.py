"""Scores kept on disk as they are computed, so that no pair is scored twice.

A file of frames after a line that says what it is. A frame holds the scores of one chunk: how
many, a checksum, and 24 bytes a score: what it is the score of (a hash of model, query and text,
128 bits), the value, the truncated tokens. Frames are only appended; a frame that a kill left half
written is recognised by its checksum and dropped, with all that follows it.
"""

from __future__ import annotations

import os
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from tamis.durable import locked
from tamis.errors import InputError
from tamis.types import Pairs, Scores

HEAD = b"tamis scores 1\n"
_FRAME = struct.Struct("<QQ")
RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("value", "<f4"), ("truncated_tokens", "<i4")])
Keys = NDArray[np.uint64]
Records = NDArray[Any]


class ScoreCache:
    """Scores of one model in a file that may hold those of several.

    One process writes a file at a time: a second is refused. `dropped` is how many bytes were
    found half written or changed, and dropped, when the file was opened.

    >>> from tempfile import mkdtemp
    >>> pairs = Pairs(["sieve"], ["a drum", "a net"], np.array([[0, 0], [0, 1]], np.int32))
    >>> path = Path(mkdtemp()) / "scores"
    >>> with ScoreCache(path, "my-model") as cache:
    ...     keys = cache.keys(pairs)
    ...     cache.add(keys[:1], Scores(np.float32([0.5]), np.int32([0])))
    >>> with ScoreCache(path, "my-model") as cache:
    ...     scores, known = cache.find(keys)
    >>> known.tolist(), float(scores.values[0])
    ([True, False], 0.5)
    """

    def __init__(self, path: Path | str, model: str) -> None:
        self.path, self.dropped = Path(path), 0
        self._model = xxhash.xxh3_128_digest(model.encode())
        self._sorted: list[Records] = []
        self._held = ExitStack()
        self._file = -1

    def __enter__(self) -> Self:
        self._held.enter_context(locked(self.path))
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self._held.callback(os.close, self._file)
            self._read()
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
        self._file, self._sorted = -1, []

    def __len__(self) -> int:
        return sum(map(len, self._sorted))

    def keys(self, pairs: Pairs) -> Keys:
        """What each pair's score is kept under: two numbers, from the model and both texts."""
        queries, texts = ([_digest(text) for text in side] for side in (pairs.queries, pairs.texts))
        model, digest = self._model, xxhash.xxh3_128_digest
        digests = b"".join([digest(model + queries[q] + texts[t]) for q, t in pairs.index.tolist()])
        return np.frombuffer(digests, "<u8").reshape(-1, 2)

    def find(self, keys: Keys) -> tuple[Scores, NDArray[np.bool_]]:
        """The scores that are known, and which those are."""
        values, truncated_tokens = np.zeros(len(keys), np.float32), np.zeros(len(keys), np.int32)
        is_cached = np.zeros(len(keys), bool)
        for records in self._sorted:
            place = np.minimum(np.searchsorted(records["high"], keys[:, 0]), len(records) - 1)
            matches = (records["high"][place] == keys[:, 0]) & (records["low"][place] == keys[:, 1])
            values[matches], truncated_tokens[matches] = (
                records["value"][place[matches]],
                records["truncated_tokens"][place[matches]],
            )
            is_cached |= matches
        return Scores(values, truncated_tokens), is_cached

    def add(self, keys: Keys, scores: Scores) -> None:
        """Keep scores; when this returns they survive a kill and the loss of power."""
        if not len(keys):
            return
        records = np.empty(len(keys), RECORD)
        records["high"], records["low"] = keys[:, 0], keys[:, 1]
        records["value"], records["truncated_tokens"] = scores.values, scores.truncated_tokens
        raw = records.tobytes()
        _write(self._file, _FRAME.pack(len(records), _checksum(raw)) + raw)
        os.fsync(self._file)
        self._remember(records)

    def _remember(self, records: Records) -> None:
        """Keep records sorted in a few tables, each at least twice as long as the next."""
        records = records[np.argsort(records["high"], kind="stable")]
        while self._sorted and len(self._sorted[-1]) < 2 * len(records):
            records = np.concatenate([self._sorted.pop(), records])
            records = records[np.argsort(records["high"], kind="stable")]
        self._sorted.append(records)

    def _read(self) -> None:
        """Read all whole frames and cut off what comes after them."""
        size = os.fstat(self._file).st_size
        with self.path.open("rb") as file:
            head = file.read(len(HEAD))
            if not HEAD.startswith(head):
                raise InputError(
                    f"{self.path} is not a file of scores", hint="choose another name for --cache"
                )
            end = len(HEAD) if head == HEAD else 0
            while end and (records := _next_frame(file.read(_FRAME.size), file, size)) is not None:
                self._remember(records)
                end = file.tell()
        self.dropped = size - end
        if self.dropped:
            os.ftruncate(self._file, end)
        if not end:
            _write(self._file, HEAD)


def _next_frame(head: bytes, file: Any, size: int) -> Records | None:
    """The records of the frame that begins with this head, or None if it is not whole."""
    if len(head) < _FRAME.size:
        return None
    count, checksum = _FRAME.unpack(head)
    if count * RECORD.itemsize > size - file.tell():
        return None
    raw = file.read(count * RECORD.itemsize)
    return np.frombuffer(raw, RECORD) if count and _checksum(raw) == checksum else None


def _checksum(raw: bytes) -> int:
    return int(xxhash.xxh3_64_intdigest(raw))


def _digest(text: str) -> bytes:
    return bytes(xxhash.xxh3_128_digest(text.encode("utf-8", "surrogatepass")))


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while len(view):
        view = view[os.write(file, view) :]
