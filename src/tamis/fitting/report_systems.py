"""The table of every system in the report of a fit, those of one re-ranker together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tamis.evaluation import Comparison, parse_measure
from tamis.evaluation.charts import whisker, whisker_scale
from tamis.evaluation.report_subject import scrolling
from tamis.evaluation.report_tables import p_value, shared_limits
from tamis.evaluation.svg import signed
from tamis.fitting.result import FitResult, SystemResult

NO_RERANKER = "retrieval alone"
NOTHING = '<td class="number">–</td>'


def systems_section(result: FitResult, level: float, family_note: str) -> str:
    """The section with the table; none where nothing was measured."""
    if result.evaluation is None and result.selection is None:
        return ""
    table = _Table(result, level)
    groups: dict[str | None, list[SystemResult]] = {None: []}
    for system in result.systems:
        groups.setdefault(system.reranker if system.group else None, []).append(system)
    body = "".join(map(table.group, groups.values()))
    heading = "Every system" if result.evaluation else "Every system, not tested"
    heading += "" if result.verified else " (verified: no)"
    box = scrolling(f"<thead>{table.head()}</thead>{body}", heading, "tests systems")
    return f"<section><h2>{heading}</h2>{box}{_note(result, family_note)}</section>"


@dataclass(frozen=True)
class _Table:
    """Which columns there are, and the cells of every row."""

    result: FitResult
    level: float

    @property
    def held_out(self) -> bool:
        return self.result.selection is not None

    @property
    def tested(self) -> bool:
        return self.result.evaluation is not None

    @property
    def has_base(self) -> bool:
        return bool(self.result.against_base)

    @property
    def limits(self) -> tuple[float, float]:
        return shared_limits([o for o in self.result.against_baseline if self._is_shown(o)])

    def _is_shown(self, one: Comparison) -> bool:
        return one.measure == parse_measure(self.result.measure)

    def _of(self, comparisons: Sequence[Comparison], name: str) -> Comparison | None:
        return next((o for o in comparisons if o.run == name and self._is_shown(o)), None)

    def head(self) -> str:
        """Two rows of headings."""
        measure = escape(self.result.measure)
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
        if self.has_base:
            over += _over("against the base model", 3)
            under += _under("difference") + _under("p") + _under("Holm")
        over += '<th scope="col" rowspan="2">rejected because</th>' if self.held_out else ""
        return f"<tr>{over}</tr><tr>{under}</tr>"

    @property
    def columns(self) -> int:
        return 1 + 2 * self.held_out + 5 * self.tested + 3 * self.has_base

    def group(self, systems: Sequence[SystemResult]) -> str:
        """What ranks with one model: a row that says what it is and costs, and its rows."""
        name = systems[0].group
        facts = [systems[0].description, _cost(systems)] if name else []
        first = (
            f'<tr class="group"><th scope="rowgroup" colspan="{self.columns}">'
            f'<div>{escape(name or NO_RERANKER)} <span class="tag">'
            f"{escape('; '.join(filter(None, facts)))}</span></div></th></tr>"
        )
        return f"<tbody>{first}{''.join(map(self.row, systems))}</tbody>"

    def row(self, system: SystemResult) -> str:
        """One system."""
        cells = f'<th scope="row">{self._label(system)}{self._tag(system)}</th>'
        cells += _value(system.held_out) if self.held_out else ""
        if self.tested:
            cells += _value(system.test)
            against = self._of(self.result.against_baseline, system.name)
            cells += self._against(against, pictured=True)
        if self.has_base:
            cells += self._against(self._of(self.result.against_base, system.name))
        if self.held_out:
            cells += f'<td class="why">{escape(system.rejected_because)}</td>'
        kind = ' class="chosen"' if system.selected else ""
        return f"<tr{kind}>{cells}</tr>"

    def _label(self, system: SystemResult) -> str:
        """The name of a system; within a group what it adds to the model."""
        if not system.group:
            return f'{escape(system.name)}<span class="tag">{_milliseconds([system])}</span>'
        if system.weight is None:
            return "alone"
        return f"fused, weight {system.weight:.2f}".replace("0.", ".")

    def _tag(self, system: SystemResult) -> str:
        decision = self.result.decision
        if system.selected:
            return '<span class="tag">selected</span>'
        if decision and decision.fell_back and system.name == decision.selection.selected:
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


def _cost(systems: Sequence[SystemResult]) -> str:
    """What a query and what training cost: the same for all that rank with one model."""
    minutes = max((system.training_minutes for system in systems), default=0.0)
    training = f"{minutes:g} min of training" if minutes else "no training"
    return ", ".join(filter(None, (_milliseconds(systems), training)))


def _milliseconds(systems: Sequence[SystemResult]) -> str:
    timed = [system.milliseconds for system in systems if system.milliseconds is not None]
    return f"{max(timed):,.{1 + (max(timed) < 1)}f} ms per query" if timed else ""


def _note(result: FitResult, family_note: str) -> str:
    sentences = []
    if result.selection is not None:
        sentences.append(
            f"Held out: the mean over {result.selection.queries:,} judged queries used for "
            "selection, by models that were not trained on them."
        )
    if result.evaluation is not None:
        sentences.append(
            f"Test: the mean over {len(result.evaluation.queries):,} other queries. A dot is the "
            "mean difference, its line the bootstrap interval, grey where it holds zero. "
            "p is that of the paired t-test, two-sided, not corrected; Holm’s is corrected, and "
            "only the tests that were made together have one."
        )
        sentences.append(family_note)
        sentences.append("Milliseconds include retrieval. What was not tested has a dash.")
    return f'<p class="note">{" ".join(sentences)}</p>'
