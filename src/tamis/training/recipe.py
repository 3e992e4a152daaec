"""The record of how a model is trained, and how the command line changes it.

`recipes` holds the ones that have names.
"""

from __future__ import annotations

import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_type_hints

from tamis.errors import InputError
from tamis.evaluation import parse_measure
from tamis.training.settings import (
    WORD_PAIRS,
    by_field,
    read_setting,
    unknown_name,
)
from tamis.types.pipeline import Scale

ScorerKind = Literal["cross-encoder", "bi-encoder", "target-words"]
Loss = Literal[
    "softmax",
    "bce",
    "target-words",
    "squared",
    "margin",
    "listwise-softmax",
    "listwise-hinge",
    "margin-distillation",
]
Sampler = Literal["points", "balanced", "pairs", "lists"]
POINTWISE: tuple[Loss, ...] = ("softmax", "bce", "target-words", "squared")
"""The losses of one row; the others compare the rows of a group."""

BY_HAND = "set by hand"
MAX_FALLING_EPOCHS = 32
"""Mokrii, section 4: good performance with 32 queries takes 16 to 32 epochs, more may overfit."""
LOSSES_WITH_MARGIN: tuple[Loss, ...] = ("margin", "listwise-hinge")
"""The losses that have a margin."""


@dataclass(frozen=True)
class Recipe:
    """Everything the loop must know about one training, with the source of each setting.

    An instance is what a loss is taken of: a row for `points` and `balanced`, two rows for `pairs`,
    the rows of a group for `lists`. `batch_size` counts instances, not texts; a step of the
    optimizer sees `batch_size * gradient_accumulation_steps` of them, whatever the micro-batches.

    >>> recipe = Recipe("mine", epochs=1, batch_size=32, gradient_accumulation_steps=8)
    >>> recipe.effective_batch_size, recipe.source_of("learning_rate")
    (256, 'ours: the default')
    >>> recipe.changed({"learning_rate": "1e-4", "batch_size": "16"}).batch_size
    16
    """

    name: str
    scorer: ScorerKind = "cross-encoder"
    loss: Loss = "bce"
    margin: float | None = None
    """By how much the better is to lead; None is the loss's own default."""
    sampler: Sampler = "points"
    list_size: int | None = None
    """How many rows of a group `lists` and `points` draw per epoch; None is all."""
    samples: int | None = None
    """How many rows are drawn once for the whole training; as many positive as not if balanced."""
    batch_size: int = 16
    gradient_accumulation_steps: int = 1
    micro_batch_tokens: int = 1024
    """How many tokens go through the model at a time: memory and speed, never the result."""
    epochs: float | None = None
    epoch_rule: Literal["fixed", "falling"] = "fixed"
    """`falling`: the epochs are those at 32 queries and fall with the root of their number; with
    fewer queries they are at most MAX_FALLING_EPOCHS."""
    steps: int | None = None
    """Given in place of epochs."""
    optimizer: Literal["adamw", "adafactor"] = "adamw"
    learning_rate: float = 2e-5
    head_learning_rate: float | None = None
    """The rate of the head; None is that of the body."""
    weight_decay: float = 0.0
    warmup_ratio: float = 0.0
    """Over which share of the steps the rate rises from zero."""
    schedule: Literal["constant", "linear"] = "constant"
    """What the rate does after the warm-up: it stays, or falls to zero."""
    max_grad_norm: float | None = 1.0
    """The largest norm of a gradient."""
    max_length: int = 512
    document_tokens: int | None = None
    """The length at which the text alone is truncated, before the pair."""
    outputs: Literal[1, 2] = 1
    scale: Scale | None = None
    """What the scores are; None is the default: of one output a logit, of two or of two words a
    probability."""
    dropout: float | None = None
    """None is the base's own."""
    words: tuple[str, str] = WORD_PAIRS["baseline"]
    """Relevant, not relevant."""
    word_loss: Literal["words", "vocabulary"] = "words"
    """Whether the softmax of target words is over the two or over all tokens."""
    fresh_head: bool = False
    """Whether a head that the base has is thrown away; a base without one gets one anyway. With
    target words: whether two fresh rows take the place of the words' own."""
    fixed_documents: bool = False
    """Whether a bi-encoder only learns to read queries, and texts keep the base's embeddings."""
    keep: Literal["best", "last"] = "best"
    """Which state; the last in any case where the validation examples have pseudo-labels."""
    validate_every: int | None = None
    """In steps; None is once per epoch, and five times in all at least."""
    patience: int | None = None
    """How many validations in a row may bring nothing before training ends; None is any number."""
    measure: str = "RR@10"
    seed: int = 0
    then: str | None = None
    """The recipe that continues from the model made with this one, given as its base."""
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_together(self)

    @classmethod
    def of(cls, name: str, **settings: tuple[Any, str]) -> Recipe:
        """A recipe from settings with their sources beside them."""
        values = {key: value for key, (value, _) in settings.items()}
        return cls(name, **values, sources={key: source for key, (_, source) in settings.items()})

    def but(self, name: str, **settings: tuple[Any, str]) -> Recipe:
        """A sibling: the same but for these settings."""
        values = {key: value for key, (value, _) in settings.items()}
        sources = {key: source for key, (_, source) in settings.items()}
        own_sources = {key: source for key, source in self.sources.items() if key not in sources}
        return replace(self, name=name, **values, sources={**own_sources, **sources})

    @property
    def effective_batch_size(self) -> int:
        """How many instances a step of the optimizer sees."""
        return self.batch_size * self.gradient_accumulation_steps

    def epochs_for(self, queries: int) -> float | None:
        """How many epochs to train on this many queries, if it is epochs that are counted.

        >>> few = Recipe("few", epochs=32, epoch_rule="falling")
        >>> [few.epochs_for(queries) for queries in (8, 32, 128, 1000, 10_000, 100_000)]
        [32, 32, 16, 6, 2, 1]
        """
        if self.epochs is None or self.epoch_rule == "fixed":
            return self.epochs
        max_epochs = max(MAX_FALLING_EPOCHS, self.epochs)
        return max(1, min(max_epochs, round(self.epochs * math.sqrt(32 / max(1, queries)))))

    def total_steps(self, in_epoch: int, queries: int) -> int:
        """How many steps the whole training has: the given number, or that of the epochs."""
        if self.steps is not None:
            return self.steps
        return max(1, round((self.epochs_for(queries) or 0) * in_epoch))

    def source_of(self, name: str) -> str:
        """Where the value of a field comes from."""
        return self.sources.get(name, "ours: the default")

    def changed(self, settings: Mapping[str, str]) -> Recipe:
        """The same with some fields read from text; `none` empties a field.

        Steps take the place of epochs and epochs that of steps; epochs that are set do not fall. A
        margin goes with a loss that has none, and so does `document_tokens` with another
        scorer.
        """
        settings, types_by_name = by_field(settings), get_type_hints(Recipe)
        values: dict[str, Any] = {}
        for name, text in settings.items():
            if name not in SETTABLE:
                raise unknown_name(name, SETTABLE, "setting")
            values[name] = read_setting(name, text, types_by_name[name], getattr(self, name))
        if values.get("loss", self.loss) not in LOSSES_WITH_MARGIN:
            values = {"margin": None} | values
        if values.get("scorer", self.scorer) != "cross-encoder":
            values = {"document_tokens": None} | values
        if values.get("steps") is not None:
            values = {"epochs": None, "epoch_rule": "fixed"} | values
        elif values.get("epochs") is not None:
            values = {"steps": None, "epoch_rule": "fixed"} | values
        if "measure" in values:
            values["measure"] = str(parse_measure(values["measure"]))
        sources = dict.fromkeys(settings, BY_HAND)
        return replace(self, **values, sources={**self.sources, **sources})

    def record(self) -> dict[str, Any]:
        """Plain JSON, for a manifest."""
        return {**asdict(self), "words": list(self.words), "sources": dict(self.sources)}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Recipe:
        """The recipe that a manifest holds."""
        return cls(**{**record, "words": tuple(record["words"])})


