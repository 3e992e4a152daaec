"""Kernels that are compiled say so in the log; where no folder can be written, that is said."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core import event

from tamis import _jit
from tamis._jit import CompilationLog
from tamis.collection.checks import enter

COUNT = """
import sys
from numba.core import event
compiled = []
class Counter(event.Listener):
    def on_start(self, event): compiled.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event): pass
event.register("numba:compile", Counter())
from tamis.cli.app import run
for line in sys.argv[1:]:
    assert run(line.split()) == 0
print(len(compiled), compiled, file=sys.stderr)
sys.exit(bool(compiled))
"""


def compile_one(log: CompilationLog, dispatcher: Any) -> None:
    data = event.Event("numba:compile", event.EventStatus.START, {"dispatcher": dispatcher})  # type: ignore[no-untyped-call]
    log.on_start(data)
    log.on_end(data)


def test_compiling_is_logged_when_it_begins_and_in_total(caplog: pytest.LogCaptureFixture) -> None:
    log = CompilationLog()
    with caplog.at_level(logging.INFO, "tamis.kernels"):
        log.log_total()
        assert not caplog.messages
        compile_one(log, enter)
        compile_one(log, enter)
        log.log_total()
    first, total = caplog.messages
    assert first == "compiling kernels, which are kept for later: their first use on this processor"
    assert total.startswith("compiled 2 kernels in ")
    assert log.seconds >= 0


def test_without_a_folder_for_kernels_they_are_compiled_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    njit: Any = numba.njit

    def refuse(cache: bool = False, **flags: Any) -> Any:
        def decorate(kernel: Any) -> Any:
            if cache:
                raise RuntimeError("cannot cache function 'f': no locator available for file 'x'")
            return njit(**flags)(kernel)

        return decorate

    monkeypatch.setattr(numba, "njit", refuse)
    _jit._warn_of_no_cache.cache_clear()
    kernels: list[Any] = [_jit.jit(lambda x: x + 1), _jit.jit(lambda x: x + 2)]
    assert [kernel(1) for kernel in kernels] == [2, 3]
    (message,) = caplog.messages
    assert "NUMBA_CACHE_DIR" in message


def test_scipy_is_not_imported_by_a_kernel_that_does_not_need_it() -> None:
    """And one that does need it gets it, as with numba alone."""
    pytest.importorskip("scipy", reason="scipy is not installed")
    code = """
import sys
import numba, numpy as np
import tamis._jit
assert numba.njit(lambda x: x.sum())(np.ones(3)) == 3
assert "scipy.linalg" not in sys.modules
assert numba.njit(lambda a: a @ a)(np.eye(2)).tolist() == [[1, 0], [0, 1]]
assert numba.njit(lambda a: np.convolve(a, a))(np.ones(2)).tolist() == [1, 2, 1]
assert "scipy.linalg.cython_blas" in sys.modules
"""
    result = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_after_warm_up_nothing_is_compiled(tmp_path: Path) -> None:
    """Takes the half minute that compiling takes."""
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    sentences = " ".join(f"Sentence {n} of a long text." for n in range(40))
    rows = "".join(
        f'{{"_id": "d{n}", "text": "a sieve of kind{n}. {sentences}"}}\n' for n in range(30)
    )
    (data / "corpus.jsonl").write_text(rows)
    others = "".join(
        f'{{"_id": "{n}-of-the-queries-with-a-long-id-{n}", "text": "kind{n}"}}\n'
        for n in range(1600)
    )
    (data / "queries.jsonl").write_text(f'{{"_id": "q1", "text": "kind3 sieve"}}\n{others}')
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td3\t1\n")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=False
        )

    warm = call("-m", "tamis", "warm-up")
    assert warm.returncode == 0, warm.stderr
    assert "compiled " in warm.stderr
    verbs = call(
        "-c", COUNT, "index data -o ix", "search ix kind3", "search ix data -o run.trec",
        "evaluate data/qrels/test.tsv run.trec",
    )  # fmt: skip
    assert verbs.returncode == 0, verbs.stderr
    assert "every kernel was compiled before" in call("-m", "tamis", "warm-up").stderr
