"""A model folder: a Hugging Face folder plus `tamis.json`, which says how its weights score."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from tamis.durable import folder_exists
from tamis.errors import InputError, command
from tamis.manifest import NAME, read_manifest
from tamis.scorers._onnx import FILES, Backend
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.model_manifest import ModelManifest, read_model_manifest
from tamis.scorers.origin import Origin
from tamis.scorers.target_words import TargetWords
from tamis.scorers.weight_digests import verify_weights
from tamis.scorers.weights import read_config, weight_files
from tamis.types import Scorer, Spec


def open_model(folder: str | Path) -> ModelManifest:
    """What a model folder says of itself; its files are there. The weights are not read.

    A folder with an export needs no other weights.
    """
    path = Path(folder)
    folder_exists(path)
    config = path / "config.json"
    if config.is_file() and read_manifest(path) is None:
        raise InputError(
            f"{path} is a Hugging Face folder without {NAME}",
            hint=command("import-model", path, "-o", f"{path.resolve().name}-imported"),
        )
    note = read_model_manifest(path)
    read_config(path)
    if not exports_of(path):
        weight_files(path)
    if note.documents and not (path / note.documents).is_dir():
        raise InputError(
            f"{path} lacks {note.documents}/, by which its documents are encoded",
            hint="copy the model's folder with all that is in it",
        )
    if note.documents:
        open_model(path / note.documents)
    return note


def verify_model(folder: Path) -> None:
    """Read all weights of a model folder; `DamagedError` names the first changed file."""
    note = open_model(folder)
    verify_weights(folder)
    if note.documents:
        verify_weights(folder / note.documents)


def open_scorer(
    folder: str | Path, *, threads: int | None = None, backend: Backend | None = None
) -> Scorer:
    """The scorer in a model folder, of whatever kind it is.

    Without a `backend` it runs in torch where torch and the weights are there, else from the
    float export if there is one. `onnx-int8` is only taken when asked for.
    """
    note = open_model(folder)
    if backend is not None and backend not in get_args(Backend):
        known = ", ".join(get_args(Backend))
        raise InputError(f"there is no back end {backend!r}", hint=f"say {known}")
    chosen = backend or usual_backend(Path(folder))
    if note.scorer == "cross-encoder":
        return CrossEncoder.open(folder, threads=threads, backend=chosen)
    if note.scorer == "bi-encoder":
        return BiEncoder.open(folder, threads=threads, backend=chosen)
    return TargetWords.open(folder, threads=threads, backend=chosen)


def scorer_spec(folder: str | Path) -> Spec:
    """The spec of what `open_scorer` opens; the weights are not read."""
    path = Path(folder)
    return Origin.of(open_model(path).scorer, path, usual_backend(path)).spec()


def exports_of(folder: Path) -> list[Backend]:
    """The back ends that a folder has an ONNX file for."""
    return [backend for backend, file in FILES.items() if (folder / file).is_file()]


def usual_backend(folder: Path) -> Backend:
    """Torch where it is installed and there are weights for it, else the float export."""
    if "onnx" in exports_of(folder) and (find_spec("torch") is None or not has_weights(folder)):
        return "onnx"
    return "torch"


def has_weights(folder: Path) -> bool:
    """Whether a folder has the weights that torch reads."""
    try:
        return bool(weight_files(folder))
    except InputError:
        return False


def describe_model(note: ModelManifest) -> list[tuple[str, str]]:
    """A model's note in words, a row a fact.

    >>> describe_model(ModelManifest("bi-encoder", 256, "cosine", pooling="mean"))[:2]
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
        ("max_length", f"{note.max_length} tokens"),
        ("outputs", str(note.outputs) if note.scorer == "cross-encoder" else None),
        ("pooling", note.pooling),
        ("trained_on", f"queries; {note.documents}/ encodes documents" * bool(note.documents)),
        ("template", note.template),
        ("words", words),
        ("score", note.score),
        ("family", note.family),
        ("base", base),
    ]
    rest = [
        (name, str(value))
        for name, value in note.facts.items()
        if name not in ("kind", "layout", "tamis", "exports", *TRAINING)
    ]
    told = training_in_words(note.facts) + _exports_in_words(note.facts.get("exports", {}))
    return [(name, value) for name, value in rows if value] + rest + told


TRAINING = ("chain", "labels", "examples", "recipe", "seed", "learnt", "versions", "validation")
"""What training writes into a note."""


def training_in_words(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How a model was trained, a row a fact; nothing for one that was not.

    >>> chain = [{"base": "models/plain", "recipe": "first"}, {"base": "x", "recipe": "then"}]
    >>> training_in_words({"chain": chain, "labels": {"gold": {"positive": 1200}}})
    [('trained', 'plain, first, then'), ('trained_from', '1,200 gold positive')]
    """
    told: list[tuple[str, str]] = []
    if chain := facts.get("chain"):
        steps = [Path(chain[0]["base"]).name, *(step["recipe"] for step in chain)]
        told.append(("trained", ", ".join(steps)))
    if labels := facts.get("labels"):
        counts = [
            f"{n:,} {source} {role}" for source, by in labels.items() for role, n in by.items()
        ]
        told.append(("trained_from", ", ".join(counts)))
    if recipe := facts.get("recipe"):
        told.append(("recipe", _recipe_in_words(recipe)))
    if learnt := facts.get("learnt"):
        words = (
            f"{learnt['steps']:,}, kept after {learnt['kept after']:,}; {learnt['texts']:,} texts"
        )
        told.append(
            (
                "steps",
                f"{words}, {learnt['truncated_tokens']:,} truncated, {learnt['minutes']:g} minutes",
            )
        )
    if validation := facts.get("validation"):
        values = validation["after steps"]
        words = ", ".join(f"{value:.4f} after {step}" for step, value in values.items())
        told.append(("validation", f"{validation['measure']} {words}"))
    if versions := facts.get("versions"):
        told.append(("versions", ", ".join(f"{name} {said}" for name, said in versions.items())))
    return told


def _recipe_in_words(recipe: Mapping[str, Any]) -> str:
    """The settings that matter most, and those that were changed by hand."""
    head = f", head {recipe['head_learning_rate']:g}" if recipe.get("head_learning_rate") else ""
    batch_size = recipe["batch_size"] * recipe["gradient_accumulation_steps"]
    words = (
        f"{recipe['name']}: {recipe['loss']} loss, learning rate {recipe['learning_rate']:g}"
        f"{head}, batch size {batch_size}, {recipe['max_length']} tokens, seed {recipe['seed']}"
    )
    changed = [name for name, said in recipe["sources"].items() if said == "set by hand"]
    by_hand = ", ".join(f"{name}={recipe[name]}" for name in changed)
    return f"{words}; set by hand: {by_hand}" if changed else words


def _exports_in_words(exports: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How each export compares with the model, on what."""
    measured = exports.get("measured", {})
    told: list[tuple[str, str]] = []
    for backend in FILES:
        found = exports.get(backend)
        if found is None:
            continue
        words = f"scores differ by {found['difference']:.2g} at most"
        if "overlap" in found:
            words += f", overlap of the top 10 {found['overlap']:.3f}"
        if "before" in found:
            change = found["after"] - found["before"]
            words += f", {measured.get('measure')} {found['before']:.4f} ({change:+.4f})"
        words += f"; on {measured.get('on')}, {measured.get('queries')} queries"
        told.append((backend, f"{words}; {found.get('processor')}"))
    return told