SETTABLE = tuple(
    recipe_field.name
    for recipe_field in fields(Recipe)
    if recipe_field.name not in ("name", "then", "sources")
)
"""The fields that the command line can set."""
MIN_VALUES: Mapping[str, float] = types.MappingProxyType(
    {
        "margin": 0,
        "list_size": 2,
        "samples": 2,
        "batch_size": 1,
        "gradient_accumulation_steps": 1,
        "micro_batch_tokens": 1,
    }
    | {
        "steps": 1,
        "weight_decay": 0,
        "warmup_ratio": 0,
        "max_length": 8,
        "document_tokens": 1,
        "dropout": 0,
    }
    | {"validate_every": 1, "patience": 1, "seed": 0}
)
MOST: Mapping[str, float] = types.MappingProxyType(
    {"warmup_ratio": 1, "dropout": 0.99, "learning_rate": 1}
)
ABOVE_ZERO = ("epochs", "learning_rate", "head_learning_rate", "max_grad_norm")


def _check_numbers(recipe: Recipe) -> None:
    for name in (*MIN_VALUES, *MOST, *ABOVE_ZERO):
        value = getattr(recipe, name)
        if value is None:
            continue
        low, high = MIN_VALUES.get(name, -math.inf), MOST.get(name, math.inf)
        if not math.isfinite(value):
            raise InputError(f"{name} cannot be {value:g}", hint="give a number, or none")
        if not low <= value <= high:
            bounds = [f"at least {low:g}"] * (low > -math.inf) + [f"at most {high:g}"] * (
                high < math.inf
            )
            raise InputError(f"{name} cannot be {value:g}", hint=f"give {' and '.join(bounds)}")
        if name in ABOVE_ZERO and value <= 0:
            raise InputError(f"{name} cannot be {value:g}", hint="give a number above zero")


