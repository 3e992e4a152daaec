"""Gradient times input as autograd has it on the model of transformers, and as shares."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tamis.explain._forwards import EagerModel
from tamis.explain._gradients import (
    bi_encoder_gradient,
    cross_encoder_gradient,
    target_words_gradient,
)
from tamis.explain.hints import Hints, hints_of
from tamis.explain.pair_tokens import pair_tokens, prompt_tokens, text_tokens
from tamis.explain.result import explain_result
from tamis.models import import_model
from tamis.pipeline.rerank import rerank
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import TargetWords
from tamis.search import Index
from tamis.types import Scorer

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
transformers: Any = pytest.importorskip("transformers")
QUERY, TEXT = "drum sieve", "the sieve sort grain the net"
OURS_AND_THEIRS = ("fast", "transformers")


def products(model: Any, score: Any, inputs: Any) -> NDArray[np.float32]:
    (gradient,) = torch.autograd.grad(score, inputs)
    values: NDArray[np.float32] = (gradient * inputs).sum(-1)[0].detach().numpy()
    return values


def embedded(model: Any, ids: NDArray[np.int32]) -> Any:
    inputs = model.get_input_embeddings()(torch.from_numpy(ids.astype(np.int64))[None])
    return inputs.detach().requires_grad_()


@pytest.mark.parametrize("backend", OURS_AND_THEIRS)
def test_of_a_cross_encoder(tiny_cross_encoder: Path, backend: Any) -> None:
    scorer = CrossEncoder.open(tiny_cross_encoder, threads=1, backend=backend)
    tokens = pair_tokens(scorer, QUERY, TEXT)
    load = transformers.AutoModelForSequenceClassification.from_pretrained
    model = load(tiny_cross_encoder).eval()
    inputs = embedded(model, tokens.ids)
    types = torch.from_numpy(tokens.segments.astype(np.int64))[None]
    logits = model(inputs_embeds=inputs, token_type_ids=types).logits
    expected = products(model, logits[0, 0], inputs)
    assert np.abs(expected).max() > 1e-3
    found = cross_encoder_gradient(scorer, tokens.ids, tokens.segments)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.fixture(scope="module")
def bi_encoder(tmp_path_factory: pytest.TempPathFactory, tiny_cross_encoder: Path) -> Path:
    folder = tmp_path_factory.mktemp("bi") / "tiny"
    import_model(tiny_cross_encoder, folder, kind="bi-encoder", pooling="mean", max_length=24)
    return folder


@pytest.mark.parametrize("backend", OURS_AND_THEIRS)
def test_of_a_bi_encoder(bi_encoder: Path, backend: Any) -> None:
    """The score is the cosine of the mean of all tokens with the query."""
    encoder = BiEncoder.open(bi_encoder, threads=1, backend=backend)
    [query] = encoder.encode([QUERY])
    tokens = text_tokens(encoder, TEXT)
    model = transformers.AutoModel.from_pretrained(bi_encoder).eval()
    inputs = embedded(model, tokens.ids)
    mean = model(inputs_embeds=inputs).last_hidden_state[0].mean(0)
    cosine = torch.nn.functional.cosine_similarity(mean, torch.from_numpy(query), dim=0)
    assert cosine.item() == pytest.approx(float(encoder.encode([TEXT])[0] @ query), abs=1e-5)
    expected = products(model, cosine, inputs)
    assert np.abs(expected).max() > 1e-3
    found = bi_encoder_gradient(encoder, tokens.ids, query)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("backend", OURS_AND_THEIRS)
def test_of_a_t5(tiny_t5: Path, backend: Any) -> None:
    """The score is how far the first word's logit lies above the second's."""
    scorer = TargetWords.open(tiny_t5, ["sieve", "net"], threads=1, backend=backend)
    tokens = prompt_tokens(scorer, QUERY, TEXT)
    model = transformers.T5ForConditionalGeneration.from_pretrained(tiny_t5).eval()
    inputs = embedded(model, tokens.ids)
    logits = model(inputs_embeds=inputs, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
    expected = products(model, logits[scorer.ids[0]] - logits[scorer.ids[1]], inputs)
    assert np.abs(expected).max() > 1e-3
    assert target_words_gradient(scorer, tokens.ids) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    texts = {"a": TEXT, "b": "a fish net", "c": "drum drum sort " * 9 + "sieve"}
    return Index.build(texts, tmp_path_factory.mktemp("hints") / "index")


def scorers(cross_encoder: Path, bi_encoder: Path, t5: Path) -> dict[str, Scorer]:
    return {
        "cross-encoder": CrossEncoder.open(cross_encoder, threads=1),
        "bi-encoder": BiEncoder.open(bi_encoder, threads=1),
        "t5": TargetWords.open(t5, ["sieve", "net"], threads=1),
    }


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder", "t5"])
def test_shares_of_the_words_of_a_text_sum_to_1(
    kind: str, index: Index, tiny_cross_encoder: Path, bi_encoder: Path, tiny_t5: Path
) -> None:
    """Each word of the text has a term here but “the”, whose share is the rest."""
    scorer = scorers(tiny_cross_encoder, bi_encoder, tiny_t5)[kind]
    hints = hints_of(scorer, QUERY, "sieve sort grain net sieve", index.analyzer)
    several = [hints.gradient] if kind == "bi-encoder" else [hints.gradient, hints.attention]
    for shares in several:
        assert set(shares) == {"siev", "sort", "grain", "net"}
        assert sum(shares.values()) == pytest.approx(1)
        assert all(share > 0 for share in shares.values())
    assert hints.why_not == "" and (kind != "bi-encoder" or not hints.attention)


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder", "t5"])
def test_terms_are_those_of_the_analyzer(
    kind: str, index: Index, tiny_cross_encoder: Path, bi_encoder: Path, tiny_t5: Path
) -> None:
    scorer = scorers(tiny_cross_encoder, bi_encoder, tiny_t5)[kind]
    hints = hints_of(scorer, "1,000", "A 3.5 u.s.a don't, 1,000 sieves", index.analyzer)
    for shares in [hints.gradient, hints.attention][: 1 if kind == "bi-encoder" else 2]:
        assert set(shares) == {"3.5", "u.s.a", "don't", "1,000", "siev"}
        assert sum(shares.values()) == pytest.approx(1)
        assert all(share > 0 for share in shares.values())


def test_the_pieces_of_a_term_are_those_between_its_bounds(index: Index, bi_encoder: Path) -> None:
    """[CLS] a 3 . 5 , sieve [SEP]: the stop word, the comma and special tokens are of no term."""
    encoder = BiEncoder.open(bi_encoder, threads=1)
    tokens = text_tokens(encoder, "a 3.5, sieve", index.analyzer.spans)
    assert tokens.words == ((1, "3.5"), (1, "siev"))
    assert tokens.word_of.tolist() == [-1, -1, 0, 0, 0, -1, 1, -1]


def test_the_attention_is_the_last_layer_s(index: Index, tiny_cross_encoder: Path) -> None:
    """[CLS] drum sieve [SEP], then four words of one token each."""
    scorer = CrossEncoder.open(tiny_cross_encoder, threads=1)
    hints = hints_of(scorer, QUERY, "sieve sort grain net", index.analyzer)
    tokens = pair_tokens(scorer, QUERY, "sieve sort grain net")
    eager = EagerModel.open(tiny_cross_encoder)
    first, last = eager.attention([tokens.ids], [tokens.segments])[0][:, 4:8]
    expected = dict(zip(["siev", "sort", "grain", "net"], last / last.sum(), strict=True))
    assert hints.attention == pytest.approx(expected, abs=1e-5)
    assert first / first.sum() != pytest.approx(last / last.sum(), abs=1e-3)


@pytest.mark.parametrize("kind", ["cross-encoder", "bi-encoder", "t5"])
def test_an_explanation_has_them_beside_what_was_measured(
    kind: str, index: Index, tiny_cross_encoder: Path, bi_encoder: Path, tiny_t5: Path
) -> None:
    scorer = scorers(tiny_cross_encoder, bi_encoder, tiny_t5)[kind]
    whole = index.bm25() % 3 >> rerank(scorer, index, depth=3)
    [word] = explain_result(whole, index, QUERY, "a").words
    assert word.term == "siev" and word.gradient is not None and 0 < word.gradient < 1
    assert (word.attention is None) == (kind == "bi-encoder")
    read = {w.term: w.gradient for w in explain_result(whole, index, QUERY, "c").words}
    assert read["drum"] is not None
    if kind != "t5":  # which reads 512 tokens
        assert read["siev"] is None  # it was truncated


def test_an_export_is_asked_in_torch(
    tmp_path: Path, index: Index, tiny_cross_encoder: Path
) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from tamis.models.onnx_files import write_float

    folder = tmp_path / "model"
    shutil.copytree(tiny_cross_encoder, folder)
    own = CrossEncoder.open(folder, threads=1)
    (folder / "onnx").mkdir()
    write_float(folder / "onnx/model.onnx", own, folder)
    exported = CrossEncoder.open(folder, threads=1, backend="onnx")
    assert exported.runtime.is_onnx
    found, expected = (hints_of(scorer, QUERY, TEXT, index.analyzer) for scorer in (exported, own))
    assert found.gradient and found.attention
    assert found.gradient == pytest.approx(expected.gradient)
    assert found.attention == pytest.approx(expected.attention)
    (folder / "model.safetensors").unlink()
    alone = CrossEncoder.open(folder, threads=1, backend="onnx")
    why = "the model's folder has its ONNX export alone"
    assert hints_of(alone, QUERY, TEXT, index.analyzer) == Hints(why_not=why)
    whole = index.bm25() % 3 >> rerank(alone, index, depth=3)
    explained = explain_result(whole, index, QUERY, "a")
    assert f"no gradient and no attention: {why}" in explained.notes
    assert explained.words[0].gradient is None
