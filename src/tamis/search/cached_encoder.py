"""An encoder that keeps its embeddings in a folder, so that no text is encoded twice.

    tamis.json          that this is an embedding cache
    MODEL/SHARD/        some embeddings of one model, never changed, under checksums:
        keys            of each row the hash of its text
        float32         the rows
        truncated_tokens
        probe           the embeddings of two fixed texts, by which the encoder is recognised

MODEL is a hash of the weights, of how texts are truncated and pooled, and of the prompt. Every
writer adds shards of its own, whole or not at all, so several processes can share a folder; which
shards go where the folder is full is decided by one of them at a time. A shard that is damaged is
removed; its texts are encoded again, unless an index has their embeddings.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from tamis import durable, manifest
from tamis.errors import DamagedError, OutputError
from tamis.search.embeddings import (
    PROBES,
    Rows,
    encode_with_truncation,
    for_documents,
    probe,
    same_encoder,
)
from tamis.search.files import ArraysReader, ArraysWriter
from tamis.types import Encoder

KIND, LAYOUT = "embedding-cache", 1
DEFAULT_SIZE = 4 << 30
KEY_BYTES = 16
MIN_ROWS, MAX_ROWS = 4096, 65536
"""A shard is written when so many rows wait for it; each one may be twice as large as the last."""
MAX_SMALL_SHARDS = 16
"""More than so many with fewer than MIN_ROWS are made one."""
Keys = NDArray[np.uint64]
_log = logging.getLogger(__name__)


def model_key(encoder: object, prompt: str = "") -> str:
    """A hash of everything about an encoder that changes an embedding, but for the text.

    >>> class Short: max_length = 8
    >>> class Long(Short): max_length = 512
    >>> model_key(Short()) == model_key(Long())
    False
    """
    origin = getattr(encoder, "origin", None)
    weights = [type(encoder).__name__] if origin is None else list(origin.identity)
    settings = [str(getattr(encoder, name, None)) for name in ("max_length", "pooling")]
    own = [getattr(encoder, name, None) for name in ("prompt", "truncate_dim", "include_prompt")]
    own.append(getattr(getattr(encoder, "runtime", None), "dtype", "float32"))
    if any(own[:2]) or own[3] != "float32":
        settings += map(str, own)
    facts = json.dumps([weights, settings, prompt])
    return hashlib.sha256(facts.encode()).hexdigest()[: 2 * KEY_BYTES]


def text_keys(texts: Sequence[str]) -> Keys:
    """The hash of each text, as two numbers."""
    raw = b"".join(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
        for text in texts
    )
    return np.frombuffer(raw, "<u8").reshape(-1, 2)


class _Shard:
    """Some embeddings that were written before."""

    def __init__(self, folder: Path, files: ArraysReader) -> None:
        self.folder, self.dimensions = folder, int(files.note["dimensions"])
        self.keys: Keys = files.array("keys").reshape(-1, 2)
        self._truncated_tokens = files.array("truncated_tokens")
        self._rows = files.lazy("float32")

    @classmethod
    def open(cls, folder: Path, probes: Rows) -> _Shard | None:
        """A shard of this very encoder; None where it is of another, damaged or just removed."""
        try:
            files = ArraysReader(folder)
            shard = cls(folder, files)
            recorded = files.array("probe").reshape(-1, shard.dimensions)
        except (DamagedError, OSError):
            _remove_damaged(folder)
            return None
        return shard if same_encoder(recorded, probes) else None

    def rows(self, numbers: NDArray[np.integer[Any]]) -> tuple[Rows, NDArray[np.int32]] | None:
        """Some of the rows, verified, and how many tokens of each text were truncated; None, and
        the shard is removed, where it is damaged.
        """
        starts = numbers.astype(np.int64) * self.dimensions
        try:
            self._rows.touch(starts, starts + self.dimensions)
        except DamagedError:
            _remove_damaged(self.folder)
            return None
        rows = self._rows.data.reshape(-1, self.dimensions)[numbers]
        return rows, self._truncated_tokens[numbers]


def _remove_damaged(folder: Path) -> None:
    if folder.exists():  # else another process has just removed it
        _log.warning("%s was damaged: it is removed", folder)
        shutil.rmtree(folder, ignore_errors=True)


class CachedEncoder:
    """An encoder of documents whose embeddings stay in a folder; see `open_cached_encoder`."""

    def __init__(self, encoder: Encoder, folder: Path, key: str, max_bytes: int) -> None:
        self.encoder, self.folder, self.max_bytes = for_documents(encoder), folder, max_bytes
        self.prompts: tuple[str, str] | None = getattr(encoder, "prompts", None)
        self.runtime = getattr(encoder, "runtime", None)
        self._model_folder = folder / key
        self.probe = probe(encoder)
        self.num_found = self.num_encoded = self.num_copied = 0
        self._is_too_small = False
        self._shards: list[_Shard] = []
        if self._model_folder.is_dir():
            folders = sorted(path for path in self._model_folder.iterdir() if _is_shard(path))
            shards = (_Shard.open(path, self.probe) for path in folders)
            self._shards = [shard for shard in shards if shard is not None]
        self._number_keys()
        self._waiting: list[tuple[Keys, Rows, NDArray[np.int32]]] = []
        self._shard_rows = MIN_ROWS

    def _number_keys(self) -> None:
        """Sort the keys of all shards, with the shard and the row of each."""
        keys = [shard.keys for shard in self._shards]
        sizes = [len(shard_keys) for shard_keys in keys]
        merged = np.concatenate([np.empty((0, 2), np.uint64), *keys])
        order = np.argsort(merged[:, 0], kind="stable")
        self._keys = merged[order]
        self._shard_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[order]
        rows = [np.arange(size, dtype=np.int32) for size in sizes]
        self._row_of = np.concatenate([np.empty(0, np.int32), *rows])[order]

    def known(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """Whether the embedding of each text is in the folder."""
        return self._find(text_keys(texts)) >= 0

    def _find(self, keys: Keys) -> NDArray[np.int64]:
        """Where each key stands among the sorted ones; -1 for one that is not there."""
        places = np.searchsorted(self._keys[:, 0], keys[:, 0])
        inside = np.minimum(places, max(0, len(self._keys) - 1))
        if not len(self._keys):
            return np.full(len(keys), -1)
        return np.where((self._keys[inside] == keys).all(axis=1), inside, -1)

    def encode(self, texts: Sequence[str]) -> Rows:
        """One row per text."""
        return self.encode_with_truncation(texts)[0]

    def encode_with_truncation(self, texts: Sequence[str]) -> tuple[Rows, NDArray[np.int32]]:
        """The embeddings of these texts, and how many tokens of each were truncated."""
        if tuple(texts) == PROBES:  # what recognises an encoder is its own
            return self.probe, np.zeros(len(texts), np.int32)
        keys = text_keys(texts)
        rows = np.empty((len(texts), self.probe.shape[1]), np.float32)
        truncated_tokens = np.zeros(len(texts), np.int32)
        missing = self._read(keys, rows, truncated_tokens)
        self.num_found += len(texts) - len(missing)
        if len(missing):
            some = [texts[number] for number in missing.tolist()]
            rows[missing], truncated_tokens[missing] = encode_with_truncation(self.encoder, some)
            self.num_encoded += len(missing)
            kept = missing[np.isfinite(rows[missing]).all(axis=1)]
            self._keep(keys[kept], rows[kept], truncated_tokens[kept])
        return rows, truncated_tokens

    def add(self, texts: Sequence[str], rows: Rows, truncated_tokens: NDArray[np.int32]) -> None:
        """Keep embeddings that this encoder made before, unless they are there and undamaged."""
        keys = text_keys(texts)
        new = self._read(keys, np.empty(rows.shape, np.float32), np.empty(len(keys), np.int32))
        if len(new):
            self._keep(keys[new], np.asarray(rows)[new], np.asarray(truncated_tokens)[new])
            self.num_copied += len(new)

    def _keep(self, keys: Keys, rows: Rows, truncated_tokens: NDArray[np.int32]) -> None:
        self._waiting.append((keys, rows, truncated_tokens))
        if sum(len(waiting) for waiting, _, _ in self._waiting) >= self._shard_rows:
            self.flush()

    def _read(
        self, keys: Keys, rows: Rows, truncated_tokens: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Fill in the rows that are in the folder; the numbers of those that are not."""
        places = self._find(keys)
        shard_of = np.where(places >= 0, self._shard_of[places], -1) if len(self._keys) else places
        damaged = []
        for number in np.unique(shard_of[shard_of >= 0]).tolist():
            where, shard = np.flatnonzero(shard_of == number), self._shards[number]
            columns = shard.rows(self._row_of[places[where]])
            if columns is None:
                damaged.append(shard)
                shard_of[where] = -1
                continue
            rows[where], truncated_tokens[where] = columns
            with suppress(OSError):  # used now: it goes last where the folder is full
                os.utime(shard.folder)
        self._drop(damaged)
        return np.flatnonzero(shard_of < 0)

    def _drop(self, shards: Sequence[_Shard]) -> None:
        if shards:
            self._shards = [shard for shard in self._shards if shard not in shards]
            self._number_keys()

    def in_words(self) -> str:
        """How many texts did not have to be encoded, and where their embeddings come from."""
        total = self.num_found + self.num_encoded
        copied = f", into which {self.num_copied:,} were copied from the index"
        return (
            f"{self.num_found:,} of {total:,} embeddings were in {self.folder}"
            f"{copied if self.num_copied else ''}"
        )

    def flush(self) -> None:
        """Write what waits as a shard; the shards that were used longest ago go if it is full."""
        if not self._waiting:
            if self._is_too_large():  # another writer's bound was larger
                self._make_room()
            return
        keys, rows, truncated_tokens = (
            np.concatenate(columns) for columns in zip(*self._waiting, strict=True)
        )
        self._waiting = []
        self._shard_rows = min(MAX_ROWS, 2 * self._shard_rows)
        if not len(keys):
            return
        shard = self._write(keys, rows, truncated_tokens)
        if shard is not None:
            self._shards.append(shard)
            self._number_keys()
        self._make_room()

    def _write(self, keys: Keys, rows: Rows, truncated_tokens: NDArray[np.int32]) -> _Shard | None:
        _, first = np.unique(keys, axis=0, return_index=True)
        path = self._model_folder / uuid4().hex
        try:
            if not self.folder.exists():
                _make_folder(self.folder)
            self._model_folder.mkdir(exist_ok=True)
            with durable.new_folder(path) as unfinished:
                files = ArraysWriter(unfinished)
                files.write("keys", keys[first].reshape(-1))
                files.write("float32", rows[first])
                files.write("truncated_tokens", truncated_tokens[first])
                files.write("probe", self.probe)
                files.finish(dimensions=int(rows.shape[1]))
        except OSError as error:
            _log.warning("no embeddings are kept in %s: %s", self.folder, error)
            return None
        return _Shard.open(path, self.probe)

    def _is_too_large(self) -> bool:
        return self.folder.is_dir() and (sum(map(_size, _all_shards(self.folder))) > self.max_bytes)

    def _make_room(self) -> None:
        """Make few shards of many small ones, and remove those used longest ago."""
        # another process is at it, or the folder is only to be read
        with suppress(OutputError, OSError), durable.locked(self.folder):
            self._merge_small()
            sizes = {path: _size(path) for path in _all_shards(self.folder)}
            total = sum(sizes.values())
            for path in sorted(sizes, key=_last_used):
                if total <= self.max_bytes:
                    break
                total -= sizes[path]
                shutil.rmtree(path, ignore_errors=True)
            if sizes and not total:
                self._warn_of_size(max(sizes.values()))

    def _warn_of_size(self, needed: int) -> None:
        """Say once that the folder keeps nothing, since it may not grow so large."""
        if not self._is_too_small:
            _log.warning(
                "no embeddings are kept in %s: at most %s bytes may be, and these have %s; allow "
                "more: --embedding-cache-size, in Python embedding_cache_size=",
                self.folder, f"{self.max_bytes:,}", f"{needed:,}",
            )  # fmt: skip
        self._is_too_small = True

    def _merge_small(self) -> None:
        small = [shard for shard in self._shards if len(shard.keys) < MIN_ROWS]
        small = [shard for shard in small if shard.folder.is_dir()]
        if len(small) <= MAX_SMALL_SHARDS:
            return
        whole = [(shard.keys, shard.rows(np.arange(len(shard.keys)))) for shard in small]
        columns = [(keys, *rest) for keys, rest in whole if rest is not None]
        merged = self._write(*(np.concatenate(column) for column in zip(*columns, strict=True)))
        if merged is None:
            return
        self._shards.append(merged)
        self._drop(small)
        for shard in small:
            shutil.rmtree(shard.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()


def _is_shard(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


def _all_shards(folder: Path) -> Iterator[Path]:
    for model in folder.iterdir():
        if _is_shard(model):
            yield from filter(_is_shard, model.iterdir())


def _size(folder: Path) -> int:
    with suppress(OSError):
        return sum(path.stat().st_size for path in folder.iterdir())
    return 0


def _last_used(folder: Path) -> float:
    with suppress(OSError):
        return folder.stat().st_mtime
    return 0.0


def open_cached_encoder(
    encoder: Encoder,
    folder: Path,
    *,
    max_bytes: int = DEFAULT_SIZE,
    prompt: str = "",
) -> CachedEncoder:
    """An encoder that looks its embeddings up in a folder, and keeps new ones there.

    Use it in a `with` statement: what waits to be written is written at its end. The folder is
    made when something is written; it is safe to remove at any time.

    >>> from tempfile import mkdtemp
    >>> class Letters:
    ...     def encode(self, texts):
    ...         return [[float(text.count(letter)) for letter in "aeiou"] for text in texts]
    >>> folder = Path(mkdtemp()) / "embeddings"
    >>> for _ in range(2):
    ...     with open_cached_encoder(Letters(), folder) as cached:
    ...         rows = cached.encode(["a sieve", "a drum"])
    ...     print(rows[0].tolist(), cached.num_found, cached.num_encoded)
    [1.0, 2.0, 1.0, 0.0, 0.0] 0 2
    [1.0, 2.0, 1.0, 0.0, 0.0] 2 0
    """
    if folder.exists():
        manifest.expect(folder, KIND, LAYOUT)
    return CachedEncoder(encoder, folder, model_key(for_documents(encoder), prompt), max_bytes)


def _make_folder(folder: Path) -> None:
    """Make the folder; another process may make it at the same moment."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f".{folder.name}.{uuid4().hex}.part")
    unfinished.mkdir()
    manifest.write_manifest(unfinished, KIND, LAYOUT)
    try:
        unfinished.rename(folder)
    except OSError:  # it is there
        shutil.rmtree(unfinished, ignore_errors=True)
