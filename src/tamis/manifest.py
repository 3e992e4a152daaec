"""`tamis.json`, the note in every folder tamis writes that says what the folder is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tamis import __version__
from tamis.durable import folder_exists
from tamis.errors import DamagedError, InputError

NAME = "tamis.json"
Manifest = dict[str, Any]


def write_manifest(folder: Path, kind: str, version: int, **facts: Any) -> None:
    """Write the note: the kind of folder, the version of its layout, and what else is known."""
    note = {"kind": kind, "layout": version, "tamis": __version__, **facts}
    (folder / NAME).write_text(json.dumps(note, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """The note of a folder, or None where it is not a folder that tamis wrote."""
    path = folder / NAME
    if not folder_exists(folder) or not path.is_file():
        return None
    try:
        note = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise DamagedError(f"{path} is not JSON: {error}", hint="build the folder again") from None
    if not isinstance(note, dict) or not isinstance(note.get("kind"), str) or not note["kind"]:
        raise DamagedError(f"{path} does not say what the folder is", hint="build the folder again")
    return note


def expect(folder: Path, kind: str, version: int) -> Manifest:
    """The note of a folder that must be of this kind and layout."""
    note = read_manifest(folder)
    if note is None:
        raise InputError(
            f"{folder} is not a tamis {kind}: it has no {NAME}", hint="is the path right?"
        )
    if note["kind"] != kind:
        raise InputError(
            f"{folder} is {_with_article(note['kind'])}, not {_with_article(kind)}",
            hint=f"this needs {_with_article(kind)}",
        )
    if note.get("layout") != version:
        raise InputError(
            f"{folder} has layout {note.get('layout')}, this tamis reads {version}",
            hint=f"build it again (it was written by tamis {note.get('tamis')})",
        )
    return note


def _with_article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
