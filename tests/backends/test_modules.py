"""Folders of sentence-transformers: every pooling, dense layers, prompts, Router, truncation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny import (
    EVERY,
    TEXTS,
    change_json,
    cross_encoder,
    pairs_of,
    save,
    torch,
)

from tamis.backends.pooling import POOLINGS
from tamis.errors import InputError
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder

sentence_transformers: Any = pytest.importorskip(
    "sentence_transformers", reason="sentence-transformers is not installed"
)
modules: Any = sentence_transformers.sentence_transformer.modules
TOLERANCE = 1e-4
PROMPTS = {"query": "query : ", "document": "passage : "}


def transformer(folder: Path, seed: int = 0, architecture: str = "distilbert") -> Any:
    place = folder / f"plain{seed}{architecture}"
    return modules.Transformer(str(save(place, architecture, "AutoModel", seed=seed)))


def saved(folder: Path, *parts: Any, **settings: Any) -> Any:
    torch.manual_seed(1)
    made = sentence_transformers.SentenceTransformer(modules=list(parts), device="cpu", **settings)
    made.save_pretrained(str(folder / "model"))
    return made


def opened(folder: Path, **options: Any) -> BiEncoder:
    return BiEncoder.open(folder / "model", device="cpu", **options)


def assert_same(rows: Any, expected: Any) -> None:
    assert rows.shape == expected.shape
    assert np.abs(rows - expected).max() < TOLERANCE


@pytest.mark.parametrize("architecture", ["bert", "electra"])
@pytest.mark.parametrize("pooling", [*POOLINGS, ("mean", "lasttoken"), ("cls", "max")])
def test_every_pooling(pooling: Any, architecture: str, tmp_path: Path) -> None:
    body = transformer(tmp_path, architecture=architecture)
    made = saved(tmp_path, body, modules.Pooling(24, pooling_mode=pooling))
    encoder = opened(tmp_path)
    assert encoder.runtime.backend == ("fast" if architecture == "bert" else "transformers")
    assert_same(encoder.encode(TEXTS), made.encode(TEXTS, normalize_embeddings=True))


@pytest.mark.parametrize("architecture", ["bert", "electra"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_prompt_may_be_left_out_of_the_pooling(
    pooling: str, architecture: str, tmp_path: Path
) -> None:
    body = transformer(tmp_path, architecture=architecture)
    pool = modules.Pooling(24, pooling_mode=pooling, include_prompt=False)
    made = saved(tmp_path, body, pool, prompts=PROMPTS)
    encoder = opened(tmp_path)
    expected = made.encode_query(TEXTS, normalize_embeddings=True)
    assert_same(encoder.encode(TEXTS), expected)
    with_prompt = made.encode(["query : " + text for text in TEXTS], normalize_embeddings=True)
    assert np.abs(expected - with_prompt).max() > 10 * TOLERANCE or pooling == "lasttoken"


def test_prompts_of_queries_and_documents(tmp_path: Path) -> None:
    made = saved(tmp_path, transformer(tmp_path), modules.Pooling(24), prompts=PROMPTS)
    encoder = opened(tmp_path)
    assert encoder.documents is not None
    queries = made.encode_query(TEXTS, normalize_embeddings=True)
    documents = made.encode_document(TEXTS, normalize_embeddings=True)
    assert_same(encoder.encode(TEXTS), queries)
    assert_same(encoder.documents.encode(TEXTS), documents)
    assert np.abs(queries - documents).max() > 0.01
    scores = encoder.score(EVERY).values
    rows = dict(zip(TEXTS, documents, strict=True))
    asked = made.encode_query(list(EVERY.queries), normalize_embeddings=True)
    expected = [float(asked[q] @ rows[EVERY.texts[t]]) for q, t in EVERY.index.tolist()]
    assert np.abs(scores - expected).max() < TOLERANCE


def test_prompts_by_hand_go_before_those_of_the_folder(tmp_path: Path) -> None:
    made = saved(tmp_path, transformer(tmp_path), modules.Pooling(24), prompts=PROMPTS)
    encoder = opened(tmp_path, query_prompt="how ", document_prompt="")
    assert encoder.documents is not None
    assert_same(encoder.encode(TEXTS), made.encode(TEXTS, prompt="how ", normalize_embeddings=True))
    assert_same(
        encoder.documents.encode(TEXTS), made.encode(TEXTS, prompt="", normalize_embeddings=True)
    )


def test_a_passage_prompt_is_one_of_documents(tmp_path: Path) -> None:
    saved(tmp_path, transformer(tmp_path), modules.Pooling(24))
    path = tmp_path / "model" / "config_sentence_transformers.json"
    change_json(path, prompts={"query": "query : ", "passage": "passage : "})
    encoder = opened(tmp_path)
    assert encoder.documents is not None
    assert (encoder.prompt, encoder.documents.prompt) == ("query : ", "passage : ")


@pytest.mark.parametrize("activation", ["Tanh", "Identity", "ReLU", "GELU", "Sigmoid", "SiLU"])
def test_dense_layers_and_norms(activation: str, tmp_path: Path) -> None:
    name = "Identity" if activation == "Identity" else activation
    function = getattr(torch.nn, name)()
    made = saved(
        tmp_path,
        transformer(tmp_path),
        modules.Pooling(24, pooling_mode=("mean", "max")),
        modules.Dense(48, 20, activation_function=function),
        modules.Dense(20, 20, bias=False, activation_function=function, use_residual=True),
        modules.LayerNorm(20),
        modules.Dense(20, 8, activation_function=torch.nn.Identity(), use_residual=True),
        modules.Normalize(),
    )
    encoder = opened(tmp_path)
    assert encoder.dimensions == 8
    assert_same(encoder.encode(TEXTS), made.encode(TEXTS))


@pytest.mark.parametrize("dimensions", [5, 24])
def test_truncated_dimensions(dimensions: int, tmp_path: Path) -> None:
    made = saved(tmp_path, transformer(tmp_path), modules.Pooling(24), truncate_dim=dimensions)
    encoder = opened(tmp_path)
    assert encoder.dimensions == dimensions
    assert_same(encoder.encode(TEXTS), made.encode(TEXTS, normalize_embeddings=True))
    assert opened(tmp_path, truncate_dim=3).encode(["net"]).shape == (1, 3)


def test_a_router_has_other_modules_for_documents(tmp_path: Path) -> None:
    router = modules.Router.for_query_document(
        [transformer(tmp_path, 1, "electra"), modules.Pooling(24, pooling_mode="cls")],
        [transformer(tmp_path, 2, "bert"), modules.Pooling(24), modules.Dense(24, 24)],
    )
    made = saved(tmp_path, router, modules.Normalize(), prompts=PROMPTS)
    encoder = opened(tmp_path)
    assert encoder.documents is not None
    assert_same(encoder.encode(TEXTS), made.encode_query(TEXTS))
    assert_same(encoder.documents.encode(TEXTS), made.encode_document(TEXTS))
    assert encoder.runtime.backend == "transformers"
    assert encoder.documents.runtime.backend == "fast"
    files = encoder.spec()["weights"]
    assert sorted(files) == [
        "document_0_Transformer/model.safetensors",
        "document_2_Dense/model.safetensors",
        "query_0_Transformer/model.safetensors",
    ]


def test_a_model_of_the_dot_product_says_that_cosines_are_given(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved(tmp_path, transformer(tmp_path), modules.Pooling(24), similarity_fn_name="dot")
    encoder = opened(tmp_path)
    assert "compares embeddings by dot; tamis brings them to length one" in caplog.text
    assert np.allclose(np.linalg.norm(encoder.encode(TEXTS), axis=1), 1)


@pytest.mark.parametrize("kind", ["WordEmbeddings", "CNN", "WeightedLayerPooling"])
def test_other_modules_are_refused(kind: str, tmp_path: Path) -> None:
    saved(tmp_path, transformer(tmp_path), modules.Pooling(24))
    path = tmp_path / "model" / "modules.json"
    listed = json.loads(path.read_text())
    added = {"idx": 2, "name": "2", "path": "2", "type": f"sentence_transformers.models.{kind}"}
    path.write_text(json.dumps([*listed, added]))
    with pytest.raises(InputError, match=f"does not run: sentence_transformers.models.{kind}"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("activation", "scale"), [("Sigmoid", "probability"), ("Identity", "logit")]
)
@pytest.mark.parametrize("where", ["saved", "sentence_transformers", "sbert_ce"])
def test_a_cross_encoder_has_the_activation_that_its_folder_names(
    where: str, activation: str, scale: str, tmp_path: Path
) -> None:
    folder = cross_encoder(tmp_path / "plain", "distilbert")
    function = getattr(torch.nn, activation)()
    name = f"{type(function).__module__}.{activation}"
    if where == "saved":
        made = sentence_transformers.CrossEncoder(str(folder), activation_fn=function, device="cpu")
        folder = tmp_path / "model"
        made.save_pretrained(str(folder))
    elif where == "sentence_transformers":
        change_json(folder / "config.json", sentence_transformers={"activation_fn": name})
    else:
        change_json(folder / "config.json", sbert_ce_default_activation_function=name)
    scorer = CrossEncoder.open(folder, device="cpu")
    expected = sentence_transformers.CrossEncoder(str(folder), device="cpu").predict(
        pairs_of(EVERY)
    )
    assert scorer.scale == scale
    assert np.abs(scorer.score(EVERY).values - expected).max() < TOLERANCE


def test_a_cross_encoder_with_a_prompt(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path / "plain", "bert")
    made = sentence_transformers.CrossEncoder(
        str(folder), prompts={"query": "query : "}, default_prompt_name="query", device="cpu"
    )
    made.save_pretrained(str(tmp_path / "model"))
    expected = made.predict(pairs_of(EVERY))
    scorer = CrossEncoder.open(tmp_path / "model", device="cpu")
    assert np.abs(scorer.score(EVERY).values - expected).max() < TOLERANCE
    plain = CrossEncoder.open(folder, device="cpu", scale="probability")
    assert np.abs(plain.score(EVERY).values - expected).max() > 10 * TOLERANCE


def test_one_of_three_outputs_is_read_where_it_is_named(tmp_path: Path) -> None:
    folder = cross_encoder(tmp_path, "distilbert", 3)
    labels = {"contradiction": 0, "entailment": 1, "neutral": 2}
    names = {str(number): name for name, number in labels.items()}
    change_json(folder / "config.json", label2id=labels, id2label=names)
    with pytest.raises(InputError, match="3 outputs") as error:
        CrossEncoder.open(folder, device="cpu")
    assert "contradiction, entailment, neutral" in error.value.hint
    other = sentence_transformers.CrossEncoder(str(folder), device="cpu")
    expected = other.predict(pairs_of(EVERY), apply_softmax=True)[:, 1]
    scorer = CrossEncoder.open(folder, output="entailment", device="cpu")
    assert np.abs(scorer.score(EVERY).values - expected).max() < TOLERANCE


def test_a_cross_encoder_of_pooling_and_dense_layers(tmp_path: Path) -> None:
    cross_modules = sentence_transformers.cross_encoder.modules
    body = transformer(tmp_path, 0, "bert")
    dense = cross_modules.Dense(
        24, 1, activation_function=torch.nn.Identity(), module_output_name="scores"
    )
    made = sentence_transformers.CrossEncoder(
        modules=[body, modules.Pooling(24, pooling_mode="cls"), dense], device="cpu"
    )
    made.save_pretrained(str(tmp_path / "model"))
    scorer = CrossEncoder.open(tmp_path / "model", device="cpu")
    expected = made.predict(pairs_of(EVERY))
    assert (scorer.scale, scorer.runtime.backend) == ("probability", "transformers")
    assert np.abs(scorer.score(EVERY).values - expected).max() < TOLERANCE
    with pytest.raises(InputError, match="fast does not run the modules"):
        CrossEncoder.open(tmp_path / "model", backend="fast")


@pytest.mark.parametrize("false_id", [None, 28])
def test_a_cross_encoder_by_the_logits_of_the_next_token(
    false_id: int | None, tmp_path: Path
) -> None:
    cross_modules = sentence_transformers.cross_encoder.modules
    place = save(tmp_path / "plain", "llama", "AutoModelForCausalLM")
    body = cross_modules.Transformer(str(place), transformer_task="text-generation")
    score = cross_modules.LogitScore(true_token_id=27, false_token_id=false_id)
    made = sentence_transformers.CrossEncoder(modules=[body, score], device="cpu")
    made.save_pretrained(str(tmp_path / "model"))
    scorer = CrossEncoder.open(tmp_path / "model", device="cpu")
    expected = made.predict(pairs_of(EVERY))
    assert np.abs(scorer.score(EVERY).values - expected).max() < TOLERANCE
