"""Taking in a plain Hugging Face folder: a copy with `tamis.json`, which later needs no asking."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tamis.durable import new_folder
from tamis.errors import InputError
from tamis.manifest import NAME
from tamis.models.base_models import identify
from tamis.models.smoke_test import open_and_test
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.model_manifest import (
    KINDS,
    Kind,
    ModelManifest,
    Pooling,
    find_model_manifest,
    write_model_manifest,
)
from tamis.scorers.sbert_layout import pooling_folder
from tamis.scorers.target_words import Family, Score, TargetWords
from tamis.scorers.tokens import json_of
from tamis.scorers.weights import read_config, width_of
from tamis.types.pipeline import Scale

IDENTITY = "torch.nn.modules.linear.Identity"
SIGMOID = "torch.nn.modules.activation.Sigmoid"


def import_model(
    folder: str | Path,
    out: str | Path,
    *,
    kind: Kind | None = None,
    max_length: int | None = None,
    scale: Scale | None = None,
    pooling: Pooling | None = None,
    words: Sequence[str | int] | None = None,
    template: str | None = None,
    score: Score | None = None,
    family: Family | None = None,
    force: bool = False,
) -> ModelManifest:
    """Copy a Hugging Face folder to `out` and write down how it scores.

    What config.json and its neighbours say is read; what they do not say must be given. The model
    is opened once, so that a folder that cannot score is refused. A cross-encoder's config is told
    which activation gives our scores in sentence-transformers too.
    """
    source, target = Path(folder), Path(out)
    config = read_config(source)
    scorer_kind = kind or kind_of(source, config)
    if scorer_kind not in KINDS:
        raise InputError(f"there is no kind {scorer_kind!r}", hint=f"say {', '.join(KINDS)}")
    if scorer_kind == "cross-encoder":
        manifest = _cross_encoder(source, config, max_length, scale)
    elif scorer_kind == "bi-encoder":
        manifest = _bi_encoder(source, max_length, pooling)
    else:
        manifest = _target_words(source, words, template, score, family, max_length)
    with new_folder(target, force=force) as temporary_folder:
        shutil.copytree(
            source, temporary_folder, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True
        )
        (temporary_folder / NAME).unlink(missing_ok=True)
        write_sbert_config(temporary_folder, manifest)
        write_model_manifest(temporary_folder, manifest)
    return manifest


def kind_of(folder: Path, config: dict[str, Any]) -> Kind:
    """What kind of scorer a folder declares itself to be."""
    architectures = config.get("architectures")
    architecture = (
        str(architectures[0]) if isinstance(architectures, list) and architectures else "nothing"
    )
    if architecture.endswith("ForSequenceClassification"):
        return "cross-encoder"
    if (pooling_folder(folder) / "config.json").is_file():
        return "bi-encoder"
    if architecture.endswith(
        ("ForConditionalGeneration", "ForCausalLM", "LMHeadModel", "ForMaskedLM")
    ):
        return "target-words"
    raise InputError(
        f"{folder} does not say what kind of scorer it is (its architecture is {architecture})",
        hint=f"say it with --kind, one of {', '.join(KINDS)}",
    )


def _cross_encoder(
    folder: Path, config: dict[str, Any], max_length: int | None, scale: Scale | None
) -> ModelManifest:
    if scale is None and config.get("sentence_transformers", {}).get("activation_fn") == SIGMOID:
        scale = "probability"
    scorer = open_and_test(
        lambda: CrossEncoder.open(folder, max_length=max_length, scale=scale), folder
    )
    return ModelManifest(
        "cross-encoder",
        scorer.max_length,
        scorer.scale,
        outputs=scorer.outputs,
        base=identify(folder),
    )


def _bi_encoder(folder: Path, max_length: int | None, pooling: Pooling | None) -> ModelManifest:
    scorer = open_and_test(
        lambda: BiEncoder.open(folder, max_length=max_length, pooling=pooling), folder
    )
    manifest = find_model_manifest(folder)
    return ModelManifest(
        "bi-encoder",
        scorer.max_length,
        "cosine",
        pooling=scorer.pooling,
        documents=manifest.documents if manifest else None,
        base=identify(folder),
    )


def _target_words(
    folder: Path,
    words: Sequence[str | int] | None,
    template: str | None,
    score: Score | None,
    family: Family | None,
    max_length: int | None,
) -> ModelManifest:
    scorer = open_and_test(
        lambda: TargetWords.open(
            folder, words, template=template, score=score, family=family, max_length=max_length
        ),
        folder,
    )
    first, second = (scorer.tokens.backend.id_to_token(number) for number in scorer.ids)
    return ModelManifest(
        "target-words",
        scorer.max_length,
        scorer.scale,
        template=scorer.template.text,
        words=(first, second),
        word_ids=scorer.ids,
        score=scorer.how,
        family=scorer.family,
        base=identify(folder),
    )


def write_sbert_config(folder: Path, manifest: ModelManifest) -> None:
    """Write what sentence-transformers needs to give the same scores from this folder."""
    if manifest.scorer == "cross-encoder":
        name = SIGMOID if manifest.scale == "probability" and manifest.outputs == 1 else IDENTITY
        config = read_config(folder)
        settings = {**config.get("sentence_transformers", {}), "activation_fn": name}
        _write(folder / "config.json", {**config, "sentence_transformers": settings})
        path = folder / "tokenizer_config.json"
        tokenizer = json_of(path) if path.is_file() else {}
        _write(path, {**tokenizer, "model_max_length": manifest.max_length})
    if manifest.scorer == "bi-encoder" and not (folder / "modules.json").is_file():
        _write_modules(folder, manifest)


def _write_modules(folder: Path, manifest: ModelManifest) -> None:
    width = width_of(read_config(folder))
    types = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{name}"}
        for n, (name, path) in enumerate(types)
    ]
    _write(folder / "modules.json", modules)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": manifest.max_length})
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {
        "word_embedding_dimension": width,
        "pooling_mode_cls_token": manifest.pooling == "cls",
        "pooling_mode_mean_tokens": manifest.pooling == "mean",
    }
    _write(folder / "1_Pooling" / "config.json", pooling)


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")
