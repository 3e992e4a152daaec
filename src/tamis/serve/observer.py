"""What an engine tells about its work; the metrics of a service listen, a program need not."""

from __future__ import annotations


class Observer:
    """Is told what happens, from any thread; this one takes no notice."""

    def queue_size(self, model: str, requests: int, tokens: int) -> None:
        """So many requests and tokens wait or run."""

    def batch(self, model: str, pairs: int, tokens: int, seconds: float) -> None:
        """Pairs were scored together."""

    def dropped(self, model: str) -> None:
        """Work was dropped before it was computed, since nobody waits for it."""
