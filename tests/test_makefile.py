"""The Makefile makes its environment anew for another version of Python, and only then."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKE = shutil.which("make")


def interpreter(folder: Path, version: str) -> Path:
    """What tells this version, and makes an environment that is a file with it."""
    path = folder / f"python{version}"
    path.write_text(
        f"""#!/bin/sh
if [ "$1" = -c ]; then echo {version}; exit; fi
[ "$3" = --clear ] && rm -rf .venv
mkdir -p .venv && echo {version} >> .venv/made-by
"""
    )
    path.chmod(0o755)
    return path


def make(folder: Path, python: Path) -> list[str]:
    """By which versions the environment was made, after `make venv` with one."""
    assert MAKE is not None
    command = [MAKE, "--silent", "venv", f"PYTHON={python}"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / ".venv" / "made-by").read_text().split()


@pytest.mark.skipif(MAKE is None, reason="make is not installed")
def test_an_environment_of_another_python_is_made_anew(tmp_path: Path) -> None:
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    old, new = interpreter(tmp_path, "3.11.7"), interpreter(tmp_path, "3.12.1")
    assert make(tmp_path, old) == ["3.11.7"]
    (tmp_path / ".venv" / "dev.done").touch()
    assert make(tmp_path, old) == ["3.11.7"]
    assert make(tmp_path, new) == ["3.12.1"]
    assert not (tmp_path / ".venv" / "dev.done").exists()
