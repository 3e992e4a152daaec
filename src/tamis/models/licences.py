"""The licence of a model, where the card in its folder names one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tamis.collection.file_content import Unreadable
from tamis.collection.front_matter import read_front_matter


def licence_of(folder: Path) -> str | None:
    """The licence that the model card in a folder names, if there is one."""
    card = folder / "README.md"
    if not card.is_file():
        return None
    with suppress(Unreadable):
        fields = read_front_matter(card.read_text("utf-8", errors="replace")).fields or {}
        return fields.get("license")
    return None
