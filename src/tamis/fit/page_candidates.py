"""The table of every candidate in the report of a fit, those of one model together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tamis.evaluation import Comparison, parse_measure
from tamis.evaluation.charts import whisker, whisker_scale
from tamis.evaluation.drawing import signed
from tamis.evaluation.report_subject import scrolling
from tamis.evaluation.report_tables import p_value, shared_limits
from tamis.fit.family import family_note
from tamis.fit.options import POINTS, START, Way
from tamis.fit.outcome import Outcome, Row

WITHOUT = "without a model"
WHAT = {
    START: "the base as it is",
    **{
        name: f"{share:.0%} of the way from start to tuned, in the space of weights"
        for name, share in POINTS.items()
    },
}
"""What a model is, where the plan does not say so."""
NOTHING = '<td class="number">–</td>'


def candidates(outcome: Outcome, level: float) -> str:
    """The section with the table; none where nothing was measured."""
    if outcome.evaluation is None and outcome.chosen.held_out is None:
        return ""
    table = _Table(outcome, level)
    ways = {way.name: way for way in outcome.chosen.ways}
    rows: dict[str | None, list[Row]] = {None: []}
    for row in outcome.rows:
        way = ways[row.name]
        rows.setdefault(None if is_first_stage(outcome, way) else way.model, []).append(row)
    body = "".join(table.group(model, some, ways) for model, some in rows.items())
    heading = "Every candidate" if outcome.evaluation else "Every candidate, not tested"
    heading += "" if outcome.verified else " (verified: no)"
    box = scrolling(f"<thead>{table.head()}</thead>{body}", heading, "tests candidates")
    return f"<section><h2>{heading}</h2>{box}{_note(outcome)}</section>"


def is_first_stage(outcome: Outcome, way: Way) -> bool:
    """Whether a way is what finds documents, and no more."""
    return way.name in (outcome.found.name, *outcome.found.others)


@dataclass(frozen=True)
class _Table:
    """Which columns there are, and the cells of every row."""

    outcome: Outcome
    level: float

    @property
    def held_out(self) -> bool:
        return self.outcome.chosen.held_out is not None

    @property
    def tested(self) -> bool:
        return self.outcome.evaluation is not None

    @property
    def started(self) -> bool:
        return bool(self.outcome.against_start)

    @property
    def limits(self) -> tuple[float, float]:
        return shared_limits([o for o in self.outcome.against_bm25 if self._measured(o)])

    def _measured(self, one: Comparison) -> bool:
        return one.measure == parse_measure(self.outcome.measure)

    def _found(self, some: Sequence[Comparison], name: str) -> Comparison | None:
        return next((one for one in some if one.run == name and self._measured(one)), None)

    def head(self) -> str:
        """Two rows of headings."""
        measure = escape(self.outcome.measure)
        over = f'<th scope="col" rowspan="2">{measure} of</th>'
        under = ""
        if self.held_out:
            over += '<th scope="col" rowspan="2" class="number">held out</th>'
        if self.tested:
            over += '<th scope="col" rowspan="2" class="number">test</th>'
            over += _over("against BM25", 4)
            scale = whisker_scale(self.limits)
            interval = f'<th scope="col" class="picture">95% interval{scale}</th>'
            under += _under("difference") + interval + _under("p") + _under("Holm")
        if self.started:
            over += _over("against the start", 3)
            under += _under("difference") + _under("p") + _under("Holm")
        over += '<th scope="col" rowspan="2">why not</th>' if self.held_out else ""
        return f"<tr>{over}</tr><tr>{under}</tr>"

    @property
    def columns(self) -> int:
        return 1 + 2 * self.held_out + 5 * self.tested + 3 * self.started

    def group(self, model: str | None, rows: Sequence[Row], ways: dict[str, Way]) -> str:
        """What ranks with one model: a row that says what it is and costs, and its rows."""
        told = "; ".join(part for part in (_what(self.outcome, model), _cost(model, rows)) if part)
        name = escape(model or WITHOUT)
        first = (
            f'<tr class="group"><th scope="rowgroup" colspan="{self.columns}">'
            f'<div>{name} <span class="tag">{told}</span></div></th></tr>'
        )
        return f"<tbody>{first}{''.join(self.row(row, ways[row.name]) for row in rows)}</tbody>"

    def row(self, row: Row, way: Way) -> str:
        """One candidate."""
        cells = f'<th scope="row">{self._label(row, way)}{self._tag(row)}</th>'
        cells += _value(row.held_out) if self.held_out else ""
        if self.tested:
            cells += _value(row.tested)
            cells += self._against(self._found(self.outcome.against_bm25, row.name), pictured=True)
        if self.started:
            cells += self._against(self._found(self.outcome.against_start, row.name))
        cells += f'<td class="why">{escape(row.refused)}</td>' if self.held_out else ""
        kind = ' class="chosen"' if row.chosen else ""
        return f"<tr{kind}>{cells}</tr>"

    def _label(self, row: Row, way: Way) -> str:
        """The name of a candidate within its group: what it adds to the model."""
        if way.model is None or is_first_stage(self.outcome, way):
            return f'{escape(way.name)}<span class="tag">{_milliseconds([row])}</span>'
        return escape(way.name.removeprefix(way.model).strip() or "alone")

    def _tag(self, row: Row) -> str:
        settled = self.outcome.chosen.settled
        if row.chosen:
            return '<span class="tag">handed over</span>'
        if settled is not None and settled.fell_back and row.name == settled.choice.chosen:
            return '<span class="tag">failed its test</span>'
        return ""

    def _against(self, one: Comparison | None, *, pictured: bool = False) -> str:
        """A difference with its tests; `pictured` adds the interval."""
        if one is None:
            return NOTHING + ("<td></td>" if pictured else "") + 2 * NOTHING
        strong = " strong" if one.verdict(self.level) else ""
        cells = f'<td class="number{strong}">{signed(one.difference)}</td>'
        if pictured:
            ends = (one.difference, one.difference)
            if one.interval is not None:
                ends = (one.interval.low, one.interval.high)
            drawn = whisker(one.difference, ends, self.limits)
            between = f"{signed(ends[0])} to {signed(ends[1])}" if one.interval else "one query"
            cells += f'<td class="picture">{drawn}<span class="tag">{between}</span></td>'
        for p in (one.t_test.raw, one.t_test.holm):
            cells += f'<td class="number">{p_value(p)}</td>'
        return cells


def _over(text: str, columns: int) -> str:
    return f'<th scope="colgroup" colspan="{columns}" class="over">{text}</th>'


def _under(text: str) -> str:
    return f'<th scope="col" class="number">{text}</th>'


def _value(value: float | None) -> str:
    return NOTHING if value is None else f'<td class="number">{value:.4f}</td>'


def _what(outcome: Outcome, model: str | None) -> str:
    if model is None:
        return ""
    planned = {step.name: step.what for step in outcome.plan.steps}
    return escape({**planned, **WHAT}.get(model, ""))


def _cost(model: str | None, rows: Sequence[Row]) -> str:
    """What a query and what training cost: the same for all that rank with one model."""
    if model is None:
        return ""
    minutes = max(row.minutes for row in rows)
    training = f"{minutes:g} min of training" if minutes else "no training"
    return ", ".join(part for part in (_milliseconds(rows), training) if part)


def _milliseconds(rows: Sequence[Row]) -> str:
    timed = [row.milliseconds for row in rows if row.milliseconds is not None]
    return f"{max(timed):,.{1 + (max(timed) < 1)}f} ms a query" if timed else ""


def _note(outcome: Outcome) -> str:
    told = []
    choice = outcome.chosen.choice
    if choice is not None:
        told.append(
            f"Held out: the mean over {choice.queries:,} judged queries that were chosen on, by "
            "models that did not learn from them."
        )
    if outcome.evaluation is not None:
        told.append(
            f"Test: the mean over {len(outcome.evaluation.queries):,} other queries. A dot is the "
            "mean difference, its line the bootstrap interval, grey where it holds zero. "
            "p is that of the paired t-test, two-sided, not corrected; Holm’s is corrected, and "
            "only the tests that were made together have one."
        )
        told.append(family_note(outcome.family, outcome.measure))
        told.append("Milliseconds include the first stage. What was not tested has a dash.")
    return f'<p class="note">{" ".join(told)}</p>'
