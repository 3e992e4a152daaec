"""Taking in a plain Hugging Face folder: a copy with `tamis.json`, which later needs no asking."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.backends.protocols import KINDS, Family, Kind
from tamis.backends.tokens import SBERT_FILE, json_of, read_json
from tamis.backends.weights import read_config, width_of
from tamis.durable import new_folder
from tamis.errors import InputError
from tamis.manifest import NAME
from tamis.models.adapters import with_base
from tamis.models.base_models import identify
from tamis.models.model_kinds import kind_of, model_config
from tamis.models.smoke_test import open_and_test
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.model_manifest import (
    ModelManifest,
    find_model_manifest,
    write_model_manifest,
)
from tamis.scorers.sbert_layout import LEGACY_MODES, transformer_folder
from tamis.scorers.target_words import Score, TargetWords
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
    output: str | int | None = None,
    pooling: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
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
    options = _Options(
        kind, max_length, scale, pooling, query_prompt, document_prompt, words, template, score,
        family, output,
    )  # fmt: skip
    with with_base(Path(folder)) as source:
        manifest = _manifest_of(source, options)
        with new_folder(Path(out), force=force) as temporary_folder:
            shutil.copytree(
                source, temporary_folder, ignore=shutil.ignore_patterns(".*"), dirs_exist_ok=True
            )
            (temporary_folder / NAME).unlink(missing_ok=True)
            write_sbert_config(temporary_folder, manifest)
            write_model_manifest(temporary_folder, manifest)
    return manifest


@dataclass(frozen=True)
class _Options:
    """What is said by hand of a folder that is imported."""

    kind: Kind | None
    max_length: int | None
    scale: Scale | None
    pooling: str | None
    query_prompt: str | None
    document_prompt: str | None
    words: Sequence[str | int] | None
    template: str | None
    score: Score | None
    family: Family | None
    output: str | int | None


def _manifest_of(source: Path, options: _Options) -> ModelManifest:
    """What is written down of a folder, once it was opened and has scored something."""
    kind = options.kind or kind_of(source, model_config(source))
    if kind not in KINDS:
        raise InputError(f"there is no kind {kind!r}", hint=f"say {', '.join(KINDS)}")
    if kind == "cross-encoder":
        return _cross_encoder(source, options)
    if kind == "bi-encoder":
        return _bi_encoder(source, options)
    return _target_words(
        source, options.words, options.template, options.score, options.family, options.max_length
    )


def _cross_encoder(folder: Path, options: _Options) -> ModelManifest:
    scorer = open_and_test(
        lambda: CrossEncoder.open(
            folder, max_length=options.max_length, scale=options.scale, output=options.output
        ),
        folder,
    )
    return ModelManifest(
        "cross-encoder",
        scorer.max_length,
        scorer.scale,
        outputs=scorer.outputs,
        output=scorer.output,
        activation=scorer.activation,
        base=identify(folder),
    )


def _bi_encoder(folder: Path, options: _Options) -> ModelManifest:
    scorer = open_and_test(
        lambda: BiEncoder.open(
            folder, max_length=options.max_length, pooling=options.pooling,
            query_prompt=options.query_prompt, document_prompt=options.document_prompt,
        ),
        folder,
    )  # fmt: skip
    manifest = find_model_manifest(folder)
    return ModelManifest(
        "bi-encoder",
        scorer.max_length,
        "cosine",
        pooling=scorer.pooling,
        query_prompt=_said(options.query_prompt, scorer.prompts[0]),
        document_prompt=_said(options.document_prompt, scorer.prompts[1]),
        documents=manifest.documents if manifest else None,
        base=identify(folder),
    )


def _said(by_hand: str | None, prompt: str) -> str | None:
    """The prompt to write down: what was said by hand, even if that is none, or what was found."""
    return prompt or None if by_hand is None else by_hand


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
        if manifest.activation:
            name = f"torch.nn.modules.activation.{manifest.activation}"
        place = transformer_folder(folder)
        config = read_config(place)
        settings = {**config.get("sentence_transformers", {}), "activation_fn": name}
        _write(place / "config.json", {**config, "sentence_transformers": settings})
        newer = folder / "config_sentence_transformers.json"
        if newer.is_file():
            _write(newer, {**json_of(newer), "activation_fn": name})
        path = place / "tokenizer_config.json"
        tokenizer = json_of(path) if path.is_file() else {}
        _write(path, {**tokenizer, "model_max_length": manifest.max_length})
    if manifest.scorer == "bi-encoder":
        if not (folder / "modules.json").is_file():
            _write_modules(folder, manifest)
        if manifest.query_prompt is not None or manifest.document_prompt is not None:
            _write_prompts(folder, manifest)


def write_default_prompt(folder: Path, prompt: str) -> None:
    """Write what stands before the query of every pair; sentence-transformers reads it only where
    modules are listed.
    """
    transformer = "sentence_transformers.base.modules.transformer.Transformer"
    _write(folder / "modules.json", [{"idx": 0, "name": "0", "path": "", "type": transformer}])
    text = {"method": "forward", "method_output_name": "logits"}
    module = {"transformer_task": "sequence-classification", "modality_config": {"text": text},
              "module_output_name": "scores"}  # fmt: skip
    _write(folder / SBERT_FILE, {**read_json(folder / SBERT_FILE), **module})
    config = {"model_type": "CrossEncoder", "prompts": {"query": prompt},
              "default_prompt_name": "query"}  # fmt: skip
    _write(folder / "config_sentence_transformers.json", config)


def _write_prompts(folder: Path, manifest: ModelManifest) -> None:
    path = folder / "config_sentence_transformers.json"
    config = json_of(path) if path.is_file() else {}
    own = {"query": manifest.query_prompt or "", "document": manifest.document_prompt or ""}
    _write(path, {**config, "prompts": {**(config.get("prompts") or {}), **own}})


def _write_modules(folder: Path, manifest: ModelManifest) -> None:
    width = width_of(read_config(folder))
    types = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{name}"}
        for n, (name, path) in enumerate(types)
    ]
    _write(folder / "modules.json", modules)
    own = read_json(folder / SBERT_FILE)
    _write(folder / SBERT_FILE, {**own, "max_seq_length": manifest.max_length})
    (folder / "1_Pooling").mkdir(exist_ok=True)
    modes = (manifest.pooling or "mean").split("+")
    pooling = {
        "word_embedding_dimension": width,
        **{name: mode in modes for name, mode in LEGACY_MODES.items()},
    }
    _write(folder / "1_Pooling" / "config.json", pooling)


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")
