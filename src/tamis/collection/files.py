"""A folder of files as people have them: text, Markdown, HTML, PDF, Word, notebooks and others.

What a file of each kind says, and what it is called, is `filetexts`'; here they are found.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tamis.collection.base import Collection, Faults
from tamis.collection.file_content import FileContent, Unreadable
from tamis.collection.filetexts import KINDS, read_text
from tamis.collection.formats import Format
from tamis.collection.layout import kind_of
from tamis.collection.main_content import has_extractor
from tamis.collection.samples import FileHead, FolderSample
from tamis.errors import (
    EXTRA_OF,
    InputError,
    LineError,
    MissingExtraError,
    install_command,
    require,
)
from tamis.types import Document

LINK = "symbolic link"
HIDDEN = (".", "~$")
"""How the names of hidden files begin, and of those by which Word locks a document."""
PACKAGES = {".pdf": "pypdf", ".docx": "docx", ".pptx": "pptx"}
"""Which package reads the files of a suffix that are left out where it is not installed."""


@dataclass(frozen=True)
class FileDocuments:
    """The files of a folder, each a document, read anew each time they are gone through."""

    root: Path
    names: tuple[str, ...]
    faults: Faults

    def __iter__(self) -> Iterator[Document]:
        for name in self.names:
            document = self._read(name)
            if document is not None:
                yield document

    def _read(self, name: str) -> Document | None:
        path = self.root / name
        try:
            name.encode()
            content = read_text(path)
        except UnicodeEncodeError:
            name_shown = os.fsencode(path).decode(errors="replace")
            self.faults.meet(
                LineError(name_shown, 1, "the file's name is not UTF-8", hint="rename the file")
            )
        except OSError as error:
            problem = f"it cannot be read: {error.strerror}"
            self.faults.unread.add(name)
            self.faults.meet(LineError(path, 1, problem, hint="it was there a moment ago"))
        except Unreadable as error:
            self.faults.unread.add(name)
            self.faults.meet(LineError(path, error.line, error.problem, hint=self._way_out(error)))
        else:
            return self._document(name, content)
        return None

    def _way_out(self, error: Unreadable) -> str:
        """How to mend a file, or to go on without it where there are others."""
        if len(self.names) == 1:
            return error.hint
        return f"{error.hint}, or leave such files out: --on-error skip, in Python on_error='skip'"

    def _document(self, name: str, content: FileContent) -> Document:
        if (problem := content.bad_front_matter) is not None:
            path = str(self.root / name)
            fault = LineError(path, problem.line, problem.problem, hint=problem.hint)
            self.faults.bad_front_matter[path] = fault
        if (reason := content.not_utf8) is not None:
            path = str(self.root / name)
            self.faults.read_as_windows[path] = LineError(path, reason.line, reason.problem)
        document = Document(name, content.text, content.title, content.fields)
        self.faults.count_if_empty(document)
        return document


def open_files(path: Path, faults: Faults) -> Collection:
    r"""Open a folder of text files, or one file: the id of a document is its path in the folder.

    Hidden files and folders, lock files of Word, and links that lead out of the folder are left
    out; files that are not text are counted in `faults.left_out`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "sieves.md").write_text("# Sieves\n\nThey sort grain.\n")
    ...     [document] = open_files(Path(folder), Faults()).documents
    >>> document.id, document.title
    ('sieves.md', 'Sieves')
    """
    if path.is_dir():
        root = path
        names, left_out = _find(path)
    else:
        root = path.parent
        names, left_out = _single(path)
    if not names:
        raise InputError(f"{path} holds no text that tamis reads", hint=_what_is_there(left_out))
    suffixes = {_suffix(name) for name in names}
    faults.left_out = left_out
    names, missing = _without_missing_packages(names, faults)
    extras = {EXTRA_OF[PACKAGES[suffix]] for suffix in missing}
    effects = [f"{_listed(sorted(missing))} files are left out"] if missing else []
    if not has_extractor() and suffixes & {".html", ".htm"}:
        extras.add("html")
        effects.append("HTML pages keep their navigation and footers")
    if extras:
        faults.missing_extras.append(f"{', '.join(effects)}; {install_command(*extras)}")
    documents = FileDocuments(root, tuple(names), faults)
    return Collection(path.resolve().name, "files", documents, faults=faults)


def _listed(words: list[str]) -> str:
    """Words as a list in a sentence.

    >>> _listed([".docx", ".pdf", ".pptx"])
    '.docx, .pdf and .pptx'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _suffix(name: str) -> str:
    return Path(name).suffix.lower()


