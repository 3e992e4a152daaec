"""Model folders: opening, importing and exporting them, and where a base model comes from."""

from tamis.models.base_models import find_base, identify
from tamis.models.export_sample import Sample
from tamis.models.folder import describe_model, open_model, open_scorer
from tamis.models.model import Model, Ranked, load_model
from tamis.models.model_import import import_model
from tamis.models.model_lookup import Ranker, open_ranker
from tamis.models.onnx_export import Export, Tolerance, export
from tamis.scorers.model_manifest import Base, ModelManifest

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
