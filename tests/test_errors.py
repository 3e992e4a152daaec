"""A missing extra gives the exact command that installs it; pyproject and the table agree."""

import importlib
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

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
