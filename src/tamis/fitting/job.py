"""A fit, top to bottom: open the data, plan, retrieve, train, select, test, write the sieve."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from tamis.collection.base import Collection, Faults
from tamis.collection.loss_notes import counted
from tamis.collection.readers import open_collection, with_files
from tamis.durable import folder_exists, locked
from tamis.errors import InputError, MissingExtraError, OutputError, missing_extras, require
from tamis.fitting.candidate_models import import_base
from tamis.fitting.candidates import retrieve, sample_texts
from tamis.fitting.context import BaseModel, FitContext, FitInputs
from tamis.fitting.json_records import from_json, to_json
from tamis.fitting.plan import PACE_SAMPLE, DataSizes, Plan, PlanProgress, measured_pace
from tamis.fitting.planner import make_plan, trains_on_folds
from tamis.fitting.query_splits import (
    MAX_TRAIN_QUERIES,
    split_queries,
)
from tamis.fitting.request import DEFAULT_BASE, DEFAULT_MINUTES, FitRequest
from tamis.fitting.result import make_result
from tamis.fitting.selection import select_system
from tamis.fitting.sieve import KIND, Sieve, load_sieve
from tamis.fitting.sieve_folder import write_sieve
from tamis.fitting.system import SystemKind
from tamis.fitting.systems import KINDS, check_kinds, kind_openers
from tamis.fitting.systems.user_run import open_user_run
from tamis.fitting.workspace import (
    Timing,
    Workspace,
    is_sieve_of,
    open_workspace,
    remove_workspace,
)
from tamis.manifest import read_manifest
from tamis.models.base_models import find_base, model_packages
from tamis.models.model_lookup import open_ranker
from tamis.registry import Openers
from tamis.search import Index
from tamis.search.commit import KIND as INDEX_KIND
from tamis.text.analysis import Analyzer
from tamis.text.passages import parse_spec, split, text_of
from tamis.training.trainable import why_not_trained
from tamis.types import Encoder, Ids, Qrels, Queries

PACE_QUERY = "a query of some words"
_log = logging.getLogger(__name__)
OnPlan = Callable[[FitInputs, Plan], object]


def run_fit(
    request: FitRequest,
    *,
    resume: bool = False,
    force: bool = False,
    dry_run: bool = False,
    on_plan: OnPlan = lambda inputs, plan: None,
    kinds: Sequence[SystemKind] = KINDS,
) -> tuple[Plan, Sieve | None]:
    """Make a sieve of a collection; with `dry_run` only the plan.

    Stopped at any moment, `resume` goes on where it was; the sieve appears whole or not at all.
    Where it is there already, `resume` removes what the fit left behind.
    """
    _check_place(request)
    check_kinds(kinds)
    openers = kind_openers(kinds)
    out = request.out.absolute()
    folder = out.with_name(f"{out.name}.fitting")
    if resume and not dry_run and _is_complete(request, folder):
        with locked(folder):
            remove_workspace(folder)
        _log.info("%s is complete: the fit had ended, what it left was removed", request.out)
        sieve = _load(request, openers)
        return from_json(Plan, sieve.manifest["plan"]), sieve
    _check_output(request, force or dry_run)
    if dry_run:
        with TemporaryDirectory() as scratch:
            inputs = open_inputs(request, Workspace(Path(scratch)))
            plan = plan_fit(inputs, kinds)
            on_plan(inputs, plan)
        return plan, None
    with open_workspace(folder, request.to_json(), resume=resume, force=force) as work:
        inputs = open_inputs(request, work)
        plan = plan_fit(inputs, kinds)
        on_plan(inputs, plan)
        _log_steps(plan, work)
        _fit_and_write(inputs, plan, kinds, force=force)
        remove_workspace(folder)
    return plan, _load(request, openers)


def _load(request: FitRequest, openers: Openers) -> Sieve:
    return load_sieve(request.out, threads=request.threads, openers=openers, device=request.device)


def _log_steps(plan: Plan, work: Workspace) -> None:
    """Log every step of the plan when it begins, with the time that is left."""

    def spent() -> dict[str, float]:
        seconds: dict[str, float] = {}
        for timing in work.timings:
            seconds[timing.step] = seconds.get(timing.step, 0.0) + timing.seconds
        return seconds

    begun = {timing.step for timing in work.timings if timing.activity != "index"}
    progress = PlanProgress(plan, begun)

    def begin(timing: Timing) -> None:
        if message := progress.begin(timing.step, spent()):
            _log.info("%s", message)

    work.on_begin, work.on_left_out = begin, progress.leave_out


def _fit_and_write(
    inputs: FitInputs, plan: Plan, kinds: Sequence[SystemKind], *, force: bool
) -> None:
    inputs = inputs.with_test_sample(plan.test_queries)
    fit = FitContext.of(inputs, plan, retrieve(inputs, plan, kinds))
    selected = select_system(fit, kinds)
    fit.embeddings.flush()
    result = make_result(fit, selected, trained_on_folds=trains_on_folds(plan, kinds))
    write_sieve(fit, selected, result, force=force)


def _is_complete(request: FitRequest, folder: Path) -> bool:
    """Whether the sieve is there, and was stopped only when the workspace was removed."""
    manifest = read_manifest(request.out)
    if manifest is None or manifest["kind"] != KIND:
        return False
    return is_sieve_of(folder, request.out, manifest.get("request", ""), request.to_json())


def _check_place(request: FitRequest) -> None:
    """Refuse, before any work, to write in no folder or among the documents."""
    out, collection = request.out, request.collection
    if not out.name or not out.absolute().parent.is_dir():
        raise OutputError(
            f"there is no folder to write {out} in",
            hint="name a new folder: -o NAME, in Python out=NAME",
        )
    if not isinstance(collection, str) or not Path(collection).is_dir():
        return
    folder = Path(collection).resolve()
    if out.resolve() == folder and (read_manifest(folder) or {}).get("kind") == KIND:
        return  # a sieve is fitted again, and replaced where that is allowed
    if out.resolve().is_relative_to(folder):
        raise OutputError(
            f"{out} lies among the documents", hint=f"name a folder outside {collection}"
        )


def _check_output(request: FitRequest, force: bool) -> None:
    """Refuse, before any work, to write where something else than a sieve is."""
    out = request.out
    if (folder_exists(out) or out.exists()) and not force:
        raise OutputError(
            f"{out} exists already",
            hint="choose another name, or replace it: --force, in Python force=True",
        )
    manifest = read_manifest(out) if out.is_dir() else None
    if out.exists() and (manifest is None or manifest["kind"] != KIND):
        raise OutputError(f"{out} exists and is no sieve", hint="choose another name: -o NAME")


def open_inputs(request: FitRequest, work: Workspace) -> FitInputs:
    """Index the documents and split the queries."""
    request.placement.resolved()  # a device that is not there is said before any work
    _check_inputs(request)
    collection, analyzer = _open_collection(request)
    _refuse_unknown_queries(collection)
    if request.user_run is not None:
        open_user_run(request.user_run, collection.queries)
    base, why_no_base = _open_base(request, work)
    path = work.path("index")
    if not path.exists():
        _log.info("reading %s", request.name)
        with work.timed(Timing("bm25", "index")):
            Index.build(collection.documents, path, analyzer)
        for warning in collection.faults.all_notes():
            _log.warning("%s", warning)
    index = Index.open(path)
    if not index.num_documents:
        raise InputError(
            f"{request.name} has no documents", hint="give one at least; is the path right?"
        )
    most = round(MAX_TRAIN_QUERIES * max(1.0, request.max_time / (DEFAULT_MINUTES * 60)))
    limit = work.record("limits", lambda: {"train_queries": most}, Timing("", "limits"))
    try:
        splits = split_queries(
            collection.queries, collection.qrels, index.snapshot.ids, seed=request.seed,
            max_train=limit["train_queries"],
        )  # fmt: skip
    except InputError:  # other judgements are another request: nothing here can be resumed
        remove_workspace(work.folder)
        raise
    for warning in splits.warnings:
        _log.warning("%s", warning)
    return FitInputs(request, work, collection, index, splits, base, why_no_base)


def _open_collection(request: FitRequest) -> tuple[Collection, Analyzer | str]:
    """The collection, index or sieve that is named or handed in, with the queries and judgements
    of the request; and how texts are analysed.
    """
    if not isinstance(request.collection, str):
        return _with_objects(request.collection, request), "english"
    folder = Path(request.collection)
    manifest = read_manifest(folder) if folder.is_dir() else None
    if manifest is None or manifest["kind"] not in (KIND, INDEX_KIND):
        collection = open_collection(
            request.collection,
            format=request.format,
            columns=request.columns,
            on_error=request.on_error,
        )
        return _with_objects(collection, request), "english"
    faults = Faults()
    if manifest["kind"] == KIND:
        sieve = load_sieve(folder)
        _warn_of_judgements(sieve, request)
        faults.left_out.update(sieve.manifest["data"].get("files_left_out", {}))
        name, index, log = str(sieve.manifest["collection"]), sieve.index, sieve.queries
    else:
        name, index, log = folder.resolve().name, Index.open(folder), None
    collection = Collection(
        name, manifest["kind"], index, lambda: log or Queries.of([]), faults=faults
    )
    return _with_objects(collection, request), index.analyzer


def _warn_of_judgements(sieve: Sieve, request: FitRequest) -> None:
    """Say that the judgements of the last fit are not in the sieve, where this fit has none."""
    counts = sieve.result.queries
    if (judged := counts.train + counts.test) and not request.qrels:
        _log.warning(
            "%s was fitted on %s, which this fit does not have: name the judgements again: "
            "--qrels, in Python qrels=",
            sieve.path, counted(judged, "judged query"),
        )  # fmt: skip


def _with_objects(collection: Collection, request: FitRequest) -> Collection:
    """A collection with the queries and judgements of the request, files or objects."""
    files = {split: path for split, path in request.qrels.items() if isinstance(path, str)}
    objects = {
        split: judgements
        for split, judgements in request.qrels.items()
        if isinstance(judgements, Qrels)
    }
    path = request.queries if isinstance(request.queries, str) else None
    collection = with_files(collection, path, files or None)
    queries = request.queries if isinstance(request.queries, Queries) else None
    if queries is None and not objects:
        return collection
    return Collection(
        collection.name,
        collection.format,
        collection.documents,
        lambda: collection.queries if queries is None else queries,
        lambda: {**(collection.qrels if files or not objects else {}), **objects},
        collection.faults,
        collection.reference,
    )


def _refuse_unknown_queries(collection: Collection) -> None:
    """Refuse judgements of which no query is known, before any work."""
    judged = Ids.of([])
    for qrels in collection.qrels.values():
        judged = judged.union(qrels.queries)
    if len(judged) and (judged.positions_in(collection.queries.ids) < 0).all():
        raise InputError(
            f"none of the {len(judged):,} judged queries has a text, such as {judged[0]!r}",
            hint="give the queries that were judged: --queries FILE, or queries= in Python",
        )


def _check_inputs(request: FitRequest) -> None:
    """Open what a later step needs, so that a wrong name fails before any work."""
    if request.teacher is not None:
        find_base(request.teacher)
    vectors = request.word_vectors
    if vectors is not None and not Path(vectors).expanduser().exists():
        raise InputError(f"there are no word vectors {vectors}", hint="is the path right?")


def _open_base(request: FitRequest, work: Workspace) -> tuple[BaseModel | None, str]:
    """The base model, or why there is none; the default one may be missing, with a warning."""
    if request.base is None:
        return None, "none, as requested"
    try:
        require("torch", *model_packages(request.base))
        return import_base(request.base, work), ""
    except MissingExtraError as error:
        if request.base != DEFAULT_BASE:
            raise
        consequence = f"{error}, so ranking uses words only"
        _log.warning("%s; %s", consequence, error.hint)
        return None, f"none: {consequence}"


def plan_fit(inputs: FitInputs, kinds: Sequence[SystemKind] = KINDS) -> Plan:
    """The plan, made once: a fit that resumes keeps it."""
    request, work = inputs.request, inputs.work

    def make() -> dict[str, Any]:
        sizes, pace = measure_data(inputs)
        return to_json(make_plan(sizes, pace, request.max_time, work.elapsed, kinds))

    return from_json(Plan, work.record("plan", make, Timing("", "plan")))


def measure_data(inputs: FitInputs) -> tuple[DataSizes, float]:
    """What costs depend on, and the pace of the base model."""
    request, splits, base = inputs.request, inputs.splits, inputs.base
    pace = query_seconds = 0.0
    reason = why_not_trained(base.folder, base.manifest.scorer) if base is not None else ""
    if reason:
        _log.warning("the base model is used as it is: tamis does not train %s", reason)
    if base is not None:
        _log.info("measuring how fast the base model is here")
        scorer = inputs.open_model(base.folder)
        texts, queries = sample_texts(inputs), list(splits.queries.texts or ())
        pace = measured_pace(scorer, PACE_QUERY, texts) if texts else 0.0
        query_seconds = measured_pace(scorer, PACE_QUERY, queries) if queries else pace
    sizes = DataSizes(
        num_documents=inputs.index.num_documents,
        judged=len(splits.train),
        test=len(splits.test),
        log=len(splits.log),
        depth=request.depth,
        passages=_passages_per_document(inputs),
        base_kind=base.kind if base else "",
        teacher_seconds=_teacher_pace(inputs),
        word_vectors=request.word_vectors is not None,
        encoded=bool(inputs.index.snapshot.embeddings),
        cached_share=_cached_share(inputs),
        learning_curve=request.learning_curve,
        user_run=request.user_run is not None,
        query_seconds=query_seconds,
        exports=base is not None
        and base.has_own_forward
        and request.ranking_dtype == "float32"
        and not missing_extras("onnx", "onnxruntime"),
        can_train=not reason,
    )
    return sizes, pace


def _passages_per_document(inputs: FitInputs) -> float:
    """How many passages a document of a sample has on average: its passages are counted, since
    words without stop words, which an index knows, are a third fewer.
    """
    if inputs.passages == "whole":
        return 1.0
    spec = parse_spec(inputs.passages)
    counts = [len(split(document, spec).passages) for document in islice(inputs.index, PACE_SAMPLE)]
    return max(1.0, sum(counts) / max(1, len(counts)))


def _cached_share(inputs: FitInputs) -> float:
    """The share of a sample of passages that the base model need not encode again."""
    if inputs.base is None or inputs.base.kind != "bi-encoder":
        return 0.0
    encoder = cast(Encoder, inputs.open_model(inputs.base.folder))
    cached = inputs.embeddings.on_disk(encoder)
    spec = parse_spec(inputs.passages)
    texts = [
        text_of(document, passage, spec.title)
        for document in islice(inputs.index, PACE_SAMPLE)
        for passage in split(document, spec).passages
    ]
    return float(cached.known(texts).mean()) if cached is not None and texts else 0.0


def _teacher_pace(inputs: FitInputs) -> float:
    """Seconds that the teacher takes to score a text; 0 where there is none."""
    name, texts = inputs.request.teacher, sample_texts(inputs)
    if name is None or not texts:
        return 0.0
    request = inputs.request
    ranker = open_ranker(
        name, threads=request.threads, documents=inputs.index, device=request.device,
        dtype=request.dtype,
    )  # fmt: skip
    return max(1e-6, measured_pace(ranker.scorer, PACE_QUERY, texts))
