"""Exports the query encoder of a sieve to ONNX, so that a search needs no torch.

Only where documents have embeddings: otherwise the model runs on documents, too, and importing
torch is the least of a query's cost.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np

from tamis.backends.onnx import ONNX_FILES, export_file
from tamis.errors import install_command, missing_extras
from tamis.fitting.context import FitInputs
from tamis.fitting.workspace import Timing
from tamis.models.folder import open_scorer
from tamis.models.onnx_files import is_exportable, write_float
from tamis.models.onnx_graph import share_weights
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.model_manifest import documents_of, find_model_manifest
from tamis.search.embeddings import PROBES
from tamis.types import Scorer

MAX_DIFFERENCE = 1e-5
"""How far a number of an embedding may lie from torch's."""
SAMPLE_QUERIES = 32
FILE = ONNX_FILES["onnx"]
_log = logging.getLogger(__name__)


def export_query_encoder(fit: FitInputs, model: Path) -> None:
    """Write the ONNX file of a bi-encoder into its folder, unless its embeddings differ.

    The base model is exported first; a model that was trained from it to read queries takes the
    ONNX file of its document encoder from there.
    """
    if fit.base is None or not fit.base.has_own_forward:
        return
    if fit.request.ranking_dtype != "float32":
        return
    manifest = find_model_manifest(model)
    is_base = model == fit.base.folder
    if manifest is None or manifest.scorer != "bi-encoder" or not fit.index.snapshot.embeddings:
        return
    if not is_exportable(model):
        return
    if not is_base and not (manifest.documents and has_export(fit.base.folder)):
        return
    if missing := missing_extras("onnx", "onnxruntime"):
        fit.work.record("onnx extra", lambda: _log_missing(missing), Timing("", "export"))
        return
    fit.work.record(
        record_name(model), lambda: _write_and_compare(fit, model), Timing("", "export", model.name)
    )


def has_export(model: Path) -> bool:
    """Whether the model of a fit was exported, and its embeddings are torch's."""
    return export_file(model, "onnx").is_file()


def record_name(model: Path) -> str:
    """The name of the record of an export."""
    return f"onnx {model.name}"


def describe_export(fit: FitInputs, model: Path) -> str:
    """What encodes queries, in words."""
    if not fit.work.path(f"{record_name(model)}.json").exists():
        return "queries are encoded by torch"
    record: dict[str, Any] = fit.work.record(record_name(model), dict, Timing("", "export"))
    how = f"embeddings differ by {record['difference']:.1g} at most"
    if has_export(model):
        return f"queries are encoded by ONNX Runtime ({how} from torch's)"
    return f"queries are encoded by torch (in ONNX Runtime {how}, {MAX_DIFFERENCE:g} is allowed)"


def _log_missing(extras: set[str]) -> dict[str, Any]:
    _log.info(
        "queries are encoded by torch, whose import takes seconds; a search starts sooner with "
        "ONNX Runtime: %s, then fit again",
        install_command(*extras),
    )
    return {"missing": sorted(extras)}


def _write_and_compare(fit: FitInputs, model: Path) -> dict[str, Any]:
    assert fit.base is not None
    _log.info("exporting the encoder of queries to ONNX")
    torch_encoder = cast(BiEncoder, fit.open_model(model))
    _write(torch_encoder, model)
    documents = documents_of(model)
    if documents != model:
        if model == fit.base.folder:
            assert torch_encoder.documents is not None
            _write(torch_encoder.documents, documents)
        else:
            _copy(documents_of(fit.base.folder), documents)
    exported = cast(BiEncoder, open_scorer(model, threads=fit.request.threads, backend="onnx"))
    queries = [*(fit.splits.queries.texts or ())[:SAMPLE_QUERIES], *PROBES]
    difference = float(np.abs(torch_encoder.encode(queries) - exported.encode(queries)).max())
    if difference > MAX_DIFFERENCE:
        export_file(model, "onnx").unlink()
        _log.warning(
            "queries are encoded by torch: in ONNX Runtime the embeddings of %s differ by %.1g, "
            "%g is allowed", model.name, difference, MAX_DIFFERENCE,
        )  # fmt: skip
    return {"difference": difference, "queries": len(queries)}


def _write(encoder: Scorer, folder: Path) -> None:
    """Write the ONNX file of a model beside its weights, which it reads where it can."""
    (folder / FILE).parent.mkdir(exist_ok=True)
    write_float(folder / FILE, encoder, folder)
    share_weights(folder)


def _copy(folder: Path, target: Path) -> None:
    """Copy the ONNX file of a model to where the same model is."""
    file = export_file(folder, "onnx")
    copied = target / file.relative_to(folder)
    copied.parent.mkdir(exist_ok=True)
    shutil.copyfile(file, copied)
