"""A model folder: a Hugging Face folder plus `tamis.json`, which says how its weights score."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from tamis.backends.choice import choose_runtime
from tamis.backends.onnx import GRAPH_FILE, ONNX_FILES, export_file
from tamis.backends.protocols import Backend
from tamis.backends.weight_digests import verify_weights
from tamis.backends.weights import weight_files
from tamis.durable import folder_exists
from tamis.errors import InputError, command
from tamis.manifest import NAME, read_manifest
from tamis.models.model_kinds import kind_of, model_config
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.model_manifest import ModelManifest, find_model_manifest, read_model_manifest
from tamis.scorers.origin import Origin
from tamis.scorers.sbert_layout import transformer_folder
from tamis.types import Scorer, Spec


def open_model(folder: str | Path) -> ModelManifest:
    """What a model folder says of itself; its files are there. The weights are not read.

    A folder with an export needs no other weights, unless the export reads them.
    """
    path = Path(folder)
    folder_exists(path)
    config = path / "config.json"
    if config.is_file() and read_manifest(path) is None:
        raise InputError(
            f"{path} is a Hugging Face folder without {NAME}",
            hint=command("import-model", path, "-o", f"{path.resolve().name}-imported"),
        )
    manifest = read_model_manifest(path)
    model_config(path)
    if not exports_of(path) or (path / GRAPH_FILE).is_file():
        weight_files(transformer_folder(path))
    if manifest.documents and not (path / manifest.documents).is_dir():
        raise InputError(
            f"{path} lacks {manifest.documents}/, by which its documents are encoded",
            hint="copy the model's folder with all that is in it",
        )
    if manifest.documents:
        open_model(path / manifest.documents)
    return manifest


def verify_model(folder: Path) -> None:
    """Read all weights of a model folder; `DamagedError` names the first changed file."""
    manifest = open_model(folder)
    verify_weights(folder)
    if manifest.documents:
        verify_weights(folder / manifest.documents)


def open_scorer(
    folder: str | Path,
    *,
    threads: int | None = None,
    backend: Backend | None = None,
    device: str = "auto",
    dtype: str = "auto",
    trust_remote_code: bool = False,
) -> Scorer:
    """The scorer in a model folder, of whatever kind it is.

    Without a `backend` it runs in torch where torch and the weights are there, else from the
    float export if there is one: on the CPU in float32 by the fast back end where that has the
    architecture, else by transformers. `onnx-int8` is only used when it is named. `device` is
    `auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1` or `mps`; `dtype` is `auto` (half
    precision on a GPU), `float32`, `bfloat16` or `float16`. Code that a model brings is run only
    with `trust_remote_code`.
    """
    manifest = open_model(folder)
    if backend is not None and backend not in get_args(Backend):
        backends = ", ".join(get_args(Backend))
        raise InputError(f"there is no back end {backend!r}", hint=f"say {backends}")
    options: dict[str, Any] = {
        "threads": threads,
        "backend": backend or export_backend(Path(folder)),
        "device": device,
        "dtype": dtype,
        "trust_remote_code": trust_remote_code,
    }
    if manifest.scorer == "cross-encoder":
        from tamis.scorers.cross_encoder import CrossEncoder

        return CrossEncoder.open(folder, **options)
    if manifest.scorer == "bi-encoder":
        return BiEncoder.open(folder, **options)
    from tamis.scorers.target_words import TargetWords

    return TargetWords.open(folder, **options)


def scorer_spec(folder: str | Path, backend: Backend | None = None, dtype: str = "float32") -> Spec:
    """The spec of what `open_scorer` opens; the weights are not read."""
    path = Path(folder)
    kind = open_model(path).scorer
    return Origin.of(kind, path, backend or default_backend(path, dtype=dtype), dtype).spec()


def exports_of(folder: Path) -> list[Backend]:
    """The back ends that a folder has an ONNX file for."""
    return [backend for backend in ONNX_FILES if export_file(folder, backend).is_file()]


def default_backend(folder: Path, device: str = "auto", dtype: str = "auto") -> Backend:
    """The float export where torch or its weights are missing, else `torch_backend`."""
    return export_backend(folder) or torch_backend(folder, device, dtype)


def export_backend(folder: Path) -> Backend | None:
    """The float export, where there is one and torch or the weights for it are missing."""
    if "onnx" in exports_of(folder) and (find_spec("torch") is None or not has_weights(folder)):
        return "onnx"
    return None


def torch_backend(folder: Path, device: str = "auto", dtype: str = "auto") -> Backend:
    """What runs the weights of a folder: the fast back end where it applies, else transformers."""
    config = model_config(folder)
    manifest = find_model_manifest(folder)
    kind = manifest.scorer if manifest else kind_of(folder, config)
    return choose_runtime(kind, config, folder, None, device, dtype).backend


def has_weights(folder: Path) -> bool:
    """Whether a folder has the weights that torch reads."""
    try:
        return bool(weight_files(transformer_folder(folder)))
    except InputError:
        return False


def describe_model(manifest: ModelManifest) -> list[tuple[str, str]]:
    """A model's manifest in words, one row per fact.

    >>> describe_model(ModelManifest("bi-encoder", 256, "cosine", pooling="mean"))[:2]
    [('model', 'bi-encoder'), ('scale', 'cosine')]
    """
    base = manifest.base and f"{manifest.base.name} (weights {manifest.base.sha256[:12]}…)"
    words = None
    if manifest.words and manifest.word_ids:
        both = zip(manifest.words, manifest.word_ids, strict=True)
        words = " against ".join(f"{word} ({number})" for word, number in both)
    rows = [
        ("model", manifest.scorer),
        ("scale", manifest.scale),
        ("max_length", str(manifest.max_length)),
        ("outputs", str(manifest.outputs) if manifest.scorer == "cross-encoder" else None),
        ("output", None if manifest.output is None else str(manifest.output)),
        ("activation", manifest.activation),
        ("pooling", manifest.pooling),
        ("query_prompt", manifest.query_prompt and repr(manifest.query_prompt)),
        ("document_prompt", manifest.document_prompt and repr(manifest.document_prompt)),
        (
            "trained_on",
            f"queries; {manifest.documents}/ encodes documents" * bool(manifest.documents),
        ),
        ("template", manifest.template),
        ("words", words),
        ("score", manifest.score),
        ("family", manifest.family),
        ("base", base),
    ]
    other_rows = [
        (name, str(value))
        for name, value in manifest.facts.items()
        if name not in ("kind", "layout", "tamis", "exports", *TRAINING_FACTS)
    ]
    training_rows = training_in_words(manifest.facts) + _exports_in_words(
        manifest.facts.get("exports", {})
    )
    return [(name, value) for name, value in rows if value] + other_rows + training_rows


TRAINING_FACTS = (
    "chain",
    "labels",
    "examples",
    "recipe",
    "seed",
    "training",
    "versions",
    "validation",
)
"""What training writes into a manifest."""


def training_in_words(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How a model was trained, one row per fact; nothing for one that was not.

    >>> chain = [{"base": "models/plain", "recipe": "first"}, {"base": "x", "recipe": "then"}]
    >>> training_in_words({"chain": chain, "labels": {"gold": {"positive": 1200}}})
    [('trained', 'plain, first, then'), ('trained_from', '1,200 gold positive')]
    """
    rows: list[tuple[str, str]] = []
    if chain := facts.get("chain"):
        steps = [Path(chain[0]["base"]).name, *(step["recipe"] for step in chain)]
        rows.append(("trained", ", ".join(steps)))
    if labels := facts.get("labels"):
        counts = [
            f"{n:,} {source} {role}" for source, by in labels.items() for role, n in by.items()
        ]
        rows.append(("trained_from", ", ".join(counts)))
    if recipe := facts.get("recipe"):
        rows.append(("recipe", _recipe_in_words(recipe)))
    if training := facts.get("training"):
        words = (
            f"{training['steps']:,}, kept after {training['selected_step']:,}; "
            f"{training['texts']:,} texts, {training['truncated_tokens']:,} truncated, "
            f"{training['minutes']:g} minutes"
        )
        rows.append(("steps", words))
    if validation := facts.get("validation"):
        values = validation["by_step"]
        words = ", ".join(f"{value:.4f} after {step}" for step, value in values.items())
        rows.append(("validation", f"{validation['measure']} {words}"))
    if versions := facts.get("versions"):
        rows.append(
            ("versions", ", ".join(f"{name} {version}" for name, version in versions.items()))
        )
    return rows


