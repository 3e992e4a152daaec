"""What a folder with a model in it is, in words, whether tamis wrote it or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tamis.backends.onnx import ONNX_FILES
from tamis.backends.tokens import json_of
from tamis.backends.weights import read_config, weight_files
from tamis.errors import InputError
from tamis.manifest import NAME, read_manifest
from tamis.models.folder import describe_model, open_model
from tamis.models.import_questions import missing_information
from tamis.models.model_kinds import kind_of

MISSING_IN_WORDS = {
    "kind": "what kind of scorer it is",
    "pooling": "how token vectors are pooled",
    "words": "which two words to compare",
}


def is_model(folder: Path) -> bool:
    """Whether a folder is a model: by its manifest, or as transformers saves one."""
    manifest = read_manifest(folder)
    if manifest is not None:
        return bool(manifest["kind"] == "model")
    config = folder / "config.json"
    return config.is_file() and "model_type" in json_of(config)


def describe_folder(folder: Path) -> dict[str, str]:
    """A model folder in words, and which of its files are missing or incomplete; the weights
    themselves are not read.
    """
    facts = _describe(folder)
    faults = "; ".join(_find_faults(folder))
    return facts | ({"problems": faults} if faults else {})


def _find_faults(folder: Path) -> Iterator[str]:
    if not (folder / "tokenizer.json").is_file():
        yield "there is no tokenizer.json"
    has_export = any((folder / name).is_file() for name in ONNX_FILES.values())
    try:
        files = weight_files(folder)
    except InputError as error:
        if not has_export:
            yield str(error)
        return
    for file in files:
        if file.suffix == ".safetensors" and not _is_complete(file):
            yield f"{file.name} is cut short or is no safetensors file"


def _is_complete(file: Path) -> bool:
    """Whether a file of weights is as long as its own header says."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > file.stat().st_size:
            return False
        try:
            header = json.loads(stream.read(length))
            ends = [
                tensor["data_offsets"][1] for name, tensor in header.items() if name[:2] != "__"
            ]
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
    return file.stat().st_size == 8 + length + max(ends, default=0)


def _describe(folder: Path) -> dict[str, str]:
    if read_manifest(folder) is not None:
        return dict(describe_model(open_model(folder)))
    config = read_config(folder)
    weight_files(folder)
    missing = missing_information(folder)
    facts = {
        "model": "not said" if missing == "kind" else kind_of(folder, config),
        "architecture": (config.get("architectures") or ["not said"])[0],
        "type": str(config["model_type"]),
        NAME: "none: a plain Hugging Face folder",
    }
    if missing:
        facts["not_said"] = f"{MISSING_IN_WORDS[missing]}; say it with tamis import-model"
    return facts
