"""The model card of a trained model: a README.md for the hub, from what its manifest says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.models.base_models import hub_id
from tamis.models.licences import licence_of
from tamis.scorers.model_manifest import ModelManifest, read_model_manifest

CARD = "README.md"
KINDS = {
    "cross-encoder": "cross-encoder",
    "bi-encoder": "bi-encoder",
    "target-words": "language model that ranks by two words",
}
TAGS = {
    "cross-encoder": ("sentence-transformers", "cross-encoder", "reranker"),
    "bi-encoder": ("sentence-transformers", "sentence-similarity", "feature-extraction"),
    "target-words": ("reranker",),
}
LEFT_OUT = ("name", "sources", "then")
"""Of a recipe: what is no setting."""
OF_WORDS = ("words", "word_loss")
"""Settings that only a model for target words has."""


@dataclass(frozen=True)
class Quality:
    """A measure of what was tested, on so many queries."""

    system: str
    measure: str
    value: float
    low: float | None = None
    high: float | None = None
    """Of a 95% interval of the mean; None where there is none."""
    note: str = ""


@dataclass(frozen=True)
class QualityTable:
    """On what some qualities were measured."""

    on: str
    queries: int
    rows: tuple[Quality, ...]


def write_model_card(
    folder: Path, *, name: str | None = None, licence: str | None = None,
    tested: Sequence[QualityTable] = (),
) -> None:  # fmt: skip
    """Write the card of a model folder that training wrote; `tested` is what is known beside the
    validation. A licence that is not given is that of the card which is there.
    """
    manifest = read_model_manifest(folder)
    text = model_card(
        manifest, name or folder.resolve().name, licence or licence_of(folder), tested
    )
    (folder / CARD).write_text(text, "utf-8")


def model_card(
    manifest: ModelManifest,
    name: str,
    licence: str | None = None,
    tested: Sequence[QualityTable] = (),
) -> str:
    """A model card in Markdown, with front matter as the hub reads it.

    >>> manifest = ModelManifest("cross-encoder", 256, "logit", facts={"seed": 3})
    >>> print(model_card(manifest, "my-ranker", "mit").split("---")[1].strip())
    library_name: sentence-transformers
    pipeline_tag: text-ranking
    license: "mit"
    tags:
    - tamis
    - sentence-transformers
    - cross-encoder
    - reranker
    """
    parts = [
        _front_matter(manifest, licence),
        f"# {name}",
        _what_it_is(manifest),
        _use(manifest, name),
        _quality([*tested, *_validation(manifest.facts)]),
        _data(manifest.facts),
        _recipe(manifest.facts),
        _made_by(manifest.facts),
        f"## Licence\n\n{licence}, as the base model's card says." if licence else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(manifest: ModelManifest, licence: str | None) -> str:
    scorer = manifest.scorer
    library = "transformers" if scorer == "target-words" else "sentence-transformers"
    task = "sentence-similarity" if scorer == "bi-encoder" else "text-ranking"
    lines = [f"library_name: {library}", f"pipeline_tag: {task}"]
    hub = hub_id(_first_base(manifest))
    if hub:
        lines += [f"base_model: {json.dumps(hub)}", "base_model_relation: finetune"]
    if licence:
        lines.append(f"license: {json.dumps(licence)}")
    lines += ["tags:", "- tamis", *(f"- {tag}" for tag in TAGS[scorer])]
    return "\n".join(["---", *lines, "---"])


def _first_base(manifest: ModelManifest) -> str:
    """The name of what the first training of all began with."""
    chain = manifest.facts.get("chain")
    if chain:
        return str(chain[0].get("base_name") or Path(chain[0]["base"]).name)
    return manifest.base.name if manifest.base else ""


def _what_it_is(manifest: ModelManifest) -> str:
    facts = manifest.facts
    base = _first_base(manifest)
    text = f"A {KINDS[manifest.scorer]}"
    if base:
        text += f", fine-tuned from {hub_id(base) or Path(base).name}"
    text += " with tamis to rank documents for a query."
    lengths = f"It reads {manifest.max_length} tokens at most; a score is a {manifest.scale}."
    more = [text, lengths]
    if manifest.documents:
        more.append(
            f"It learnt to read queries alone: documents are encoded by `{manifest.documents}/`, "
            "the model it began with."
        )
    if manifest.words:
        more.append(
            f"A score is the share of {manifest.words[0]!r} against {manifest.words[1]!r} as the "
            f"next word after `{manifest.template}`."
        )
    if (facts.get("training") or {}).get("selected_step") == 0:
        more.append(
            "No step of the training did better on the validation queries than none: its weights "
            "are those it began with."
        )
    if (share := facts.get("interpolated")) is not None:
        more.append(f"Its weights are {share:.0%} of the way from the base to the trained model.")
    prompts = [
        f"`{prompt}` before {what}"
        for prompt, what in (
            (manifest.query_prompt, "queries"), (manifest.document_prompt, "documents"),
        ) if prompt
    ]  # fmt: skip
    if prompts:
        more.append(f"Prompts: {' and '.join(prompts)}.")
    return " ".join(more)


def _use(manifest: ModelManifest, name: str) -> str:
    ours = _code(
        "import tamis",
        "",
        f"model = tamis.load_model({name!r})",
        'for hit in model.rank("a question", ["one text", "another"]):',
        "    print(hit.score, hit.text)",
    )
    parts = ["## Use", f"With tamis, `{name}` is the path of this folder:", ours]
    if manifest.scorer == "cross-encoder":
        theirs = _code(
            "from sentence_transformers import CrossEncoder",
            "",
            f"model = CrossEncoder({name!r})",
            'pairs = [("a question", "one text"), ("a question", "another")]',
            "scores = model.predict(pairs)" if manifest.outputs == 1
            else "scores = model.predict(pairs, apply_softmax=True)[:, 1]",
        )  # fmt: skip
    elif manifest.scorer == "bi-encoder":
        documents = f"{name}/{manifest.documents}" if manifest.documents else name
        theirs = _code(
            "from sentence_transformers import SentenceTransformer",
            "",
            f"model = SentenceTransformer({name!r})",
            'queries = model.encode_query(["a question"], normalize_embeddings=True)',
            *([f"model = SentenceTransformer({documents!r})"] if manifest.documents else []),
            'texts = model.encode_document(["one text"], normalize_embeddings=True)',
            "scores = queries @ texts.T",
        )
    else:
        return "\n\n".join(
            [*parts, "The folder is a language model that transformers opens; "
             "sentence-transformers has no scorer by two words."]
        )  # fmt: skip
    return "\n\n".join([*parts, "With sentence-transformers, which gives the same scores:", theirs])


def _code(*lines: str) -> str:
    return "\n".join(["```python", *lines, "```"])


def _validation(facts: Mapping[str, Any]) -> Iterator[QualityTable]:
    validation, training = facts.get("validation"), facts.get("training") or {}
    if not validation:
        return
    step = str(training.get("selected_step", ""))
    value = validation["by_step"].get(step)
    if value is None:
        return
    low, high = validation.get("interval") or (None, None)
    rows = [Quality("this model", validation["measure"], value, low, high)]
    before = validation["by_step"].get("0")
    if before is not None and step != "0":
        rows.insert(0, Quality("before training", validation["measure"], before))
    note = "validation queries"
    if texts := validation.get("texts_per_query"):
        note += f" with {texts} texts to rank at most"
    note += ", which selected the checkpoint" * bool(validation.get("selects"))
    yield QualityTable(note, int(validation.get("queries") or 0), tuple(rows))


def _quality(tested: Sequence[QualityTable]) -> str:
    parts = ["## Quality"]
    for test in tested:
        count = f"{test.queries:,} " if test.queries else ""
        rows = [
            (row.system, row.measure, f"{row.value:.4f}",
             "" if row.low is None or row.high is None else f"{row.low:.4f} to {row.high:.4f}",
             row.note)
            for row in test.rows
        ]  # fmt: skip
        has_notes = any(row.note for row in test.rows)
        heads = ("system", "measure", "mean", "95% interval", "against BM25")
        width = 5 if has_notes else 4
        table = _table(heads[:width], [row[:width] for row in rows])
        parts += [f"On {count}{test.on}:", table]
    if len(parts) == 1:
        parts.append("Nothing was measured.")
    return "\n\n".join(parts)


def _data(facts: Mapping[str, Any]) -> str:
    chain = facts.get("chain") or []
    rows = [
        (str(number), str(step["recipe"]), source, role, f"{count:,}")
        for number, step in enumerate(chain, 1)
        for source, by_role in (step.get("labels") or {}).items()
        for role, count in by_role.items()
    ]
    if not rows:
        return ""
    table = _table(("training", "recipe", "labels", "role", "rows"), rows)
    return f"## Data\n\n{table}"


def _recipe(facts: Mapping[str, Any]) -> str:
    recipe = facts.get("recipe")
    if not recipe:
        return ""
    sources = recipe.get("sources", {})
    left_out = LEFT_OUT if recipe.get("scorer") == "target-words" else (*LEFT_OUT, *OF_WORDS)
    rows = [
        (f"`{name}`", json.dumps(value, ensure_ascii=False), str(sources.get(name, "")))
        for name, value in recipe.items()
        if name not in left_out and value is not None
    ]
    table = _table(("setting", "value", "source"), rows)
    training = facts.get("training") or {}
    steps = ""
    if training:
        steps = (
            f"{training['steps']:,} steps, kept after {training['selected_step']:,}; "
            f"{training['texts']:,} texts, {training['truncated_tokens']:,} truncated; "
            f"{training['minutes']:g} minutes"
        )
        steps += f", {training['runtime']}.\n\n" if "runtime" in training else ".\n\n"
    return f"## Recipe\n\n`{recipe['name']}`. {steps}{table}"


def _made_by(facts: Mapping[str, Any]) -> str:
    versions = facts.get("versions") or {}
    if not versions:
        return ""
    return "Made by " + ", ".join(f"{name} {number}" for name, number in versions.items()) + "."


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; a bar in a value would end its cell."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )
