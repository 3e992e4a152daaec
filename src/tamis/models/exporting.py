"""Exporting a model to ONNX, in float and in 8-bit integers, and refusing what ranks otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.durable import new_folder
from tamis.errors import InputError, OutputError, require
from tamis.manifest import NAME
from tamis.models.export_sample import Sample, Scored, check_sample, pydocs_sample
from tamis.models.folder import open_model, open_scorer
from tamis.models.onnx_bert import write_pairs, write_texts
from tamis.models.onnx_int8 import RECIPES, Int8
from tamis.models.onnx_t5 import write_words
from tamis.models.trying import tried
from tamis.scorers._onnx import FILES, WIDE, Backend, saturates
from tamis.scorers._t5 import T5, activation_name
from tamis.scorers.bi_encoder import BiEncoder, TorchTexts
from tamis.scorers.cross_encoder import CrossEncoder, TorchPairs
from tamis.scorers.note import ModelNote, write_note
from tamis.scorers.target_words import TargetWords
from tamis.scorers.weights import read_config, weight_files
from tamis.types import Scorer

ROUNDING = 1e-9


@dataclass(frozen=True)
class Tolerance:
    """How far an export may lie from the model it was made of.

    `difference` is the largest difference of a score in float; `tau` how far Kendall's tau with
    the model's ranking may be below 1 for any query; `measure` how much the measure may change.
    """

    difference: float = 1e-4
    tau: float = 0.02
    measure: float = 0.005


@dataclass(frozen=True)
class Export:
    """An ONNX file compared with the model it was made of."""

    backend: Backend
    recipe: str
    megabytes: float
    difference: float
    """The largest difference of a score."""
    tau: float
    """Kendall's tau with the model's ranking, averaged over queries."""
    least_tau: float
    """That of the query where it is lowest."""
    before: float | None
    """The measure of the model's ranking."""
    after: float | None
    """The measure of the export's."""
    speed: float
    """How many times the documents that torch scores in the same time of the processors."""
    refused: str
    """Why it was not kept; empty where it was."""


def export(
    folder: str | Path,
    out: str | Path,
    sample: Sample | None = None,
    *,
    int8: bool | None = None,
    tolerance: Tolerance | None = None,
    threads: int | None = None,
    force: bool = False,
    said: Callable[[str], object] = lambda words: None,
) -> list[Export]:
    """Copy a model folder to `out` with the model in ONNX, and say how each file compares.

    What is compared are the scores of a sample of queries and documents; without one, of questions
    about Python's own documentation. A float file that differs is an error. Of the ways to compute
    in 8-bit integers the fastest that keeps the ranking is kept; where none does, there is no such
    file, which is an error only if `int8` is true.
    """
    source, allowed = Path(folder), tolerance or Tolerance()
    require("onnx")
    require("onnxruntime")
    note = open_model(source)
    weight_files(source)
    scorer = tried(lambda: open_scorer(source, threads=threads, backend="torch"), source)
    check_exportable(scorer, source)
    given = check_sample(sample) if sample else pydocs_sample()
    with new_folder(Path(out), force=force) as part:
        shutil.copytree(
            source, part, ignore=shutil.ignore_patterns(".*", NAME, "onnx"), dirs_exist_ok=True
        )
        if note.documents:
            write_note(part / note.documents, open_model(source / note.documents))
        work = _Work(part, note, scorer, given, allowed, threads, said)
        found = list(work.exports(int8))
        write_note(part, _noted(note, found, given))
    return found


@dataclass(frozen=True, eq=False)
class _Work:
    """One model being exported into a folder."""

    folder: Path
    note: ModelNote
    scorer: Scorer
    sample: Sample
    allowed: Tolerance
    threads: int | None
    said: Callable[[str], object]

    def exports(self, int8: bool | None) -> Iterator[Export]:
        """Write the files; those in 8-bit integers only until one is kept."""
        write_note(self.folder, self.note)
        for folder, _ in self.parts():
            (folder / "onnx").mkdir()
        self.said(f"scoring {len(self.sample.run.doc):,} documents of {self.sample.name} in torch")
        model = self.sample.scored(self.scorer)
        found = self.tried("onnx", "float", None, model)
        yield found
        if found.refused:
            raise OutputError(f"the float export {found.refused}", hint="please report this model")
        tried = []
        for recipe in RECIPES if int8 is not False else ():
            bits = WIDE - 1 if saturates() else WIDE
            tried.append(self.tried("onnx-int8", recipe.name, Int8(recipe, bits), model))
            yield tried[-1]
            if not tried[-1].refused:
                return
        if int8:
            reasons = "; ".join(f"{each.recipe} {each.refused}" for each in tried)
            raise OutputError(
                f"no export in 8-bit integers keeps the ranking: {reasons}",
                hint="leave int8 out, or allow more",
            )

    def tried(self, backend: Backend, recipe: str, int8: Int8 | None, model: Scored) -> Export:
        """Write one file, compare it, and remove it where it ranks otherwise."""
        self.said(f"{backend}, {recipe}: writing and comparing")
        files = [folder / FILES[backend] for folder, _ in self.parts()]
        for path, (folder, scorer) in zip(files, self.parts(), strict=True):
            write_onnx(path, scorer, read_config(folder), int8)
        opened = open_scorer(self.folder, threads=self.threads, backend=backend)
        size = sum(path.stat().st_size for path in files) / 1e6
        found = compared(backend, recipe, size, model, self.sample.scored(opened), self.allowed)
        if found.refused:
            for path in files:
                path.unlink()
        return found

    def parts(self) -> list[tuple[Path, Scorer]]:
        """The folder and its model; also that of documents, where there is one."""
        found: list[tuple[Path, Scorer]] = [(self.folder, self.scorer)]
        if self.note.documents and isinstance(self.scorer, BiEncoder) and self.scorer.documents:
            found.append((self.folder / self.note.documents, self.scorer.documents))
        return found


def compared(
    backend: Backend, recipe: str, size: float, model: Scored, other: Scored, allowed: Tolerance
) -> Export:
    """An export's scores beside the model's; its files have so many megabytes."""
    taus = model.taus(other)
    found = Export(
        backend,
        recipe,
        size,
        float(np.abs(model.scores - other.scores).max(initial=0)),
        float(taus.mean()) if len(taus) else 1.0,
        float(taus.min(initial=1)),
        model.value,
        other.value,
        other.speed / model.speed,
        "",
    )
    return replace(found, refused=reason_to_refuse(found, allowed))


def reason_to_refuse(export: Export, allowed: Tolerance) -> str:
    """Why an export is too far from its model; empty where it is not.

    >>> one = Export("onnx-int8", "single", 9.0, 0.5, 0.99, 0.97, 0.6, 0.601, 2.0, "")
    >>> reason_to_refuse(one, Tolerance())
    'has a tau of 0.9700 with the model on a query; at least 0.9800 is wanted on each'
    """
    if export.backend == "onnx" and export.difference > allowed.difference:
        return f"differs by {export.difference:.2g} in a score; {allowed.difference:g} is allowed"
    if export.least_tau < 1 - allowed.tau - ROUNDING:
        wanted = f"at least {1 - allowed.tau:.4f} is wanted on each"
        return f"has a tau of {export.least_tau:.4f} with the model on a query; {wanted}"
    if export.before is not None and export.after is not None:
        change = export.after - export.before
        if abs(change) > allowed.measure + ROUNDING:
            return f"changes the measure by {change:+.4f}; {allowed.measure:g} is allowed"
    return ""


def check_exportable(scorer: Scorer, folder: Path) -> None:
    """Refuse a model that only transformers can run, or whose score needs every word."""
    if isinstance(scorer, TargetWords) and not isinstance(scorer.writer, T5):
        raise InputError(
            f"{folder} is a {scorer.family} language model, which tamis cannot export",
            hint="cross-encoders, bi-encoders and T5 can be exported",
        )
    if isinstance(scorer, TargetWords) and scorer.how == "vocabulary":
        raise InputError(
            f"the score of {folder} needs the logits of all words; an export has those of two",
            hint="adopt the model with the score words",
        )


def write_onnx(
    path: Path, scorer: Scorer, config: Mapping[str, Any], int8: Int8 | None = None
) -> None:
    """Write the model of a scorer that runs in torch."""
    facts = {"bits": str(int8.bits if int8 else 32), "recipe": int8.recipe.name if int8 else ""}
    activation: str = config.get("hidden_act", "gelu")
    if isinstance(scorer, CrossEncoder) and isinstance(scorer.model, TorchPairs):
        facts |= {"scorer": "cross-encoder", "longest": str(scorer.model.longest)}
        write_pairs(path, scorer.model, activation, int8, facts)
    elif isinstance(scorer, BiEncoder) and isinstance(scorer.model, TorchTexts):
        facts |= {"scorer": "bi-encoder", "longest": str(scorer.model.longest)}
        write_texts(path, scorer.model.body, activation, int8, facts)
    elif isinstance(scorer, TargetWords) and isinstance(scorer.writer, T5):
        longest = str(scorer.writer.bias.shape[1])
        words = " ".join(map(str, scorer.ids))
        facts |= {"scorer": "target-words", "longest": longest, "words": words}
        write_words(path, scorer.writer, scorer.ids, activation_name(config), int8, facts)
    else:
        raise InputError(f"a {type(scorer).__name__} cannot be exported")


def _noted(note: ModelNote, found: list[Export], sample: Sample) -> ModelNote:
    """The note with what was kept and how it compares."""
    kept = {each.backend: _facts(each) for each in found if not each.refused}
    measured = {"on": sample.name, "documents": len(sample.run.doc), "measure": sample.measure}
    return replace(note, facts={**note.facts, "exports": {**kept, "measured": measured}})


def _facts(export: Export) -> dict[str, Any]:
    left_out = ("backend", "refused")
    facts = {name: value for name, value in asdict(export).items() if name not in left_out}
    return {
        name: float(f"{value:.4g}") if isinstance(value, float) else value
        for name, value in facts.items()
        if value is not None
    }
