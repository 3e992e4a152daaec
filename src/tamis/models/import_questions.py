"""What a Hugging Face folder leaves unsaid and a person must say before it can be imported."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tamis.errors import InputError
from tamis.models.model_kinds import kind_of, model_config
from tamis.scorers.bi_encoder import pooling_of
from tamis.scorers.model_manifest import find_model_manifest

MissingInformation = Literal["kind", "pooling", "words"]


def missing_information(
    folder: str | Path,
    *,
    kind: str | None = None,
    pooling: str | None = None,
    words: object | None = None,
) -> MissingInformation | None:
    """The first thing that is neither in the folder nor given; None if nothing is missing."""
    path = Path(folder)
    config = model_config(path)
    if kind is None:
        try:
            kind = kind_of(path, config)
        except InputError:
            return "kind"
    manifest = find_model_manifest(path)
    if kind == "target-words" and words is None and not (manifest and manifest.word_ids):
        return "words"
    if kind == "bi-encoder" and pooling is None:
        try:
            pooling_of(path, manifest)
        except InputError:
            return "pooling"
    return None
