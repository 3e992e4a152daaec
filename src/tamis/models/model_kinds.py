"""What kind of scorer a Hugging Face folder is, by what its config files say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tamis.backends.protocols import KINDS, Kind
from tamis.backends.weights import read_config
from tamis.errors import InputError
from tamis.scorers.sbert_layout import (
    DEFAULT_POOLING_FOLDER,
    modules_of,
    sbert_config,
    transformer_folder,
)

KIND_OF_MODEL_TYPE: Mapping[str, Kind] = {
    "CrossEncoder": "cross-encoder",
    "SentenceTransformer": "bi-encoder",
}
"""By the class that sentence-transformers writes down."""
LANGUAGE_MODELS = ("ForConditionalGeneration", "ForCausalLM", "LMHeadModel", "ForMaskedLM")


def model_config(folder: Path) -> dict[str, Any]:
    """The config of the transformer in a folder, wherever in it that lies."""
    return read_config(transformer_folder(folder))


def kind_of(folder: Path, config: Mapping[str, Any]) -> Kind:
    """What kind of scorer a folder declares itself to be."""
    said = sbert_config(folder).get("model_type")
    if said is not None and said not in KIND_OF_MODEL_TYPE:
        raise InputError(
            f"{folder} is a {said} of sentence-transformers, which tamis does not run",
            hint=f"it runs {', '.join(KINDS)}",
        )
    architecture = architecture_of(config)
    if said == "CrossEncoder" or architecture.endswith("ForSequenceClassification"):
        return "cross-encoder"
    pools = any(name == "Pooling" for name, _ in modules_of(folder))
    if said or pools or (folder / DEFAULT_POOLING_FOLDER / "config.json").is_file():
        return "bi-encoder"
    if architecture.endswith(LANGUAGE_MODELS):
        return "target-words"
    raise InputError(
        f"{folder} does not say what kind of scorer it is (its architecture is {architecture})",
        hint=f"say it with --kind, one of {', '.join(KINDS)}",
    )


def architecture_of(config: Mapping[str, Any]) -> str:
    """The class that a config names for its model.

    >>> architecture_of({"architectures": ["BertModel"]}), architecture_of({})
    ('BertModel', 'nothing')
    """
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else "nothing"
