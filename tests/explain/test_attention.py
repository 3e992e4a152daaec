"""Attention to matched words: by hand, the same by transformers, and untouched by padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.errors import InputError
from tamis.explain._forwards import EagerModel, bert_attention, t5_attention
from tamis.explain.attention import (
    attention_of,
    attention_shares,
    body_of,
    matched_shares,
    tokens_of,
    word_attention,
)
from tamis.explain.pair_tokens import _assign, pair_tokens, plain_words, prompt_tokens
from tamis.scorers.cross_encoder import CrossEncoder

pytest.importorskip("torch", reason="torch is not installed")
PAIRS = [
    ("drum sieve", "the sieve sort grain"),
    ("net", "a fish net the net"),
    ("flour sort grain", "grain the fish a flour drum"),
]


@pytest.fixture(scope="module")
def scorer(tiny_cross_encoder: Path) -> CrossEncoder:
    return CrossEncoder.open(tiny_cross_encoder, threads=1)


def test_shares_by_hand() -> None:
    """Two layers; tokens: special, sieve, si ##eve, of, special. Words 0 and 1 match."""
    attention = np.array([[0.5, 0.1, 0.05, 0.15, 0.1, 0.1], [0.0, 0.3, 0.1, 0.2, 0.4, 0.0]])
    words = np.array([-1, 0, 1, 1, 2, -1])
    matched = np.array([True, True, False])
    assert word_attention(attention, words, 3)[0] == pytest.approx([0.1, 0.05 + 0.15, 0.1])
    first, second = (0.1 + 0.2) / 2, (0.3 + 0.3) / 2
    shares = matched_shares(attention, words, matched)
    assert shares == pytest.approx([first / (first + 0.1), second / (second + 0.4)])
    others = matched_shares(attention, words, ~matched)
    assert shares is not None and others is not None
    assert shares + others == pytest.approx([1, 1])


@pytest.mark.parametrize("matched", [[True, True], [False, False]])
def test_pairs_without_a_match_or_without_others_have_no_share(matched: list[bool]) -> None:
    assert matched_shares(np.ones((1, 2)), np.array([0, 1]), np.array(matched)) is None


def test_tokens_are_those_that_the_scorer_reads(scorer: CrossEncoder) -> None:
    tokens = pair_tokens(scorer, "drum, Sieve", "the sieve sort")
    assert tokens.ids.tolist() == [2, 5, 1, 4, 3, 11, 4, 12, 3]  # the comma is [UNK]
    assert tokens.segments.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert tokens.word_of.tolist() == [-1, 0, -1, 1, -1, 2, 3, 4, -1]
    assert tokens.words == ((0, "drum"), (0, "sieve"), (1, "the"), (1, "sieve"), (1, "sort"))
    assert tokens.matched.tolist() == [False, True, False, True, False]


def test_what_is_truncated_is_no_word(scorer: CrossEncoder) -> None:
    tokens = pair_tokens(scorer, "drum", "the " * 30 + "drum")
    assert len(tokens.ids) == scorer.max_length
    assert not tokens.matched.any()


def test_our_own_forward_and_transformers_agree_and_padding_changes_nothing(
    scorer: CrossEncoder, tiny_cross_encoder: Path
) -> None:
    body = body_of(scorer)
    assert body
    several = [tokens_of(scorer, *pair) for pair in PAIRS]
    ids, segments = [each.ids for each in several], [each.segments for each in several]
    assert len({len(each) for each in ids}) > 1  # some are padded
    eager = EagerModel.open(tiny_cross_encoder)
    batch = eager.attention(ids, segments)
    for each, together in zip(several, batch, strict=True):
        [alone] = eager.attention([each.ids], [each.segments])
        own = bert_attention(body, each.ids, each.segments)
        assert own.shape == (2, len(each.ids))
        assert together == pytest.approx(alone, abs=1e-6)
        assert own == pytest.approx(alone, abs=1e-5)
        assert own.sum(1) == pytest.approx([2, 2], abs=1e-5)  # two heads


def test_shares_over_pairs(scorer: CrossEncoder) -> None:
    pairs = [*PAIRS, ("drum", "a fish"), ("net", "net")]
    own = attention_shares(scorer, pairs)
    theirs = attention_shares(scorer, pairs, by="transformers")
    assert (own.pairs, own.left_out) == (3, 2)
    assert own.layers == pytest.approx(theirs.layers, abs=1e-5)
    assert own.last == own.layers[1]
    assert own.last_three == pytest.approx(np.mean(own.layers))
    single = [attention_shares(scorer, [pair]).layers for pair in PAIRS]
    assert own.layers == pytest.approx(np.mean(single, axis=0).tolist())
    with pytest.raises(InputError, match="none of 1 pairs"):
        attention_shares(scorer, [("drum", "a fish")])


def test_a_scorer_without_attention_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be read from object"):
        attention_shares(object(), PAIRS)  # type: ignore[arg-type]


