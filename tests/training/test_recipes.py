"""Recipes: the papers' settings to the letter, a source beside each, and what can be changed."""

from __future__ import annotations

import json
from dataclasses import MISSING, FrozenInstanceError, fields
from typing import Any, get_args

import pytest

from tamis.errors import InputError
from tamis.evaluation.measures import parse_measure
from tamis.training.losses import WITH_MARGIN
from tamis.training.recipe import LOSSES_WITH_MARGIN, SETTABLE, Loss, Recipe
from tamis.training.recipes import CHAINS, RECIPES, WORD_PAIRS, resolve

OURS = ("bi-encoder", "query-encoder")
PAPER = [name for name in RECIPES if not name.endswith("-small") and name not in OURS]

SETTINGS: dict[str, dict[str, Any]] = {
    "monot5": {
        "optimizer": "adafactor",
        "learning_rate": 1e-3,
        "schedule": "constant",
        "warmup_ratio": 0.0,
        "sampler": "balanced",
        "batch_size": 128,
        "max_length": 512,
        "steps": 100_000,
        "keep": "last",
        "words": ("true", "false"),
        "scorer": "target-words",
    },
    "few-t5": {
        "samples": 2000,
        "batch_size": 32,
        "epochs": 3,
        "learning_rate": 1e-3,
        "steps": None,
        "scorer": "target-words",
        "loss": "target-words",
    },
    "few-bert": {
        "samples": 2000,
        "batch_size": 32,
        "epochs": 3,
        "learning_rate": 1e-6,
        "warmup_ratio": 0.0,
        "scorer": "cross-encoder",
        "outputs": 2,
        "loss": "softmax",
    },
    "few-bert-tuned": {"samples": 2000, "batch_size": 32, "epochs": 3, "learning_rate": 5e-5},
    "monobert-pairwise": {
        "loss": "margin",
        "margin": 1.0,
        "sampler": "pairs",
        "batch_size": 16,
        "optimizer": "adamw",
        "weight_decay": 1e-7,
        "warmup_ratio": 0.2,
        "learning_rate": 2e-5,
        "head_learning_rate": 2e-4,
        "document_tokens": 445,
        "epoch_rule": "falling",
    },
    "infuse-scores": {
        "epochs": 3,
        "batch_size": 32,
        "max_length": 128,
        "gradient_accumulation_steps": 8,
        "loss": "squared",
        "outputs": 1,
        "then": "infuse-gold",
    },
    "infuse-gold": {
        "epochs": 4,
        "batch_size": 32,
        "max_length": 128,
        "gradient_accumulation_steps": 8,
        "loss": "squared",
        "outputs": 1,
        "fresh_head": False,
        "then": None,
    },
    "docrank": {
        "loss": "bce",
        "learning_rate": 1e-5,
        "batch_size": 16,
        "max_length": 512,
        "seed": 123,
        "outputs": 1,
        "sampler": "balanced",
    },
}


@pytest.mark.parametrize("name", PAPER)
def test_settings_are_those_of_the_papers(name: str) -> None:
    assert {key: getattr(RECIPES[name], key) for key in SETTINGS[name]} == SETTINGS[name]


def test_every_paper_recipe_has_a_small_sibling() -> None:
    assert set(RECIPES) == {*SETTINGS, *(f"{name}-small" for name in SETTINGS), *OURS}
    for name in PAPER:
        small, whole = RECIPES[f"{name}-small"], RECIPES[name]
        assert (small.loss, small.scorer, small.sampler, small.outputs) == (
            whole.loss,
            whole.scorer,
            whole.sampler,
            whole.outputs,
        )
        assert small.max_length <= 256


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_has_a_source(name: str) -> None:
    recipe = RECIPES[name]
    for one in fields(Recipe):
        if one.name in ("name", "sources"):
            continue
        assert one.default is not MISSING
        if getattr(recipe, one.name) != one.default:
            assert recipe.sources.get(one.name), f"{one.name} of {name} has no source"
    for key, source in recipe.sources.items():
        assert key in {one.name for one in fields(Recipe)}
        assert source.startswith(("Nogueira", "Yadav", "Rudra", "Mokrii", "ours: ")), source


@pytest.mark.parametrize("name", RECIPES)
def test_measures_are_measures(name: str) -> None:
    assert str(parse_measure(RECIPES[name].measure)) == RECIPES[name].measure


def test_the_epoch_rule() -> None:
    rule = RECIPES["monobert-pairwise"].epochs_for
    wanted = {
        1: 32,
        8: 32,
        31: 32,
        32: 32,
        100: 18,
        128: 16,
        200: 13,
        512: 8,
        1000: 6,
        2048: 4,
        8192: 2,
        14_563: 2,
        14_564: 1,
        32_768: 1,
        10**6: 1,
    }
    assert {queries: rule(queries) for queries in wanted} == wanted


