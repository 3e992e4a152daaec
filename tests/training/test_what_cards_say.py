"""What the card of a trained model says of sentence-transformers is run, recipe by recipe."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny import change_json, cross_encoder, save
from tests.training.test_devices import job_of

from tamis.models import import_model, open_scorer
from tamis.models.model_card import CARD
from tamis.models.model_import import write_default_prompt
from tamis.training.loop import train
from tamis.training.recipes import RECIPES
from tamis.types import Pairs

pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
TOLERANCE = 1e-4
TEXTS = ["one text", "another"]


def run_card(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The scores that the last block of code in a folder's card makes."""
    monkeypatch.chdir(folder.parent)
    *_, code = re.findall(r"```python\n(.*?)```", (folder / CARD).read_text("utf-8"), re.DOTALL)
    assert "sentence_transformers" in code
    names: dict[str, Any] = {}
    exec(code, names)
    return np.asarray(names["scores"]).reshape(-1)


def our_scores(folder: Path, count: int) -> Any:
    index = np.array([[0, n] for n in range(count)], np.int32)
    return open_scorer(folder, device="cpu").score(Pairs(["a question"], TEXTS, index)).values


@pytest.mark.parametrize(
    "name", [name for name, recipe in RECIPES.items() if recipe.scorer != "target-words"]
)
def test_the_code_in_a_card_gives_our_scores(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "plain", "bert", "AutoModel")
    recipe = replace(RECIPES[name], steps=2, epochs=None, epoch_rule="fixed", samples=None)
    base = tmp_path / "plain"
    if recipe.scorer == "bi-encoder":
        base = tmp_path / "base"
        import_model(
            tmp_path / "plain", base, kind="bi-encoder", pooling="mean", query_prompt="query : "
        )
        change_json(base / "config_sentence_transformers.json", truncate_dim=10)
    made = train(job_of(base, tmp_path / "made", recipe)).folder
    theirs = run_card(made, monkeypatch)
    assert np.abs(theirs - our_scores(made, len(theirs))).max() < TOLERANCE


def test_the_default_prompt_of_a_base_stays_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = cross_encoder(tmp_path / "base", "bert")
    settings = base / "config_sentence_transformers.json"
    write_default_prompt(base, "how does ")
    recipe = replace(RECIPES["docrank-small"], steps=2, epochs=None)
    made = train(job_of(base, tmp_path / "made", recipe)).folder
    scores = our_scores(made, 2)
    assert np.abs(run_card(made, monkeypatch) - scores).max() < TOLERANCE
    change_json(made / settings.name, default_prompt_name=None)
    assert np.abs(our_scores(made, 2) - scores).max() > TOLERANCE
