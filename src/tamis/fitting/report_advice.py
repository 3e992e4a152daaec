"""What to do next, from what a fit has measured: the most useful step first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from tamis.evaluation.power import Power
from tamis.fitting.report_failures import Failures
from tamis.fitting.result import FitResult
from tamis.pages.text_format import counted

MIN_HEADROOM = 0.05
"""Less than this below the ceiling, and only other candidates can help."""
MIN_MISSING_SHARE = 0.05
MAX_ADVICE = 4


@dataclass(frozen=True)
class Advice:
    """One thing to do, why, and how, where a command does it."""

    what: str
    why: str
    command: str = ""


def advice(result: FitResult, power: Power | None, failures: Failures | None) -> list[Advice]:
    """What to do next; nothing where nothing measured calls for it."""
    steps = [
        _judge(result, power),
        _left_out(result),
        _truncated(result),
        _deeper(result, failures),
        _better_order(result, failures),
        _more_time(result),
    ]
    return [step for step in steps if step is not None][:MAX_ADVICE]


def _judge(result: FitResult, power: Power | None) -> Advice | None:
    queries = [] if result.queries.unjudged else ["queries.txt"]
    command = shlex.join(["tamis", "judge", result.path, *queries])
    if result.more_judged_queries_needed:
        more = counted(result.more_judged_queries_needed) + " more" * bool(result.queries.train)
        return Advice(f"Judge {more}", "then this can be tested against BM25.", command)
    if power is None or not power.more_needed or result.selected == result.baseline:
        return None
    if power.needed is None or power.needed > 20 * power.queries:
        return None
    more = counted(power.more_needed)
    why = f"a difference of this size to BM25 takes about {power.needed:,} test queries."
    return Advice(f"Judge {more} more for the test", why, command)


def _left_out(result: FitResult) -> Advice | None:
    left_out = result.data.get("files_left_out")
    if not isinstance(left_out, Mapping) or not left_out:
        return None
    files = ", ".join(f"{count:,} {name}" for name, count in left_out.items())
    return Advice("Look at the files that were left out", f"they cannot be found: {files}.")


def _truncated(result: FitResult) -> Advice | None:
    truncated = result.data.get("truncated_documents", 0)
    if not truncated:
        return None
    why = f"{truncated:,} documents are longer than the model reads, and their ends are ignored."
    return Advice(
        "Split long documents into passages", why, _again(result, "--passages words:150:75")
    )


def _deeper(result: FitResult, failures: Failures | None) -> Advice | None:
    if failures is None or not failures.relevant:
        return None
    reach = failures.within_next_depth
    if reach < MIN_MISSING_SHARE * failures.relevant:
        return None
    why = (
        f"{reach:,} of {failures.relevant:,} relevant documents are ranked between "
        f"{failures.depth} and {failures.next_depth}, where nothing is re-ranked."
    )
    command = _again(result, f"--depth {failures.next_depth}")
    return Advice("Re-rank more candidates", why, command)


def _better_order(result: FitResult, failures: Failures | None) -> Advice | None:
    if failures is None or failures.ceiling - failures.value < MIN_HEADROOM:
        return None
    why = (
        f"its candidates allow {failures.measure} {failures.ceiling:.3f} and it reaches "
        f"{failures.value:.3f}: the order is what is missing."
    )
    return Advice("Give it more judgements to learn from, or a larger base model", why)


def _more_time(result: FitResult) -> Advice | None:
    unplanned = [step.name for step in result.plan.steps if not step.planned]
    if not unplanned:
        return None
    return Advice("Allow more time", f"this was not tried: {', '.join(unplanned)}.",
                  _again(result, "--max-time 2h"))  # fmt: skip


def _again(result: FitResult, option: str) -> str:
    """The same fit with one option more; empty where the fit was no command, as in Python.

    The command is the whole one: a fit of the sieve alone would lack judgements from elsewhere.
    For the demo, which takes no such option, it is the fit that the demo makes.
    """
    command = result.command
    if command.split()[:2] == ["tamis", "demo"]:
        words = ["tamis", "fit", result.collection, "-o", result.path, "-m", result.measure]
        command = shlex.join(words)
    force = "" if "--force" in command.split() else " --force"
    return f"{command} {option}{force}" if command.startswith("tamis fit ") else ""
