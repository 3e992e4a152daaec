"""`tamis.fit`: documents of any form in, a sieve out; `tamis fit` runs the same job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from tamis.collection.base import Collection, OnError
from tamis.collection.objects import AnyDocuments, AnyQueries, as_documents, as_queries
from tamis.collection.run_objects import AnyQrels, AnyRun, as_qrels, as_run
from tamis.durable import parse_time
from tamis.errors import InputError
from tamis.evaluation import parse_measure
from tamis.fitting.job import OnPlan, run_fit
from tamis.fitting.request import DEFAULT_BASE, JUDGED_SPLIT, FitRequest, fit_split_of
from tamis.fitting.sieve import Sieve
from tamis.fitting.system import SystemKind
from tamis.fitting.systems import KINDS
from tamis.search import Index
from tamis.search.cached_encoder import DEFAULT_SIZE
from tamis.text.passages import parse_spec
from tamis.types import Qrels, Queries, Run


def fit(
    collection: AnyDocuments | Index | Sieve,
    *,
    out: str | Path,
    queries: AnyQueries | None = None,
    qrels: AnyQrels | Mapping[str, AnyQrels] | None = None,
    max_time: str | float = "30m",
    base: str | Path | None = DEFAULT_BASE,
    measure: str = "RR@10",
    user_run: AnyRun | None = None,
    teacher: str | None = None,
    word_vectors: str | Path | None = None,
    depth: int = 50,
    passages: str | None = None,
    learning_curve: bool = True,
    seed: int = 0,
    threads: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    gradient_checkpointing: bool = False,
    on_error: OnError = "raise",
    embedding_cache: str | Path | None = None,
    embedding_cache_size: int = DEFAULT_SIZE,
    resume: bool = False,
    force: bool = False,
    on_plan: OnPlan = lambda inputs, plan: None,
    log: Callable[[str], object] | None = None,
    kinds: Sequence[SystemKind] = KINDS,
) -> Sieve:
    """Build the best ranker for documents in the time given, test it against BM25, and write it.

    `collection` is a path or id, a `Collection`, an index, a sieve, a list of documents or a
    DataFrame. `queries` and `qrels` stand in for those it has. Judgements are held out for a test
    where their split has `test` in its name (`{"train": …, "test": …}`); else, where there are
    enough, some are set aside.
    `max_time` is a time such as "20m", or seconds. `base` is the model to start from; None ranks
    by words alone. `passages` says how documents are split, such as `words:150:75`; by default long
    ones are. Models learn and run on a GPU if there is one, else on the CPU; `device` says where.
    They learn in bfloat16 on a GPU that has it and rank in float32, unless `dtype` says otherwise;
    `gradient_checkpointing` needs less memory and more time. With `user_run`, the results of your
    own retriever are re-ranked. What is done is logged through `logging`; `on_plan` is called with
    the data and the plan before the work. `log` is called with every message too. Embeddings are
    kept for the next fit in `embedding_cache`, by default a folder beside the sieve, up to
    `embedding_cache_size` bytes; 0 keeps none. `kinds` are the kinds of system that are compared.

    >>> from tempfile import mkdtemp
    >>> texts = ["A tamis is a drum sieve.", "A colander drains pasta.", "A whisk beats eggs."]
    >>> sieve = fit(texts, out=mkdtemp() + "/kitchen.sieve", base=None)
    >>> [hit.text for hit in sieve.search("drum sieve", top=1)]
    ['A tamis is a drum sieve.']
    >>> sieve.verified, sieve.result.selected
    (False, 'BM25')
    """
    _check_settings(out, depth, seed, threads, on_error)
    if not (base is None or isinstance(base, str | Path)) or base == "none":
        raise InputError(
            f"the base model is {base!r}", hint="name one, or base=None for words alone"
        )
    request = FitRequest(
        collection=_collection(collection),
        out=Path(out),
        base=None if base is None else str(base),
        measure=str(parse_measure(measure)),
        max_time=_seconds(max_time),
        user_run=_path_or(user_run, as_run),
        teacher=teacher,
        word_vectors=None if word_vectors is None else str(word_vectors),
        queries=_path_or(queries, as_queries),
        qrels=_qrels(qrels),
        depth=depth,
        passages=None if passages is None else str(parse_spec(passages)),
        learning_curve=learning_curve,
        seed=seed,
        threads=threads,
        device=device,
        dtype=dtype,
        gradient_checkpointing=gradient_checkpointing,
        on_error=on_error,
        command=f"tamis.fit(…, out={str(out)!r})",
        embedding_cache=None if embedding_cache is None else Path(embedding_cache),
        embedding_cache_size=embedding_cache_size,
    )
    with _logged_to(log):
        sieve = run_fit(request, resume=resume, force=force, on_plan=on_plan, kinds=kinds)[1]
    assert sieve is not None
    return sieve


def _check_settings(
    out: object, depth: object, seed: object, threads: object, on_error: object
) -> None:
    """Refuse values of another kind before any work."""
    if not isinstance(out, str | Path):
        raise InputError(f"the sieve to write is {out!r}", hint='name a folder: out="my.sieve"')
    for name, value, least in (("depth", depth, 1), ("seed", seed, 0), ("threads", threads, 1)):
        if name == "threads" and value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InputError(f"{name} is {value!r}", hint=f"a whole number from {least} on")
    if on_error not in get_args(OnError):
        raise InputError(f"on_error is {on_error!r}", hint=f"one of {', '.join(get_args(OnError))}")


class _CallbackHandler(logging.Handler):
    """Hands every message to a function."""

    def __init__(self, log: Callable[[str], object]) -> None:
        super().__init__(logging.INFO)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.log(record.getMessage())


@contextmanager
def _logged_to(log: Callable[[str], object] | None) -> Iterator[None]:
    """Call a function with every message meanwhile."""
    if log is None:
        yield
        return
    logger, handler = logging.getLogger("tamis"), _CallbackHandler(log)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _collection(documents_or_path: Any) -> str | Collection:
    if isinstance(documents_or_path, Sieve | Index):
        return str(documents_or_path.path)
    if isinstance(documents_or_path, str | Path):
        return str(documents_or_path)
    if isinstance(documents_or_path, Collection):
        return documents_or_path
    if isinstance(documents_or_path, Run | Qrels | Queries):
        raise InputError(
            f"a {type(documents_or_path).__name__} stands in place of the documents",
            hint="documents come first: tamis.fit(documents, queries=…, qrels=…, out=…)",
        )
    documents = as_documents(documents_or_path)
    return Collection("documents", "python", documents, lambda: Queries.of([]), dict)


def _path_or(value: Any, convert: Any) -> Any:
    """A path as it is, anything else made ours; None stays None."""
    if value is None or isinstance(value, str | Path):
        return None if value is None else str(value)
    return convert(value)


def _qrels(qrels_or_path: Any) -> dict[str, str | Qrels]:
    """Judgements by split; of a file or folder the split that `tamis fit --qrels` takes it for."""
    if qrels_or_path is None:
        return {}
    if isinstance(qrels_or_path, Mapping) and not _is_by_query(qrels_or_path):
        splits = {str(split): _path_or(qrels, as_qrels) for split, qrels in qrels_or_path.items()}
        empty = [split for split, qrels in splits.items() if not isinstance(qrels, str | Qrels)
                 or (isinstance(qrels, Qrels) and not len(qrels))]  # fmt: skip
        if empty or not splits:
            raise InputError(
                f"there are no judgements under {empty[0]!r}" if empty else "there are none",
                hint='judgements are {"q1": {"d1": 1}}, or such by split',
            )
        return splits
    if isinstance(qrels_or_path, str | Path):
        return {fit_split_of(qrels_or_path): str(qrels_or_path)}
    return {JUDGED_SPLIT: as_qrels(qrels_or_path)}


def _is_by_query(mapping: Mapping[Any, Any]) -> bool:
    """Whether these are judgements by query, not by split."""
    inner = [value for value in mapping.values() if isinstance(value, Mapping) and value]
    if not inner:
        return False
    return not isinstance(next(iter(inner[0].values())), Mapping)


def _seconds(max_time: str | float) -> float:
    """A time limit in seconds; of a string, a number alone is in minutes, as everywhere."""
    if isinstance(max_time, str):
        return parse_time(max_time, "m")
    if not isinstance(max_time, int | float) or isinstance(max_time, bool):
        raise InputError(f"max_time is {max_time!r}", hint='a time such as "20m", or seconds')
    if not 0 < max_time < float("inf"):
        raise InputError(f"a time of {max_time} s is none", hint='allow more, such as "20m"')
    return float(max_time)