def test_steps_of_a_training() -> None:
    assert RECIPES["monot5"].total_steps(7, 10) == 100_000
    assert RECIPES["few-bert"].total_steps(63, 900) == 189
    assert RECIPES["monobert-pairwise"].total_steps(63, 1000) == 6 * 63
    assert resolve("docrank", {"epochs": "0.25"}).total_steps(100, 9) == 25
    assert resolve("docrank", {"epochs": "0.256"}).total_steps(100, 9) == 26
    assert resolve("docrank", {"epochs": "0.001"}).total_steps(100, 9) == 1


def test_a_step_of_infusion_sees_256_rows() -> None:
    assert RECIPES["infuse-scores"].effective_batch_size == 256


def test_the_six_pairs_of_words() -> None:
    assert list(WORD_PAIRS.values()) == [
        ("true", "false"),
        ("false", "true"),
        ("hot", "cold"),
        ("apple", "orange"),
        ("hot", "orange"),
        ("▁ab", "▁de"),
    ]
    for name, words in WORD_PAIRS.items():
        assert resolve("few-t5", {"words": name}).words == words
    assert resolve("few-t5", {"words": "yes, no"}).words == ("yes", "no")


TEXTS = {
    "scorer": "cross-encoder",
    "loss": "bce",
    "margin": "0.5",
    "sampler": "balanced",
    "list_size": "7",
    "samples": "40",
    "batch_size": "6",
    "gradient_accumulation_steps": "3",
    "micro_batch_tokens": "512",
    "epochs": "2.5",
    "epoch_rule": "falling",
    "steps": "9",
    "optimizer": "adafactor",
    "learning_rate": "3e-4",
    "head_learning_rate": "1e-2",
    "weight_decay": "0.02",
    "warmup_ratio": "0.3",
    "schedule": "linear",
    "max_grad_norm": "0.7",
    "max_length": "99",
    "document_tokens": "50",
    "outputs": "1",
    "scale": "regression",
    "dropout": "0.2",
    "words": "hot,cold",
    "word_loss": "words",
    "fresh_head": "true",
    "fixed_documents": "false",
    "keep": "best",
    "validate_every": "11",
    "patience": "4",
    "measure": "AP",
    "seed": "5",
}


def test_every_field_can_be_set_from_text() -> None:
    assert (
        set(TEXTS)
        == set(SETTABLE)
        == {one.name for one in fields(Recipe)} - {"name", "then", "sources"}
    )
    others = {"margin": "monobert-pairwise", "words": "few-t5"}
    for name, text in TEXTS.items():
        changed = resolve(others.get(name, "docrank"), {name: text})
        value = getattr(changed, name)
        if isinstance(value, float):
            assert value == float(text)
        else:
            assert (",".join(value) if name == "words" else str(value).lower()) == text.lower()
        assert changed.sources[name] == "set by hand"


def test_types_are_kept() -> None:
    texts = {name: text for name, text in TEXTS.items() if name not in ("margin", "words")}
    changed = resolve("docrank", texts | {"epochs": "none", "epoch_rule": "fixed"})
    kinds = {
        name: type(getattr(changed, name)) for name in ("learning_rate", "steps", "fresh_head")
    }
    assert kinds == {"learning_rate": float, "steps": int, "fresh_head": bool}
    assert resolve("monobert-pairwise", {"head_learning_rate": "none"}).head_learning_rate is None
    assert resolve("docrank", {"outputs": "2", "loss": "softmax"}).outputs == 2
    assert resolve("few-t5-small", {"word_loss": "vocabulary"}).word_loss == "vocabulary"


def test_settings_that_nothing_reads_are_refused() -> None:
    assert set(LOSSES_WITH_MARGIN) == set(WITH_MARGIN)
    for name, settings, problem in [
        ("few-bert", {"margin": "5"}, "the loss 'softmax' has no margin"),
        ("few-bert", {"words": "hot,cold"}, "a cross-encoder has no target words"),
        ("few-t5", {"document_tokens": "9"}, "document_tokens is for cross-encoders"),
        ("docrank", {"measure": "foo"}, "foo"),
    ]:
        with pytest.raises(InputError, match=problem):
            resolve(name, settings)
    changed = resolve("monobert-pairwise", {"loss": "bce", "sampler": "points"})
    assert (changed.margin, changed.document_tokens) == (None, 445)
    assert changed.source_of("margin") == RECIPES["monobert-pairwise"].source_of("margin")
    assert resolve("docrank", {"measure": "P@1"}).measure == "P@1"


NAMED = {
    "monot5": (
        "loss",
        "batch_size",
        "steps",
        "learning_rate",
        "schedule",
        "max_length",
        "words",
        "keep",
    ),
    "few-t5": ("samples", "batch_size", "epochs", "learning_rate", "words"),
    "few-bert": ("samples", "batch_size", "epochs", "learning_rate", "warmup_ratio"),
    "monobert-pairwise": (
        "loss",
        "batch_size",
        "epochs",
        "optimizer",
        "learning_rate",
        "head_learning_rate",
        "weight_decay",
        "warmup_ratio",
        "document_tokens",
    ),
    "infuse-scores": ("loss", "batch_size", "gradient_accumulation_steps", "epochs", "max_length"),
    "infuse-gold": (
        "loss",
        "batch_size",
        "gradient_accumulation_steps",
        "epochs",
        "max_length",
        "fresh_head",
    ),
    "docrank": ("loss", "sampler", "batch_size", "learning_rate", "max_length", "seed"),
}
"""What the papers say themselves."""


