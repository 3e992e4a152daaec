"""Logs: a JSON object a line, with the request's id and never with a text that was sent."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

REQUESTS = logging.getLogger("tamis.serve.requests")
"""One line a request."""


class JsonLines(logging.Formatter):
    """A record as one line of JSON; what stands in `extra={"facts": …}` are keys of their own."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        facts: dict[str, Any] = {
            "time": at,
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "process": record.process,
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["traceback"] = traceback_places(record)
        return orjson.dumps(facts, default=str).decode()


def traceback_places(record: logging.LogRecord) -> list[str]:
    """Where an exception came from, and its types; messages may hold texts and are left out."""
    error = record.exc_info[1] if record.exc_info else None
    places: list[str] = []
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            places.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
            trace = trace.tb_next
        places.append(type(error).__name__)
        error = error.__cause__
    return places


@contextmanager
def json_logs(stream: TextIO | None = None) -> Iterator[None]:
    """Log tamis and uvicorn as JSON lines on stderr inside the block."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    loggers = [logging.getLogger(name) for name in ("tamis", "uvicorn")]
    before = [(logger.level, logger.propagate, logger.handlers[:]) for logger in loggers]
    for logger in loggers:
        logger.handlers = [handler]
        logger.propagate = False
    logging.getLogger("tamis").setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
