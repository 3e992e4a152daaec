"""Kernels that are compiled say so, once, where a person is watching."""

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from numba.core import event

from tamis._jit import Announcer
from tamis.collection.checks import enter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Announcer, "has_announced", False)
    for listener in event._registered["numba:compile"]:
        if isinstance(listener, Announcer):
            listener.has_announced = False


def compile_one(dispatcher: Any) -> None:
    with event.trigger_event("numba:compile", data={"dispatcher": dispatcher}):
        pass


@pytest.mark.usefixtures("announced")
def test_compiling_is_said_once_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    others = SimpleNamespace(py_func=SimpleNamespace(__module__="elsewhere"))
    compile_one(others)
    assert terminal.getvalue() == ""
    compile_one(enter)
    compile_one(enter)
    assert terminal.getvalue() == "compiling for this processor, only once: up to a minute\n"


@pytest.mark.usefixtures("announced")
def test_where_nobody_watches_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    compile_one(enter)
    assert capsys.readouterr().err == ""
