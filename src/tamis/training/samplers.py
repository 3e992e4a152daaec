"""Samplers: which rows of the examples an epoch learns from, and in which order.

An epoch is a function of the examples, the recipe's seed and the number of the epoch; nothing is
remembered between epochs, so a training goes on from wherever it stopped.

- `points`: every row once, or `list_size` rows per group; an instance is a row.
- `balanced`: every row of the rarer class once and as many of the other, drawn afresh each epoch;
  every step has as many of the one as of the other. An instance is a row.
- `pairs`: one positive and one negative per group, drawn afresh each epoch.
- `lists`: `list_size` rows per group in all: every positive, and negatives drawn afresh each epoch,
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
from tamis.training.losses import POSITIVE_TARGET
from tamis.training.recipe import Loss, Recipe

Rows = NDArray[np.int64]
Instance = Rows
"""The numbers of the rows that a loss compares, or of the one row it is taken of."""
Batch = list[Instance]
"""The instances of one step of the optimizer."""
SAMPLE_SEED_SUFFIX = (0, 1)
"""What tells the draw of `samples` from that of any epoch."""


@dataclass(frozen=True, eq=False)
class Epoch(Sequence[Batch]):
    """The batches of an epoch, one per step: rows, starts of instances, instances per step."""

    rows: Rows
    bounds: Rows
    batch_size: int

    def __len__(self) -> int:
        return -(-(len(self.bounds) - 1) // self.batch_size)

    @overload
    def __getitem__(self, step: int) -> Batch: ...
    @overload
    def __getitem__(self, step: slice) -> list[Batch]: ...
    def __getitem__(self, step: int | slice) -> Batch | list[Batch]:
        if isinstance(step, slice):
            return [self[number] for number in range(*step.indices(len(self)))]
        if not -len(self) <= step < len(self):
            raise IndexError(f"there is no step {step} of {len(self)}")
        first = step % len(self) * self.batch_size
        bounds = self.bounds[first : first + self.batch_size + 1].tolist()
        return [self.rows[a:b] for a, b in pairwise(bounds)]


def batches(examples: Examples, recipe: Recipe, epoch: int) -> Epoch:
    """The batches of an epoch, counted from 0.

    >>> rows = [("q1", f"d{n}", float(n == 0), "pool" if n else "positive") for n in range(5)]
    >>> examples = Examples.of_rows(rows, source="gold")
    >>> mine = Recipe("mine", epochs=1, loss="margin", sampler="pairs", batch_size=2)
    >>> [batches(examples, mine, epoch)[0][0].tolist() for epoch in range(2)]
    [[0, 3], [0, 4]]
    """
    drawable = _DrawableRows.of(examples, recipe)
    random = np.random.default_rng([recipe.seed, epoch])
    if recipe.sampler == "pairs":
        return _of_size(random.permutation(_pairs(drawable, random)), recipe)
    if recipe.sampler == "lists":
        return _lists(drawable, recipe, random)
    if recipe.sampler == "points":
        return _of_size(random.permutation(_points(drawable, recipe, random))[:, None], recipe)
    return _of_size(_balanced(drawable, random).reshape(-1, 1), recipe)


def steps_in_epoch(examples: Examples, recipe: Recipe) -> int:
    """How many steps of the optimizer an epoch has, without drawing one."""
    return -(
        -_num_instances(_DrawableRows.of(examples, recipe), recipe) // recipe.effective_batch_size
    )


def counts(examples: Examples, recipe: Recipe) -> dict[str, int]:
    """What an epoch is made of, and what had to be left out of it.

    >>> rows = [("q1", "d1", 1.0, "positive"), ("q1", "d2", 0.0, "pool"), ("q2", "d1", 0.0, "pool")]
    >>> mine = Recipe("mine", epochs=1, loss="margin", sampler="pairs")
    >>> counts(Examples.of_rows(rows, source="gold"), mine)  # doctest: +NORMALIZE_WHITESPACE
    {'instances': 1, 'steps': 1, 'queries': 1, 'groups': 2, 'groups_skipped': 1,
     'groups_without_a_positive': 1, 'groups_without_a_negative': 0,
     'negatives_that_are_also_positives': 0}
    """
    drawable = _DrawableRows.of(examples, recipe)
    grouped = recipe.sampler in ("pairs", "lists")
    used = (
        drawable.usable if grouped else np.bincount(drawable.group, minlength=examples.groups) > 0
    )
    num_instances = _num_instances(drawable, recipe)
    return {
        "instances": num_instances,
        "steps": -(-num_instances // recipe.effective_batch_size),
        "queries": len(np.unique(examples.query[examples.offsets[:-1]][used])),
        "groups": examples.groups,
        "groups_skipped": int((~used).sum()),
        "groups_without_a_positive": int((drawable.positives == 0).sum()),
        "groups_without_a_negative": int((drawable.negatives == 0).sum()),
        "negatives_that_are_also_positives": drawable.contradicted,
    }


def targets(examples: Examples, loss: Loss) -> NDArray[np.float32]:
    """The values of all rows as a loss needs them; an error where it cannot learn from them.

    Regression takes classes as 5 and 0, beside values that were scaled to that.

    >>> rows = [("q1", "d1", 1.0, "positive"), ("q1", "d2", 0.0, "pool")]
    >>> example = Examples.of_rows(rows, source="gold")
    >>> targets(example, "squared").tolist(), targets(example, "bce").tolist()
    ([5.0, 0.0], [1.0, 0.0])
    """
    learnable_types: dict[Loss, tuple[LabelType, ...]] = {
        "softmax": ("class",),
        "bce": ("class",),
        "target-words": ("class",),
        "squared": ("class", "scaled"),
        "margin-distillation": ("scaled", "score"),
    }
    fitting = learnable_types.get(loss, LABEL_TYPES)
    for number in np.unique(examples.kind).tolist():
        if LABEL_TYPES[number] not in fitting:
            raise InputError(
                f"the loss {loss!r} cannot learn from examples of the kind {LABEL_TYPES[number]!r}",
                hint=f"it learns from {' and '.join(fitting)}; label other examples or set loss",
            )
    if loss != "squared":
        return examples.value
    classes = examples.kind == LABEL_TYPES.index("class")
    return np.where(classes, np.float32(POSITIVE_TARGET) * examples.value, examples.value)


@dataclass(frozen=True, eq=False)
class _DrawableRows:
    """The rows that can be drawn, ascending, and what each group has of them."""

    rows: Rows
    group: NDArray[np.int32]
    positive: NDArray[np.bool_]
    positives: Rows
    negatives: Rows
    usable: NDArray[np.bool_]
    contradicted: int

    @classmethod
    def of(cls, examples: Examples, recipe: Recipe) -> _DrawableRows:
        if len(examples) == 0:
            raise InputError("there are no examples to learn from", hint="label some first")
        contradicted = _find_contradictions(examples)
        rows = np.flatnonzero(~contradicted)
        if recipe.samples is not None:
            rows = _sample(examples, recipe, rows)
        group, positive = examples.group[rows], examples.is_role("positive")[rows]
        positives = np.bincount(group[positive], minlength=examples.groups)
        negatives = np.bincount(group, minlength=examples.groups) - positives
        usable = (positives > 0) & (negatives > 0)
        if recipe.sampler == "lists":
            scored = examples.kind[examples.offsets[:-1]] != LABEL_TYPES.index("class")
            usable |= scored & (positives + negatives > 1)
        drawable = cls(rows, group, positive, positives, negatives, usable, int(contradicted.sum()))
        _check(drawable, examples, recipe)
        return drawable


def _check(drawable: _DrawableRows, examples: Examples, recipe: Recipe) -> None:
    if recipe.sampler == "balanced":
        targets(examples, "bce")
        usable = bool(drawable.positives.any() and drawable.negatives.any())
    else:
        usable = recipe.sampler == "points" or bool(drawable.usable.any())
    if not usable:
        where = "" if recipe.sampler == "balanced" else " in one group"
        raise InputError(
            f"the sampler {recipe.sampler!r} needs positives and negatives{where}, "
            f"and these examples have {int(drawable.positives.sum()):,} and "
            f"{int(drawable.negatives.sum()):,}",
            hint="label examples with both, or set another sampler and loss",
        )


def _find_contradictions(examples: Examples) -> NDArray[np.bool_]:
    """Which rows are a negative whose text is a positive of the same query, or of the same group
    where values are scores: another group may well score it.
    """
    positive, is_class = examples.is_role("positive"), examples.kind == LABEL_TYPES.index("class")
    owner = np.where(is_class, examples.query, len(examples.queries) + examples.group)
    place = owner.astype(np.int64) << 32 | examples.doc
    near = np.flatnonzero(np.isin(place, place[positive]))
    span = examples.start.astype(np.int64) << 32 | (examples.end & np.int64(0xFFFFFFFF))
    same = np.unique(np.stack([place[near], span[near]]), axis=1, return_inverse=True)[1].ravel()
    good = np.zeros(len(near), bool)
    good[same[positive[near]]] = True
    contradicted = np.zeros(len(examples), bool)
    contradicted[near] = good[same] & ~positive[near]
    return contradicted


def _sample(examples: Examples, recipe: Recipe, rows: Rows) -> Rows:
    """The rows that the whole training is restricted to, ascending."""
    random, size = np.random.default_rng([recipe.seed, *SAMPLE_SEED_SUFFIX]), recipe.samples or 0
    pools = [rows]
    if recipe.sampler == "balanced":
        positive = examples.is_role("positive")[rows]
        pools, size = [rows[positive], rows[~positive]], size // 2
    for pool in pools:
        if len(pool) < size:
            names = ("examples",) if len(pools) == 1 else ("positives", "negatives")
            available = " and ".join(
                f"{len(pool_rows):,} {name}" for pool_rows, name in zip(pools, names, strict=True)
            )
            raise InputError(
                f"samples={recipe.samples} cannot be drawn from {available}",
                hint=f"set samples={min(map(len, pools)) * len(pools)}, or none for all",
            )
    samples = [random.choice(pool, size, replace=False) for pool in pools]
    return np.sort(np.concatenate(samples))


def _num_instances(drawable: _DrawableRows, recipe: Recipe) -> int:
    if recipe.sampler == "points":
        return int(
            np.minimum(
                _rows_per_group(drawable, recipe), drawable.positives + drawable.negatives
            ).sum()
        )
    if recipe.sampler == "balanced":
        return 2 * int(min(drawable.positives.sum(), drawable.negatives.sum()))
    return int(drawable.usable.sum())


def _rows_per_group(drawable: _DrawableRows, recipe: Recipe) -> Rows:
    """How many rows of each group a list has, if there are so many."""
    size = recipe.list_size or len(drawable.rows)
    return np.maximum(size, drawable.positives + 1)


def _points(drawable: _DrawableRows, recipe: Recipe, random: np.random.Generator) -> Rows:
    return drawable.rows if recipe.list_size is None else _draw_rows(drawable, recipe, random)[0]


def _balanced(drawable: _DrawableRows, random: np.random.Generator) -> Rows:
    """One positive and one negative per row."""
    sides = [random.permutation(drawable.rows[drawable.positive == side]) for side in (True, False)]
    shorter = min(map(len, sides))
    return np.stack([side[:shorter] for side in sides], axis=1)


def _pairs(drawable: _DrawableRows, random: np.random.Generator) -> Rows:
    """One row per usable group: a positive and a negative of it."""
    side = drawable.group * np.int64(2) + ~drawable.positive
    order = np.lexsort((random.random(len(side)), side))
    ordered = side[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-1))
    usable_firsts = first[drawable.usable[ordered[first] // 2]]
    pairs: Rows = drawable.rows[order[usable_firsts]].reshape(-1, 2)
    return pairs


def _draw_rows(
    drawable: _DrawableRows, recipe: Recipe, random: np.random.Generator
) -> tuple[Rows, Rows]:
    """Rows of every group, positives first, and how many of each group they are."""
    order = np.lexsort((random.random(len(drawable.rows)) - drawable.positive, drawable.group))
    sizes = drawable.positives + drawable.negatives
    begins = np.cumsum(sizes) - sizes
    place = np.arange(len(order)) - np.repeat(begins, sizes)
    num_drawn = np.minimum(_rows_per_group(drawable, recipe), sizes)
    return drawable.rows[order[place < np.repeat(num_drawn, sizes)]], num_drawn


def _lists(drawable: _DrawableRows, recipe: Recipe, random: np.random.Generator) -> Epoch:
    rows, sizes = _draw_rows(drawable, recipe, random)
    begins = np.cumsum(sizes) - sizes
    groups = random.permutation(np.flatnonzero(drawable.usable))
    bounds = np.concatenate([[0], np.cumsum(sizes[groups])])
    row_positions = np.repeat(begins[groups] - bounds[:-1], sizes[groups]) + np.arange(bounds[-1])
    return Epoch(rows[row_positions], bounds, recipe.effective_batch_size)


def _of_size(instances: Rows, recipe: Recipe) -> Epoch:
    """An epoch of instances of one size, one per row."""
    count, size = instances.shape
    return Epoch(instances.reshape(-1), np.arange(count + 1) * size, recipe.effective_batch_size)
