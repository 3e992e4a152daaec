"""The guard: which of several systems is selected, so that training never makes the ranking worse.

Pure arithmetic on per-query values of queries that the system in question was not trained on.
Of the systems whose mean is not below that of required baselines it takes the least complex one
that no more complex one beats with a p-value below a level; other queries then test the selection.
The p-value is that of a randomisation test: if two systems were alike, the difference on each query
could as well have the other sign; over several systems it is that of the best (maximum statistic).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.errors import InputError
from tamis.evaluation.randomisation import VALUE_TOLERANCE
from tamis.evaluation.significance import Interval, bootstrap_interval, correct, t_test

Values = NDArray[np.float64]

SELECTION_LEVEL = 0.25
"""A more complex system is preferred below this p-value. One standard error is .16 for a single
competitor, .25 for about two that differ; how it was chosen: docs/explanation/guard.md."""
MAX_EXACT_QUERIES = 11
"""Up to so many queries every assignment of signs is enumerated."""
RANDOM_ASSIGNMENTS = 2047
BATCH_SIZE = 256
"""How many assignments of signs are in memory at a time."""


@dataclass(frozen=True)
class ComparedSystem:
    """A system to select; of two that are alike the one of lower `complexity` is preferred."""

    name: str
    complexity: int


@dataclass(frozen=True)
class ComparedSystemResult:
    """What is known about one system on the queries that are selected on."""

    system: ComparedSystem
    mean: float
    difference: float
    """Its mean less that of the system with the highest mean."""
    standard_error: float | None
    """Of that difference; None for a single query."""
    p_value: float | None
    """Of its lead over the selected one, or of the lead of a more complex system over it; None
    where neither was tested."""
    rejected_because: str
    """Empty for the selected one."""


@dataclass(frozen=True)
class Selection:
    """The selected system, and why no other one was selected."""

    selected: str
    best: str
    """The system with the highest mean."""
    queries: int
    systems: tuple[ComparedSystemResult, ...] = ()

    @property
    def rejections(self) -> dict[str, str]:
        """Why a system was rejected, by its name."""
        return {
            result.system.name: result.rejected_because
            for result in self.systems
            if result.rejected_because
        }


def select(
    systems: Sequence[ComparedSystem],
    values: ArrayLike,
    required: Sequence[str],
    *,
    level: float = SELECTION_LEVEL,
    seed: int = 0,
) -> Selection:
    """Select by held-out values: a row per system, a column per query.

    What has a lower mean than a `required` baseline is rejected. A lead with a p-value of `level`
    or more does not count. `seed` draws signs where there are too many to enumerate.

    >>> complexity = {"bm25": 0, "base": 1, "fine-tuned": 2}
    >>> systems = [ComparedSystem(*item) for item in complexity.items()]
    >>> values = [[0.2, 0.5, 0.2, 0.5], [0.5, 0.5, 0.2, 1.0], [0.5, 0.5, 0.4, 1.0]]
    >>> selection = select(systems, values, ["bm25", "base"])
    >>> selection.selected, selection.best
    ('base', 'fine-tuned')
    >>> print(selection.rejections["fine-tuned"])
    +.050 over base, not significant (p = .50); the simpler base is kept
    """
    table = _checked(systems, values, required)
    means = table.mean(axis=1)
    names = [system.name for system in systems]
    bar = max(map(names.index, required), key=lambda number: means[number])
    complexity = np.array([system.complexity for system in systems])
    path = _improvements(means, complexity, float(means[bar]))
    sums = np.concatenate([signs @ table.T for signs in _signs(table.shape[1], seed)])
    beaten: dict[int, tuple[int, float]] = {}
    for selected in path:
        p_values = _p_values(table, sums, selected, complexity > complexity[selected])
        rival = int(np.argmin(p_values))
        if p_values[rival] >= level:
            break
        beaten[selected] = rival, float(p_values[rival])
    reasons = _Reasons(systems, means, bar, selected, p_values, beaten)
    differences = table - table[path[-1]]
    results = tuple(
        ComparedSystemResult(system, float(means[number]), float(differences[number].mean()),
                             _standard_error(differences[number]), *reasons.of(number))
        for number, system in enumerate(systems)
    )  # fmt: skip
    return Selection(names[selected], names[path[-1]], table.shape[1], results)


def _checked(
    systems: Sequence[ComparedSystem], values: ArrayLike, required: Sequence[str]
) -> Values:
    table = np.asarray(values, np.float64)
    names = [system.name for system in systems]
    if len(set(names)) < len(names):
        raise InputError("two systems have the same name", hint="give each its own")
    if not required:
        raise InputError("no baseline is required", hint=f"name one of {names}")
    for name in required:
        if name not in names:
            raise InputError(f"{name!r} is not among the systems", hint=f"there are {names}")
    if table.ndim != 2 or len(table) != len(systems) or not table.shape[1]:
        raise InputError(
            f"values of shape {table.shape} for {len(systems)} systems",
            hint="one row per system, one column per judged query, one query at least",
        )
    if not np.isfinite(table).all():
        raise InputError("a value is no number", hint="every system needs one for every query")
    return table


def _improvements(means: Values, complexity: NDArray[np.int64], bar: float) -> list[int]:
    """The systems worth a test, the least complex first: each better than all before it."""
    path: list[int] = []
    for number in np.lexsort((-means, complexity)).tolist():
        if means[number] >= (means[path[-1]] + VALUE_TOLERANCE if path else bar - VALUE_TOLERANCE):
            path.append(number)
    return path


def _signs(queries: int, seed: int) -> Iterator[Values]:
    """Assignments of a sign to each query, the observed one first: all where queries are few."""
    if queries <= MAX_EXACT_QUERIES:
        every = np.arange(1 << queries)[:, np.newaxis] >> np.arange(queries) & 1
        yield (1 - 2 * every).astype(np.float64)
        return
    generator = np.random.default_rng(seed)
    yield np.ones((1, queries))
    for start in range(0, RANDOM_ASSIGNMENTS, BATCH_SIZE):
        size = min(BATCH_SIZE, RANDOM_ASSIGNMENTS - start), queries
        yield (1 - 2 * generator.integers(0, 2, size)).astype(np.float64)


def _p_values(table: Values, sums: Values, against: int, rivals: NDArray[np.bool_]) -> Values:
    """For each rival, how often random signs put one of the rivals as far ahead; 1 for others.

    A lead counts by its spread (the sum over the root of the sum of squares, which rises with
    Student's t). The same signs go to all systems: those that are nearly alike count as one.
    """
    p_values = np.ones(len(table))
    if rivals.any():
        spread = np.sqrt(((table[rivals] - table[against]) ** 2).sum(axis=1))
        leads = sums[:, rivals] - sums[:, [against]]
        leads = np.where(spread > VALUE_TOLERANCE, leads / np.maximum(spread, VALUE_TOLERANCE), 0.0)
        largest = np.sort(leads.max(axis=1))
        p_values[rivals] = 1 - np.searchsorted(largest, leads[0] - 1e-9) / len(largest)
    return p_values


def _standard_error(differences: Values) -> float | None:
    if len(differences) < 2:
        return None
    return float(differences.std(ddof=1)) / math.sqrt(len(differences))


@dataclass(frozen=True)
class _Reasons:
    """Why each system was rejected."""

    systems: Sequence[ComparedSystem]
    means: Values
    bar: int
    selected: int
    p_values: Values
    """Of every lead over the selected system."""
    beaten: Mapping[int, tuple[int, float]]
    """By which system, and the p-value of that lead."""

    def of(self, number: int) -> tuple[float | None, str]:
        """The p-value of the test that was made, and why the system was rejected."""
        if number == self.selected:
            return None, ""
        if self.means[number] < self.means[self.bar] - VALUE_TOLERANCE:
            return None, f"{self._gap(number, self.bar)} below {self._name(self.bar)}"
        if number in self.beaten:
            rival, p_value = self.beaten[number]
            lower = f"{self._gap(number, rival)} below {self._name(rival)}"
            return p_value, f"{lower} ({shown_p(p_value)})"
        return self._against_selected(number)

    def _against_selected(self, number: int) -> tuple[float | None, str]:
        name = self._name(self.selected)
        simpler = self.systems[number].complexity > self.systems[self.selected].complexity
        outcome = f"the simpler {name} is kept" if simpler else f"{name} is kept"
        lead = float(self.means[number] - self.means[self.selected])
        if lead < -VALUE_TOLERANCE:
            return None, f"{self._gap(number, self.selected)} below {name}"
        if lead <= VALUE_TOLERANCE:
            return None, f"no better than {name}; {outcome}"
        p_value = float(self.p_values[number])
        ahead = f"+{self._gap(number, self.selected)} over {name}"
        return p_value, f"{ahead}, not significant ({shown_p(p_value)}); {outcome}"

    def _name(self, number: int) -> str:
        return self.systems[number].name

    def _gap(self, number: int, other: int) -> str:
        return f"{abs(self.means[number] - self.means[other]):.3f}".removeprefix("0")


def shown_p(p_value: float) -> str:
    """A p-value in words.

    >>> shown_p(0.5), shown_p(0.0004)
    ('p = .50', 'p < .01')
    """
    return "p < .01" if p_value < 0.005 else f"p = {p_value:.2f}".replace("0.", ".")


@dataclass(frozen=True)
class BaselineComparison:
    """The selected system less a baseline, on test queries."""

    baseline: str
    difference: float
    p_value: float | None
    """Of the paired t-test, Holm-corrected for all baselines; None for a single query."""
    interval: Interval | None
    is_worse: bool


@dataclass(frozen=True)
class BaselineTest:
    """A system on test queries: the tests that p-values are corrected for together."""

    system: str
    queries: int
    comparisons: tuple[BaselineComparison, ...]

    @property
    def worse_than(self) -> tuple[str, ...]:
        """The baselines that it is significantly below."""
        return tuple(comparison.baseline for comparison in self.comparisons if comparison.is_worse)


def compare_with(
    values: ArrayLike,
    baselines: Mapping[str, ArrayLike],
    *,
    system: str = "",
    level: float = 0.05,
    seed: int = 0,
    resamples: int = 10_000,
) -> BaselineTest:
    """Compare the values of a system on test queries with those of baselines.

    `seed` and `resamples` are for the bootstrap intervals.

    >>> compare_with([0.1, 0.2, 0.1, 0.3], {"base": [0.5, 0.6, 0.6, 0.8]}).worse_than
    ('base',)
    """
    own = np.asarray(values, np.float64)
    differences: list[Values] = []
    for name, other in baselines.items():
        theirs = np.asarray(other, np.float64)
        if not len(own) or theirs.shape != own.shape:
            raise InputError(f"values of {name!r} do not fit", hint="one per query, in one order")
        difference = own - theirs
        if not np.isfinite(difference).all():
            raise InputError("a value is no number", hint="every system needs one for every query")
        differences.append(np.where(np.abs(difference) < VALUE_TOLERANCE, 0.0, difference))
    corrected = correct([t_test(difference) for difference in differences])
    rows = []
    for name, difference, p in zip(baselines, differences, corrected, strict=True):
        mean, significant = float(difference.mean()), p.holm is not None and p.holm < level
        interval = bootstrap_interval(difference, samples=resamples, seed=seed)
        rows.append(BaselineComparison(name, mean, p.holm, interval, significant and mean < 0))
    return BaselineTest(system, len(own), tuple(rows))


@dataclass(frozen=True)
class Decision:
    """What is selected in the end, after the test."""

    selected: str
    selection: Selection
    test: BaselineTest
    """Of what was selected before the test, whether or not it was kept."""

    @property
    def fell_back(self) -> bool:
        """Whether the selection failed its test, and a baseline was taken instead."""
        return self.selected != self.selection.selected

    def __str__(self) -> str:
        below = " and ".join(self.test.worse_than)
        if self.fell_back:
            failed = self.selection.selected
            return f"{self.selected}: {failed} is significantly below {below} on test queries"
        return f"{self.selected}: not significantly below a baseline on test queries"


def decide(
    selection: Selection,
    tested: Mapping[str, ArrayLike],
    baselines: Sequence[str],
    *,
    seed: int = 0,
    resamples: int = 10_000,
) -> Decision:
    """Test the selection against baselines: values of test queries by name.

    Where it is significantly below one of them, the best of them is selected instead.

    >>> complexity = {"bm25": 0, "base": 1, "fine-tuned": 2}
    >>> systems = [ComparedSystem(*item) for item in complexity.items()]
    >>> held_out = [[0.2, 0.2, 0.2], [0.3, 0.3, 0.3], [0.5, 0.6, 0.7]]
    >>> selection = select(systems, held_out, ["base", "bm25"])
    >>> test = {"bm25": [0.2, 0.2, 0.3], "base": [0.4, 0.5, 0.4], "fine-tuned": [0.1, 0.1, 0.1]}
    >>> print(decide(selection, test, ["base", "bm25"]))
    base: fine-tuned is significantly below base on test queries
    """
    distinct = list(dict.fromkeys(baselines))
    baseline_values = {name: tested[name] for name in distinct if name != selection.selected}
    test = compare_with(
        tested[selection.selected], baseline_values, system=selection.selected, seed=seed,
        resamples=resamples,
    )  # fmt: skip
    if not test.worse_than:
        return Decision(selection.selected, selection, test)
    better = max(distinct, key=lambda name: float(np.mean(np.asarray(tested[name]))))
    return Decision(better, selection, test)
