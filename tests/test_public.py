"""The names that `import tamis` offers."""

import builtins
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tamis
from tamis.errors import InputError

DOORS: dict[str, Callable[[Any], Any]] = {
    "Run.from_dict": tamis.Run.from_dict,
    "Run.from_dict, a query": lambda bad: tamis.Run.from_dict({"q": bad}),
    "Run.from_pandas": tamis.Run.from_pandas,
    "Qrels.from_dict": tamis.Qrels.from_dict,
    "Qrels.from_dict, a query": lambda bad: tamis.Qrels.from_dict({"q": bad}),
    "Qrels.from_pandas": tamis.Qrels.from_pandas,
    "Queries.of": tamis.Queries.of,
    "Queries.of, a query": lambda bad: tamis.Queries.of([bad]),
    "Ids.of": tamis.Ids.of,
    "Index.open": tamis.Index.open,
    "Index.build": lambda bad: tamis.Index.build(bad, Path("out")),
    "Index.build, the path": lambda bad: tamis.Index.build(["a text"], bad),
    "read_run": tamis.read_run,
    "read_qrels": tamis.read_qrels,
    "read_queries": tamis.read_queries,
    "open_collection": tamis.open_collection,
    "load_model": tamis.load_model,
    "load_sieve": tamis.load_sieve,
    "open_source": tamis.open_source,
    "open_stage": tamis.open_stage,
    "fit": lambda bad: tamis.fit(bad, out="out", base=None),
}
"""What takes something from a user, each with one argument."""


@pytest.mark.parametrize("value", [None, 3])
@pytest.mark.parametrize("door", DOORS)
def test_what_cannot_be_is_refused_with_a_hint(
    door: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        DOORS[door](value)
    assert str(refused.value) and refused.value.hint


def test_a_star_import_replaces_no_builtin() -> None:
    assert not set(tamis.__all__) & set(dir(builtins))


def test_every_public_name_is_there_and_is_shown() -> None:
    assert set(dir(tamis)) == set(tamis.__all__)
    for name in tamis.__all__:
        assert getattr(tamis, name) is not None


def test_importing_tamis_imports_nothing_else_of_it() -> None:
    code = "import sys, tamis; print([name for name in sys.modules if name.startswith('tamis.')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