def _recipe_in_words(recipe: Mapping[str, Any]) -> str:
    """The settings that matter most, and those that were changed by hand."""
    head = f", head {recipe['head_learning_rate']:g}" if recipe.get("head_learning_rate") else ""
    batch_size = recipe["batch_size"] * recipe["gradient_accumulation_steps"]
    words = (
        f"{recipe['name']}: {recipe['loss']} loss, learning rate {recipe['learning_rate']:g}"
        f"{head}, batch size {batch_size}, {recipe['max_length']} tokens, seed {recipe['seed']}"
    )
    changed = [name for name, source in recipe["sources"].items() if source == "set by hand"]
    by_hand = ", ".join(f"{name}={recipe[name]}" for name in changed)
    return f"{words}; set by hand: {by_hand}" if changed else words


def _exports_in_words(exports: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How each export compares with the model, on what."""
    measured = exports.get("measured", {})
    rows: list[tuple[str, str]] = []
    for backend in ONNX_FILES:
        comparison = exports.get(backend)
        if comparison is None:
            continue
        words = f"scores differ by {comparison['difference']:.2g} at most"
        if "overlap" in comparison:
            words += f", overlap of the top 10 {comparison['overlap']:.3f}"
        if "before" in comparison:
            change = comparison["after"] - comparison["before"]
            words += f", {measured.get('measure')} {comparison['before']:.4f} ({change:+.4f})"
        words += f"; on {measured.get('on')}, {measured.get('queries')} queries"
        rows.append((backend, f"{words}; {comparison.get('processor')}"))
    return rows
