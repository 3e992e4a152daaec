"""The engine of a service: models and sieves by name, and requests on their way through them.

It knows nothing of HTTP. A program may use it as it is:

    engine = Engine.open(ServeSettings((ModelPlace("docs", "my.sieve"),)))
    answer = engine.answer(SearchRequest("some words"))
    engine.close()
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any

from tamis.backends.batches import single_threaded_torch
from tamis.cores import usable_cores
from tamis.errors import InputError
from tamis.manifest import read_manifest
from tamis.models.model import load_model
from tamis.models.model_lookup import find_model
from tamis.serve.errors import (
    EmptyError,
    InvalidError,
    TooManyTextsError,
    UnhealthyError,
    UnknownModelError,
)
from tamis.serve.jobs import Job, Request
from tamis.serve.observer import Observer
from tamis.serve.requests import (
    EmbedAnswer,
    EmbedRequest,
    RankAnswer,
    RankRequest,
    SearchRequest,
)
from tamis.serve.served import Health, Served
from tamis.serve.served_model import ServedModel
from tamis.serve.served_sieve import ServedSieve, open_sieve
from tamis.serve.settings import Limits, ModelPlace, ServeSettings

SEARCHES_SIDE_BY_SIDE = 16
"""Requests to sieves that run at a time; most of that time they wait for batches."""
_log = logging.getLogger(__name__)


class Engine:
    """Everything that is served, open; made by `Engine.open`."""

    def __init__(self, settings: ServeSettings, observer: Observer) -> None:
        """Use `Engine.open`."""
        self.settings, self.observer = settings, observer
        self._lock, self._reloading = Lock(), Lock()
        self._served: dict[str, Served] = {}
        self._tokenizers = ThreadPoolExecutor(max(2, usable_cores()), "tamis-tokenize")
        self._searches = ThreadPoolExecutor(SEARCHES_SIDE_BY_SIDE, "tamis-search")
        self._retiring: list[Thread] = []
        self._closing = ExitStack()

    @classmethod
    def open(cls, settings: ServeSettings, observer: Observer | None = None) -> Engine:
        """Open all that is served, warm, on one thread of torch a batch thread from then on."""
        engine = cls(settings, observer or Observer())
        try:
            engine._served = engine._open_all()
        except BaseException:
            engine.close()
            raise
        engine._closing.enter_context(single_threaded_torch(sys.modules.get("torch")))
        return engine

    def submit(self, request: Request) -> Job:
        """Let a request in, or raise the `ServiceError` that says why not."""
        self._check(request)
        with self._lock:
            served = self._find(request.model)
            cost = served.estimate(request)
            served.admission.enter(cost)
        latency = self.settings.latency if request.latency is None else request.latency
        job = Job(request, served.name, latency)
        job.future.add_done_callback(
            lambda future: served.admission.leave(cost, done=not future.cancelled())
        )
        try:
            served.start(job)
        except RuntimeError as error:  # the pools are closed
            job.fail(UnhealthyError("the service is ending", hint="ask another one"))
            _log.info("a request came while the service was ending: %s", error)
        return job

    def answer(self, request: RankRequest | SearchRequest) -> RankAnswer:
        """The answer to a request, waited for."""
        answer: RankAnswer = self.submit(request).future.result()
        return answer

    def embed(self, request: EmbedRequest) -> EmbedAnswer:
        """The embeddings of texts, waited for."""
        answer: EmbedAnswer = self.submit(request).future.result()
        return answer

    def _check(self, request: Request) -> None:
        limits = self.settings.limits
        if isinstance(request, SearchRequest):
            check_length(request.query, "the query", "query", limits)
            return
        if isinstance(request, EmbedRequest):
            check_number(len(request.texts), "texts", limits)
            for number, text in enumerate(request.texts):
                check_length(text, f"text {number}", "texts", limits)
            return
        for query in request.queries:
            check_length(query, "the query", "query", limits)
            if not query.strip():
                raise EmptyError("the query is empty", hint="say what to rank by", param="query")
        check_number(len(request.documents), "documents", limits)
        for number, document in enumerate(request.documents):
            check_length(document.text, f"document {number}", "documents", limits)
            check_length(document.title, f"the title of document {number}", "documents", limits)

    def _find(self, name: str | None) -> Served:
        if not self._served:
            raise UnhealthyError("nothing is open", hint="the service is starting or ending")
        if not name:
            return next(iter(self._served.values()))
        if name not in self._served:
            raise UnknownModelError(
                f"there is no model {name[:100]!r} here", param="model",
                hint=f"there is {', '.join(self._served)}",
            )  # fmt: skip
        return self._served[name]

    @property
    def names(self) -> Sequence[str]:
        """What requests may name; the first is the default."""
        return list(self._served)

    def served(self, name: str | None = None) -> Served:
        """What is served under a name."""
        return self._find(name)

    def facts(self) -> list[dict[str, Any]]:
        """What is served, for `/info`."""
        return [served.facts() for served in list(self._served.values())]

    def health(self) -> Mapping[str, Health]:
        """Of all that is served, whether it can be read."""
        return {name: served.health() for name, served in list(self._served.items())}

    def reload(self) -> Sequence[str]:
        """Open everything anew and serve that from then on; requests in flight end with the old.

        Where something cannot be opened, the old stays and the error is raised.
        """
        if not self._reloading.acquire(blocking=False):
            raise UnhealthyError("a reload is under way", hint="wait for it")
        try:
            opened = self._open_all()
            with self._lock:
                old, self._served = self._served, opened
            for served in old.values():
                self._retire(served)
            return list(opened)
        finally:
            self._reloading.release()

    def _retire(self, served: Served) -> None:
        """Close what is served once nothing of it is in flight."""

        def close() -> None:
            while served.admission.requests:
                sleep(0.02)
            served.close()
            _log.info("%s: the one before the reload is closed", served.name)

        thread = Thread(target=close, name=f"tamis-retire-{served.name}", daemon=True)
        self._retiring = [*(each for each in self._retiring if each.is_alive()), thread]
        thread.start()

    def drain(self, seconds: float) -> bool:
        """Wait until nothing is in flight; whether that was so in time."""
        end = monotonic() + seconds
        while any(served.admission.requests for served in self._served.values()):
            if monotonic() > end:
                return False
            sleep(0.02)
        return True

    def close(self) -> None:
        """Finish what was let in, then let go of everything."""
        with self._lock:
            served, self._served = self._served, {}
        self._searches.shutdown()
        self._tokenizers.shutdown()
        for each in served.values():
            each.close()
        for thread in self._retiring:
            thread.join(timeout=1)
        self._closing.close()

    def _open_all(self) -> dict[str, Served]:
        opened: dict[str, Served] = {}
        try:
            for place in self.settings.models:
                opened[place.name] = self._open(place)
        except BaseException:
            for served in opened.values():
                served.close()
            raise
        return opened

    def _open(self, place: ModelPlace) -> Served:
        settings, folder = self.settings, Path(place.path).expanduser()
        manifest = read_manifest(folder)
        kind = None if manifest is None else manifest["kind"]
        if kind == "sieve":
            sieve = open_sieve(folder, settings.threads, settings.device)
            return ServedSieve(place.name, sieve, settings.limits, self._searches, self.observer)
        if kind == "index":
            raise InputError(
                f"{place.path} is an index", hint="tamis fit makes a sieve of it, which is served"
            )
        if manifest is None and folder.is_dir() and not (folder / "config.json").is_file():
            raise InputError(
                f"{place.path} is neither a sieve nor a model",
                hint="tamis fit makes a sieve of a folder of documents; a model has a config.json",
            )
        model = load_model(
            place.path,
            threads=settings.threads,
            device=settings.device,
            dtype=settings.dtype,
            trust_remote_code=settings.trust_remote_code or False,
        )
        model.score("words to warm up with", ["a text", "another text"])
        folder = find_model(place.path)
        return ServedModel(
            place.name, model, folder, settings.limits, self._tokenizers, self.observer
        )


def check_number(number: int, name: str, limits: Limits) -> None:
    """Refuse no documents, and more than a request may bring."""
    if not number:
        raise EmptyError(f"there are no {name}", hint="send one at least", param=name)
    if number > limits.documents:
        raise TooManyTextsError(
            f"{number} {name}, {limits.documents} at most", param=name,
            hint="send several requests, or start the service with a larger --max-documents",
        )  # fmt: skip


def check_length(text: str, name: str, param: str, limits: Limits) -> None:
    """Refuse a text that is longer than a request may bring."""
    if len(text) > limits.text_characters:
        raise InvalidError(
            f"{name} has {len(text)} characters, {limits.text_characters} at most", param=param,
            hint="shorten it, or start the service with a larger --max-text",
        )  # fmt: skip


def rank_texts(engine: Engine, query: str, texts: Sequence[str], **options: Any) -> RankAnswer:
    """Texts ranked by an engine: a helper on top of `Engine.answer`."""
    from tamis.types import Document

    documents = [Document(str(number), text) for number, text in enumerate(texts)]
    return engine.answer(RankRequest((query,), documents, **options))
