"""Where the parts of a sieve lie, for whoever writes or opens one."""

from __future__ import annotations

from pathlib import Path

SIEVE_LAYOUT = 4
"""The version of the folder that a fit writes."""


def cache_beside(sieve: Path) -> Path:
    """The embedding cache of a sieve where no other is named.

    >>> cache_beside(Path("my.sieve")).name
    'my.sieve.embeddings'
    """
    return sieve.with_name(f"{sieve.name}.embeddings")
