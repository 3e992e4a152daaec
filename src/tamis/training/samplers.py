"""Samplers: which rows of the examples an epoch learns from, and in which order.

An epoch is a function of the examples, the recipe's seed and the number of the epoch; nothing is
remembered between epochs, so a training goes on from wherever it stopped.

- `points`: every row once, or `list_size` rows a group; a unit is a row.
- `balanced`: every row of the rarer class once and as many of the other, drawn afresh each epoch;
  every step has as many of the one as of the other. A unit is a row.
- `pairs`: one positive and one negative a group, drawn afresh each epoch.
- `lists`: `list_size` rows a group in all: every positive, and negatives drawn afresh each epoch,
  at least one. Rows that have scores in place of classes need no positive, only another row.

Negatives are the rows with the role negative or pool. One whose text is also a positive of its
query is never drawn, even where the two came from different examples. A group that cannot give a
pair or a list is skipped; `counts` says how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.labels.examples import LABEL_TYPES, Examples, LabelType
from tamis.training.losses import HIGHEST
from tamis.training.recipe import Loss, Recipe

Rows = NDArray[np.int64]
Unit = Rows
"""The numbers of the rows that a loss compares, or of the one row it is taken of."""
Batch = list[Unit]
"""The units of one step of the optimizer."""
ONCE = (0, 1)
"""What tells the draw of `samples` from that of any epoch."""


@dataclass(frozen=True, eq=False)
class Epoch(Sequence[Batch]):
    """The batches of an epoch, one a step: rows, where each unit begins, units a step."""

    rows: Rows
    bounds: Rows
    a_step: int

    def __len__(self) -> int:
        return -(-(len(self.bounds) - 1) // self.a_step)

    @overload
    def __getitem__(self, step: int) -> Batch: ...
    @overload
    def __getitem__(self, step: slice) -> list[Batch]: ...
    def __getitem__(self, step: int | slice) -> Batch | list[Batch]:
        if isinstance(step, slice):
            return [self[number] for number in range(*step.indices(len(self)))]
        if not -len(self) <= step < len(self):
            raise IndexError(f"there is no step {step} of {len(self)}")
        first = step % len(self) * self.a_step
        bounds = self.bounds[first : first + self.a_step + 1].tolist()
        return [self.rows[a:b] for a, b in pairwise(bounds)]


def batches(examples: Examples, recipe: Recipe, epoch: int) -> Epoch:
    """The batches of an epoch, counted from 0.

    >>> rows = [("q1", f"d{n}", float(n == 0), "pool" if n else "positive") for n in range(5)]
    >>> examples = Examples.of_rows(rows, source="gold")
    >>> mine = Recipe("mine", epochs=1, loss="margin", sampler="pairs", batch_size=2)
    >>> [batches(examples, mine, epoch)[0][0].tolist() for epoch in range(2)]
    [[0, 3], [0, 4]]
    """
    seen = _Seen.of(examples, recipe)
    random = np.random.default_rng([recipe.seed, epoch])
    if recipe.sampler == "pairs":
        return _of_size(random.permutation(_pairs(seen, random)), recipe)
    if recipe.sampler == "lists":
        return _lists(seen, recipe, random)
    if recipe.sampler == "points":
        return _of_size(random.permutation(_points(seen, recipe, random))[:, None], recipe)
    return _of_size(_balanced(seen, random).reshape(-1, 1), recipe)


def steps_in_epoch(examples: Examples, recipe: Recipe) -> int:
    """How many steps of the optimizer an epoch has, without drawing one."""
    return -(-_units(_Seen.of(examples, recipe), recipe) // recipe.units_a_step)


def counts(examples: Examples, recipe: Recipe) -> dict[str, int]:
    """What an epoch is made of, and what had to be left out of it.

    >>> rows = [("q1", "d1", 1.0, "positive"), ("q1", "d2", 0.0, "pool"), ("q2", "d1", 0.0, "pool")]
    >>> mine = Recipe("mine", epochs=1, loss="margin", sampler="pairs")
    >>> counts(Examples.of_rows(rows, source="gold"), mine)  # doctest: +NORMALIZE_WHITESPACE
    {'units': 1, 'steps': 1, 'queries': 1, 'groups': 2, 'groups skipped': 1,
     'groups without a positive': 1, 'groups without a negative': 0,
     'negatives that are also positives': 0}
    """
    seen = _Seen.of(examples, recipe)
    grouped = recipe.sampler in ("pairs", "lists")
    used = seen.usable if grouped else np.bincount(seen.group, minlength=examples.groups) > 0
    units = _units(seen, recipe)
    return {
        "units": units,
        "steps": -(-units // recipe.units_a_step),
        "queries": len(np.unique(examples.query[examples.offsets[:-1]][used])),
        "groups": examples.groups,
        "groups skipped": int((~used).sum()),
        "groups without a positive": int((seen.positives == 0).sum()),
        "groups without a negative": int((seen.negatives == 0).sum()),
        "negatives that are also positives": seen.contradicted,
    }


def targets(examples: Examples, loss: Loss) -> NDArray[np.float32]:
    """The values of all rows as a loss wants them, or why it cannot learn from them.

    Regression takes classes as 5 and 0, beside values that were scaled to that.

    >>> rows = [("q1", "d1", 1.0, "positive"), ("q1", "d2", 0.0, "pool")]
    >>> one = Examples.of_rows(rows, source="gold")
    >>> targets(one, "squared").tolist(), targets(one, "bce").tolist()
    ([5.0, 0.0], [1.0, 0.0])
    """
    learnt: dict[Loss, tuple[LabelType, ...]] = {
        "softmax": ("class",),
        "bce": ("class",),
        "target-words": ("class",),
        "squared": ("class", "scaled"),
        "margin-distillation": ("scaled", "score"),
    }
    fitting = learnt.get(loss, LABEL_TYPES)
    for number in np.unique(examples.kind).tolist():
        if LABEL_TYPES[number] not in fitting:
            raise InputError(
                f"the loss {loss!r} cannot learn from examples of the kind {LABEL_TYPES[number]!r}",
                hint=f"it learns from {' and '.join(fitting)}; label other examples or set loss",
            )
    if loss != "squared":
        return examples.value
    classes = examples.kind == LABEL_TYPES.index("class")
    return np.where(classes, np.float32(HIGHEST) * examples.value, examples.value)


@dataclass(frozen=True, eq=False)
class _Seen:
    """The rows that can be drawn, ascending, and what each group has of them."""

    rows: Rows
    group: NDArray[np.int32]
    positive: NDArray[np.bool_]
    positives: Rows
    negatives: Rows
    usable: NDArray[np.bool_]
    contradicted: int

    @classmethod
    def of(cls, examples: Examples, recipe: Recipe) -> _Seen:
        if len(examples) == 0:
            raise InputError("there are no examples to learn from", hint="label some first")
        contradicted = _contradicted(examples)
        rows = np.flatnonzero(~contradicted)
        if recipe.samples is not None:
            rows = _sample(examples, recipe, rows)
        group, positive = examples.group[rows], examples.is_role("positive")[rows]
        positives = np.bincount(group[positive], minlength=examples.groups)
        negatives = np.bincount(group, minlength=examples.groups) - positives
        both = (positives > 0) & (negatives > 0)
        if recipe.sampler == "lists":
            scored = examples.kind[examples.offsets[:-1]] != LABEL_TYPES.index("class")
            both |= scored & (positives + negatives > 1)
        seen = cls(rows, group, positive, positives, negatives, both, int(contradicted.sum()))
        _check(seen, examples, recipe)
        return seen


def _check(seen: _Seen, examples: Examples, recipe: Recipe) -> None:
    if recipe.sampler == "balanced":
        targets(examples, "bce")
        usable = bool(seen.positives.any() and seen.negatives.any())
    else:
        usable = recipe.sampler == "points" or bool(seen.usable.any())
    if not usable:
        where = "" if recipe.sampler == "balanced" else " in one group"
        raise InputError(
            f"the sampler {recipe.sampler!r} needs positives and negatives{where}, "
            f"and these examples have {int(seen.positives.sum()):,} and "
            f"{int(seen.negatives.sum()):,}",
            hint="label examples with both, or set another sampler and loss",
        )


def _contradicted(examples: Examples) -> NDArray[np.bool_]:
    """Which rows are a negative whose text is a positive of the same query, or of the same group
    where values are scores: another group may well score it.
    """
    positive, named = examples.is_role("positive"), examples.kind == LABEL_TYPES.index("class")
    whose = np.where(named, examples.query, len(examples.queries) + examples.group)
    place = whose.astype(np.int64) << 32 | examples.doc
    near = np.flatnonzero(np.isin(place, place[positive]))
    span = examples.start.astype(np.int64) << 32 | (examples.end & np.int64(0xFFFFFFFF))
    same = np.unique(np.stack([place[near], span[near]]), axis=1, return_inverse=True)[1].ravel()
    good = np.zeros(len(near), bool)
    good[same[positive[near]]] = True
    found = np.zeros(len(examples), bool)
    found[near] = good[same] & ~positive[near]
    return found


def _sample(examples: Examples, recipe: Recipe, rows: Rows) -> Rows:
    """The rows that the whole training is restricted to, ascending."""
    random, wanted = np.random.default_rng([recipe.seed, *ONCE]), recipe.samples or 0
    parts = [rows]
    if recipe.sampler == "balanced":
        positive = examples.is_role("positive")[rows]
        parts, wanted = [rows[positive], rows[~positive]], wanted // 2
    for part in parts:
        if len(part) < wanted:
            names = ("examples",) if len(parts) == 1 else ("positives", "negatives")
            found = " and ".join(
                f"{len(one):,} {name}" for one, name in zip(parts, names, strict=True)
            )
            raise InputError(
                f"samples={recipe.samples} cannot be drawn from {found}",
                hint=f"set samples={min(map(len, parts)) * len(parts)}, or none for all",
            )
    drawn = [random.choice(part, wanted, replace=False) for part in parts]
    return np.sort(np.concatenate(drawn))


def _units(seen: _Seen, recipe: Recipe) -> int:
    if recipe.sampler == "points":
        return int(np.minimum(_taken(seen, recipe), seen.positives + seen.negatives).sum())
    if recipe.sampler == "balanced":
        return 2 * int(min(seen.positives.sum(), seen.negatives.sum()))
    return int(seen.usable.sum())


def _taken(seen: _Seen, recipe: Recipe) -> Rows:
    """How many rows of each group a list has, if there are so many."""
    size = recipe.list_size or len(seen.rows)
    return np.maximum(size, seen.positives + 1)


def _points(seen: _Seen, recipe: Recipe, random: np.random.Generator) -> Rows:
    return seen.rows if recipe.list_size is None else _drawn(seen, recipe, random)[0]


def _balanced(seen: _Seen, random: np.random.Generator) -> Rows:
    """A positive and a negative a row."""
    sides = [random.permutation(seen.rows[seen.positive == side]) for side in (True, False)]
    shorter = min(map(len, sides))
    return np.stack([side[:shorter] for side in sides], axis=1)


def _pairs(seen: _Seen, random: np.random.Generator) -> Rows:
    """A row a usable group: a positive and a negative of it."""
    side = seen.group * np.int64(2) + ~seen.positive
    order = np.lexsort((random.random(len(side)), side))
    ordered = side[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    kept = first[seen.usable[ordered[first] // 2]]
    pairs: Rows = seen.rows[order[kept]].reshape(-1, 2)
    return pairs


def _drawn(seen: _Seen, recipe: Recipe, random: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows of every group, positives first, and how many of each group they are."""
    order = np.lexsort((random.random(len(seen.rows)) - seen.positive, seen.group))
    sizes = seen.positives + seen.negatives
    begins = np.cumsum(sizes) - sizes
    place = np.arange(len(order)) - np.repeat(begins, sizes)
    taken = np.minimum(_taken(seen, recipe), sizes)
    return seen.rows[order[place < np.repeat(taken, sizes)]], taken


def _lists(seen: _Seen, recipe: Recipe, random: np.random.Generator) -> Epoch:
    rows, sizes = _drawn(seen, recipe, random)
    begins = np.cumsum(sizes) - sizes
    units = random.permutation(np.flatnonzero(seen.usable))
    bounds = np.concatenate([[0], np.cumsum(sizes[units])])
    moved = np.repeat(begins[units] - bounds[:-1], sizes[units]) + np.arange(bounds[-1])
    return Epoch(rows[moved], bounds, recipe.units_a_step)


def _of_size(units: Rows, recipe: Recipe) -> Epoch:
    """An epoch of units of one size, a row each."""
    count, size = units.shape
    return Epoch(units.reshape(-1), np.arange(count + 1) * size, recipe.units_a_step)
