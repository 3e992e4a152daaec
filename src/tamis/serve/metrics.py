"""Counts and durations for Prometheus, under the names of TEI with `tamis_` before them.

With several workers every process writes its own files in `PROMETHEUS_MULTIPROC_DIR`, and any of
them answers `/metrics` with the sum.
"""

from __future__ import annotations

import os

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    multiprocess,
)

from tamis.serve.errors import ServiceError
from tamis.serve.observer import Observer
from tamis.serve.requests import EmbedAnswer, RankAnswer

SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
SECONDS = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0,
)  # fmt: skip
SIZES = tuple(float(2**power) for power in range(17))


class Metrics(Observer):
    """All metrics of a process."""

    def __init__(self) -> None:
        """Every service has a registry of its own."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        own = self.registry

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"tamis_{name}", what, labels, registry=own)

        def seconds(name: str, what: str, *labels: str) -> Histogram:
            return Histogram(f"tamis_{name}", what, labels, registry=own, buckets=SECONDS)

        def sizes(name: str, what: str, *labels: str) -> Histogram:
            return Histogram(f"tamis_{name}", what, labels, registry=own, buckets=SIZES)

        def gauge(name: str, what: str, *labels: str) -> Gauge:
            return Gauge(f"tamis_{name}", what, labels, registry=own, multiprocess_mode="livesum")

        self.requests = counter("request_count", "Requests.", "method")
        self.successes = counter("request_success", "Requests that were answered.", "method")
        self.failures = counter("request_failure", "Requests that were not, by cause.", "err")
        self.predicted = counter(
            "predict_count", "Pairs that were scored, texts that were encoded.", "model"
        )
        self.duration = seconds("request_duration", "Seconds a request.", "method")
        self.tokenization = seconds("request_tokenization_duration", "Of it tokenising.")
        self.queue = seconds("request_queue_duration", "Of it waiting for a batch.")
        self.inference = seconds("request_inference_duration", "Of it in batches.")
        self.stages = seconds("request_stage_duration", "Seconds a stage.", "model", "stage")
        self.input_length = sizes("request_input_length", "Tokens a request.")
        self.documents = sizes("request_documents", "Documents a request.")
        self.batch_size = sizes("batch_next_size", "Pairs and texts a batch.", "model")
        self.batch_tokens = sizes("batch_next_tokens", "Tokens a batch.", "model")
        self.batch_seconds = seconds("batch_inference_duration", "Seconds a batch.", "model")
        self.queued = gauge("queue_size", "Requests that wait or run.", "model")
        self.queued_tokens = gauge("queue_tokens", "Their tokens, estimated.", "model")
        self.dropped_work = counter("dropped", "Work dropped before it was computed.", "model")

    def queue_size(self, model: str, requests: int, tokens: int) -> None:
        """See `Observer`."""
        self.queued.labels(model).set(requests)
        self.queued_tokens.labels(model).set(tokens)

    def batch(self, model: str, pairs: int, tokens: int, seconds: float) -> None:
        """See `Observer`."""
        self.predicted.labels(model).inc(pairs)
        self.batch_size.labels(model).observe(pairs)
        self.batch_tokens.labels(model).observe(tokens)
        self.batch_seconds.labels(model).observe(seconds)

    def dropped(self, model: str) -> None:
        """See `Observer`."""
        self.dropped_work.labels(model).inc()

    def answered(self, method: str, answer: RankAnswer | EmbedAnswer, seconds: float) -> None:
        """A request was answered."""
        self.successes.labels(method).inc()
        self.duration.labels(method).observe(seconds)
        self.tokenization.observe(answer.times.tokenization)
        self.queue.observe(answer.times.queue)
        self.inference.observe(answer.times.inference)
        self.input_length.observe(answer.tokens)
        if isinstance(answer, EmbedAnswer):
            return
        self.documents.observe(answer.candidates)
        for stage in answer.stages:
            self.stages.labels(answer.model, stage.name).observe(stage.seconds)

    def failed(self, error: ServiceError) -> None:
        """A request was not answered."""
        self.failures.labels(error.cause).inc()

    def text(self) -> bytes:
        """All of it as Prometheus reads it, over all workers."""
        if not os.environ.get(SHARED_FOLDER):
            return generate_latest(self.registry)
        everything = CollectorRegistry()
        multiprocess.MultiProcessCollector(everything)  # type: ignore[no-untyped-call]
        return generate_latest(everything)
