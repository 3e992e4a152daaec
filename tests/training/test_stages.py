"""Which trainings a recipe stands for, what each learns from, what is held out of it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tamis.errors import InputError
from tamis.labels import Examples, join_examples
from tamis.labels.examples import LABEL_SOURCES, TEST_HASHES
from tamis.labels.inputs import open_inputs
from tamis.pipeline.document_lookup import MappingLookup
from tamis.text.near import query_hash
from tamis.training.stages import recipes_of, refuse_shared, stages_of, with_held_out
from tamis.training.training_data import (
    as_examples,
    collect_test_queries,
    drop_test_queries,
    find_facts,
    refuse_absent,
    warn_of_teacher,
    with_all_texts,
    with_query_texts,
)
from tamis.types import Document, Queries, Query

TEXTS = {f"q{n:02}": f"question number {n} on topic {n * 7}" for n in range(40)}
QUERIES = Queries.of(Query(name, text) for name, text in TEXTS.items())
LIBRARY = MappingLookup({"a": Document("a", "sieve"), "b": Document("b", "net")})


def examples_of(names: list[str], **more: Any) -> Examples:
    rows: list[Any] = []
    for name in names:
        rows += [(name, "a", 1.0, "positive"), (name, "b", 0.0, "negative")]
    return Examples.of_rows(rows, source=more.pop("source", "gold"), **more).with_queries(QUERIES)


def names_in(examples: Examples | None) -> set[str]:
    assert examples is not None
    return {examples.queries.ids[n] for n in examples.query.tolist()}


GOLD = examples_of(list(TEXTS))
WEAK = examples_of(list(TEXTS), source="weak", kind="scaled")


def test_a_chain_learns_from_scores_and_then_from_judgements() -> None:
    recipes = recipes_of("infuse-small", {"seed": "3"})
    assert [recipe.seed for recipe in recipes] == [3, 3]
    first, second = stages_of("infuse-small", recipes, [GOLD, WEAK])
    assert (first.examples.source == LABEL_SOURCES.index("weak")).all()
    assert (second.examples.source == LABEL_SOURCES.index("gold")).all()
    [single] = stages_of("docrank", recipes_of("docrank", {}), [GOLD, WEAK])
    assert len(single.examples) == len(GOLD) + len(WEAK)


@pytest.mark.parametrize(("part", "missing"), [(GOLD, "weak"), (WEAK, "gold")])
def test_a_chain_needs_both(part: Examples, missing: str) -> None:
    with pytest.raises(InputError, match=f"no {missing} examples"):
        stages_of("infuse", recipes_of("infuse", {}), [part])


def test_no_stage_learns_from_what_any_is_validated_on() -> None:
    fewer = examples_of(list(TEXTS)[5:35])
    stages = stages_of("infuse", recipes_of("infuse", {}), [fewer, WEAK])
    first, second = with_held_out(stages, None)
    for learning in (first, second):
        assert not names_in(learning.examples) & names_in(second.held_out)
    assert not names_in(first.examples) & names_in(first.held_out)


def test_validation_examples_are_those_handed_in_or_none() -> None:
    learn, other = examples_of(list(TEXTS)[:30]), examples_of(list(TEXTS)[30:])
    stages = stages_of("docrank", recipes_of("docrank", {}), [learn])
    [stage] = with_held_out(stages, other)
    assert stage.held_out is other
    assert len(stage.examples) == len(learn)
    [stage] = with_held_out(stages, None, no_validation=True)
    assert stage.held_out is None
    assert stage.validation is None
    with pytest.raises(InputError, match="both learnt from and validated on"):
        refuse_shared(learn, learn)


def test_scores_are_validated_by_a_measure_of_grades_unless_one_is_set() -> None:
    def measure(settings: dict[str, str], part: Examples) -> str:
        [stage] = with_held_out(stages_of("docrank", recipes_of("docrank", settings), [part]), None)
        assert stage.validation is not None
        return stage.validation.measure

    assert measure({}, WEAK) == "nDCG@10"
    assert measure({"measure": "RR@5"}, WEAK) == "RR@5"
    assert measure({}, GOLD) == recipes_of("docrank", {})[0].measure


def test_nothing_to_learn_from_is_refused_and_equal_values_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stages = stages_of("docrank", recipes_of("docrank", {}), [GOLD])
    with pytest.raises(InputError, match="no examples to learn from"):
        with_held_out([replace(stages[0], examples=GOLD.select(GOLD.value > 5))], None)
    only = replace(stages[0], examples=GOLD.select(GOLD.is_role("positive")))
    with_held_out([only], None, no_validation=True)
    assert [record.levelno for record in caplog.records if "all values" in record.message] == [
        logging.WARNING
    ]


def test_test_queries_are_dropped_by_id_text_and_hash(caplog: pytest.LogCaptureFixture) -> None:
    inputs = open_inputs(["x"], queries=QUERIES, qrels={"test": {"q00": {"a": 1}}})
    known = replace(GOLD, facts={TEST_HASHES: [query_hash(TEXTS["q01"])]})
    other = replace(GOLD, facts={TEST_HASHES: [query_hash(TEXTS["q02"])]})
    test = collect_test_queries(inputs, [join_examples([known, other])])
    left = drop_test_queries(GOLD, test, LIBRARY, "learnt from")
    assert set(TEXTS) - names_in(left) == {"q00", "q01", "q02"}
    assert "3 queries not learnt from" in caplog.text


def test_documents_that_are_not_there_are_refused() -> None:
    refuse_absent([GOLD], LIBRARY)
    with pytest.raises(InputError, match="document 'b' of the examples is not in the collection"):
        refuse_absent([GOLD], MappingLookup({"a": Document("a", "sieve")}))


def test_a_teacher_as_base_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    taught = replace(GOLD, facts={"teacher": "strong"})
    warn_of_teacher("weak", [taught])
    assert not caplog.records
    warn_of_teacher("strong", [join_examples([GOLD, taught])])
    assert "is the teacher that made these labels" in caplog.text
    assert list(find_facts(join_examples([GOLD, taught]).facts, "teacher")) == ["strong"]


def test_texts_are_those_handed_in_else_their_own_else_the_collections() -> None:
    bare = Examples.of_rows([("q00", "a", 1.0, "positive")], source="gold")
    own = bare.with_queries(Queries.of([Query("q00", "own")]))

    def text(part: Examples, queries: Any) -> str:
        with_texts = with_query_texts(part, open_inputs(["x"], queries=queries))
        return with_texts.queries["q00"].text

    assert text(own, None) == "own"
    assert text(own, {"q00": "handed in"}) == "handed in"
    assert text(bare, {"q00": "handed in"}) == "handed in"
    with pytest.raises(InputError, match="is not in the collection"):
        text(bare, None)


def test_joined_parts_keep_their_texts() -> None:
    bare = Examples.of_rows([("made", "a", 1.0, "positive")], source="synthetic")
    joined = join_examples(with_all_texts([GOLD, bare]))
    assert joined.queries["q00"].text == TEXTS["q00"]


@pytest.mark.parametrize("examples", [7, [], [GOLD, None], None])
def test_what_are_no_examples_is_told(examples: Any) -> None:
    with pytest.raises(InputError, match="examples"):
        as_examples(examples)


def test_examples_are_read_from_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        as_examples(tmp_path / "none.parquet")
