"""The probe of an encoder on disk, so that an index recognises its encoder without running it.

A probe is kept under a digest of everything that decides it: the SHA-256 of the weights, which are
checked when they are opened, and the bytes of the tokenizer and of all settings in the folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from tamis import __version__, durable
from tamis.backends.batches import Rows
from tamis.backends.weight_digests import cache_folder, recorded_digests
from tamis.errors import TamisError
from tamis.scorers.model_manifest import documents_of
from tamis.scorers.origin import Origin
from tamis.search.embeddings import PROBES

SMALL_FILES = ("*.json", "*.txt", "*.model", "*/config.json")


def cached_probe(
    origin: Origin | None, settings: Sequence[object], encode: Callable[[], Rows]
) -> Rows:
    """The embeddings of the probe texts, of an earlier process if one had the very same encoder.

    `settings` are what the encoder has of its own, whatever the files in its folder say.

    >>> cached_probe(None, [256, "mean"], lambda: np.float32([[1, 0], [0, 1]])).shape
    (2, 2)
    """
    path = None if origin is None else _cache_file(origin, settings)
    if path is None:
        return encode()
    with suppress(OSError, ValueError, EOFError):
        rows: Rows = np.load(path)
        return rows
    rows = encode()
    with suppress(OSError, TamisError):  # it is made again next time
        path.parent.mkdir(parents=True, exist_ok=True)
        with durable.new_file(path, force=True) as unfinished, unfinished.open("wb") as stream:
            np.save(stream, rows)
    return rows


def _cache_file(origin: Origin, settings: Sequence[object]) -> Path | None:
    """Where the probe of a model is; None where its manifest records no digest of its weights."""
    folder = documents_of(origin.folder)
    if not recorded_digests(folder):
        return None
    weights = Origin(origin.kind, folder, origin.backend).weights
    key = hashlib.sha256(
        repr((__version__, PROBES, origin.backend, sorted(weights.items()), *settings)).encode()
    )
    for file in sorted(file for pattern in SMALL_FILES for file in folder.glob(pattern)):
        content = file.read_bytes()
        key.update(f"{file.relative_to(folder).as_posix()} {len(content)} ".encode() + content)
    return cache_folder().parent / "probes" / f"{key.hexdigest()}.npy"
