"""What a folder with a model in it is, in words, whether tamis wrote it or not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tamis.backends.choice import choose_runtime
from tamis.backends.devices import resolve_device, resolve_dtype
from tamis.backends.memory import count_parameters
from tamis.backends.onnx import ONNX_FILES
from tamis.backends.tokens import DEFAULT_LENGTH, default_length, json_of
from tamis.backends.weights import ADAPTER_CONFIG, weight_files
from tamis.errors import InputError
from tamis.manifest import NAME, read_manifest
from tamis.models.adapters import describe_adapter, is_adapter
from tamis.models.folder import default_backend, describe_model, open_model
from tamis.models.import_questions import missing_information
from tamis.models.licences import licence_of
from tamis.models.model_kinds import kind_of, model_config
from tamis.scorers.bi_encoder import prompts_of
from tamis.scorers.sbert_layout import encoder_layout, max_seq_length, transformer_folder

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
    if config.is_file():
        return "model_type" in json_of(config)
    return any((folder / name).is_file() for name in ("modules.json", ADAPTER_CONFIG))


def describe_folder(folder: Path) -> dict[str, str]:
    """A model folder in words, and which of its files are missing or incomplete; the weights
    themselves are not read.
    """
    if is_adapter(folder):
        return describe_adapter(folder)
    facts = _describe(folder)
    faults = "; ".join(_find_faults(folder))
    return facts | ({"problems": faults} if faults else {})


def _find_faults(folder: Path) -> Iterator[str]:
    place = transformer_folder(folder)
    if not (place / "tokenizer.json").is_file():
        yield "there is no tokenizer.json"
    has_export = any((folder / name).is_file() for name in ONNX_FILES.values())
    try:
        files = weight_files(place)
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
        facts = dict(describe_model(open_model(folder)))
        return facts | {name: text for name, text in _about(folder).items() if name not in facts}
    config = model_config(folder)
    weight_files(transformer_folder(folder))
    missing = missing_information(folder)
    facts = {
        "model": "not said" if missing == "kind" else kind_of(folder, config),
        **_about(folder),
        NAME: "none: a plain Hugging Face folder",
    }
    if missing:
        facts["not_said"] = f"{MISSING_IN_WORDS[missing]}; say it with tamis import-model"
    return facts


def _about(folder: Path) -> dict[str, str]:
    """What a model is and how it would run here, from its files alone."""
    place, config = transformer_folder(folder), model_config(folder)
    architectures = config.get("architectures") or ["not said"]
    facts = {"architecture": str(architectures[0]), "type": str(config["model_type"])}
    with suppress(InputError):  # what it cannot run is said elsewhere
        facts |= _runtime(folder, config)
    with suppress(InputError):
        facts |= _prompts(folder)
        length = max_seq_length(encoder_layout(folder, "query"), "query")
        longest = config.get("max_position_embeddings") or DEFAULT_LENGTH
        facts["max_length"] = str(length or default_length(place, int(longest)))
    with suppress(InputError):
        facts["parameters"] = f"{count_parameters(place):,}"
    licence = licence_of(folder)
    return facts | ({"licence": licence} if licence else {})


def _runtime(folder: Path, config: Mapping[str, Any]) -> dict[str, str]:
    device = resolve_device()
    dtype = resolve_dtype("auto", device)
    if read_manifest(folder) is None and missing_information(folder) == "kind":
        backend = choose_runtime("bi-encoder", config, folder).backend  # as an encoder
    else:
        backend = default_backend(folder)
    if backend != "transformers":
        device, dtype = "cpu", "float32"
    return {"back_end": backend, "device": device, "dtype": dtype}


def _prompts(folder: Path) -> dict[str, str]:
    prompts = zip(("query_prompt", "document_prompt"), prompts_of(folder), strict=True)
    return {name: repr(prompt) for name, prompt in prompts if prompt}
