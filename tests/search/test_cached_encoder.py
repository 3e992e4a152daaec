"""Embeddings that are kept on disk: found again, checked, bounded, shared by several writers."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.errors import InputError
from tamis.search import Index
from tamis.search import cached_encoder as module
from tamis.search.cached_encoder import CachedEncoder, model_key, open_cached_encoder

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Letters:
    """Counts letters; counts what it was asked to encode, too."""

    def __init__(self, max_length: int = 50, sign: float = 1.0) -> None:
        self.max_length, self.sign, self.encoded = max_length, sign, 0

    def encode_with_truncation(
        self, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        self.encoded += len(texts)
        rows = [[self.sign * text.count(letter) for letter in LETTERS] for text in texts]
        over = [max(0, len(text) - self.max_length) for text in texts]
        return np.array(rows, np.float32).reshape(-1, 26), np.array(over, np.int32)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.encode_with_truncation(texts)[0]


def texts(count: int, start: int = 0) -> list[str]:
    return [f"text {n} " + LETTERS[n % 26] * (n % 70) for n in range(start, start + count)]


def shards(folder: Path) -> list[Path]:
    return [path.parent for path in sorted(folder.rglob("keys.bin"))]


def test_what_was_encoded_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with open_cached_encoder(Letters(), folder) as cached:
        first = cached.encode_with_truncation(texts(100))
    assert (cached.num_found, cached.num_encoded) == (0, 100)
    again = Letters()
    with open_cached_encoder(again, folder) as cached:
        probed = again.encoded
        rows, truncated = cached.encode_with_truncation([*texts(20, 90), *texts(90)][::-1])
        assert cached.known(["text 0 ", "other"]).tolist() == [True, False]
    assert again.encoded - probed == 10 == cached.num_encoded
    want, want_truncated = Letters().encode_with_truncation([*texts(20, 90), *texts(90)][::-1])
    assert np.array_equal(rows, want) and np.array_equal(truncated, want_truncated)
    assert np.array_equal(first[0], Letters().encode(texts(100)))


def test_nothing_is_written_before_something_is_encoded(tmp_path: Path) -> None:
    open_cached_encoder(Letters(), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_models_and_settings_do_not_mix(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with open_cached_encoder(Letters(), folder) as cached:
        cached.encode(texts(3))
    for other in (Letters(max_length=5), Letters(sign=-1.0)):
        with open_cached_encoder(other, folder) as cached:
            assert np.array_equal(cached.encode(texts(3)), other.encode(texts(3)))
            assert cached.num_found == 0
    with open_cached_encoder(Letters(), folder, prompt="query: ") as cached:
        assert not cached.known(texts(3)).any()
    assert model_key(Letters()) != model_key(Letters(), "query: ")


@pytest.mark.parametrize("name", ["float32.bin", "keys.bin", "note.json", "checksums.bin"])
def test_what_is_damaged_is_encoded_again(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "cache"
    with open_cached_encoder(Letters(), folder) as cached:
        cached.encode(texts(10))
    [shard] = shards(folder)
    raw = bytearray((shard / name).read_bytes())
    raw[len(raw) // 2] ^= 1
    (shard / name).write_bytes(raw)
    with open_cached_encoder(Letters(), folder) as cached:
        for _ in range(2):
            assert np.array_equal(cached.encode(texts(10)), Letters().encode(texts(10)))
            cached.flush()
        assert cached.num_encoded == 10, "once is enough"
    assert "damaged" in caplog.text and not shard.exists()
    with open_cached_encoder(Letters(), folder) as cached:
        assert cached.known(texts(10)).all()


def test_what_is_damaged_is_taken_from_the_index(tmp_path: Path) -> None:
    folder, encoder = tmp_path / "cache", Letters()
    with open_cached_encoder(encoder, folder) as cached:
        rows, truncated = cached.encode_with_truncation(texts(10))
    assert cached.in_words() == f"0 of 10 embeddings were in {folder}"
    [shard] = shards(folder)
    raw = bytearray((shard / "float32.bin").read_bytes())
    raw[len(raw) // 2] ^= 1
    (shard / "float32.bin").write_bytes(raw)
    with open_cached_encoder(encoder, folder) as cached:
        probed = encoder.encoded
        for _ in range(2):
            cached.add(texts(10), rows, truncated)
            cached.flush()
        assert np.array_equal(cached.encode(texts(10)), rows)
    assert encoder.encoded == probed
    copied = f"10 of 10 embeddings were in {folder}, into which 10 were copied from the index"
    assert cached.in_words() == copied


def test_a_bound_below_one_shard_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "cache"
    with open_cached_encoder(Letters(), folder, max_bytes=1000) as cached:
        for start in (0, 100):
            cached.encode(texts(100, start))
            cached.flush()
    [message] = caplog.messages
    assert message.startswith(f"no embeddings are kept in {folder}: at most 1,000 bytes may be")
    assert not shards(folder)


def test_it_stays_within_its_size_and_what_was_used_last_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MIN_ROWS", 1)
    folder = tmp_path / "cache"
    for n in range(6):
        with open_cached_encoder(Letters(), folder) as cached:
            cached.encode(texts(100, 100 * n))
    for age, shard in enumerate(shards(folder)):
        os.utime(shard, (1000 + age, 1000 + age))
    size = sum(file.stat().st_size for file in shards(folder)[0].iterdir())
    with open_cached_encoder(Letters(), folder, max_bytes=4 * size) as cached:
        used = texts(100)
        assert cached.known(used).all()
        cached.encode(used)
        cached.encode(texts(50, 5000))
    total = sum(file.stat().st_size for shard in shards(folder) for file in shard.iterdir())
    assert 0 < total <= 4 * size
    with open_cached_encoder(Letters(), folder) as cached:
        assert cached.known(used).all() and cached.known(texts(50, 5000)).all()


def test_a_smaller_bound_holds_although_nothing_is_encoded(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    for n in range(4):
        with open_cached_encoder(Letters(), folder) as cached:
            cached.encode(texts(100, 100 * n))
    size = sum(file.stat().st_size for file in shards(folder)[0].iterdir())
    with open_cached_encoder(Letters(), folder, max_bytes=5 * size // 2) as cached:
        cached.encode(texts(100, 300))
        assert cached.num_encoded == 0
    assert len(shards(folder)) == 2
    with open_cached_encoder(Letters(), folder) as cached:
        assert cached.known(texts(100, 300)).all()


def test_many_small_shards_become_one(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    for n in range(module.MAX_SMALL_SHARDS + 3):
        with open_cached_encoder(Letters(), folder) as cached:
            cached.encode(texts(3, 2 * n))
    assert len(shards(folder)) <= module.MAX_SMALL_SHARDS
    with open_cached_encoder(Letters(), folder) as cached:
        count = 2 * module.MAX_SMALL_SHARDS + 7
        assert cached.known(texts(count)).all()
        assert np.array_equal(cached.encode(texts(count)), Letters().encode(texts(count)))


def write(folder: Path, start: int) -> None:
    for n in range(10):
        with open_cached_encoder(Letters(), folder, max_bytes=1 << 20) as cached:
            cached.encode(texts(30, start + 20 * n))


def test_two_writers_share_a_folder(tmp_path: Path) -> None:
    folder, spawn = tmp_path / "cache", multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write, args=(folder, start)) for start in (0, 100)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    with open_cached_encoder(Letters(), folder) as cached:
        assert cached.known(texts(310)).all()
        assert np.array_equal(cached.encode(texts(310)), Letters().encode(texts(310)))


def test_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear all")
    with pytest.raises(InputError, match=r"no tamis\.json"):
        open_cached_encoder(Letters(), tmp_path)


def test_a_disk_that_is_full_costs_the_cache_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("tamis.search.cached_encoder.durable.new_folder", full)
    with open_cached_encoder(Letters(), tmp_path / "cache") as cached:
        assert np.array_equal(cached.encode(texts(3)), Letters().encode(texts(3)))
    assert "no space left" in caplog.text


def test_an_index_is_encoded_from_it(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    found = []
    for name, count in (("one", 0), ("two", 50)):
        index = Index.build(dict(enumerate_texts(50)), tmp_path / name)
        with open_cached_encoder(Letters(), folder) as cached:
            assert isinstance(cached, CachedEncoder)
            index.encode(cached)
        found.append(index.snapshot.embeddings[0].column("float32"))
        assert (cached.num_found, cached.num_encoded) == (count, 50 - count)
        index.dense(Letters())
    assert np.array_equal(found[0], found[1])


def enumerate_texts(count: int) -> list[tuple[str, str]]:
    return [(f"d{n:03}", text) for n, text in enumerate(texts(count))]
