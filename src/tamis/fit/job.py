"""`tamis fit`, from top to bottom: look, plan, find, learn, choose, test, calibrate, hand over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from tamis.collection.base import Collection
from tamis.collection.opening import open_collection, with_files
from tamis.durable import folder_exists, locked
from tamis.errors import InputError, MissingExtraError, OutputError, require
from tamis.fit import choosing, finding, handing
from tamis.fit.learning import adopted
from tamis.fit.look import (
    LEARNT,
    PASSAGE_WORDS,
    Parts,
    average_words,
    parted,
    passages_for,
)
from tamis.fit.outcome import Outcome
from tamis.fit.plan import Plan, Sizes, make_plan, measured_pace
from tamis.fit.sieve import KIND, LAYOUT, Sieve, load_sieve
from tamis.fit.work import Said, Work, is_sieve_of, remove_work, working
from tamis.manifest import read_manifest
from tamis.models.bases import find_base
from tamis.models.folder import open_scorer
from tamis.models.rankers import open_ranker
from tamis.scorers.note import ModelNote
from tamis.search import Index
from tamis.search.commit import KIND as INDEX_KIND
from tamis.text.analysis import Analyzer
from tamis.types import Ids, Queries

BASE = "all-MiniLM-L6-v2"
MINUTES = 30


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    collection: str
    out: Path
    base: str | None = BASE
    """None, or a model that cannot be found: words alone."""
    measure: str = "RR@10"
    max_time: float = MINUTES * 60.0
    candidates: Path | None = None
    teacher: str | None = None
    """A stronger model, whose order of candidates the base learns."""
    vectors: str | None = None
    """Word vectors, for alignment scores."""
    queries: str | None = None
    qrels: Mapping[str, str] = field(default_factory=dict)
    depth: int = 50
    curve: bool = True
    """Whether to measure what fewer judgements give."""
    seed: int = 0
    threads: int | None = None
    on_error: Literal["raise", "skip"] = "raise"
    command: str = ""

    def record(self) -> dict[str, Any]:
        """What must be the same when a fit goes on; how many threads and minutes may differ."""
        told = asdict(self) | {"out": str(self.out)}
        told["candidates"] = str(self.candidates) if self.candidates else None
        free = ("threads", "command", "max_time")
        kept = {name: told[name] for name in told if name not in free} | {"layout": LAYOUT}
        return kept | {"files": [each for name in self._paths() for each in fingerprint(name)]}

    def _paths(self) -> list[Path]:
        """Everything that is read, where it is a file or a folder."""
        named = self.collection, self.candidates, self.queries, self.base, self.teacher
        return [Path(each) for each in (*named, self.vectors, *self.qrels.values()) if each]


@dataclass(eq=False)
class Fitting:
    """A fit under way: what every step needs to know."""

    request: Request
    work: Work
    collection: Collection
    index: Index
    parts: Parts
    start: Path | None
    note: ModelNote | None
    why_no_model: str = ""

    @property
    def passages(self) -> str:
        """How documents are split to be scored and encoded."""
        return passages_for(self.index)


def fit(
    request: Request,
    *,
    resume: bool = False,
    force: bool = False,
    dry_run: bool = False,
    said: Said = lambda words: None,
    shown: Callable[[Fitting, Plan], object] = lambda fitting, plan: None,
) -> tuple[Plan, Sieve | None]:
    """Make a sieve of a collection; with `dry_run` only say how.

    Stopped at any moment, `resume` goes on where it was; the sieve appears whole or not at all.
    Where it is there already, `resume` removes what the fit left.
    """
    _check_place(request)
    folder = request.out.with_name(f"{request.out.name}.fitting")
    if resume and not dry_run and _is_complete(request, folder):
        with locked(folder):
            remove_work(folder)
        said(f"{request.out} is complete: the fit had ended, what it left was removed")
        sieve = load_sieve(request.out, threads=request.threads)
        return Plan.of_record(sieve.note["plan"]), sieve
    _check_output(request, force or dry_run)
    if dry_run:
        with TemporaryDirectory() as scratch:
            fitting = looked(request, Work(Path(scratch), said))
            plan = planned(fitting)
            shown(fitting, plan)
        return plan, None
    with working(folder, request.record(), resume=resume, force=force, said=said) as work:
        fitting = looked(request, work)
        plan = planned(fitting)
        shown(fitting, plan)
        fitting.parts = fitting.parts.tested_on(plan.testing, request.seed)
        found = finding.find(fitting, plan)
        chosen = choosing.choose_model(fitting, plan, found)
        outcome = Outcome.of(fitting, plan, found, chosen)
        handing.hand_over(fitting, outcome, force=force)
        remove_work(folder)
    return plan, load_sieve(request.out, threads=request.threads)


def _is_complete(request: Request, folder: Path) -> bool:
    """Whether the sieve is there, and was stopped only when the work folder was removed."""
    note = read_manifest(request.out)
    if note is None or note["kind"] != KIND:
        return False
    return is_sieve_of(folder, request.out, note.get("request", ""), request.record())


def _check_place(request: Request) -> None:
    """Refuse, before any work, to write in no folder or among the documents."""
    out = request.out
    if not out.name or not out.absolute().parent.is_dir():
        raise OutputError(
            f"there is no folder to write {out} in", hint="name a new folder: -o NAME"
        )
    if Path(request.collection).is_dir() and out.resolve().is_relative_to(
        Path(request.collection).resolve()
    ):
        raise OutputError(
            f"{out} lies among the documents", hint=f"name a folder outside {request.collection}"
        )


def _check_output(request: Request, force: bool) -> None:
    """Refuse, before any work, to write where something else than a sieve is."""
    out = request.out
    if (folder_exists(out) or out.exists()) and not force:
        raise OutputError(f"{out} exists already", hint="choose another name, or give --force")
    note = read_manifest(out) if out.is_dir() else None
    if out.exists() and (note is None or note["kind"] != KIND):
        raise OutputError(f"{out} exists and is no sieve", hint="choose another name: -o NAME")


def fingerprint(path: Path) -> list[list[Any]]:
    """The files of a collection by name, size and time, to see that it was not changed."""
    if not path.exists():
        return []
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [[str(each), each.stat().st_size, each.stat().st_mtime_ns]
            for each in files if each.is_file()]  # fmt: skip


def looked(request: Request, work: Work) -> Fitting:
    """Index the documents and see what there is beside them."""
    _check_inputs(request)
    collection, analyzer = _opened(request)
    _refuse_unknown_queries(collection)
    if request.candidates is not None:
        finding.given_run(request.candidates, collection.queries)
    start, note, why = _start(request, work)
    path = work.path("index")
    if not path.exists():
        with work.timed("index"):
            Index.build(collection.documents, path, analyzer)
        for warning in collection.faults.notes():
            work.said(f"warning: {warning}")
    index = Index.open(path)
    if not index.documents:
        raise InputError(f"{request.collection} has no documents", hint="is the path right?")
    most = round(LEARNT * max(1.0, request.max_time / (MINUTES * 60)))
    learnt = work.note("learnt", lambda: {"queries at most": most})["queries at most"]
    try:
        parts = parted(
            collection.queries, collection.qrels, index.snapshot.ids, seed=request.seed,
            learnt=learnt,
        )  # fmt: skip
    except InputError:  # other judgements are another request: nothing here can be gone on with
        remove_work(work.folder)
        raise
    for warning in parts.warnings:
        work.said(f"warning: {warning}")
    return Fitting(request, work, collection, index, parts, start, note, why)


def _opened(request: Request) -> tuple[Collection, Analyzer | str]:
    """What is named, a collection, an index or a sieve, and how its texts are analysed."""
    folder = Path(request.collection)
    note = read_manifest(folder) if folder.is_dir() else None
    files = request.queries, request.qrels or None
    if note is None or note["kind"] not in (KIND, INDEX_KIND):
        collection = open_collection(request.collection, on_error=request.on_error)
        return with_files(collection, *files), "english"
    if note["kind"] == KIND:
        sieve = load_sieve(folder)
        index, log = sieve.index, sieve.queries
    else:
        index, log = Index.open(folder), None
    collection = Collection(
        folder.resolve().name, note["kind"], index, lambda: log or Queries.of([])
    )
    return with_files(collection, *files), index.analyzer


def _refuse_unknown_queries(collection: Collection) -> None:
    """Refuse judgements of which no query is known, before any work."""
    judged = Ids.of([])
    for qrels in collection.qrels.values():
        judged = judged.union(qrels.queries)
    if len(judged) and (judged.positions_in(collection.queries.ids) < 0).all():
        raise InputError(
            f"none of the {len(judged):,} judged queries has a text, such as {judged[0]!r}",
            hint="give the queries that were judged: --queries FILE",
        )


def _check_inputs(request: Request) -> None:
    """Open what a later step needs, so that a wrong name is told before any work."""
    if request.teacher is not None:
        find_base(request.teacher)
    if request.vectors is not None and not Path(request.vectors).expanduser().exists():
        raise InputError(f"there are no word vectors {request.vectors}", hint="is the path right?")


def _start(request: Request, work: Work) -> tuple[Path | None, ModelNote | None, str]:
    """The model to start from, if there is one; where the usual one is not installed, why not."""
    if request.base is None:
        return None, None, "no model was wanted"
    try:
        require("torch")
        folder, note = adopted(request.base, work)
    except MissingExtraError as error:
        if request.base != BASE:
            raise
        return None, None, str(error)
    return folder, note, ""


def _teacher_pace(fitting: Fitting) -> float:
    """Seconds that the teacher takes to score a text; 0 where there is none."""
    name, texts = fitting.request.teacher, finding.some_texts(fitting)
    if name is None or not texts:
        return 0.0
    ranker = open_ranker(name, threads=fitting.request.threads, documents=fitting.index)
    return max(1e-6, measured_pace(ranker.scorer, "a query of some words", texts))


def planned(fitting: Fitting) -> Plan:
    """The plan, made once: a fit that goes on keeps it."""
    request, work, parts = fitting.request, fitting.work, fitting.parts

    def make() -> dict[str, Any]:
        pace = asking = 0.0
        if fitting.start is not None:
            scorer = open_scorer(fitting.start, threads=request.threads)
            texts, asked = finding.some_texts(fitting), list(parts.queries.texts or ())
            pace = measured_pace(scorer, "a query of some words", texts) if texts else 0.0
            asking = measured_pace(scorer, "a query of some words", asked) if asked else pace
        words = average_words(fitting.index)
        sizes = Sizes(
            documents=fitting.index.documents,
            learn=len(parts.learn),
            test=len(parts.test),
            log=len(parts.log),
            depth=request.depth,
            passages=1.0 if fitting.passages == "whole" else words / PASSAGE_WORDS,
            kind=fitting.note.scorer if fitting.note and fitting.start else "",
            teacher=_teacher_pace(fitting),
            vectors=request.vectors is not None,
            encoded=bool(fitting.index.snapshot.encoded),
            curve=request.curve,
            given=request.candidates is not None,
            asking=asking,
        )
        return make_plan(sizes, pace, request.max_time, work.taken("")).record()

    return Plan.of_record(work.note("plan", make))
