"""Files as lines: packed by what is inside, UTF-8 or an error, whole or an error."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.collection.base import Faults
from tamis.collection.lines import numbered_lines, open_bytes, packing, writing
from tamis.errors import InputError, LineError, OutputError

BODY = b"".join(b"line %d of a file that is long enough to pack\n" % n for n in range(20_000))


def lines_of(path: Path, raw: bytes) -> list[tuple[int, str]]:
    path.write_bytes(raw)
    return [*numbered_lines(path, Faults())]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", []),
        (b"a", [(1, "a")]),
        (b"a\nb\n", [(1, "a"), (2, "b")]),
        (b"a\r\n\r\nb", [(1, "a"), (2, ""), (3, "b")]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [(1, "a"), (2, "\ufeffb")]),
        ("x\u2028y\x0bz\x85\n".encode(), [(1, "x\u2028y\x0bz\x85")]),
        (b"\xef\xbb\xbf", []),
    ],
)
def test_lines(tmp_path: Path, raw: bytes, expected: list[tuple[int, str]]) -> None:
    assert lines_of(tmp_path / "f", raw) == expected


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packing_is_found_inside_not_in_the_name(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    path = tmp_path / "plain.txt"
    assert lines_of(path, pack(BODY)) == [*enumerate(BODY.decode().splitlines(), 1)]
    assert lines_of(path, pack(b"a\nb") + pack(b"c\n")) == [(1, "a"), (2, "bc")]
    assert lines_of(tmp_path / "plain.gz", b"not packed") == [(1, "not packed")]


def test_padding_after_gzip_and_frames_to_skip_before_zstd(tmp_path: Path) -> None:
    assert lines_of(tmp_path / "f", gzip.compress(b"a\n") + b"\0" * 300_000) == [(1, "a")]
    frame = struct.pack("<II", 0x184D2A50, 4) + b"size"
    assert lines_of(tmp_path / "f", frame + zstandard.compress(b"a\n")) == [(1, "a")]


@pytest.mark.parametrize(("pack", "name"), [(gzip.compress, "gzip"), (zstandard.compress, "zstd")])
@pytest.mark.parametrize("lost", [1, 8, 1000])
def test_cut_short(tmp_path: Path, pack: object, name: str, lost: int) -> None:
    assert callable(pack)
    with pytest.raises(InputError, match=f"cut short: it ends in the middle of its {name} data"):
        lines_of(tmp_path / "f", pack(BODY)[:-lost])


def test_damaged(tmp_path: Path) -> None:
    raw = bytearray(gzip.compress(BODY))
    raw[len(raw) // 2] ^= 0xFF
    with pytest.raises(InputError, match="is damaged"):
        lines_of(tmp_path / "f", bytes(raw))


def test_a_line_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"fine\ncaf\xe9\nfine too\n")
    with pytest.raises(LineError) as caught:
        [*numbered_lines(path, Faults())]
    assert str(caught.value) == f"{path}:2: byte 0xe9 at position 4 is not UTF-8"
    assert caught.value.hint == "save the file as UTF-8"
    faults = Faults(skip=True)
    assert [*numbered_lines(path, faults)] == [(1, "fine"), (3, "fine too")]
    assert faults.count == 1


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        open_bytes(tmp_path / "absent")


@pytest.mark.parametrize(("name", "packed"), [("a", None), ("a.gz", "gzip"), ("a.zst", "zstd")])
def test_writing(tmp_path: Path, name: str, packed: str | None) -> None:
    path = tmp_path / name
    with writing(path) as file:
        file.write(BODY)
    first = path.read_bytes()
    assert packing(path) == packed
    if packed == "gzip":
        assert first[4:8] == bytes(4), "the time of writing is not in the file"
    with open_bytes(path) as stream:
        assert stream.read() == BODY
    with pytest.raises(OutputError, match="exists already"), writing(path):
        pass
    with writing(path, force=True) as file:
        file.write(BODY)
    assert path.read_bytes() == first


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(b"before")
    with pytest.raises(KeyError), writing(path, force=True) as file:
        file.write(b"half")
        raise KeyError
    assert [p.name for p in tmp_path.iterdir()] == ["a.gz"]
    assert path.read_bytes() == b"before"


@given(st.lists(st.binary(max_size=40), max_size=5), st.sampled_from([gzip, zstandard]))
@settings(deadline=None, max_examples=50)
def test_packed_or_not_lines_are_the_same(pieces: list[bytes], packer: object) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder, "plain"), Path(folder, "packed")
        plain.write_bytes(b"-" + b"".join(pieces))
        packed.write_bytes(b"".join(packer.compress(p) for p in [b"-", *pieces]))  # type: ignore[attr-defined]
        a, b = Faults(skip=True), Faults(skip=True)
        assert [*numbered_lines(plain, a)] == [*numbered_lines(packed, b)]
        assert a.count == b.count
