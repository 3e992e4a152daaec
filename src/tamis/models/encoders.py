"""Which model makes embeddings: from the name a user gives to what an index records of it."""

from __future__ import annotations

from pathlib import Path

from tamis.durable import folder_exists
from tamis.models.base_models import find_base, identify
from tamis.scorers.bi_encoder import prompts_of
from tamis.scorers.model_manifest import documents_of
from tamis.search.embeddings import EmbeddingModel


def find_encoder(reference: str) -> tuple[Path, EmbeddingModel]:
    """The folder that a folder, an installed package or a hub id names, and the model
    that encodes documents: its base, where it was only trained to read queries.
    """
    folder = find_base(reference)
    base = identify(documents_of(folder))
    location = str(folder.resolve()) if folder_exists(Path(reference).expanduser()) else reference
    return folder, EmbeddingModel(base.name, base.sha256, location, *prompts_of(folder))
