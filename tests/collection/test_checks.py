"""Ids met before, in little memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.collection.checks import SeenIds


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=50))
@settings(deadline=None)
def test_an_id_is_new_once(ids: list[str]) -> None:
    seen, known = SeenIds(), set[str]()
    for doc_id in ids:
        assert seen.is_new(doc_id) is (doc_id not in known)
        known.add(doc_id)


def test_many_ids_in_little_memory() -> None:
    seen = SeenIds()
    assert all(seen.is_new(f"d{n}") for n in range(20_000))
    assert not any(seen.is_new(f"d{n}") for n in range(20_000))
    assert seen._slots.nbytes <= 32_768 * 8
