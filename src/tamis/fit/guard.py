"""The guard: which of several ways to rank is handed over, so that training never makes it worse.

Pure arithmetic on per-query values of judgements that the option in question did not learn from.
Of the options that are lower than none of some floors it takes the simplest that nothing less
simple surpasses by more than luck gives; other queries then test what was chosen.
Luck is counted, not assumed: if two options were alike, each query's difference could as well
have the other sign, and the more options were tried the luckier is the luckiest of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tamis.errors import InputError
from tamis.evaluation.resampling import TINY
from tamis.evaluation.significance import Interval, bootstrap_interval, correct, t_test

Values = NDArray[np.float64]

LUCK = 0.25
"""One standard error is .16 where one option competes, .25 where about two do that differ; how this
was chosen: docs/explanation/guard.md."""
EXACT = 11
"""Up to so many queries every choice of signs is tried, above it FLIPS random ones."""
FLIPS = 2047
AT_ONCE = 256
"""How many choices of signs are held at a time."""


@dataclass(frozen=True)
class Option:
    """A way to rank. The lower its `simplicity`, the simpler."""

    name: str
    simplicity: int
    about: str = "which is simpler"
    """What is said where it is preferred."""


@dataclass(frozen=True)
class Weighed:
    """What was found out about one option."""

    option: Option
    mean: float
    difference: float
    """Its mean less that of the best."""
    error: float | None
    """The standard error of that difference, query by query; None for a single query."""
    luck: float | None
    """How often luck alone gives the lead in question, that of this option over a simpler one that
    was chosen, or that of another over this one; None where no luck was asked about."""
    why: str
    """Why it was refused; empty for what was chosen."""


@dataclass(frozen=True)
class Choice:
    """The option chosen, and why every other one was not."""

    chosen: str
    best: str
    start: str
    baseline: str
    queries: int
    weighed: tuple[Weighed, ...]

    @property
    def refused(self) -> dict[str, str]:
        """Why not, by the name of the option."""
        return {each.option.name: each.why for each in self.weighed if each.why}

    def record(self) -> dict[str, Any]:
        """Plain data, for a manifest."""
        return {**asdict(self), "weighed": [asdict(each) for each in self.weighed]}


def choose(
    options: Sequence[Option],
    values: ArrayLike,
    *,
    start: str,
    baseline: str,
    floors: Sequence[str] = (),
    luck: float = LUCK,
    seed: int = 0,
) -> Choice:
    """Choose by held-out values: a row an option, a column a query.

    What has a lower mean than one of the `floors`, which are the start and the baseline unless
    named, is refused. A lead that luck gives as often as `luck` is none. `seed` draws signs where
    there are too many to try all.

    >>> options = [Option("bm25", 0), Option("base", 1), Option("tuned", 2)]
    >>> values = [[0.2, 0.5, 0.2, 0.5], [0.5, 0.5, 0.2, 1.0], [0.5, 0.5, 0.4, 1.0]]
    >>> choice = choose(options, values, start="base", baseline="bm25")
    >>> choice.chosen, choice.best
    ('base', 'tuned')
    >>> print(choice.refused["tuned"])
    not surely better than base, which is simpler: +.050, luck gives as much in 50 of 100 cases
    """
    floors = floors or (start, baseline)
    table = _checked(options, values, {start, baseline, *floors})
    means = table.mean(axis=1)
    names = [option.name for option in options]
    least = max(map(names.index, floors), key=lambda number: means[number])
    simplicity = np.array([option.simplicity for option in options])
    steps = _steps(means, simplicity, float(means[least]))
    flipped = np.concatenate([signs @ table.T for signs in _signs(table.shape[1], seed)])
    beaten: dict[int, tuple[int, float]] = {}
    for chosen in steps:
        found = _luck(table, flipped, chosen, simplicity > simplicity[chosen])
        rival = int(np.argmin(found))
        if found[rival] >= luck:
            break
        beaten[chosen] = rival, float(found[rival])
    told = _Telling(options, means, least, chosen, found, beaten)
    differences = table - table[steps[-1]]
    weighed = tuple(
        Weighed(option, float(means[number]), float(differences[number].mean()),
                _error(differences[number]), *told.about(number))
        for number, option in enumerate(options)
    )  # fmt: skip
    return Choice(names[chosen], names[steps[-1]], start, baseline, table.shape[1], weighed)


def _checked(options: Sequence[Option], values: ArrayLike, needed: set[str]) -> Values:
    table = np.asarray(values, np.float64)
    names = [option.name for option in options]
    if len(set(names)) < len(names):
        raise InputError("two options have the same name", hint="give each its own")
    for name in needed:
        if name not in names:
            raise InputError(f"{name!r} is not among the options", hint=f"there are {names}")
    if table.ndim != 2 or len(table) != len(options) or not table.shape[1]:
        raise InputError(
            f"values of shape {table.shape} for {len(options)} options",
            hint="a row an option, a column a judged query, one query at least",
        )
    if not np.isfinite(table).all():
        raise InputError("a value is no number", hint="every option needs one for every query")
    return table


def _steps(means: Values, simplicity: NDArray[np.int64], floor: float) -> list[int]:
    """The options worth a look, the simplest first: each better than all that are as simple."""
    steps: list[int] = []
    for number in np.lexsort((-means, simplicity)).tolist():
        if means[number] >= (means[steps[-1]] + TINY if steps else floor - TINY):
            steps.append(number)
    return steps


def _signs(queries: int, seed: int) -> Iterator[Values]:
    """Choices of signs a query, the observed one first: all of them where queries are few."""
    if queries <= EXACT:
        every = np.arange(1 << queries)[:, np.newaxis] >> np.arange(queries) & 1
        yield (1 - 2 * every).astype(np.float64)
        return
    generator = np.random.default_rng(seed)
    yield np.ones((1, queries))
    for start in range(0, FLIPS, AT_ONCE):
        size = min(AT_ONCE, FLIPS - start), queries
        yield (1 - 2 * generator.integers(0, 2, size)).astype(np.float64)


def _luck(table: Values, flipped: Values, against: int, rivals: NDArray[np.bool_]) -> Values:
    """For each rival, how often luck puts one of the rivals as far ahead; 1 for all others.

    A lead counts by its spread (the sum over the root of the sum of squares, which rises with
    Student's t). The same signs go to all options: those that are nearly alike count as one.
    """
    luck = np.ones(len(table))
    if rivals.any():
        spread = np.sqrt(((table[rivals] - table[against]) ** 2).sum(axis=1))
        leads = flipped[:, rivals] - flipped[:, [against]]
        leads = np.where(spread > TINY, leads / np.maximum(spread, TINY), 0.0)
        luckiest = np.sort(leads.max(axis=1))
        luck[rivals] = 1 - np.searchsorted(luckiest, leads[0] - 1e-9) / len(luckiest)
    return luck


def _error(differences: Values) -> float | None:
    """The standard error of the mean."""
    if len(differences) < 2:
        return None
    return float(differences.std(ddof=1)) / math.sqrt(len(differences))


@dataclass(frozen=True)
class _Telling:
    """All that a sentence about an option needs."""

    options: Sequence[Option]
    means: Values
    floor: int
    chosen: int
    luck: Values
    """Of every lead over what was chosen."""
    beaten: Mapping[int, tuple[int, float]]
    """By what, and how often luck gives that."""

    def about(self, number: int) -> tuple[float | None, str]:
        """The luck that was counted, and why the option was refused."""
        if number == self.chosen:
            return None, ""
        if self.means[number] < self.means[self.floor] - TINY:
            return None, f"lower than {self._name(self.floor)} by {self._by(number, self.floor)}"
        if number in self.beaten:
            rival, luck = self.beaten[number]
            lower = f"lower than {self._name(rival)} by {self._by(number, rival)}"
            return luck, f"{lower}, luck gives as much in {_cases(luck)}"
        return self._against_chosen(number)

    def _against_chosen(self, number: int) -> tuple[float | None, str]:
        kind = self.options[number].simplicity - self.options[self.chosen].simplicity
        about = self.options[self.chosen].about
        simpler = f", {about}" if kind > 0 else ", which is as simple" if kind == 0 else ""
        ahead = float(self.means[number] - self.means[self.chosen])
        name = self._name(self.chosen)
        if ahead < -TINY:
            return None, f"lower than {name}{simpler}, by {self._by(number, self.chosen)}"
        if ahead <= TINY:
            return None, f"no better than {name}{simpler}"
        luck = float(self.luck[number])
        lead = f"+{self._by(number, self.chosen)}, luck gives as much in {_cases(luck)}"
        return luck, f"not surely better than {name}{simpler}: {lead}"

    def _name(self, number: int) -> str:
        return self.options[number].name

    def _by(self, number: int, other: int) -> str:
        return f"{abs(self.means[number] - self.means[other]):.3f}".removeprefix("0")


def _cases(luck: float) -> str:
    return f"{luck * 100:.0f} of 100 cases" if luck >= 0.01 else "fewer than 1 of 100 cases"


@dataclass(frozen=True)
class Against:
    """What was handed to a test, less something it must not be worse than."""

    name: str
    difference: float
    p: float | None
    """Of the paired t-test, Holm-corrected for all that are compared; None for a single query."""
    interval: Interval | None
    worse: bool


@dataclass(frozen=True)
class Verdict:
    """The chosen option on test queries: the tests that p-values are corrected for together."""

    system: str
    queries: int
    against: tuple[Against, ...]

    @property
    def worse_than(self) -> tuple[str, ...]:
        """What it is significantly below."""
        return tuple(each.name for each in self.against if each.worse)

    def record(self) -> dict[str, Any]:
        """Plain data, for a manifest."""
        tests = {"tests": len(self.against), "correction": "Holm"}
        against = [asdict(each) for each in self.against]
        return {"system": self.system, "queries": self.queries, **tests, "against": against}


def verdict(
    chosen: ArrayLike,
    against: Mapping[str, ArrayLike],
    *,
    system: str = "",
    level: float = 0.05,
    seed: int = 0,
    resamples: int = 10_000,
) -> Verdict:
    """Compare per-query values of test queries with those of the start and of the baseline.

    `system` names what was chosen; `seed` and `resamples` are for the bootstrap intervals.

    >>> verdict([0.1, 0.2, 0.1, 0.3], {"base": [0.5, 0.6, 0.6, 0.8]}).worse_than
    ('base',)
    """
    values = np.asarray(chosen, np.float64)
    found: list[Values] = []
    for name, other in against.items():
        theirs = np.asarray(other, np.float64)
        if not len(values) or theirs.shape != values.shape:
            raise InputError(f"values of {name!r} do not fit", hint="one a query, in one order")
        difference = values - theirs
        if not np.isfinite(difference).all():
            raise InputError("a value is no number", hint="every option needs one for every query")
        found.append(np.where(np.abs(difference) < TINY, 0.0, difference))
    tested = correct([t_test(difference) for difference in found])
    rows = []
    for name, difference, p in zip(against, found, tested, strict=True):
        mean, worse = float(difference.mean()), p.holm is not None and p.holm < level
        interval = bootstrap_interval(difference, samples=resamples, seed=seed)
        rows.append(Against(name, mean, p.holm, interval, worse and mean < 0))
    return Verdict(system, len(values), tuple(rows))


@dataclass(frozen=True)
class Settled:
    """What is handed over in the end."""

    name: str
    choice: Choice
    verdict: Verdict
    """On the chosen option, whether or not it is what is handed over."""

    @property
    def fell_back(self) -> bool:
        """Whether the chosen option failed its test."""
        return self.name != self.choice.chosen

    def __str__(self) -> str:
        below = " and ".join(self.verdict.worse_than)
        if self.fell_back:
            chosen = self.choice.chosen
            return f"{self.name}, because {chosen} is significantly below {below} on test queries"
        return f"{self.name}, not significantly below what it is measured against"

    def record(self) -> dict[str, Any]:
        """Plain data, for a manifest."""
        return {
            "handed over": self.name,
            "fell back": self.fell_back,
            "choice": self.choice.record(),
            "verdict": self.verdict.record(),
        }


def settled(
    choice: Choice,
    tested: Mapping[str, ArrayLike],
    *,
    also: Sequence[str] = (),
    seed: int = 0,
    resamples: int = 10_000,
) -> Settled:
    """Test the choice: values of test queries by name, of the chosen, the start, the baseline and
    whatever it should not be below either.

    Where it is significantly below one of these, the best of them is handed over instead.

    >>> options = [Option("bm25", 0), Option("base", 1), Option("tuned", 2)]
    >>> held_out = [[0.2, 0.2, 0.2], [0.3, 0.3, 0.3], [0.5, 0.6, 0.7]]
    >>> choice = choose(options, held_out, start="base", baseline="bm25")
    >>> test = {"bm25": [0.2, 0.2, 0.3], "base": [0.4, 0.5, 0.4], "tuned": [0.1, 0.1, 0.1]}
    >>> print(settled(choice, test))
    base, because tuned is significantly below base on test queries
    """
    yardsticks = dict.fromkeys((choice.start, choice.baseline, *also))
    others = {name: tested[name] for name in yardsticks if name != choice.chosen}
    found = verdict(
        tested[choice.chosen], others, system=choice.chosen, seed=seed, resamples=resamples
    )
    if not found.worse_than:
        return Settled(choice.chosen, choice, found)
    better = max(yardsticks, key=lambda name: float(np.mean(np.asarray(tested[name]))))
    return Settled(better, choice, found)
