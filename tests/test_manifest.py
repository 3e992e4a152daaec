"""The note that says what a folder is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tamis import __version__
from tamis.errors import DamagedError, InputError
from tamis.manifest import NAME, expect, read_manifest, write_manifest


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_manifest(tmp_path, "index", 3, documents=12, name="Körner", nested={"a": [1, None]})
    note = read_manifest(tmp_path)
    assert note == {
        "kind": "index",
        "layout": 3,
        "tamis": __version__,
        "documents": 12,
        "name": "Körner",
        "nested": {"a": [1, None]},
    }
    assert expect(tmp_path, "index", 3) == note


def test_people_can_read_it(tmp_path: Path) -> None:
    write_manifest(tmp_path, "index", 1, name="Körner")
    text = (tmp_path / NAME).read_text("utf-8")
    assert text.startswith('{\n  "kind": "index",\n  "layout": 1,\n')
    assert "Körner" in text
    assert text.endswith("}\n")


def test_a_folder_of_others_has_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "nowhere") is None
    (tmp_path / NAME).mkdir()
    assert read_manifest(tmp_path) is None
    with pytest.raises(InputError, match=r"is not a tamis index: it has no tamis\.json") as caught:
        expect(tmp_path, "index", 1)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b'{"kind": "ind', "is not JSON"),
        (b'{"kind": "\xff"}', "is not JSON"),
        (b"[]", "does not say what the folder is"),
        (b"{}", "does not say what the folder is"),
        (b'{"kind": 3}', "does not say what the folder is"),
        (b'{"kind": ""}', "does not say what the folder is"),
    ],
)
def test_a_damaged_note(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / NAME).write_bytes(content)
    for read in (read_manifest, lambda folder: expect(folder, "index", 1)):
        with pytest.raises(DamagedError, match=said) as caught:
            read(tmp_path)
        assert str(tmp_path / NAME) in str(caught.value)
        assert caught.value.hint == "build the folder again"


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        ("index", "model", "is an index, not a model"),
        ("sieve", "index", "is a sieve, not an index"),
    ],
)
def test_another_kind(tmp_path: Path, found: str, wanted: str, said: str) -> None:
    write_manifest(tmp_path, found, 1)
    with pytest.raises(InputError) as caught:
        expect(tmp_path, wanted, 1)
    assert str(caught.value) == f"{tmp_path} {said}"


@pytest.mark.parametrize("layout", [1, 3, "2", None])
def test_another_layout(tmp_path: Path, layout: object) -> None:
    (tmp_path / NAME).write_text(json.dumps({"kind": "index", "layout": layout, "tamis": "9.9"}))
    with pytest.raises(InputError) as caught:
        expect(tmp_path, "index", 2)
    assert str(caught.value) == f"{tmp_path} has layout {layout}, this tamis reads 2"
    assert caught.value.hint == "build it again (it was written by tamis 9.9)"
