"""`tamis demo`, with a quick scorer in place of the model and without one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.cli import demo as verb
from tamis.cli.app import run
from tamis.fit import demo
from tamis.models import Ranker
from tamis.types import Pairs, Scores


class Letters:
    """Likes texts with the letter-triples of the query."""

    scale = "regression"

    def score(self, pairs: Pairs) -> Scores:
        values = [
            len(self.triples(pairs.queries[q]) & self.triples(pairs.texts[t]))
            / (9 + len(pairs.texts[t])) ** 0.5
            for q, t in pairs.index.tolist()
        ]
        return Scores(np.array(values, np.float32), np.zeros(len(pairs), np.int32))

    @staticmethod
    def triples(text: str) -> set[str]:
        lower = text.lower()
        return {lower[n : n + 3] for n in range(len(lower) - 2)}


def test_the_demo_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    scorer: Any = Letters()
    monkeypatch.setattr(demo, "demo_ranker", lambda: Ranker(scorer, "letters", "letters 1"))
    assert run(["demo"]) == 0
    out = capsys.readouterr().out
    assert "tamis:pydocs" in out
    assert out.count("nDCG@10 ┃") == 2
    assert "The question that gained most: " in out
    assert "The question that lost most: " in out
    assert "half and half: nDCG@10 " in out
    assert "Another document comes first in " in out
    assert "see R@100" in out


def test_without_a_model_it_says_how_to_get_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert demo.demo_ranker() is None
    nothing: Any = None
    verb._rerank(nothing, Path())
    assert "pip install 'tamis[neural,models]'" in capsys.readouterr().out


def test_without_the_package_it_looks_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PACKAGE", "no_such_package")
    assert demo.demo_ranker() is None
