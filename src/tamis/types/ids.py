"""A table of ids in which comparing two numbers compares two ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import check_type
from tamis.types._string_numbers import Table, number_strings
from tamis.types._strings import Bytes, Positions, frozen, gather, pack, positions


class Ids:
    """Distinct strings sorted by their UTF-8 bytes; an id is known by its number in the table.

    >>> ids = Ids.of(["d9", "d10", "d1"])
    >>> list(ids), ids.number("d9"), ids[0], "d2" in ids
    (['d1', 'd10', 'd9'], 2, 'd1', False)
    """

    __slots__ = ("data", "offsets")

    def __init__(self, data: Bytes, offsets: Positions) -> None:
        """Take a table that is sorted already; `Ids.of` and `Ids.numbering` sort."""
        self.data, self.offsets = frozen(data), frozen(offsets)

    @classmethod
    def of(cls, strings: Iterable[str]) -> Ids:
        """A table of these strings; repeated ones are kept once."""
        check_type(strings, Iterable, "a table of ids", 'a list of strings: ["d1", "d2"]')
        return cls.numbering(list(strings))[0]

    @classmethod
    def numbering(cls, strings: list[str]) -> tuple[Ids, NDArray[np.int32]]:
        """A table of these strings, and each one's number in it.

        >>> Ids.numbering(["b", "a", "b"])[1].tolist()
        [1, 0, 1]
        """
        return cls.numbering_tables([pack(strings)])

    @classmethod
    def numbering_tables(cls, tables: list[Table]) -> tuple[Ids, NDArray[np.int32]]:
        """The same for strings that lie in buffers, as bytes and where each string begins."""
        data, offsets, numbers = number_strings(tables)
        return cls(data, offsets), numbers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> str:
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        number %= len(self)
        return self.data[self.offsets[number] : self.offsets[number + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return (self[number] for number in range(len(self)))

    def __contains__(self, string: object) -> bool:
        return isinstance(string, str) and self._place(string) >= 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids):
            return NotImplemented
        return self is other or (
            np.array_equal(self.offsets, other.offsets) and np.array_equal(self.data, other.data)
        )

    def __hash__(self) -> int:
        return hash((len(self), self.data[-64:].tobytes()))

    def __repr__(self) -> str:
        first_ids = ", ".join(repr(self[n]) for n in range(min(3, len(self))))
        return f"<Ids: {len(self):,}: {first_ids}{', …' if len(self) > 3 else ''}>"

    def number(self, string: str) -> int:
        """The number of one id; `KeyError` where it is not in the table."""
        number = self._place(string)
        if number < 0:
            raise KeyError(string)
        return number

    def _place(self, string: str) -> int:
        """The number of one id or -1; a table of one string is sorted as it is."""
        return int(Ids(*pack([string])).positions_in(self)[0])

    def numbers(self, strings: list[str]) -> NDArray[np.int32]:
        """The number of each id, -1 where it is not in the table.

        >>> Ids.of(["a", "c"]).numbers(["c", "b", "a"]).tolist()
        [1, -1, 0]
        """
        distinct, number_of = Ids.numbering(strings)
        return distinct.positions_in(self)[number_of]

    def positions_in(self, other: Ids) -> NDArray[np.int32]:
        """For each id here its number in another table, or -1."""
        if self is other:
            return np.arange(len(self), dtype=np.int32)
        return positions(self.data, self.offsets, other.data, other.offsets)

    def take(self, numbers: NDArray[np.integer[Any]]) -> list[str]:
        """The ids with these numbers.

        >>> Ids.of(["a", "b", "c"]).take(np.array([2, 0]))
        ['c', 'a']
        """
        raw = self.data.data
        bounds = zip(
            self.offsets[numbers].tolist(), self.offsets[numbers + 1].tolist(), strict=True
        )
        return [bytes(raw[start:end]).decode() for start, end in bounds]

    def select(self, numbers: NDArray[np.integer[Any]]) -> Ids:
        """The table of the ids with these numbers, which must be distinct and ascending."""
        return Ids(*gather(self.data, self.offsets, np.asarray(numbers, np.int64)))

    def union(self, other: Ids) -> Ids:
        """The table of the ids in either.

        >>> list(Ids.of(["a", "c"]).union(Ids.of(["b", "c"])))
        ['a', 'b', 'c']
        """
        if self is other:
            return self
        new = np.flatnonzero(other.positions_in(self) < 0)
        if len(new) == 0:
            return self
        extra = other.select(new)
        data = np.concatenate([self.data, extra.data])
        offsets = np.concatenate([self.offsets, self.offsets[-1] + extra.offsets[1:]])
        return Ids.numbering_tables([(data, offsets)])[0]
