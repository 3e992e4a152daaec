"""`tamis warm-up`: compiles the kernels of the common path, for a container image or CI."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tamis.cli.common import say
from tamis.cli.sieves import is_sieve, opened_sieve


def warm_up(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[INDEX]", help="An index or a sieve to open and search, too."),
    ] = None,
) -> None:
    """Compile what index, search and evaluate run, so that their first call is fast.

    Example: tamis warm-up
    """
    import sys

    from tamis.warm_up import compile_common_path

    with TemporaryDirectory() as scratch:
        compile_common_path(Path(scratch))
    if folder is not None and is_sieve(folder):
        opened_sieve(folder).warm_up()
    elif folder is not None:
        from tamis.search import Index

        Index.open(folder).search("words to warm up with", 1)
    compiled = sys.modules["tamis._jit"].COMPILATION.kernels
    say("ready" if compiled else "ready: every kernel was compiled before")
