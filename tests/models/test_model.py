"""`tamis.load_model`: a model as a Python user has it."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.errors import InputError
from tamis.manifest import write_manifest
from tamis.models import Model, import_model, open_ranker
from tamis.types import Pairs, Scores
from tamis.types.pipeline import Scale, score_texts

TEXTS = ["the net", "a drum sieve", "grain", "a drum sieve", "fish fish"]


class Constant:
    """A scorer that cannot tell texts apart."""

    scale: Scale = "regression"

    def score(self, pairs: Pairs) -> Scores:
        return Scores(np.ones(len(pairs), np.float32), np.zeros(len(pairs), np.int32))


def test_texts_come_best_first_with_the_scores_of_the_scorer(tiny_cross_encoder: Path) -> None:
    model = tamis.load_model(tiny_cross_encoder, threads=1)
    expected = score_texts(open_ranker(tiny_cross_encoder).scorer, "sieve", TEXTS)
    np.testing.assert_allclose(model.score("sieve", TEXTS), expected, atol=1e-6)
    ranked = model.rank("sieve", TEXTS)
    assert [hit.score for hit in ranked] == sorted((hit.score for hit in ranked), reverse=True)
    assert sorted(hit.index for hit in ranked) == [0, 1, 2, 3, 4]
    assert all(hit.text == TEXTS[hit.index] for hit in ranked)
    np.testing.assert_allclose([hit.score for hit in ranked], -np.sort(-expected), atol=1e-6)


def test_the_logits_are_those_of_transformers(tiny_cross_encoder: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    other = transformers.AutoModelForSequenceClassification.from_pretrained(tiny_cross_encoder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_cross_encoder)
    read = tokenizer(["sieve"] * len(TEXTS), TEXTS, padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = other.eval()(**read).logits[:, 0].numpy()
    model = tamis.load_model(str(tiny_cross_encoder))
    assert model.scale == "logit"
    np.testing.assert_allclose(model.score("sieve", TEXTS), expected, atol=1e-5)


def test_of_equal_scores_the_earlier_text_is_first() -> None:
    ranked = Model(Constant(), "constant").rank("sieve", TEXTS)
    assert [hit.index for hit in ranked] == [0, 1, 2, 3, 4]
    assert Model(Constant(), "constant").rank("sieve", []) == []


def test_a_bi_encoder_has_embeddings_and_others_say_that_they_have_none(
    tiny_cross_encoder: Path, tmp_path: Path
) -> None:
    import_model(tiny_cross_encoder, tmp_path / "bi", kind="bi-encoder", pooling="mean")
    model = tamis.load_model(tmp_path / "bi", device="cpu")
    embeddings = model.encode(TEXTS)
    assert embeddings.shape == (5, 16)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    query = model.encode(["sieve"], are_queries=True)[0]
    np.testing.assert_allclose(model.score("sieve", TEXTS), embeddings @ query, atol=1e-5)
    with pytest.raises(InputError, match="no bi-encoder"):
        tamis.load_model(tiny_cross_encoder).encode(TEXTS)


def test_truncated_texts_are_counted_in_the_log(
    tiny_cross_encoder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tamis")
    tamis.load_model(tiny_cross_encoder).rank("sieve", ["net", "net " * 100])
    assert "1 of 2 texts truncated" in caplog.text


@pytest.mark.parametrize(
    ("query", "texts", "problem"),
    [
        ("sieve", "one text", "one string"),
        ("sieve", ["net", None], r"texts\[1\] is None"),
        (["sieve"], ["net"], "the query is of type list"),
    ],
)
def test_natural_mistakes_are_told(query: str, texts: list[str], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as error:
        Model(Constant(), "constant").rank(query, texts)
    assert error.value.hint


@pytest.mark.parametrize("device", ["cuda", "mps", "GPU"])
def test_other_devices_are_refused(device: str) -> None:
    with pytest.raises(InputError, match="there is no device"):
        tamis.load_model("anything", device=device)


def test_what_is_no_model_says_what_to_do(tmp_path: Path) -> None:
    write_manifest(tmp_path, "sieve", 1)
    for name, hint in ((str(tmp_path), "load_sieve"), ("lexical", "documents=index")):
        with pytest.raises(InputError) as error:
            tamis.load_model(name)
        assert hint in error.value.hint
