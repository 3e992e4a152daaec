"""Model folders: opening and adopting them, and where a base model comes from."""

from tamis.models.adopting import adopt
from tamis.models.bases import find_base, identify
from tamis.models.folder import describe_model, open_model, open_scorer
from tamis.scorers.note import Base, ModelNote

__all__ = [
    "Base",
    "ModelNote",
    "adopt",
    "describe_model",
    "find_base",
    "identify",
    "open_model",
    "open_scorer",
]
