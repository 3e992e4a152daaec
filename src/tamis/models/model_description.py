"""What a folder with a model in it is, in words, whether tamis wrote it or not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tamis.errors import InputError
from tamis.manifest import NAME, read_manifest
from tamis.models.folder import describe_model, open_model
from tamis.models.import_questions import unsaid
from tamis.models.model_import import kind_of
from tamis.scorers._onnx import FILES
from tamis.scorers.tokens import json_of
from tamis.scorers.weights import read_config, weight_files

QUESTIONS = {
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
    """A model folder in words, and which of its files are missing or cut short; the weights
    themselves are not read.
    """
    found = _described(folder)
    wrong = "; ".join(_wrong(folder))
    return found | ({"problems": wrong} if wrong else {})


def _wrong(folder: Path) -> Iterator[str]:
    if not (folder / "tokenizer.json").is_file():
        yield "there is no tokenizer.json"
    exported = any((folder / name).is_file() for name in FILES.values())
    try:
        files = weight_files(folder)
    except InputError as error:
        if not exported:
            yield str(error)
        return
    for file in files:
        if file.suffix == ".safetensors" and not _whole(file):
            yield f"{file.name} is cut short or is no safetensors file"


def _whole(file: Path) -> bool:
    """Whether a file of weights is as long as its own header says."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > file.stat().st_size:
            return False
        try:
            header = json.loads(opened.read(length))
            ends = [each["data_offsets"][1] for name, each in header.items() if name[:2] != "__"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return False
    return file.stat().st_size == 8 + length + max(ends, default=0)


def _described(folder: Path) -> dict[str, str]:
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
        facts["not_said"] = f"{QUESTIONS[lacking]}; say it with tamis import-model"
    return facts
