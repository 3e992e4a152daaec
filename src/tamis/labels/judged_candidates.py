"""Which candidates of a run are relevant, and which are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.evaluation.judged_ranks import join
from tamis.labels.candidates import Candidates, Rows
from tamis.types import Qrels, Run


@dataclass(frozen=True, eq=False)
class JudgedCandidates:
    """The rows of candidates whose documents are relevant, and those whose are not. What was
    judged above 0 but below the grade is neither.
    """

    found: Candidates
    relevant: Rows
    other: Rows
    between: int
    absent: int

    @classmethod
    def of(cls, found: Candidates, qrels: Qrels, grade: int) -> JudgedCandidates:
        """The candidates by what they were judged; a document not judged is not relevant."""
        grade_of = grades(found.run, qrels)[found.rows]
        relevant = found.rows[grade_of >= grade]
        if not len(relevant):
            raise InputError(
                f"none of {len(qrels):,} judged queries has a document judged {grade} or better "
                "among its candidates",
                hint="are run and judgements of the same split? label deeper: --depth 1000",
            )
        other = found.rows[(grade_of <= 0) & (grade_of < grade)]
        between = len(found.rows) - len(relevant) - len(other)
        return cls(
            found, relevant, other, between, int((qrels.grade >= grade).sum()) - len(relevant)
        )

    def counts(self) -> dict[str, int]:
        """How many there are of each."""
        asked, answered = (
            len(np.unique(self.found.query[rows])) for rows in (self.found.rows, self.relevant)
        )
        return {
            "queries without a relevant candidate": asked - answered,
            "relevant candidates": len(self.relevant),
            "relevant documents that are no candidates": self.absent,
            "left out: candidates judged above 0, below the grade": self.between,
        }


def grades(run: Run, qrels: Qrels) -> NDArray[np.int64]:
    """The grade of every row of a run; far below zero where it is not judged.

    >>> run = Run.from_dict({"q": {"a": 2.0, "b": 1.0}})
    >>> (grades(run, Qrels.from_dict({"q": {"b": 1}})) >= 1).tolist()
    [False, True]
    """
    unjudged = -(1 << 40)
    judged = join(qrels, run)
    found = judged.rank > 0
    place = judged.queries.positions_in(run.queries.ids)[judged.query[found]]
    grade = np.full(len(run.doc), unjudged, np.int64)
    grade[run.offsets[place] + judged.rank[found] - 1] = judged.grade[found]
    return grade
