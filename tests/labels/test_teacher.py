"""A teacher's scores as they are, kept as they come, the same after a kill."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tamis.labels import read_examples, write_examples
from tamis.labels.teacher import teacher
from tamis.pipeline import passage_scores
from tamis.pipeline.cache import ScoreCache
from tamis.types import Document, Pairs, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale

DOCUMENTS = [Document(f"d{n}", f"First {'x' * n}. Then {'y' * n}.") for n in range(9)]
RUN = Run.from_dict(
    {query: {f"d{n}": 9.0 - n for n in range(9)} for query in ("q1", "q2")}
).with_queries(Queries.of([Query("q1", "a"), Query("q2", "bb")]))


class Killed(BaseException):
    pass


@dataclass
class Length:
    """The length of query and text; killed when it has scored so many pairs."""

    left: int = 1000
    scale: Scale = "logit"
    scored: int = 0

    def score(self, pairs: Pairs) -> Scores:
        if self.scored + len(pairs) > self.left:
            raise Killed
        self.scored += len(pairs)
        asked = [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]
        values = np.array([10 * len(query) - len(text) for query, text in asked], np.float32)
        return Scores(values, np.full(len(pairs), 1, np.int32))


def test_scores_are_the_teachers() -> None:
    made = teacher(RUN, Length(), DOCUMENTS, depth=2, model="length")
    # "First . Then ." has 14 characters, and each further document two more
    assert made.value.tolist() == [10 - 14, 10 - 16, 20 - 14, 20 - 16]
    assert made.is_role("pool").all()
    assert made.groups == 2
    assert made.facts["teacher"] == "length"
    assert made.facts["scale"] == "logit"
    assert made.facts["counts"] == {
        "queries": 2, "documents": 2, "pool": 4, "texts cut to fit the scorer": 4,
    }  # fmt: skip


def test_killed_at_any_moment_it_goes_on_to_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage_scores, "FULL_CHUNK_PAIRS", 4)
    whole = teacher(RUN, Length(), DOCUMENTS, passages="sentences:1:1", model="length")
    write_examples(whole, tmp_path / "whole.parquet")
    for kill in range(0, 36, 5):
        path = tmp_path / f"scores{kill}"
        with pytest.raises(Killed), ScoreCache(path, "length") as cache:
            teacher(RUN, Length(kill), DOCUMENTS, passages="sentences:1:1", cache=cache)
        again = Length()
        with ScoreCache(path, "length") as cache:
            made = teacher(
                RUN, again, DOCUMENTS, passages="sentences:1:1", cache=cache, model="length"
            )
        assert again.scored <= 36 - kill + 4
        out = tmp_path / f"{kill}.parquet"
        write_examples(made, out)
        assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
        assert read_examples(out) == whole
