"""What a folder with a model in it is, in words, whether tamis wrote it or not."""

from __future__ import annotations

from pathlib import Path

from tamis.manifest import NAME, read_manifest
from tamis.models.adopting import kind_of
from tamis.models.asking import unsaid
from tamis.models.folder import describe_model, open_model
from tamis.scorers.tokens import json_of
from tamis.scorers.weights import read_config, weight_files

LACKING = {
    "kind": "what kind of scorer it is",
    "pooling": "how token vectors are pooled",
    "words": "which two words to compare",
}


def is_model(folder: Path) -> bool:
    """Whether a folder is a model: by its note, or as transformers saves one."""
    note = read_manifest(folder)
    if note is not None:
        return bool(note["kind"] == "model")
    config = folder / "config.json"
    return config.is_file() and "model_type" in json_of(config)


def describe_folder(folder: Path) -> dict[str, str]:
    """A model folder in words; its files are there, its weights are not read."""
    if read_manifest(folder) is not None:
        return dict(describe_model(open_model(folder)))
    config = read_config(folder)
    weight_files(folder)
    lacking = unsaid(folder)
    facts = {
        "model": "not said" if lacking == "kind" else kind_of(folder, config),
        "architecture": (config.get("architectures") or ["not said"])[0],
        "type": str(config["model_type"]),
        NAME: "none: a plain Hugging Face folder",
    }
    if lacking:
        facts["does not say"] = f"{LACKING[lacking]}; say it with tamis adopt"
    return facts
