"""`tamis.label`: which queries are labelled, what is held out, what is recorded."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamis
from tamis import Index, label
from tamis.collection.base import Collection
from tamis.collection.querylog import query_id
from tamis.errors import InputError
from tamis.labels import Examples
from tamis.labels.examples import TEST_HASHES
from tamis.labels.inputs import LabelInputs, open_inputs, split_of_file
from tamis.labels.selection import document_ids, judgements, queries_to_label, split_to_label
from tamis.models import Model
from tamis.text.near import query_hash
from tamis.types import Document, Pairs, Qrels, Queries, Query, Run, Scores
from tamis.types.pipeline import Scale

TEXTS = {"d1": "a drum sieve", "d2": "a fine sieve", "d3": "a net", "d4": "a drum", "d5": "flour"}
QUERIES = {"q1": "drum sieve", "q2": "fine net", "t1": "the flour"}
TRAIN, TEST = {"q1": {"d1": 1}, "q2": {"d3": 1}}, {"t1": {"d5": 1}}


class Length:
    """The longer the text, the better."""

    scale: Scale = "regression"

    def score(self, pairs: Pairs) -> Scores:
        lengths = np.array([len(text) for text in pairs.texts], np.float32)
        return Scores(lengths[pairs.index[:, 1]], np.zeros(len(pairs), np.int32))


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index.build(TEXTS, tmp_path / "index")


@pytest.fixture
def collection() -> Collection:
    splits = {"train": Qrels.from_dict(TRAIN), "test": Qrels.from_dict(TEST)}
    documents = [Document(name, text) for name, text in TEXTS.items()]
    queries = Queries.of(Query(name, text) for name, text in QUERIES.items())
    return Collection("tools", "objects", documents, lambda: queries, lambda: splits)


def labelled(examples: Examples) -> list[str]:
    return sorted({examples.queries.ids[n] for n in examples.query.tolist()})


def test_label_is_lazy_and_needs_no_torch() -> None:
    code = (
        "import sys, tamis; assert 'tamis.label' not in sys.modules; sys.modules['torch'] = None;"
        "tamis.label.pseudo; print(tamis.label.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "tamis.label", done.stderr


def test_pseudo_takes_strings(index: Index) -> None:
    made = label.pseudo(index, ["drum sieve"])
    assert labelled(made) == [query_id("drum sieve")]
    assert made.docs.take(made.doc[made.is_role("positive")]) == ["d1"]
    assert made.facts["candidates"] == "bm25 k1=0.9 b=0.4 of index"
    assert tamis.label.pseudo(index, [{"id": "q1", "text": "drum sieve"}]).facts["labelled_by"] == (
        "pseudo"
    )
    by_path = label.pseudo(index.path, ["drum sieve"])
    assert by_path == made


def test_gold_takes_dictionaries(index: Index) -> None:
    queries = {name: QUERIES[name] for name in ("q1", "q2")}
    made = label.gold(index, queries, TRAIN)
    assert labelled(made) == ["q1", "q2"]
    assert sorted(made.docs.take(made.doc[made.is_role("positive")])) == ["d1", "d3"]
    assert made == label.gold(index, queries, Qrels.from_dict(TRAIN))
    assert made == label.gold(index, queries, {"train": TRAIN})


@pytest.mark.parametrize("maker", ["gold", "pseudo", "weak", "teacher", "transfer"])
def test_no_maker_labels_test_queries(maker: str, index: Index, collection: Collection) -> None:
    more: dict[str, Any] = {"teacher": {"model": Length()}}.get(maker, {})
    made = getattr(label, maker)(index, collection, **more)
    assert labelled(made) == ["q1", "q2"]
    assert made.facts[TEST_HASHES] == [query_hash(QUERIES["t1"])]


def test_a_query_that_repeats_a_test_query_is_left_out(
    index: Index, collection: Collection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tamis")
    queries = Queries.of([Query("x", "The flour?"), Query("y", "drum sieve")])
    inputs = open_inputs(collection, index, queries)
    assert list(queries_to_label(inputs).ids) == ["y"]
    assert "such as x" in caplog.text


def test_judgements_handed_in_do_not_free_test_queries(collection: Collection) -> None:
    inputs = open_inputs(collection, qrels={"train": {"t1": {"d5": 1}, "q1": {"d1": 1}}})
    assert list(inputs.held_out.ids) == ["t1"]
    assert sorted(inputs.splits) == ["test", "train"]
    other = open_inputs(collection, qrels={"test": {"q2": {"d3": 1}}})
    assert list(other.held_out.ids) == ["q2", "t1"]
    assert list(queries_to_label(inputs, judgements(inputs).queries).ids) == ["q1"]


def test_the_split_is_the_only_one_that_is_no_test(collection: Collection) -> None:
    assert split_to_label(open_inputs(collection)) == "train"
    with pytest.raises(InputError, match="is a test split"):
        split_to_label(open_inputs(collection, split="test"))
    with pytest.raises(InputError, match="which may be learnt from"):
        split_to_label(open_inputs(["x"], qrels={"train": TRAIN, "dev": TRAIN}))
    with pytest.raises(InputError, match="test queries only"):
        split_to_label(open_inputs(["x"], qrels={"test": TEST}))
    with pytest.raises(InputError, match="no judgements of a split 'dev'"):
        judgements(open_inputs(collection, split="dev"))


def test_a_file_called_a_test_is_one(tmp_path: Path) -> None:
    file = tmp_path / "test.qrels"
    file.write_text("t1 0 d5 1\n")
    inputs = open_inputs(["x"], queries=QUERIES, qrels=file)
    assert inputs.held_out.splits == ("test",)
    assert split_of_file("judged.txt") == "train"


def test_scores_of_a_model(index: Index) -> None:
    queries = {"q1": "drum sieve"}
    for model in (Length(), Model(Length(), "length")):
        made = label.teacher(index, queries, model=model)
        by_document = dict(zip(made.docs.take(made.doc), made.value.tolist(), strict=True))
        assert by_document == {name: len(TEXTS[name]) for name in ("d1", "d2", "d4")}
    assert label.weak(index, queries).value.max() == 5


def test_candidates_of_a_run(collection: Collection) -> None:
    run = Run.from_dict({"q1": {"d2": 2.0, "d1": 1.0}, "t1": {"d5": 1.0, "d1": 0.5}})
    made = label.pseudo(collection, run=run)
    assert labelled(made) == ["q1"]
    assert made.docs.take(made.doc[made.is_role("positive")]) == ["d2"]
    with pytest.raises(InputError, match="has none of the"):
        label.pseudo(collection, run=Run.from_dict({"other": {"d2": 2.0}}))


def test_documents_carry_their_judgement_to_passages(index: Index) -> None:
    made = label.transfer(index, {"q1": "drum sieve"}, {"q1": {"d1": 1}}, passages="whole")
    assert made.facts["method"] == "doc-labelled"
    assert made.docs.take(made.doc[made.value == 1]) == ["d1"]


def test_queries_made_from_documents(tmp_path: Path) -> None:
    words = ["sieve", "drum", "net", "mill"]
    records: list[Any] = [
        {"id": f"d{n}", "title": f"number {word}", "text": f"A {word} sorts grain by hand. " * 9}
        for n, word in enumerate(words)
    ]
    records += [("other", "A number of things, none of which sorts anything at all. " * 5)]
    made = label.synthetic(Index.build(records, tmp_path / "index"), count=2, made_of="title")
    assert made.facts["requested"] == 2
    assert made.origins


def test_natural_mistakes_are_told(index: Index, collection: Collection) -> None:
    for call, problem in (
        (lambda: label.pseudo(index), "has no queries"),
        (lambda: label.pseudo(["text"], ["query"]), "is no index"),
        (lambda: label.gold(index, {"q1": "x"}), "has no judgements"),
        (lambda: label.pseudo(index, "drum sieve"), "no file or folder"),
        (lambda: open_inputs(index, index), "an index already"),
        (lambda: label.pseudo(open_inputs(index), ["sieve"]), "open already"),
    ):
        with pytest.raises(InputError, match=problem) as error:
            call()
        assert error.value.hint


def test_ids_of_all_documents(index: Index, collection: Collection) -> None:
    index.delete(["d5"])
    assert list(document_ids(open_inputs(index))) == ["d1", "d2", "d3", "d4"]
    assert list(document_ids(open_inputs(collection))) == list(TEXTS)
    assert isinstance(open_inputs(index), LabelInputs)
