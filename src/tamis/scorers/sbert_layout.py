"""What sentence-transformers runs of a bi-encoder's folder, and whether tamis does the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tamis.errors import InputError
from tamis.scorers.tokens import json_of

SUPPORTED_MODULES = ("Transformer", "Pooling", "Normalize")
"""The modules that tamis runs; vectors get length one, with or without the last."""
DEFAULT_POOLING_FOLDER = "1_Pooling"


def check_sbert_modules(folder: Path) -> None:
    """Refuse a bi-encoder of which tamis would leave something out."""
    other = [
        name for name, _ in _modules(folder) if name.rpartition(".")[2] not in SUPPORTED_MODULES
    ]
    if other:
        raise InputError(
            f"{folder} has a module that tamis does not run: {other[0]}",
            hint=f"choose a bi-encoder with these modules only: {', '.join(SUPPORTED_MODULES)}",
        )
    path = folder / "config_sentence_transformers.json"
    config = json_of(path) if path.is_file() else {}
    prompt = (config.get("prompts") or {}).get(config.get("default_prompt_name"))
    if prompt:
        raise InputError(
            f"{folder} wants {prompt!r} before every text, which tamis does not put there",
            hint="choose a bi-encoder without a default prompt",
        )


def pooling_folder(folder: Path) -> Path:
    """Where a folder says how token vectors are pooled."""
    folders = [path for name, path in _modules(folder) if name.endswith(".Pooling")]
    return folder / (folders[0] if folders else DEFAULT_POOLING_FOLDER)


def _modules(folder: Path) -> list[tuple[str, str]]:
    """The modules of a folder, each with the folder inside in which it lies."""
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        modules: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
        return [(str(module["type"]), str(module["path"])) for module in modules]
    except (ValueError, TypeError, KeyError):
        raise InputError(f"{path} lists no modules", hint="copy the folder again") from None