def _check_together(recipe: Recipe) -> None:
    """Refuse settings that contradict each other, and say the first that do."""
    for wrong, problem, hint in _contradictions(recipe):
        if wrong:
            raise InputError(problem, hint=hint)


def _contradictions(recipe: Recipe) -> Iterable[tuple[bool, str, str]]:
    loss, one_row, words = recipe.loss, recipe.loss in POINTWISE, recipe.scorer == "target-words"
    yield (
        (recipe.epochs is None) == (recipe.steps is None),
        f"recipe {recipe.name!r} needs either epochs or steps",
        "set one of the two",
    )
    yield (
        one_row != (recipe.sampler in ("points", "balanced")),
        f"the loss {loss!r} does not go with the sampler {recipe.sampler!r}",
        f"set sampler to {'points or balanced' if one_row else 'pairs or lists'}",
    )
    yield (
        loss == "target-words" and not words,
        "a cross-encoder has no target words",
        "set loss to softmax or bce, for example",
    )
    yield (
        loss == "softmax" and words,
        "the loss 'softmax' is for the two outputs of a cross-encoder",
        "set loss=target-words",
    )
    yield (
        not words and (recipe.outputs == 2) != (loss == "softmax"),
        f"the loss {loss!r} does not go with outputs={recipe.outputs}",
        "two outputs are for the loss softmax, one is for the others",
    )
    yield (
        recipe.scale not in (None, "probability") and (words or recipe.outputs == 2),
        f"two words or outputs give no {recipe.scale}",
        "set scale=probability",
    )
    yield (
        recipe.word_loss == "vocabulary" and loss != "target-words",
        f"the loss {loss!r} does not look at the whole vocabulary",
        "set word_loss=words",
    )
    yield (
        recipe.margin is not None and loss not in LOSSES_WITH_MARGIN,
        f"the loss {loss!r} has no margin",
        f"leave margin out, or set loss to {' or '.join(LOSSES_WITH_MARGIN)}",
    )
    yield (
        recipe.document_tokens is not None and recipe.scorer != "cross-encoder",
        f"document_tokens is for cross-encoders, not for a {recipe.scorer}",
        "set max_length",
    )
    yield (
        not words and recipe.words != WORD_PAIRS["baseline"],
        f"a {recipe.scorer} has no target words",
        "leave words out",
    )
    is_bi_encoder = recipe.scorer == "bi-encoder"
    yield (
        is_bi_encoder != (recipe.scale == "cosine")
        and (not is_bi_encoder or recipe.scale is not None),
        "a bi-encoder's score is a cosine, and no other's is",
        "leave scale out",
    )
    yield (
        recipe.fixed_documents and not is_bi_encoder,
        f"a {recipe.scorer} reads query and document together: neither can be fixed",
        "leave fixed_documents out",
    )
    yield (
        is_bi_encoder and one_row,
        f"a bi-encoder does not learn by the loss {loss!r}",
        "set loss=listwise-softmax and sampler=lists, for example",
    )
    yield (
        recipe.sampler == "balanced" and recipe.effective_batch_size % 2 == 1,
        f"a batch of {recipe.effective_batch_size} cannot be half positive",
        "set an even batch",
    )
    yield (
        recipe.samples is not None and not one_row,
        "samples are rows, not pairs or lists",
        "set samples=none",
    )
