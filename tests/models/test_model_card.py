"""The card of a trained model: front matter that the hub reads, and code in it that runs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny import EVERY, QUERIES, TEXTS, cross_encoder, save
from tests.training.test_devices import EXAMPLES, LISTS, RECIPE, WORDS, job_of

from tamis.evaluation import t_interval
from tamis.labels.examples import Examples
from tamis.models import import_model, open_scorer
from tamis.models.base_models import hub_id
from tamis.models.model_card import Quality, QualityTable, model_card, write_model_card
from tamis.models.model_description import describe_folder
from tamis.scorers.model_manifest import ModelManifest, read_model_manifest
from tamis.training.loop import train
from tamis.training.validation import Validation

yaml: Any = pytest.importorskip("yaml", reason="PyYAML is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def front_matter(card: str) -> Any:
    return yaml.safe_load(card.split("---\n")[1])


def code(card: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", card, re.S)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = cross_encoder(tmp_path / "base", "electra")
    (folder / "README.md").write_text("---\nlicense: cc-by-sa-4.0\n---\n\n# Base\n")
    return folder


def test_a_trained_cross_encoder_has_a_card(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = replace(RECIPE, learning_rate=3e-3, keep="best", validate_every=1)
    job = replace(job_of(base, tmp_path / "mine", recipe), validation=Validation.of(EXAMPLES))
    done = train(job)
    card = (done.folder / "README.md").read_text()
    matter = front_matter(card)
    assert matter == {
        "library_name": "sentence-transformers",
        "pipeline_tag": "text-ranking",
        "license": "cc-by-sa-4.0",
        "tags": ["tamis", "sentence-transformers", "cross-encoder", "reranker"],
    }
    assert "fine-tuned from base " in card and "# mine" in card
    positive = int(EXAMPLES.is_role("positive").sum())
    assert f"| 1 | tiny | gold | positive | {positive} |" in card
    assert "| `learning_rate` | 0.003 |" in card and "| `max_length` | 40 |" in card
    assert "transformers on cpu in float32" in card
    kept = next(check for check in done.history.checks if check.step == done.selected_step)
    assert f"| this model | RR@10 | {kept.value:.4f} |" in card
    assert f"3 validation queries with {np.diff(EXAMPLES.offsets).max()} texts to rank at" in card
    assert ", which selected the checkpoint" in card and "`word_loss`" not in card
    assert describe_folder(done.folder)["licence"] == "cc-by-sa-4.0"
    ours, theirs = code(card)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(ours, names)
    exec(theirs, names)
    scores = open_scorer(done.folder).score(EVERY)
    assert len(names["scores"]) == 2 and np.isfinite(scores.values).all()


def test_an_interval_is_that_of_the_validation_queries() -> None:
    validation = Validation.of(EXAMPLES)
    scores = np.linspace(0, 1, len(EXAMPLES), dtype=np.float32)
    values = validation.values(scores)
    assert len(values) == len(QUERIES) and validation.value(scores) == values.mean()
    assert t_interval(values) is not None


def test_a_training_that_did_not_help_is_said() -> None:
    facts = {"training": {"selected_step": 0, "steps": 9, "texts": 1, "truncated_tokens": 0,
                          "minutes": 1}}  # fmt: skip
    assert "No step of the training did better" in model_card(
        ModelManifest("bi-encoder", 256, "cosine", facts=facts), "m"
    )


def test_a_query_encoder_says_which_model_encodes_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = pytest.importorskip("sentence_transformers")
    save(tmp_path / "plain", "electra", "AutoModel")
    import_model(tmp_path / "plain", tmp_path / "base", kind="bi-encoder", pooling="mean",
                 query_prompt="query : ")  # fmt: skip
    recipe = replace(LISTS, fixed_documents=True)
    done = train(job_of(tmp_path / "base", tmp_path / "mine", recipe))
    card = (done.folder / "README.md").read_text()
    assert front_matter(card)["pipeline_tag"] == "sentence-similarity"
    assert "Prompts: `query : ` before queries." in card
    assert "fine-tuned from plain " in card  # not by the name it was taken in under
    monkeypatch.chdir(tmp_path)
    ours, theirs = code(card)
    names: dict[str, Any] = {}
    exec(ours, names)
    exec(theirs, names)
    found = open_scorer(done.folder).score(
        replace(EVERY, queries=["a question"] * 3, texts=["one text"] * len(TEXTS))
    )
    assert abs(float(names["scores"][0, 0]) - found.values[0]) < 1e-4
    assert peers.__version__


def test_a_language_model_says_its_words_and_template(tmp_path: Path) -> None:
    base = save(tmp_path / "base", "qwen3", "AutoModelForCausalLM")
    done = train(job_of(base, tmp_path / "mine", replace(WORDS, learning_rate=1e-4)))
    card = (done.folder / "README.md").read_text()
    matter = front_matter(card)
    assert (matter["library_name"], matter["pipeline_tag"]) == ("transformers", "text-ranking")
    assert "'true' against 'false'" in card and "{query}" in card


def test_a_chain_names_the_first_base_and_all_labels(base: Path, tmp_path: Path) -> None:
    first = train(job_of(base, tmp_path / "first"))
    second = train(job_of(first.folder, tmp_path / "second", replace(RECIPE, name="again")))
    card = (second.folder / "README.md").read_text()
    assert "fine-tuned from base " in card
    assert "| 1 | tiny | gold | positive |" in card and "| 2 | again | gold | positive |" in card
    assert front_matter(card)["license"] == "cc-by-sa-4.0"


def test_known_bases_and_hub_ids_are_named_to_the_hub() -> None:
    facts = {"chain": [{"base": "/x/all-MiniLM", "base_name": "all-MiniLM-L6-v2", "recipe": "r"}]}
    card = model_card(ModelManifest("bi-encoder", 256, "cosine", facts=facts), "m")
    assert front_matter(card)["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert front_matter(card)["base_model_relation"] == "finetune"
    assert hub_id("org/model") == "org/model"
    assert hub_id("a/b/c") is None and hub_id("/org/model") is None


def test_quality_has_intervals_where_there_are_any(base: Path, tmp_path: Path) -> None:
    done = train(job_of(base, tmp_path / "mine"))
    rows = (
        Quality("fine-tuned", "RR@10", 0.5, 0.4, 0.6, "+.1000"),
        Quality("BM25", "RR@10", 0.4),
    )
    write_model_card(done.folder, tested=[QualityTable("test queries of a|b", 1200, rows)])
    card = (done.folder / "README.md").read_text()
    assert "On 1,200 test queries of a|b:" in card
    assert "| fine-tuned | RR@10 | 0.5000 | 0.4000 to 0.6000 | +.1000 |" in card
    assert "| BM25 | RR@10 | 0.4000 |  |  |" in card
    assert isinstance(EXAMPLES, Examples) and read_model_manifest(done.folder).facts["recipe"]
