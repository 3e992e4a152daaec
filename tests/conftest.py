"""What tests share: where real data and weights lie, if anywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def folder_of(variable: str, what: str) -> Path:
    if not os.environ.get(variable):
        pytest.skip(f"{variable} is not set: it names the folder of {what}")
    return Path(os.environ[variable])


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real collections."""
    return folder_of("TAMIS_DATA", "collections to test with")


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of pretrained weights."""
    return folder_of("TAMIS_MODELS", "pretrained weights")
