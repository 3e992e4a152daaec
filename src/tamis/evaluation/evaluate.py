"""Runs against judgements: every query's value of every measure; summaries derive from those."""

from __future__ import annotations

import codecs
import csv
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, require
from tamis.evaluation.judged_ranks import Judged, join
from tamis.evaluation.measures import (
    Measure,
    parse_by_ir_measures,
    parse_measure,
    parse_measures,
)
from tamis.types import Ids, Qrels, Queries, Run
from tamis.types.frames import QUERY, make_frame

if TYPE_CHECKING:
    from tamis.evaluation.comparisons import Comparisons

Values = NDArray[np.float64]


class QueryValue(NamedTuple):
    """What one measure says about one query of one run."""

    run: str
    query: str
    measure: str
    value: float


@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """Per-query values of runs; `per_query[run]` has one row per query and one column per measure.

    Every query of the qrels counts. Those for which a run has no document are in `missing[run]`
    and count as zero; queries of a run that are not judged are in `unjudged[run]`, left out.
    It prints as a table, and shows as one in a notebook.

    >>> qrels = Qrels.from_dict({"q1": {"d1": 1}, "q2": {"d2": 1}})
    >>> run = Run.from_dict({"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d1": 2.0, "d2": 1.0}})
    >>> evaluation = evaluate(qrels, {"bm25": run}, ["RR@10", "P@1"])
    >>> evaluation.values("bm25", "RR@10").tolist(), evaluation.mean("bm25", "RR@10")
    ([1.0, 0.5], 0.75)
    >>> print(evaluation)
    run    RR@10     P@1
    bm25  0.7500  0.5000
    <BLANKLINE>
    2 judged queries; the mean over all of them.
    """

    queries: Ids
    measures: tuple[Measure, ...]
    per_query: Mapping[str, Values]
    missing: Mapping[str, Ids]
    unjudged: Mapping[str, Ids]
    qrels: Qrels | None = None
    rankings: Mapping[str, Run] = field(default_factory=dict)
    """The judgements and runs that were evaluated, for the report."""
    comparisons: Comparisons | None = None
    """The comparison with a baseline, where one was asked for; tables then show it."""

    @property
    def runs(self) -> tuple[str, ...]:
        """The names of the runs, in the order given."""
        return tuple(self.per_query)

    def values(self, run: str, measure: str | Measure) -> Values:
        """One value a query, in the order of `queries`."""
        column = self.per_query[self._check_run_name(run)][:, self._column(measure)]
        column.flags.writeable = False
        return column

    def mean(self, run: str, measure: str | Measure) -> float:
        """The mean over all queries of the qrels."""
        return float(self.values(run, measure).mean())

    def summary(self, run: str, measure: str | Measure) -> float:
        """What a table shows: the mean, or the total of a measure that counts (`NumRet`)."""
        values = self.values(run, measure)
        return float(values.sum() if parse_measure(measure).summed else values.mean())

    def to_rows(self) -> Iterator[QueryValue]:
        """Every value, by run, then query, then measure."""
        names = [str(measure) for measure in self.measures]
        for run, table in self.per_query.items():
            for query, line in zip(self.queries, table.tolist(), strict=True):
                for name, value in zip(names, line, strict=True):
                    yield QueryValue(run, query, name, value)

    def compare(self, baseline: str, *, seed: int = 0) -> Comparisons:
        """Every other run against the baseline on every measure: paired tests and intervals.

        `seed` is that of the randomisation test and the bootstrap.
        """
        from tamis.evaluation.comparisons import compare_all

        return compare_all(self, baseline, seed)

    def to_pandas(self, *, per_query: bool = False) -> Any:
        """A DataFrame with a row a run and a column a measure: what a table shows.

        With `per_query`, every value: the columns `run`, `query_id`, `measure` and `value`.
        """
        if per_query:
            rows = list(self.to_rows())
            names = ("run", QUERY, "measure", "value")
            return make_frame({name: [row[n] for row in rows] for n, name in enumerate(names)})
        columns = {str(m): [self.summary(run, m) for run in self.runs] for m in self.measures}
        return make_frame({"run": list(self.runs), **columns}, index="run")

    def to_latex(self) -> str:
        """A tabular with booktabs rules; the small print is a comment above it."""
        from tamis.evaluation.tables import latex

        return latex(self, self.comparisons or ())

    def report(
        self,
        path: Path | str,
        *,
        baseline: str | None = None,
        queries: Queries | None = None,
        force: bool = False,
    ) -> None:
        """Write the HTML report, as `tamis evaluate --html` does; `queries` gives texts.

        An existing file is refused without `force`. The baseline is the one that was compared
        with before, unless another is named.
        """
        from tamis.evaluation.report import write_report

        if self.qrels is None:
            raise InputError("these values came without runs and qrels", hint="evaluate them first")
        compared = self.comparisons if baseline is None else self.compare(baseline)
        write_report(
            Path(path),
            self,
            compared or (),
            qrels=self.qrels,
            runs=self.rankings,
            queries=queries,
            baseline=compared.baseline if compared else None,
            force=force,
        )

    def __str__(self) -> str:
        from tamis.evaluation.tables import plain_text

        compared = self.comparisons
        return plain_text(self, compared or ()) + (f"\n\n{compared}" if compared else "")

    def _repr_html_(self) -> str:
        from tamis.evaluation.tables import html_table

        compared = self.comparisons
        return html_table(self, compared or ()) + (compared._repr_html_() if compared else "")

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.measures))
        return f"<Evaluation: {', '.join(self.runs)}: {names}; {len(self.queries):,} queries>"

    def _check_run_name(self, run: str) -> str:
        if run not in self.per_query:
            raise InputError(f"no run {run!r} here", hint=f"runs: {', '.join(self.runs)}")
        return run

    def _column(self, measure: str | Measure) -> int:
        parsed = parse_measure(measure)
        if parsed not in self.measures:
            names = ", ".join(map(str, self.measures))
            raise InputError(f"{parsed} was not measured", hint=f"measured: {names}")
        return self.measures.index(parsed)


