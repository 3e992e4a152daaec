"""Parts of queries that leak nothing."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.errors import InputError
from tamis.splits import SHARES, HeldOut, folds, is_test, split
from tamis.text.near import near_duplicates
from tamis.types import Ids, Qrels, Queries, Query


def different(count: int) -> Queries:
    return Queries.of(Query(f"q{n:03}", f"word{n} other{n}") for n in range(count))


LOGS = st.lists(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4).map(" ".join),
    min_size=3,
    max_size=40,
).map(lambda texts: [Query(f"q{n}", text) for n, text in enumerate(texts)])


def groups(queries: Queries) -> list[set[str]]:
    assert queries.texts is not None
    alike = near_duplicates(queries.texts)
    alone = set(range(len(queries))).difference(*alike)
    return [{queries.ids[n] for n in group} for group in [*alike, *([n] for n in alone)]]


@settings(max_examples=80, deadline=None)
@given(LOGS, st.integers(0, 3))
def test_parts_are_disjoint_complete_and_keep_the_alike_together(
    log: list[Query], seed: int
) -> None:
    queries = Queries.of(log)
    together = groups(queries)
    if len(together) < 3:
        with pytest.raises(InputError, match=f"{len(together)} of them different"):
            split(queries, seed=seed)
        return
    parts = split(queries, seed=seed)
    assert list(parts) == ["train", "validation", "test"]
    assert sorted(id for part in parts.values() for id in part) == sorted(q.id for q in log)
    for group in together:
        assert len({name for name, part in parts.items() for id in group if id in part}) == 1
    assert all(len(part) for part in parts.values())
    Random(seed).shuffle(log)
    assert split(Queries.of(log), seed=seed) == parts


@pytest.mark.parametrize("count", [3, 5, 10, 33, 100, 301])
@pytest.mark.parametrize(
    "shares", [SHARES, {"a": 1, "b": 1}, {"a": 8.0, "b": 1.0, "c": 1.0}, {"all": 0.1}]
)
def test_sizes_are_close_to_the_shares(count: int, shares: dict[str, float]) -> None:
    parts = split(different(count), shares)
    for name, share in shares.items():
        wanted = share / sum(shares.values()) * count
        assert abs(len(parts[name]) - wanted) < 2, (name, wanted, len(parts[name]))


def test_large_groups_fit() -> None:
    alike = [Query(f"s{n}", "the same words") for n in range(20)]
    queries = Queries.of([*different(80), *alike])
    sizes = {name: len(part) for name, part in split(queries).items()}
    assert sizes == {"train": 60, "validation": 20, "test": 20}


def test_seeds_differ_and_repeat() -> None:
    queries = different(50)
    assert split(queries, seed=1) == split(queries, seed=1)
    assert len({tuple(split(queries, seed=seed)["test"]) for seed in range(5)}) == 5


def test_queries_without_texts_are_split_too() -> None:
    parts = split(Queries(Ids.of(f"q{n}" for n in range(10))))
    assert [len(part) for part in parts.values()] == [6, 2, 2]


@pytest.mark.parametrize("share", [0.0, -0.5])
def test_a_part_without_a_share(share: float) -> None:
    with pytest.raises(InputError, match="share above zero"):
        split(different(10), {"train": 1.0, "test": share})


def test_too_few_queries() -> None:
    with pytest.raises(InputError, match="cannot make 3 parts") as caught:
        split(different(2))
    assert caught.value.hint
    alike = Queries.of(Query(f"q{n}", "one and the same") for n in range(9))
    with pytest.raises(InputError, match="9 queries, 1 of them different, cannot make 2 parts"):
        folds(alike, 2)


@settings(max_examples=50, deadline=None)
@given(st.integers(6, 40), st.integers(2, 6), st.integers(0, 2))
def test_every_query_is_held_out_once(count: int, k: int, seed: int) -> None:
    queries = different(count)
    made = folds(queries, k, seed=seed)
    assert len(made) == k
    assert sorted(id for _, held_out in made for id in held_out) == list(queries.ids)
    for learn, held_out in made:
        assert not set(learn) & set(held_out)
        assert sorted([*learn, *held_out]) == list(queries.ids)
        assert np.all(np.diff([queries.ids.number(id) for id in learn]) > 0)
    sizes = [len(held_out) for _, held_out in made]
    assert max(sizes) - min(sizes) <= 1


def test_folds_keep_the_alike_together() -> None:
    log = [Query(f"q{n}{side}", f"about thing {n}") for n in range(12) for side in "ab"]
    for learn, held_out in folds(Queries.of(log), 4):
        assert {id[:-1] for id in learn}.isdisjoint({id[:-1] for id in held_out})


@pytest.mark.parametrize("k", [1, 0, -3])
def test_too_few_folds(k: int) -> None:
    with pytest.raises(InputError, match="leave nothing to learn from"):
        folds(different(10), k)


def answered(by: dict[str, list[str]]) -> tuple[Queries, Qrels]:
    texts = {query: f"{query} alpha{query} beta{query}" for query in by}
    qrels = Qrels.from_dict(
        {query: dict.fromkeys(docs, 1) | {"none": 0} for query, docs in by.items()}
    )
    return Queries.of([Query(query, text) for query, text in texts.items()]), qrels


def test_queries_with_the_same_answer_stay_together() -> None:
    queries, qrels = answered({f"q{n:02}": [f"d{n // 3}"] for n in range(60)})
    parts = split(queries, seed=3, answers=qrels)
    for part in parts.values():
        own = {doc for query in part for doc, grade in qrels[query].items() if grade}
        others = {query for query in queries.ids if query not in part}
        assert not own & {doc for query in others for doc, g in qrels[query].items() if g}
    for learn, held in folds(queries, 3, seed=3, answers=qrels):
        assert len(learn) + len(held) == 60
        assert len({f"d{int(name[1:]) // 3}" for name in held}) * 3 == len(held)
    assert split(queries, seed=3) != parts


def test_answers_that_nearly_all_share_do_not_hinder_a_split() -> None:
    queries, qrels = answered({f"q{n:02}": ["d0" if n < 50 else f"d{n}"] for n in range(60)})
    assert split(queries, seed=3, answers=qrels) == split(queries, seed=3)


def test_test_splits_are_known_by_their_names() -> None:
    held_out = ["test", "devtest", "testset", "TestA", "latest", "my_TEST-2", "contest"]
    assert all(map(is_test, held_out))
    assert not any(map(is_test, ["train", "dev", "validation", "tes", "t e s t", ""]))


def test_what_repeats_a_test_query_leaks() -> None:
    texts = {
        "t": "What are the symptoms of flu in small children?",
        "id": "",
        "same": "what are the  SYMPTOMS of flu in small children",
        "near": "symptoms of flu in small children: what are the",
        "far": "What are the causes of flu in old people?",
        "blank": "?",
    }
    queries = Queries.of(Query(name, text) for name, text in texts.items())
    judged = {"MyTest": Qrels.from_dict({"t": {"d": 1}, "id": {"d": 1}, "unknown": {"d": 1}}),
              "train": Qrels.from_dict({"far": {"d": 1}})}  # fmt: skip
    held_out = HeldOut.of(judged, queries)
    assert held_out.splits == ("MyTest",)
    assert {*held_out.leaks(queries)} == {"t", "id", "same", "near"}
    others = Queries.of(query for query in queries if query.id not in ("t", "id"))
    assert {*held_out.leaks(others)} == {"same", "near"}, "test queries need not be among them"
    by_hash = HeldOut.of({}, None, hashes=held_out.hashes)
    assert {*by_hash.leaks(queries)} == {"t", "same"}, "of hashes only the same text is known"
    assert [*HeldOut.of({}, queries).leaks(queries)] == []
    assert {*held_out.leaks(Queries(queries.ids))} == {"t", "id"}, "ids do without texts"
