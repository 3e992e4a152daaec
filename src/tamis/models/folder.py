"""A model folder: a Hugging Face folder plus `tamis.json`, which says how its weights score."""

from __future__ import annotations

from pathlib import Path

from tamis.errors import InputError
from tamis.manifest import NAME, read_manifest
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.note import ModelNote, read_note
from tamis.scorers.target_words import TargetWords
from tamis.scorers.weights import read_config, weight_files
from tamis.types import Scorer


def open_model(folder: str | Path) -> ModelNote:
    """What a model folder says of itself; its files are there. The weights are not read."""
    path = Path(folder)
    config = path / "config.json"
    if config.is_file() and read_manifest(path) is None:
        raise InputError(
            f"{path} is a Hugging Face folder without {NAME}", hint=f"tamis adopt {path} -o FOLDER"
        )
    note = read_note(path)
    read_config(path)
    weight_files(path)
    return note


def open_scorer(folder: str | Path, *, threads: int | None = None) -> Scorer:
    """The scorer in a model folder, of whatever kind it is."""
    note = open_model(folder)
    if note.scorer == "cross-encoder":
        return CrossEncoder.open(folder, threads=threads)
    if note.scorer == "bi-encoder":
        return BiEncoder.open(folder, threads=threads)
    return TargetWords.open(folder, threads=threads)


def describe_model(note: ModelNote) -> list[tuple[str, str]]:
    """A model's note in words, a row a fact.

    >>> describe_model(ModelNote("bi-encoder", 256, "cosine", pooling="mean"))[:2]
    [('model', 'bi-encoder'), ('scale', 'cosine')]
    """
    base = note.base and f"{note.base.name} (weights {note.base.sha256[:12]}…)"
    words = None
    if note.words and note.word_ids:
        both = zip(note.words, note.word_ids, strict=True)
        words = " against ".join(f"{word} ({number})" for word, number in both)
    rows = [
        ("model", note.scorer),
        ("scale", note.scale),
        ("longest text", f"{note.max_length} tokens"),
        ("outputs", str(note.outputs) if note.scorer == "cross-encoder" else None),
        ("pooling", note.pooling),
        ("template", note.template),
        ("words", words),
        ("score", note.score),
        ("family", note.family),
        ("base", base),
    ]
    rest = [
        (name, str(value))
        for name, value in note.facts.items()
        if name not in ("kind", "layout", "tamis")
    ]
    return [(name, value) for name, value in rows if value] + rest
