"""What an evaluation found, in one sentence: the heading of its report."""

from __future__ import annotations

from collections.abc import Sequence

from tamis.evaluation.measures import parse_measure
from tamis.evaluation.randomisation import VALUE_TOLERANCE
from tamis.evaluation.report_subject import Subject
from tamis.evaluation.significance import Comparison
from tamis.pages.text_format import counted, listed, p_text, signed

SMALL_DIFFERENCE = 0.01
"""Below this a difference gets a fourth digit."""


def finding(subject: Subject) -> str:
    """Which run is best and whether that was shown, by the measure of single queries."""
    measure = parse_measure(subject.measure)
    names = list(subject.runs)
    if not measure.says_better:
        figures = [
            f"{name} {subject.evaluation.summary(name, measure):.{0 if measure.summed else 3}f}"
            for name in names
        ]
        return f"{measure} on {_queries(subject)}: {listed(figures)}"
    if len(names) == 1:
        return f"{names[0]} has a mean {measure} of {_mean(subject, names[0])} {_on(subject)}"
    if subject.all_tie():
        which = listed(names) if len(names) == 2 else f"All {len(names)} runs"
        return f"{which} have the same {measure} on each of {_queries(subject)}"
    against = {one.run: one for one in subject.comparisons if one.measure == measure}
    if subject.baseline is None or not against:
        return _untested(subject, names)
    if len(against) == 1:
        return _of_two(subject, next(iter(against.values())))
    return _of_many(subject, against)


def _untested(subject: Subject, names: Sequence[str]) -> str:
    """Several runs without a baseline: the means, and that they are no more than that."""
    best, tie = _best(subject)
    end = f"{_on(subject)}; no difference was tested"
    if len(names) > 2:
        return f"{_leads(subject, best, tie)}, {_mean(subject, best)}, {end}"
    if tie:
        return (
            f"{listed(names)} have the same mean {subject.measure}, {_mean(subject, best)}, {end}"
        )
    other = names[names[0] == best]
    means = f"{_mean(subject, best)} against {_mean(subject, other)}"
    return f"{best} has a higher mean {subject.measure} than {other}, {means}, {end}"


def _of_two(subject: Subject, one: Comparison) -> str:
    """One run against the baseline."""
    if one.t_test.holm is None:
        pair = listed([one.run, one.baseline])
        return f"{pair} were compared {_on(subject)}, too few to test a difference"
    verdict = one.verdict(subject.level)
    if verdict:
        word = "better" if verdict > 0 else "worse"
        words = f"{one.run} is {word} than {one.baseline}"
    else:
        words = f"No significant difference between {one.run} and {one.baseline}"
    return f"{words} by {subject.measure}: {_figures(one)}, {_on(subject)}"


def _of_many(subject: Subject, against: dict[str, Comparison]) -> str:
    """Several runs against the baseline: the best of them, and whether it beats the baseline."""
    best, tie = _best(subject)
    if best == subject.baseline:
        worse = sum(one.verdict(subject.level) < 0 for one in against.values())
        others = "none is" if not worse else f"{worse} {'is' if worse == 1 else 'are'}"
        return (
            f"None of {len(against)} runs has a higher mean {subject.measure} than {best} "
            f"{_on(subject)}; {others} significantly worse"
        )
    leads, one = _leads(subject, best, tie), against[best]
    better = [run for run, other in against.items() if other.verdict(subject.level) > 0]
    if one.t_test.holm is None:
        return f"{leads} {_on(subject)}, too few to test a difference"
    if best in better:
        return f"{leads} and is better than {one.baseline}: {_figures(one)}, {_on(subject)}"
    if better:
        verb = "is" if len(better) == 1 else "are"
        names = f"only {listed(better)} {verb} significantly better"
        return f"{leads}, but {names} than {one.baseline} {_on(subject)}"
    fails = f"is not significantly better than {one.baseline}"
    return f"{leads}, but {fails}: {_figures(one)}, {_on(subject)}"


def _best(subject: Subject) -> tuple[str, bool]:
    """The run with the highest mean, and whether another has it too; the baseline wins a tie."""
    names = [*([subject.baseline] if subject.baseline else []), *subject.compared]
    means = {name: float(subject.values(name).mean()) for name in names}
    highest = max(means.values())
    leaders = [name for name in names if highest - means[name] <= VALUE_TOLERANCE]
    return leaders[0], len(leaders) > 1


def _leads(subject: Subject, best: str, tie: bool) -> str:
    verb = "shares" if tie else "has"
    return f"{best} {verb} the highest mean {subject.measure} of {len(subject.runs)} runs"


def _figures(one: Comparison) -> str:
    digits = 4 if abs(one.difference) < SMALL_DIFFERENCE else 3
    assert one.t_test.holm is not None
    return f"{signed(one.difference, digits)}, {p_text(one.t_test.holm)}"


def _mean(subject: Subject, run: str) -> str:
    return f"{float(subject.values(run).mean()):.3f}"


def _on(subject: Subject) -> str:
    return f"on {_queries(subject)}"


def _queries(subject: Subject) -> str:
    return counted(len(subject.evaluation.queries))