def test_real_bert_agrees(models: Path) -> None:
    """MiniLM's body on pairs that differ in length."""
    from tamis.backends._bert import build
    from tamis.backends.weights import load

    loaded = load(models / "minilm")
    body = build(loaded)
    texts = ["how long is a sieve", "a drum sieve has a fine mesh to sift flour", "net"]
    ids = [np.array(loaded.tokens.backend.encode(text).ids, np.int32) for text in texts]
    segments = [np.zeros(len(each), np.int32) for each in ids]
    batch = EagerModel.open(models / "minilm").attention(ids, segments)
    for each, segment, together in zip(ids, segments, batch, strict=True):
        assert bert_attention(body, each, segment) == pytest.approx(together, abs=2e-4)


def test_a_bare_space_is_a_piece_of_the_word_after_it() -> None:
    """As T5 has them: ▁is ▁ a ▁ ( a ▁net, and the space before “(” is of no word."""
    spans = [(0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 11)]
    word_of, words = np.full(7, -1, np.int64), list[tuple[int, str]]()
    _assign(word_of, spans, "is a (a net", (0, None), 1, words, plain_words)
    assert word_of.tolist() == [0, 1, 1, -1, -1, 2, 3]
    assert words == [(1, "is"), (1, "a"), (1, "a"), (1, "net")]


def test_words_of_t5_are_whole_as_transformers_has_them(models: Path) -> None:
    """Their pieces by transformers' tokenizer, which marks where a word begins, and its attention
    summed over heads and pieces.
    """
    import torch
    import transformers

    from tamis.scorers.target_words import TargetWords

    folder = models / "t5"
    scorer = TargetWords.open(folder, ["true", "false"], threads=1)
    query, text = "a sieve", "this is a drum sieve with a fine mesh"
    tokens = prompt_tokens(scorer, query, text)
    own = word_attention(attention_of(scorer, tokens), tokens.word_of, len(tokens.words))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    filled, _, (begin, end) = scorer.template.fill(query, text)
    encoding = tokenizer(filled, return_offsets_mapping=True)
    model: Any = transformers.T5ForConditionalGeneration.from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float32
    )
    with torch.inference_mode():
        output = model.eval()(
            torch.tensor([encoding["input_ids"]]), decoder_input_ids=torch.tensor([[0]]),
            output_attentions=True,
        )  # fmt: skip
    rows = np.stack([each[0, :, 0].sum(0).numpy() for each in output.cross_attentions])
    sums: list[Any] = []
    pieces = zip(encoding.tokens(), encoding["offset_mapping"], rows.T, strict=True)
    for piece, (start, stop), values in pieces:
        if not (start < end and stop >= begin and stop > start):
            continue  # the template
        sums = [*sums, values] if piece[0] == "▁" else [*sums[:-1], sums[-1] + values]
    assert "▁" in encoding.tokens()
    of_text = [n for n, (side, _) in enumerate(tokens.words) if side == 1]
    assert [tokens.words[n][1] for n in of_text] == text.split()
    assert own[:, of_text] == pytest.approx(np.stack(sums, 1), abs=2e-4)


def test_only_a_cross_encoder_s_attention_comes_from_transformers(tiny_t5: Path) -> None:
    from tamis.scorers.target_words import TargetWords

    scorer = TargetWords.open(tiny_t5, ["sieve", "net"], threads=1)
    with pytest.raises(InputError, match="by='transformers' is for cross-encoders"):
        attention_shares(scorer, PAIRS, by="transformers")


def test_the_first_decoder_step_of_t5_as_transformers_has_it(tiny_t5: Path) -> None:
    import torch
    import transformers

    from tamis.backends._t5 import T5
    from tamis.scorers.target_words import TargetWords

    scorer = TargetWords.open(tiny_t5, ["sieve", "net"], threads=1)
    assert isinstance(scorer.language_model, T5)
    tokens = prompt_tokens(scorer, "drum sieve", "the sieve sort grain")
    own = t5_attention(scorer.language_model, tokens.ids)
    model: Any = transformers.T5ForConditionalGeneration.from_pretrained(
        tiny_t5, attn_implementation="eager"
    )
    model.eval()
    with torch.inference_mode():
        output = model(
            torch.from_numpy(tokens.ids.astype(np.int64))[None],
            decoder_input_ids=torch.tensor([[0]]),
            output_attentions=True,
        )
    theirs = np.stack([each[0, :, 0].sum(0).numpy() for each in output.cross_attentions])
    assert own == pytest.approx(theirs, abs=1e-5)
    words = [word for _, word in tokens.words]
    assert words == ["drum", "sieve", "the", "sieve", "sort", "grain"]
    assert tokens.matched.tolist() == [False, True, False, True, False, False]
    shares = attention_shares(scorer, [("drum sieve", "the sieve sort grain"), ("net", "a fish")])
    assert (len(shares.layers), shares.pairs, shares.left_out) == (3, 1, 1)
    assert shares.last_three == pytest.approx(np.mean(shares.layers))