def evaluate(
    qrels: Qrels, runs: Mapping[str, Run], measures: str | Measure | Iterable[str | Measure]
) -> Evaluation:
    """Measure every run on every query of the qrels.

    A run that shares no query with the qrels is an error, because it is a mix-up of files.
    """
    parsed = parse_measures(measures)
    if len(qrels) == 0:
        raise InputError("the qrels have no query", hint="evaluate with at least one judgement")
    if not runs:
        raise InputError("no run to evaluate", hint='such as {"bm25": run}')
    joined = {name: join(qrels, run) for name, run in runs.items()}
    for name, judged in joined.items():
        _refuse_strangers(name, runs[name], judged)
    return Evaluation(
        qrels.queries,
        parsed,
        {name: _measure(qrels, runs[name], judged, parsed) for name, judged in joined.items()},
        {name: judged.missing for name, judged in joined.items()},
        {name: judged.unjudged for name, judged in joined.items()},
        qrels,
        dict(runs),
    )


def _refuse_strangers(name: str, run: Run, judged: Judged) -> None:
    if len(run) and len(judged.unjudged) == len(run):
        raise InputError(
            f"no query of run {name!r} is judged: it has query {run.queries.ids[0]!r}, "
            f"the qrels have {judged.queries[0]!r}",
            hint="are run and qrels from the same collection and split?",
        )


def _measure(qrels: Qrels, run: Run, judged: Judged, measures: Sequence[Measure]) -> Values:
    elsewhere = [measure for measure in measures if not measure.has_formula]
    columns = _by_ir_measures(qrels, run, elsewhere) if elsewhere else {}
    for measure in measures:
        if measure.has_formula:
            columns[measure] = measure.values(judged)
    return np.column_stack([columns[measure] for measure in measures])


def _by_ir_measures(qrels: Qrels, run: Run, measures: list[Measure]) -> dict[Measure, Values]:
    """Values from the back ends of ir_measures.

    They break ties each in its own way, so they get a run without ties: places as scores. A
    query with no grade of zero or more is kept from them: it is worth zero, and trec_eval crashes.
    """
    ir_measures: Any = require("ir_measures")
    ours = {parse_by_ir_measures(str(measure)): measure for measure in measures}
    back_ends: Any = ir_measures.DefaultPipeline
    for theirs, measure in ours.items():
        if not back_ends.supports(theirs):
            raise InputError(
                f"ir_measures cannot compute {measure} here: a back end is not installed",
                hint="see the providers in ir_measures' documentation, or leave the measure out",
            )
    row = {query: str(number) for number, query in enumerate(qrels.queries)}  # some want numbers
    columns = {measure: np.zeros(len(qrels)) for measure in measures}
    places = {
        row[query]: _places(run.ranking(n).ids) for n, query in enumerate(run) if query in row
    }
    grades = {
        row[query]: judged
        for query, judged in qrels.to_dict().items()
        if max(judged.values(), default=-1) >= 0
    }
    try:
        for value in ir_measures.iter_calc(list(ours), grades, places) if grades else ():
            columns[ours[value.measure]][int(value.query_id)] = value.value
    except (ValueError, RuntimeError, OSError, subprocess.CalledProcessError) as error:
        names = ", ".join(map(str, measures))
        reason = str(error).strip().split("\n")[0][:200]
        raise InputError(f"ir_measures cannot compute {names} here", hint=reason) from error
    return columns


def _places(ids: list[str]) -> dict[str, float]:
    return {doc: float(len(ids) - place) for place, doc in enumerate(ids)}


def write_per_query(
    evaluation: Evaluation, stream: IO[bytes], form: Literal["tsv", "csv", "jsonl"] = "tsv"
) -> None:
    r"""Write every value: a line a run, query and measure; the numbers read back exactly.

    >>> import io
    >>> qrels, run = Qrels.from_dict({"q1": {"d1": 1}}), Run.from_dict({"q1": {"d1": 1.0}})
    >>> out = io.BytesIO()
    >>> write_per_query(evaluate(qrels, {"bm25": run}, ["AP"]), out)
    >>> out.getvalue()
    b'run\tquery\tmeasure\tvalue\nbm25\tq1\tAP\t1.0\n'
    """
    if form == "jsonl":
        import orjson

        for row in evaluation.to_rows():
            stream.write(orjson.dumps(row._asdict()) + b"\n")
        return
    text = codecs.getwriter("utf-8")(stream)
    writer = csv.writer(text, delimiter="\t" if form == "tsv" else ",", lineterminator="\n")
    writer.writerow(QueryValue._fields)
    writer.writerows(evaluation.to_rows())
