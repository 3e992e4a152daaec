"""Files of a known name in a folder, each of which may be packed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tamis.collection.lines import COMPRESSION_SUFFIXES
from tamis.errors import InputError


def packed_as(folder: Path, name: str) -> list[Path]:
    """The files of this name, plain or packed, that a folder has."""
    paths = (folder / f"{name}{suffix}" for suffix in COMPRESSION_SUFFIXES)
    return [path for path in paths if path.is_file()]


def the_file(folder: Path, name: str) -> Path | None:
    """The one file of this name, plain or packed; None where there is none."""
    files = packed_as(folder, name)
    if len(files) > 1:
        names = " and ".join(path.name for path in files)
        raise InputError(f"{folder} has {names}", hint="which one is meant? keep one of them")
    return files[0] if files else None


def files_in(folder: Path) -> list[Path]:
    """The files anywhere in a folder, by path, but for hidden ones."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [
        path
        for path in files
        if not any(name.startswith(".") for name in path.relative_to(folder).parts)
    ]


def refuse_odd_splits(splits: Iterable[str]) -> None:
    """Refuse a split whose name cannot be part of a file's."""
    for split in splits:
        if "/" in split or split in ("", ".", ".."):
            raise InputError(f"the split {split!r} cannot name a file", hint="rename it")


def plain_name(path: Path) -> str:
    """A file's name without what says how it is packed.

    >>> plain_name(Path("queries.dev.tsv.gz"))
    'queries.dev.tsv'
    """
    return path.stem if path.suffix in COMPRESSION_SUFFIXES[1:] else path.name


def kind_of(name: str) -> str:
    """What kind of file a name promises, for who counts files that are not read.

    >>> kind_of("photo.JPG"), kind_of("Makefile")
    ('.jpg', 'without a suffix')
    """
    return Path(name).suffix.lower() or "without a suffix"
