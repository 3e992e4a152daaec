"""Opens the scorers that specs name, and refuses one whose weights are not what they were."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from tamis.backends.devices import resolve_device
from tamis.backends.memory import BYTES as TORCH_DTYPES
from tamis.backends.onnx import ONNX_FILES
from tamis.backends.pooling import check_pooling
from tamis.backends.protocols import Backend, Family
from tamis.backends.weight_digests import has_digest
from tamis.durable import folder_exists
from tamis.errors import InputError, install_command, is_installed
from tamis.models.base_models import find_base
from tamis.models.folder import has_weights, torch_backend
from tamis.registry import Opening, Types, check_choice, check_keys
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.model_manifest import documents_of
from tamis.scorers.origin import Origin, files_read
from tamis.scorers.target_words import Score, TargetWords
from tamis.types import Scorer, Spec
from tamis.types.pipeline import Scale

MODELS = (CrossEncoder, BiEncoder, TargetWords)
Model = TypeVar("Model", CrossEncoder, BiEncoder, TargetWords)
AnyScorer = TypeVar("AnyScorer", bound=Scorer)
_log = logging.getLogger(__name__)


CHOICES: Mapping[str, Any] = {
    "scale": Scale,
    "score": Score,
    "family": Family,
}
"""What settings of a model may be."""


def name_scorer(scorer: AnyScorer, reference: str | Path) -> AnyScorer:
    """The same scorer, whose spec names it by the package or hub id it was found by.

    A folder stays a path.
    """
    if folder_exists(Path(reference).expanduser()) or not isinstance(scorer, MODELS):
        return scorer
    if scorer.origin is None:
        return scorer
    return cast(AnyScorer, replace(scorer, origin=scorer.origin.with_name(str(reference))))


def open_cross_encoder(values: Spec, opening: Opening) -> CrossEncoder:
    """See `registry.OPENERS`."""
    return _open(
        CrossEncoder, values, opening, {"max_length": int, "scale": str, "output": (str, int)}
    )


def open_bi_encoder(values: Spec, opening: Opening) -> BiEncoder:
    """See `registry.OPENERS`."""
    prompts = dict.fromkeys(("pooling", "query_prompt", "document_prompt"), str)
    model = _open(BiEncoder, values, opening, {"max_length": int, "truncate_dim": int, **prompts})
    if model.open_documents is None or model.origin is None:
        return model
    if documents_of(model.origin.folder) != model.origin.folder:
        folder, origin = documents_of(model.origin.folder), model.origin
        documents = Origin.of("bi-encoder", folder, origin.backend, origin.dtype)
        # an index may have been encoded by it
        opening.keep_scorer(documents.spec(), model.open_documents)
    return model


def open_target_words(values: Spec, opening: Opening) -> TargetWords:
    """See `registry.OPENERS`."""
    settings = dict.fromkeys(("template", "score", "family"), str)
    return _open(TargetWords, values, opening, {"words": list, "max_length": int, **settings})


def _open(
    model: type[Model], values: Spec, opening: Opening, settings: Mapping[str, Types]
) -> Model:
    place = "name" if "name" in values else "path"
    description = f"a {model.__name__}"
    required = {place: str, "backend": str, "weights": dict, "settings": dict}
    check_keys(description, values, required, {"dtype": str})
    check_keys(f"the settings of {description}", values["settings"], {}, settings)
    check_choice("the back end", values["backend"], get_args(Backend))
    dtype = values.get("dtype", "float32")
    check_choice("the dtype", dtype, tuple(TORCH_DTYPES))
    if "pooling" in values["settings"]:
        check_pooling(values["settings"]["pooling"])
    for name in CHOICES.keys() & values["settings"].keys():
        check_choice(name, values["settings"][name], get_args(CHOICES[name]))
    folder = find_base(values["name"]) if place == "name" else opening.path(values["path"])
    backend = values["backend"]
    if backend == "onnx" and not is_installed("onnxruntime") and has_weights(folder):
        backend = torch_backend(folder)
        _log.info(
            "%s runs in torch, since ONNX Runtime is not installed: %s",
            folder, install_command("onnx"),
        )  # fmt: skip
    else:
        check_weights(folder, files_read(folder, backend), values["weights"])
    device = "cpu" if backend in ONNX_FILES else resolve_device(opening.device)
    if backend == "fast" and device != "cpu":
        backend = "transformers"
    scorer = model.open(
        folder, threads=opening.threads, backend=backend, device=device, dtype=dtype,
        **values["settings"],
    )  # fmt: skip
    return name_scorer(scorer, values["name"]) if place == "name" else scorer


def check_weights(place: Path, files: Mapping[str, Path], expected: Mapping[str, Any]) -> None:
    """Refuse files that are not those of which the spec has the digests."""
    changed = sorted(files.keys() ^ expected.keys())
    changed += [name for name in sorted(files) if not changed and _differs(files, name, expected)]
    if changed:
        raise InputError(
            f"the weights of {place} changed since the spec was written ({changed[0]})",
            hint="put that model back, or make the pipeline and its spec again with this one",
        )


def _differs(files: Mapping[str, Path], name: str, expected: Mapping[str, Any]) -> bool:
    return not has_digest(files[name], str(expected[name]))
