import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.types import Ids
from tamis.types._string_numbers import Interner
from tamis.types._strings import pack, sort_table

SHORT = st.text("ab01\0é", max_size=6)
LONG = st.builds(lambda head, tail: "collection-of-texts-" * head + tail, st.integers(0, 2), SHORT)
STRINGS = st.one_of(st.lists(SHORT, max_size=200), st.lists(LONG, max_size=200))


def by_bytes(strings: list[str]) -> list[str]:
    return sorted(set(strings), key=str.encode)


@given(STRINGS)
@settings(deadline=None)
def test_ids_are_distinct_and_sorted_by_bytes(strings: list[str]) -> None:
    ids, numbers = Ids.numbering(strings)
    assert list(ids) == by_bytes(strings)
    assert [ids[number] for number in numbers] == strings


@given(STRINGS, STRINGS)
@settings(deadline=None)
def test_positions_and_union(here: list[str], there: list[str]) -> None:
    ids, others = Ids.of(here), Ids.of(there)
    where = {name: number for number, name in enumerate(by_bytes(there))}
    assert ids.positions_in(others).tolist() == [where.get(name, -1) for name in by_bytes(here)]
    assert list(ids.union(others)) == by_bytes(here + there)


@given(st.lists(SHORT, max_size=300), st.integers(1, 50))
@settings(deadline=None)
def test_interning_in_pieces_numbers_by_first_sight(strings: list[str], piece: int) -> None:
    interner, numbers = Interner(), []
    for start in range(0, len(strings), piece):
        data, offsets = pack(strings[start : start + piece])
        numbers += interner.add(data, offsets[:-1], offsets[1:]).tolist()
    first_seen = list(dict.fromkeys(strings))
    assert numbers == [first_seen.index(string) for string in strings]
    data, offsets, number_of = sort_table(*interner.table())
    assert list(Ids(data, offsets)) == by_bytes(strings)
    assert [by_bytes(strings)[n] for n in number_of] == first_seen


def test_many_strings_that_share_a_long_beginning() -> None:
    """More than fit one machine word, and more than are sorted by insertion."""
    strings = [f"clueweb09-en0000-{n % 7:02}-{n:05}-{'x' * (n % 5)}" for n in range(3000)]
    assert list(Ids.of(strings)) == by_bytes(strings)


def test_an_interner_grows_past_its_first_size() -> None:
    strings = [f"a-rather-long-identifier-{n}" for n in range(20_000)]
    ids, numbers = Ids.numbering(strings + strings)
    assert len(ids) == 20_000
    assert np.array_equal(numbers[:20_000], numbers[20_000:])


def test_looking_up() -> None:
    ids = Ids.of(["d1", "d10", "d9"])
    assert ids.number("d9") == 2
    assert "d10" in ids
    assert "d2" not in ids
    assert 7 not in ids
    assert ids[-1] == "d9"
    assert ids.take(np.array([2, 0, 2])) == ["d9", "d1", "d9"]
    with pytest.raises(KeyError):
        ids.number("d2")
    with pytest.raises(IndexError):
        ids[3]


def test_equality_is_of_content() -> None:
    assert Ids.of(["a", "b"]) == Ids.of(["b", "a"])
    assert hash(Ids.of(["a", "b"])) == hash(Ids.of(["b", "a"]))
    assert Ids.of(["a"]) != Ids.of(["b"])
    assert Ids.of(["a"]) != ["a"]
    assert repr(Ids.of(["a", "b", "c", "d"])) == "<Ids: 4: 'a', 'b', 'c', …>"
