"""The names that `import tamis` offers."""

import builtins
import subprocess
import sys

import tamis


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
