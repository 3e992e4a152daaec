"""Model folders: opening, importing and exporting them, and where a base model comes from.

Names are imported when they are first used: a search opens a model and exports none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.models.base_models import find_base, identify
    from tamis.models.export_sample import Sample
    from tamis.models.folder import describe_model, open_model, open_scorer
    from tamis.models.model import Model, load_model
    from tamis.models.model_import import import_model
    from tamis.models.model_lookup import Ranker, open_ranker
    from tamis.models.onnx_export import Export, Tolerance, export
    from tamis.scorers.model_manifest import Base, ModelManifest

_HOME = {
    "find_base": "tamis.models.base_models",
    "identify": "tamis.models.base_models",
    "Sample": "tamis.models.export_sample",
    "describe_model": "tamis.models.folder",
    "open_model": "tamis.models.folder",
    "open_scorer": "tamis.models.folder",
    "Model": "tamis.models.model",
    "Ranked": "tamis.models.ranked",
    "load_model": "tamis.models.model",
    "import_model": "tamis.models.model_import",
    "Ranker": "tamis.models.model_lookup",
    "open_ranker": "tamis.models.model_lookup",
    "Export": "tamis.models.onnx_export",
    "Tolerance": "tamis.models.onnx_export",
    "export": "tamis.models.onnx_export",
    "Base": "tamis.scorers.model_manifest",
    "ModelManifest": "tamis.scorers.model_manifest",
}

__all__ = [
    "Base",
    "Export",
    "Model",
    "ModelManifest",
    "Ranked",
    "Ranker",
    "Sample",
    "Tolerance",
    "describe_model",
    "export",
    "find_base",
    "identify",
    "import_model",
    "load_model",
    "open_model",
    "open_ranker",
    "open_scorer",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tamis.models' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
