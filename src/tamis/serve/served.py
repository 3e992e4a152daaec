"""What is served under a name: a sieve or a model, open and warm."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.fitting.sieve import INDEX
from tamis.serve.admission import Admission
from tamis.serve.batcher import Batcher
from tamis.serve.jobs import Job, Request
from tamis.serve.requests import RankRequest
from tamis.serve.settings import Limits

CHARACTERS_PER_TOKEN = 4
"""About; what a request costs is estimated before it is tokenised."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Health:
    """Whether what is on disk can be read, and is what is served."""

    readable: bool
    changed: bool
    message: str = ""


Files = Mapping[str, tuple[int, int]]


def files_of(folder: Path) -> Files:
    """Size and time of change of the files in a folder and below it, but for an index, which may
    change while it is served.
    """
    inner = (path for path in sorted(folder.iterdir()) if path.name != INDEX)
    paths = (path for top in inner for path in (top, *sorted(top.rglob("*"))))
    return {
        str(path.relative_to(folder)): (status.st_size, status.st_mtime_ns)
        for path in paths
        if path.is_file()
        for status in [path.stat()]
    }


class Served(ABC):
    """A sieve or a model under a name."""

    kind: str

    def __init__(self, name: str, folder: Path, admission: Admission) -> None:
        """Notes what is in the folder now."""
        self.name, self.folder, self.admission = name, folder, admission
        self._files = files_of(folder)

    @property
    @abstractmethod
    def batchers(self) -> list[Batcher]:
        """What runs its models."""

    @abstractmethod
    def estimate(self, request: Request) -> int:
        """About how many tokens a request has."""

    @abstractmethod
    def start(self, job: Job) -> None:
        """Work on a job; its future is told the outcome."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What `/info` says of it."""

    def health(self) -> Health:
        """How what is on disk is."""
        try:
            now = files_of(self.folder)
        except OSError as error:
            return Health(False, True, f"{self.name!r} cannot be read: {error.strerror}")
        if missing := sorted({*self._files} - {*now}):
            return Health(False, True, f"{self.name!r} lacks {', '.join(missing)}")
        if now != self._files:
            return Health(True, True, f"{self.name!r} has changed on disk: reload to take it up")
        return Health(True, False)

    def close(self) -> None:
        """Score what waits, then stop."""
        for batcher in self.batchers:
            batcher.close()


def estimated_tokens(request: RankRequest, longest: int) -> int:
    """About how many tokens a model with room for `longest` reads.

    >>> from tamis.types import Document
    >>> estimated_tokens(RankRequest(("drum",), [Document("0", "a sieve " * 10)]), 512)
    24
    """
    query = max(map(len, request.queries)) // CHARACTERS_PER_TOKEN + 3
    return sum(
        min(longest, query + (len(document.text) + len(document.title)) // CHARACTERS_PER_TOKEN)
        for document in request.documents
    )


def new_admission(name: str, limits: Limits, **more: Any) -> Admission:
    """The queue of one model."""
    return Admission(name, limits.queued_requests, limits.queued_tokens, **more)
