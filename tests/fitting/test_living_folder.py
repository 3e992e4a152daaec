"""A folder that changes: fitted, brought up to date, fitted again, and nothing encoded twice."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.cli.app import run as tamis_command
from tamis.errors import InputError
from tamis.fitting.context import EmbeddingCaches
from tamis.fitting.plan import EXPORT_SECONDS
from tamis.fitting.sieve import load_sieve
from tamis.models import import_model
from tamis.models.folder import scorer_spec
from tamis.registry import Opening
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.embedding_cache import EmbeddingCache
from tamis.search.index import Changes

pytest.importorskip("torch", reason="torch is not installed")
WORDS = "sieve drum net grain flour fish sort".split()
PAIRS = [(one, other) for one in WORDS for other in WORDS if one != other]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, tiny_cross_encoder: Path) -> Path:
    out = tmp_path_factory.mktemp("base") / "tiny"
    import_model(tiny_cross_encoder, out, kind="bi-encoder", pooling="mean", max_length=24)
    return out


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    for n, (one, other) in enumerate(PAIRS):
        front = f"---\nauthor: {'ada' if n % 2 else 'bob'}\n---\n"
        (folder / f"{n:02}.md").write_text(f"{front}# {one}\n\na {one} the {other}\n")
    return folder


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that a bi-encoder encodes."""
    texts: list[str] = []
    encode = BiEncoder._encode_chunk

    def recorded(self: BiEncoder, some: Sequence[str]) -> Any:
        texts.extend(some)
        return encode(self, some)

    monkeypatch.setattr(BiEncoder, "_encode_chunk", recorded)
    return texts


def documents_in(texts: list[str]) -> set[str]:
    """Those encoded with their titles; the pace is measured on texts alone."""
    return {text for text in texts if "\n" in text and len(text.split("\n")[0].split()) == 2}


def test_the_next_fit_encodes_nothing_again(docs: Path, base: Path, encoded: list[str]) -> None:
    settings: dict[str, Any] = {"base": str(base), "threads": 1}
    first = tamis.fit(str(docs), out="one.sieve", **settings)
    assert len(documents_in(encoded)) == len(PAIRS)
    assert Path("one.sieve.embeddings/tamis.json").is_file()
    encoded.clear()
    again = tamis.fit(first, out="one.sieve", force=True, **settings)
    planned = []
    for sieve in (first, again):
        [step] = [step for step in sieve.manifest["plan"]["steps"] if step["key"] == "hybrid"]
        planned.append(step["seconds"])
    assert planned[1] in (0.0, EXPORT_SECONDS), "what is in the cache costs nothing to encode"
    assert planned[0] > planned[1]
    judged = {"q1": {"00.md": 1}, "q2": {"01.md": 1}}
    queries = {"q1": "sieve drum", "q2": "sieve net"}
    shared = tamis.fit(
        str(docs), out="two.sieve", embedding_cache="one.sieve.embeddings", queries=queries,
        qrels=judged, **settings,
    )  # fmt: skip
    assert documents_in(encoded) == set()
    assert not Path("two.sieve.embeddings").exists()
    before, after = (sieve.index.snapshot.embeddings[0] for sieve in (again, shared))
    assert (before.column("float32") == after.column("float32")).all()
    encoded.clear()
    tamis.fit(str(docs), out="three.sieve", embedding_cache_size=0, **settings)
    assert not Path("three.sieve.embeddings").exists()
    assert documents_in(encoded)


