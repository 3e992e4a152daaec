"""The SHA-256 of a model's weights, recorded in its manifest and checked when a file is opened.

A file is read for it once: that it was right is remembered by path, size and time of change.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tamis.errors import DamagedError, InputError
from tamis.manifest import NAME, read_manifest

WEIGHT_DIGESTS_KEY = "weights_sha256"
"""The manifest's key for the digest of each file."""
WEIGHT_FILES = ("*.safetensors", "*.bin", "*.onnx", "onnx/*.onnx")
Digests = dict[str, str]


def weight_digests(folder: Path) -> Digests:
    """The SHA-256 of every file of weights in a folder, by its name in it."""
    files = sorted(file for pattern in WEIGHT_FILES for file in folder.glob(pattern))
    return {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}


def check_weights(folder: Path, file: Path) -> None:
    """Refuse a file of weights that is not the one recorded in its folder's manifest, if any is."""
    expected = recorded_digests(folder).get(file.relative_to(folder).as_posix())
    if expected is None:
        return
    mark = _mark(file, expected)
    if not mark.exists():
        _check(file, expected)
        _remember(mark)


def digest_of(folder: Path, file: Path) -> str:
    """The SHA-256 of a file of weights: what the manifest of a folder records, else what it is."""
    owner = next((parent for parent in file.parents if (parent / NAME).is_file()), folder)
    if owner.is_relative_to(folder):
        recorded = recorded_digests(owner).get(file.relative_to(owner).as_posix())
        if recorded is not None:
            return recorded
    return sha256_of(file)


def has_digest(file: Path, expected: str) -> bool:
    """Whether a file has this SHA-256; a file that had it is not read again until it changes."""
    mark = _mark(file, expected)
    if mark.exists():
        return True
    same = sha256_of(file) == expected
    if same:
        _remember(mark)
    return same


def verify_weights(folder: Path) -> None:
    """Read every file of weights that the manifest records; `DamagedError` names the first that
    is not what was written.
    """
    recorded = recorded_digests(folder)
    if not recorded:
        raise InputError(
            f"{folder} has no checksums to verify",
            hint="its manifest records none: tamis import-model writes a folder that has them",
        )
    for name, expected in recorded.items():
        if not (folder / name).is_file():
            raise DamagedError(f"{folder / name} is missing", hint="copy the model again")
        _check(folder / name, expected)


def recorded_digests(folder: Path) -> Digests:
    """The SHA-256 of files of weights that the manifest of a folder records, by their names."""
    recorded = (read_manifest(folder) or {}).get(WEIGHT_DIGESTS_KEY, {})
    if not isinstance(recorded, dict) or not all(isinstance(v, str) for v in recorded.values()):
        raise DamagedError(
            f"{folder / NAME} has {recorded!r} for {WEIGHT_DIGESTS_KEY}",
            hint="copy or import the model again: tamis import-model",
        )
    return recorded


def _check(file: Path, expected: str) -> None:
    digest = sha256_of(file)
    if digest != expected:
        raise DamagedError(
            f"{file} is not what was written: its SHA-256 is {digest[:12]}…, not {expected[:12]}…",
            hint="the file was changed or the disk is failing: copy or make the model again",
        )


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def cache_folder() -> Path:
    """Where it is remembered which files were found right."""
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # no home: nothing is remembered
        root = Path(os.devnull)
    return root / "tamis" / "verified-weights"


def _mark(file: Path, expected: str) -> Path:
    """The empty file that says that these very bytes were verified."""
    facts = file.stat()
    key = f"{file.resolve()}\0{facts.st_size}\0{facts.st_mtime_ns}\0{expected}"
    return cache_folder() / hashlib.sha256(os.fsencode(key)).hexdigest()


def _remember(mark: Path) -> None:
    """Keep the mark; where that cannot be written, the file is verified again next time."""
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    except OSError:
        pass