@pytest.mark.parametrize("name", NAMED)
def test_what_a_paper_says_is_said_to_be_the_papers(name: str) -> None:
    for setting in NAMED[name]:
        said = RECIPES[name].source_of(setting)
        assert not said.startswith("ours"), f"{setting} of {name}: {said}"


def test_steps_and_epochs_take_each_others_place() -> None:
    stepped = resolve("monobert-pairwise", {"steps": "50"})
    assert (stepped.steps, stepped.epochs, stepped.epoch_rule) == (50, None, "fixed")
    assert resolve("monot5", {"epochs": "2"}).steps is None


WRONG = [
    ({"learning_rat": "1"}, "there is no setting 'learning_rat'", "learning_rate"),
    ({"learning_rate": "fast"}, "rate cannot be 'fast'", "a number; now it is 1e-05"),
    ({"learning_rate": "nan"}, "rate cannot be nan", "give a number"),
    ({"max_grad_norm": "inf"}, "max_grad_norm cannot be inf", "give a number"),
    ({"learning_rate": "0"}, "rate cannot be 0", "above zero"),
    ({"batch_size": "1.5"}, "batch_size cannot be '1.5'", "a whole number"),
    ({"batch_size": "0"}, "batch_size cannot be 0", "at least 1"),
    ({"warmup_ratio": "20"}, "warmup_ratio cannot be 20", "at least 0 and at most 1"),
    ({"fresh_head": "maybe"}, "fresh_head cannot be 'maybe'", "true or false"),
    ({"loss": "hinge"}, "loss cannot be 'hinge'", "listwise-hinge"),
    ({"outputs": "3"}, "outputs cannot be '3'", "1, 2"),
    ({"words": "hot"}, "'hot' are not two words", "antonyms"),
    ({"name": "x"}, "there is no setting 'name'", ""),
    ({"epochs": "none"}, "needs either epochs or steps", "one of the two"),
    ({"loss": "margin"}, "does not go with the sampler 'balanced'", "pairs or lists"),
    ({"sampler": "pairs"}, "does not go with the sampler 'pairs'", "points or balanced"),
    ({"loss": "target-words"}, "a cross-encoder has no target words", "softmax"),
    ({"loss": "softmax"}, "does not go with outputs=1", "two outputs"),
    ({"word_loss": "vocabulary"}, "does not look at the whole vocabulary", "word_loss=words"),
    ({"scale": "cosine"}, "is a cosine, and no other", "leave scale out"),
    ({"loss": "softmax", "outputs": "2", "scale": "logit"}, "give no logit", "scale=probability"),
    ({"outputs": "2"}, "does not go with outputs=2", "two outputs"),
    ({"scorer": "target-words", "loss": "softmax"}, "two outputs of a cross-encoder", "target"),
    ({"sampler": "balanced", "batch_size": "5"}, "a batch of 5 cannot be half positive", "even"),
    ({"sampler": "pairs", "loss": "margin", "samples": "8"}, "samples are rows", "samples=none"),
]


@pytest.mark.parametrize(("settings", "problem", "hint"), WRONG)
def test_what_cannot_be_is_refused_with_a_hint(
    settings: dict[str, str], problem: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        resolve("docrank", settings)
    assert problem in str(caught.value)
    assert hint in caught.value.hint


def test_names_that_are_not_recipes() -> None:
    with pytest.raises(InputError, match="there is no recipe 'monot6'") as caught:
        resolve("monot6")
    assert "monot5" in caught.value.hint
    assert CHAINS["infuse"] == ("infuse-scores", "infuse-gold")
    for name, (first, second) in CHAINS.items():
        assert RECIPES[first].then == second
        with pytest.raises(InputError, match="two trainings") as caught:
            resolve(name)
        assert f"train {first} on weak" in caught.value.hint
        assert "from that model; tamis train does both" in caught.value.hint


@pytest.mark.parametrize("name", RECIPES)
def test_a_record_is_plain_json_and_comes_back(name: str) -> None:
    recipe = resolve(name, {"seed": "9"})
    record = json.loads(json.dumps(recipe.record()))
    assert Recipe.of_record(record) == recipe
    assert record["sources"]["seed"] == "set by hand"


def test_recipes_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        RECIPES["docrank"].learning_rate = 1.0  # type: ignore[misc]
    before = dict(RECIPES["docrank"].sources)
    resolve("docrank", {"learning_rate": "0.5"})
    assert RECIPES["docrank"].sources == before


def test_every_loss_has_a_use_in_some_setting() -> None:
    for loss in get_args(Loss):
        sampler = "points" if loss in ("softmax", "bce", "target-words", "squared") else "lists"
        scorer = "target-words" if loss == "target-words" else "cross-encoder"
        settings = {"loss": loss, "sampler": sampler, "scorer": scorer}
        made = resolve("docrank", settings | ({"outputs": "2"} if loss == "softmax" else {}))
        assert made.loss == loss