def test_a_sieve_without_its_cache_brings_its_embeddings(
    docs: Path, base: Path, encoded: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    tamis.fit(str(docs), out="one.sieve", base=str(base), threads=1, embedding_cache_size=0)
    encoded.clear()
    with caplog.at_level("INFO"):
        tamis.fit("one.sieve", out="two.sieve", base=str(base), threads=1)
    assert documents_in(encoded) == set()
    found = f"{len(PAIRS)} of {len(PAIRS)} embeddings were in two.sieve.embeddings"
    assert f"{found}, into which {len(PAIRS)} were copied from the index" in caplog.text
    encoded.clear()
    tamis.fit("two.sieve", out="three.sieve", base=str(base), threads=1)
    assert documents_in(encoded) == set() and not Path("three.sieve.embeddings").exists()


def test_what_is_skipped_or_truncated_is_said(
    docs: Path, base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (docs / "broken.html").write_bytes(b"\xff\xfe\x00\x00 no text \x00")
    (docs / "long.md").write_text("a sieve the drum " * 50)
    settings: dict[str, Any] = {"base": str(base), "threads": 1, "on_error": "skip"}
    sieve = tamis.fit(str(docs), out="one.sieve", **settings)
    assert "1 bad line skipped, first: " in caplog.text
    assert "1 of 43 documents are longer than the base model reads" in caplog.text
    assert sieve.result.data["truncated_documents"] == 1
    report = Path("one.sieve/report.html").read_text()
    assert "Of 43 documents 1 are longer than the model reads" in report
    caplog.clear()
    whole = tamis.fit(str(docs), out="two.sieve", passages="words:10:5", **settings)
    assert "longer than the base model reads" not in caplog.text
    assert whole.pipeline.passages == "words:10:5"
    [hit] = whole.search("sieve drum", 1, "id=long.md")
    assert len(hit.passage.split()) == 10


def test_candidates_are_kept_where_there_is_no_time_to_encode_all(
    tmp_path: Path, base: Path, encoded: list[str]
) -> None:
    for count in (3, 0):
        encoded.clear()
        caches = EmbeddingCaches(tmp_path / "cache", 1 << 20)
        scorer = Opening(openers=caches.openers).scorer(scorer_spec(base))
        assert isinstance(scorer, EmbeddingCache)
        scorer.encode_with_truncation(["a drum", "a net", "a sieve"])
        caches.flush()
        assert len([text for text in encoded if text.startswith("a ") and len(text) < 9]) == count


def test_a_sieve_follows_its_folder(
    docs: Path, base: Path, encoded: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    tamis.fit(str(docs), out="my.sieve", base=str(base), threads=1)
    opened = load_sieve("my.sieve", threads=1)
    assert opened.search("sieve drum")
    (docs / "00.md").unlink()
    (docs / "01.md").write_text("# sieve\n\na sieve the colander\n")
    (docs / "new.md").write_text("# strainer\n\na strainer the pasta\n")
    encoded.clear()
    assert tamis_command(["update", "my.sieve", "docs"]) == 0
    said = capsys.readouterr().err
    assert "added 1, replaced 1, deleted 1, unchanged 40" in said and "fit again" not in said
    changed = {
        "sieve sieve\n\na sieve the colander",
        "strainer strainer\n\na strainer the pasta",
    }
    assert documents_in(encoded) == changed
    hits = {hit.id for hit in opened.search("strainer for pasta", top=50)}
    assert "new.md" in hits and "00.md" not in hits, "a sieve that is open sees it, too"
    assert opened.changed_share == pytest.approx(3 / 42)
    before = [hit.id for hit in opened.search("sieve drum")]
    shutil.copytree("my.sieve", "other.sieve")
    shutil.rmtree("my.sieve")
    tamis.fit({"x": "a whisk the eggs"}, out="my.sieve", base=str(base), threads=1)
    assert [hit.id for hit in opened.search("sieve drum")] == before, "another sieve in its place"
    shutil.rmtree("my.sieve")
    shutil.move("other.sieve", "my.sieve")
    assert tamis_command(["update", "my.sieve", "docs"]) == 0
    assert "added 0, replaced 0, deleted 0, unchanged 42" in capsys.readouterr().err
    for n in range(20, 30):
        (docs / f"{n}.md").unlink()
    assert tamis_command(["update", "my.sieve", "docs"]) == 0
    assert "31% of the documents have changed" in capsys.readouterr().err
    assert tamis_command(["info", "my.sieve"]) == 0
    assert "changed" in capsys.readouterr().out


def test_a_fit_without_the_judgements_of_the_last_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {f"d{n}": f"sieve number{n}" for n in range(20)}
    judged: dict[str, Any] = {
        "queries": {"a": "number1", "b": "number2"},
        "qrels": {"a": {"d1": 1}, "b": {"d2": 1}},
    }
    first = tamis.fit(texts, out="my.sieve", base=None, **judged)
    tamis.fit(first, out="my.sieve", base=None, force=True, **judged)
    assert "was fitted on" not in caplog.text
    for warnings in (1, 0):  # the second fit without judgements has nothing to miss
        caplog.clear()
        tamis.fit("my.sieve", out="my.sieve", base=None, force=True)
        assert caplog.text.count("my.sieve was fitted on 2 judged queries, which") == warnings


def test_a_new_fit_is_due_from_a_fifth_of_changed_documents_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tamis.fit({f"d{n}": f"sieve number{n}" for n in range(100)}, out="my.sieve", base=None)
    Path("old.txt").write_text("".join(f"d{n}\n" for n in range(19)))
    assert tamis_command(["update", "my.sieve", "--delete-from", "old.txt"]) == 0
    assert "fit again" not in capsys.readouterr().err
    assert tamis_command(["update", "my.sieve", "--delete", "d19"]) == 0
    assert "20% of the documents have changed" in capsys.readouterr().err


def test_additions_and_deletions_by_hand(
    docs: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sieve = tamis.fit(str(docs), out="my.sieve", base=str(base), threads=1)
    more = {"x": "a whisk the eggs"}
    assert sieve.update(more, delete_missing=False, delete=["01.md"]) == Changes(1, 0, 1, 0)
    assert sieve.update(delete=["x"]) == Changes(0, 0, 1, 0)
    assert len(sieve.index) == 41
    Path("more.jsonl").write_text('{"_id": "y", "text": "a whisk the eggs"}\n')
    assert tamis_command(["update", "my.sieve", "more.jsonl"]) == 1
    assert "would be deleted" in capsys.readouterr().err
    assert tamis_command(["update", "my.sieve", "more.jsonl", "--no-sync"]) == 0
    assert tamis_command(["update", "my.sieve", "--delete", "y", "--delete", "nobody"]) == 0
    assert "1 id is not in the sieve, such as nobody" in capsys.readouterr().err
    with pytest.raises(InputError, match="nothing was changed"):
        sieve.update(more, max_deleted=0.5)
    assert sieve.update(more).deleted == 41
    assert [hit.id for hit in sieve.search("whisk")] == ["x"]


def test_a_sieve_by_words_alone_needs_no_model(docs: Path) -> None:
    sieve = tamis.fit(str(docs), out="my.sieve", base=None)
    (docs / "new.md").write_text("a strainer\n")
    assert sieve.update(str(docs)).added == 1
    assert sieve.search("strainer")[0].id == "new.md"
    assert not Path("my.sieve.embeddings").exists()
    shutil.rmtree("my.sieve")


def test_a_fit_of_a_sieve_lists_the_files_that_were_left_out(docs: Path) -> None:
    (docs / "logo.png").write_bytes(b"picture")
    (docs / "all.zip").write_bytes(b"archive")
    tamis.fit(str(docs), out="one.sieve", base=None)
    again = tamis.fit("one.sieve", out="two.sieve", base=None)
    assert again.result.data["files_left_out"] == {".png": 1, ".zip": 1}
    page = Path("two.sieve/report.html").read_text("utf-8")
    assert "Files that were left out" in page and ".zip" in page
