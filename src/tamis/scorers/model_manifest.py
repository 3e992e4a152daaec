"""The manifest of a model folder: what kind of scorer its weights are and how to use them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

from tamis.backends.pooling import is_pooling
from tamis.backends.protocols import KINDS, Kind
from tamis.backends.weight_digests import WEIGHT_DIGESTS_KEY, weight_digests
from tamis.errors import DamagedError, InputError
from tamis.manifest import expect, read_manifest, write_manifest
from tamis.scorers.embedding_layers import ACTIVATIONS
from tamis.types.pipeline import Scale

LAYOUT = 1
EXPORTS = ("onnx", "graph.onnx")
"""What exports are in a model folder."""


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
    """The length at which a cross-encoder truncates the text, before the pair."""
    pooling: str | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    """What a bi-encoder reads before every query and every document, if not what its folder says in
    the files of sentence-transformers."""
    documents: str | None = None
    """Of a bi-encoder that only learnt to read queries: the folder in its own folder with the model
    that documents are encoded by."""
    template: str | None = None
    words: tuple[str, str] | None = None
    word_ids: tuple[int, int] | None = None
    score: str | None = None
    family: str | None = None
    output: int | None = None
    """Of a cross-encoder with more than two outputs: the number of the one that says relevant."""
    activation: str | None = None
    """What a cross-encoder's score is of its output, where `scale` does not say: `Tanh`."""
    base: Base | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


_IS_VALID: Mapping[str, Callable[[Any], bool]] = {
    "max_length": lambda value: isinstance(value, int) and value > 0,
    "outputs": lambda value: isinstance(value, int) and value > 0,
    "output": lambda value: isinstance(value, int) and value >= 0,
    "activation": lambda value: isinstance(value, str) and value in ACTIVATIONS,
    "document_tokens": lambda value: isinstance(value, int) and value > 0,
    "scale": lambda value: value in get_args(Scale),
    "pooling": is_pooling,
    "query_prompt": lambda value: isinstance(value, str),
    "document_prompt": lambda value: isinstance(value, str),
    "documents": lambda value: (
        isinstance(value, str) and value not in ("", "..", ".") and Path(value).name == value
    ),
    "base": lambda value: isinstance(value, dict) and set(value) == {"name", "sha256"},
}
"""What values must look like."""


def read_model_manifest(folder: Path) -> ModelManifest:
    """The manifest of a model folder."""
    manifest = expect(folder, "model", LAYOUT)
    missing = [name for name in ("scorer", "max_length", "scale") if name not in manifest]
    if missing or manifest["scorer"] not in KINDS:
        problem = f"no {missing[0]}" if missing else f"a scorer of kind {manifest['scorer']!r}"
        raise DamagedError(
            f"{folder}/tamis.json names {problem}",
            hint="import the model again: tamis import-model",
        )
    for name, is_valid in _IS_VALID.items():
        if name in manifest and not is_valid(manifest[name]):
            raise DamagedError(
                f"{folder}/tamis.json has {manifest[name]!r} for {name}",
                hint="import the model again: tamis import-model",
            )
    field_names = {manifest_field.name for manifest_field in fields(ModelManifest)} - {"facts"}
    values = {name: _value(name, manifest[name]) for name in field_names if name in manifest}
    facts = {
        name: value
        for name, value in manifest.items()
        if name not in (*field_names, WEIGHT_DIGESTS_KEY)
    }
    return ModelManifest(**values, facts=facts)


def find_model_manifest(folder: Path) -> ModelManifest | None:
    """The manifest of a model folder, or None for a plain Hugging Face folder."""
    return None if read_manifest(folder) is None else read_model_manifest(folder)


def manifest_for(folder: Path, kind: Kind) -> ModelManifest | None:
    """The manifest of a folder, or None; an error where it is of another kind of scorer."""
    manifest = find_model_manifest(folder)
    if manifest and manifest.scorer != kind:
        raise InputError(
            f"{folder} is a {manifest.scorer}, not a {kind}",
            hint="open it with tamis.models.open_scorer",
        )
    return manifest


def documents_of(folder: Path) -> Path:
    """The folder by which a bi-encoder's documents are encoded: itself, or one that it brings."""
    manifest = find_model_manifest(folder)
    return folder / manifest.documents if manifest and manifest.documents else folder


def copy_without_exports(folder: Path, target: Path) -> None:
    """Copy a model folder without its ONNX files, of which its manifest then says nothing."""
    shutil.copytree(folder, target, ignore=shutil.ignore_patterns(*EXPORTS), dirs_exist_ok=True)
    for part in {target, documents_of(target)}:
        manifest = read_model_manifest(part)
        recorded = (read_manifest(part) or {}).get(WEIGHT_DIGESTS_KEY, {})
        if "exports" in manifest.facts or any(name.endswith(".onnx") for name in recorded):
            facts = {name: fact for name, fact in manifest.facts.items() if name != "exports"}
            write_model_manifest(part, replace(manifest, facts=facts))


def write_model_manifest(folder: Path, manifest: ModelManifest) -> None:
    """Write `tamis.json` into a model folder whose weights are there."""
    values = {name: value for name, value in asdict(manifest).items() if value is not None}
    facts = values.pop("facts")
    fixed = ("kind", "layout", "tamis", WEIGHT_DIGESTS_KEY)
    other_facts = {name: value for name, value in facts.items() if name not in fixed}
    digests = weight_digests(folder)
    write_manifest(
        folder, "model", LAYOUT, **values, **other_facts, **{WEIGHT_DIGESTS_KEY: digests}
    )


def _value(name: str, value: Any) -> Any:
    if name == "base" and isinstance(value, dict):
        return Base(**value)
    return tuple(value) if isinstance(value, list) else value
