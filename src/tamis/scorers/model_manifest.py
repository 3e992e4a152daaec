"""The note of a model folder: what kind of scorer its weights are and how to use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from tamis.errors import DamagedError
from tamis.manifest import expect, read_manifest, write_manifest
from tamis.scorers.weight_digests import KEY, weight_digests
from tamis.types.pipeline import Scale

LAYOUT = 1
Kind = Literal["cross-encoder", "bi-encoder", "target-words"]
KINDS: tuple[Kind, ...] = ("cross-encoder", "bi-encoder", "target-words")
Pooling = Literal["mean", "cls"]


@dataclass(frozen=True)
class Base:
    """The model that training started from."""

    name: str
    sha256: str


@dataclass(frozen=True)
class ModelManifest:
    """What `tamis.json` says of a model. `facts` holds whatever else was written there: label
    sources with counts, seed, hash of the data, versions, measured quality.
    """

    scorer: Kind
    max_length: int
    scale: Scale
    outputs: int = 1
    document_tokens: int | None = None
    """Where a cross-encoder cuts the text, before the pair is cut."""
    pooling: Pooling | None = None
    documents: str | None = None
    """Of a bi-encoder that only learnt to read queries: the folder in its own folder with the model
    that documents are encoded by."""
    template: str | None = None
    words: tuple[str, str] | None = None
    word_ids: tuple[int, int] | None = None
    score: str | None = None
    family: str | None = None
    base: Base | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


_FORMS: Mapping[str, Callable[[Any], bool]] = {
    "max_length": lambda value: isinstance(value, int) and value > 0,
    "outputs": lambda value: isinstance(value, int) and value > 0,
    "document_tokens": lambda value: isinstance(value, int) and value > 0,
    "scale": lambda value: value in get_args(Scale),
    "pooling": lambda value: value in get_args(Pooling),
    "documents": lambda value: (
        isinstance(value, str) and value not in ("", "..", ".") and Path(value).name == value
    ),
    "base": lambda value: isinstance(value, dict) and set(value) == {"name", "sha256"},
}
"""What values must look like."""


def read_model_manifest(folder: Path) -> ModelManifest:
    """The note of a model folder."""
    note = expect(folder, "model", LAYOUT)
    missing = [name for name in ("scorer", "max_length", "scale") if name not in note]
    if missing or note["scorer"] not in KINDS:
        what = f"no {missing[0]}" if missing else f"a scorer of kind {note['scorer']!r}"
        raise DamagedError(
            f"{folder}/tamis.json names {what}", hint="import the model again: tamis import-model"
        )
    for name, right in _FORMS.items():
        if name in note and not right(note[name]):
            raise DamagedError(
                f"{folder}/tamis.json has {note[name]!r} for {name}",
                hint="import the model again: tamis import-model",
            )
    known = {each.name for each in fields(ModelManifest)} - {"facts"}
    values = {name: _value(name, note[name]) for name in known if name in note}
    rest = {name: value for name, value in note.items() if name not in (*known, KEY)}
    return ModelManifest(**values, facts=rest)


def find_model_manifest(folder: Path) -> ModelManifest | None:
    """The note of a model folder, or None for a plain Hugging Face folder."""
    return None if read_manifest(folder) is None else read_model_manifest(folder)


def documents_of(folder: Path) -> Path:
    """The folder by which a bi-encoder's documents are encoded: itself, or one that it brings."""
    note = find_model_manifest(folder)
    return folder / note.documents if note and note.documents else folder


def write_model_manifest(folder: Path, note: ModelManifest) -> None:
    """Write `tamis.json` into a model folder whose weights are there."""
    values = {name: value for name, value in asdict(note).items() if value is not None}
    facts = values.pop("facts")
    fixed = ("kind", "layout", "tamis", KEY)
    rest = {name: value for name, value in facts.items() if name not in fixed}
    digests = weight_digests(folder)
    write_manifest(folder, "model", LAYOUT, **values, **rest, **{KEY: digests})


def _value(name: str, value: Any) -> Any:
    if name == "base" and isinstance(value, dict):
        return Base(**value)
    return tuple(value) if isinstance(value, list) else value