def _without_missing_packages(names: list[str], faults: Faults) -> tuple[list[str], set[str]]:
    """The files that can be read; others are counted, and their suffixes named."""
    missing: dict[str, MissingExtraError] = {}
    for suffix in PACKAGES.keys() & {_suffix(name) for name in names}:
        try:
            require(PACKAGES[suffix])
        except MissingExtraError as error:
            missing[suffix] = error
    left = [name for name in names if _suffix(name) not in missing]
    if missing and not left:
        raise next(iter(missing.values()))
    faults.left_out.update(_suffix(name) for name in names if _suffix(name) in missing)
    return left, set(missing)


def _what_is_there(left_out: Counter[str]) -> str:
    counts = ", ".join(f"{count:,} {suffix}" for suffix, count in left_out.most_common(5))
    return f"found: {counts or 'no files'}; read are: {' '.join(KINDS)}"


def _single(path: Path) -> tuple[list[str], Counter[str]]:
    if not path.is_file():
        raise InputError(f"there is no file or folder {path}", hint="is the path right?")
    if path.suffix.lower() in KINDS:
        return [path.name], Counter()
    return [], Counter([kind_of(path.name)])


def _find(root: Path) -> tuple[list[str], Counter[str]]:
    """The files to read, by path with forward slashes, and how many others there are."""
    names: list[str] = []
    left_out: Counter[str] = Counter()
    inside = root.resolve()
    folders = [""]
    while folders:
        folder = folders.pop()
        for entry in _entries(root / folder):
            name = f"{folder}{entry.name}"
            if entry.name.startswith(HIDDEN):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(f"{name}/")
            elif entry.is_symlink() and not _is_file_inside(Path(entry.path), inside):
                left_out[LINK] += 1
            elif entry.is_file() and Path(name).suffix.lower() in KINDS:
                names.append(name)
            else:
                left_out[kind_of(entry.name)] += 1
    return sorted(names), left_out


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise InputError(
            f"the folder {folder} cannot be read: {error.strerror}",
            hint="change its permissions, or move it elsewhere",
        ) from None


def _is_file_inside(link: Path, inside: Path) -> bool:
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):  # it leads nowhere, or in a circle
        return False
    return target.is_file() and target.is_relative_to(inside)


def _is_document(head: FileHead) -> bool:
    return (
        head.raw.startswith(b"%PDF-")
        or head.is_markdown
        or _is_office_or_epub(head.raw)
        or (head.is_json and all(mark in head.raw for mark in (b'"cells"', b'"cell_type"')))
    )


def _is_office_or_epub(raw: bytes) -> bool:
    """Whether this is a zip archive with the parts of a document."""
    if not raw.startswith(b"PK\x03\x04"):
        return False
    is_office = b"[Content_Types].xml" in raw and (b"word/" in raw or b"ppt/" in raw)
    return is_office or b"mimetypeapplication/epub+zip" in raw[:128]


def _has_texts(folder: FolderSample) -> bool:
    return any(file.suffix.lower() in KINDS for file in folder.files)


FILES = Format(
    name="files",
    description="folder of text, Markdown, HTML, PDF, Word, PowerPoint, notebooks or e-books",
    holds=("documents",),
    detect=_is_document,
    markup=re.compile(r"<(!doctype\s+html|html)[\s>]", re.IGNORECASE),
    detect_folder=_has_texts,
    open_collection=open_files,
)
