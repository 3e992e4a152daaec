"""Neural scorers give what transformers and sentence-transformers give, on tiny random models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tamis.backends.protocols import Family
from tamis.backends.tokens import Tokens
from tamis.errors import InputError
from tamis.models import import_model, open_scorer
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_tokens import word_id, word_ids
from tamis.scorers.target_words import Score, TargetWords
from tamis.testing import check_scorer
from tamis.types import Pairs, Scorer

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
os.environ["HF_HUB_OFFLINE"] = "1"

WORDS = "a drum sieve is or net grain rivers flow to the sea and how does it work".split()
LETTERS = list("abcdefghijklmnopqrstuvwxyz.,;:?!")
QUERIES = ["how does a drum sieve work", "grain", ""]
TEXTS = [
    "A drum sieve is a net.",
    "rivers flow " * 9,
    "",
    "grain, or sea?",
    "xyz 円 🙂 \x07",
    "net",
]
EVERY = Pairs(QUERIES, TEXTS, np.indices((3, 6), np.int32).reshape(2, -1).T)
SHAPE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 66}  # fmt: skip


def save(folder: Path, model: Any, tokenizer: Any, **special: Any) -> Path:
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.3)
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(
        folder
    )
    return folder


def word_pieces(start: str, end: str, between: str, *others: str) -> Any:
    pieces = [*others, start, end, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    numbers = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(numbers, unk_token=others[0]))
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens([start, end, *others])
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{start} $A {end}",
        pair=f"{start} $A {between} $B:1 {end}:1",
        special_tokens=[(start, numbers[start]), (end, numbers[end])],
    )  # fmt: skip
    return made


def bert_pieces() -> Any:
    return word_pieces("[CLS]", "[SEP]", "[SEP]", "[UNK]", "[PAD]", "[MASK]")


def bert(folder: Path, outputs: int) -> Path:
    torch.manual_seed(1)
    tokenizer = bert_pieces()
    config = transformers.BertConfig(
        vocab_size=tokenizer.get_vocab_size(), num_labels=outputs, pad_token_id=1, **SHAPE
    )
    model = transformers.BertForSequenceClassification(config)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return save(folder, model, tokenizer, pad_token="[PAD]", model_input_names=names)


def roberta(folder: Path, outputs: int) -> Path:
    torch.manual_seed(2)
    tokenizer = word_pieces("<s>", "</s>", "</s> </s>", "<unk>", "<pad>", "<mask>")
    config = transformers.RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(), num_labels=outputs, pad_token_id=1,
        type_vocab_size=1, **SHAPE,
    )  # fmt: skip
    model = transformers.RobertaForSequenceClassification(config)
    return save(folder, model, tokenizer, pad_token="<pad>", unk_token="<unk>")


def unigram() -> Any:
    pieces = ["<pad>", "</s>", "<unk>", "▁", *(f"▁{word}" for word in WORDS), *LETTERS]
    pieces += ["▁true", "▁false", "▁Query", "▁Document", "▁Relevant"]
    scored = [(piece, -float(len(pieces) - len(piece))) for piece in pieces]
    made = tokenizers.Tokenizer(tokenizers.models.Unigram(scored, unk_id=2))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.add_special_tokens(["<pad>", "</s>", "<unk>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return made


def t5(folder: Path, feed: str = "gated-gelu", tied: bool = False) -> Path:
    torch.manual_seed(3)
    config = transformers.T5Config(
        vocab_size=unigram().get_vocab_size(), d_model=32, d_kv=8, d_ff=48, num_layers=2,
        num_decoder_layers=3, num_heads=3, feed_forward_proj=feed, tie_word_embeddings=tied,
        decoder_start_token_id=0, relative_attention_max_distance=20,
        relative_attention_num_buckets=8,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    return save(folder, model, unigram(), pad_token="<pad>", unk_token="<unk>")


def causal(folder: Path) -> Path:
    torch.manual_seed(4)
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ġ", "t"), ("r", "u"), ("ru", "e"), ("Ġt", "rue"), ("Ġ", "f"), ("a", "l"),
              ("s", "e"), ("al", "se"), ("Ġf", "alse")]  # fmt: skip
    pieces = [*letters, *(first + second for first, second in merges)]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(numbers, merges))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    config = transformers.GPT2Config(
        vocab_size=len(pieces), n_embd=32, n_layer=2, n_head=4, n_positions=600,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return save(folder, transformers.GPT2LMHeadModel(config), made)


def masked(folder: Path) -> Path:
    torch.manual_seed(5)
    tokenizer = bert_pieces()
    tokenizer.add_tokens(["true", "false"])
    shape = {**SHAPE, "max_position_embeddings": 600}
    config = transformers.BertConfig(vocab_size=tokenizer.get_vocab_size(), **shape)
    return save(folder, transformers.BertForMaskedLM(config), tokenizer, mask_token="[MASK]")


def in_order(pairs: Pairs) -> list[tuple[str, str]]:
    return [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]


def plain_cross_encoder(folder: Path, pairs: Pairs) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    queries, texts = zip(*in_order(pairs), strict=True)
    encoded = tokenizer(list(queries), list(texts), padding=True, return_tensors="pt")
    with torch.inference_mode():
        logits = model(**encoded).logits
    return (logits[:, 0].sigmoid() if logits.shape[1] == 1 else logits.softmax(1)[:, 1]).numpy()


@pytest.mark.parametrize("make", [bert, roberta])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_cross_encoder_scores_as_transformers_does(
    make: Any, outputs: int, tmp_path: Path
) -> None:
    scorer = CrossEncoder.open(make(tmp_path, outputs))
    scores = scorer.score(EVERY)
    expected = plain_cross_encoder(tmp_path, EVERY)
    assert np.ptp(expected) > 0.01
    assert np.abs(scores.values - expected).max() < 1e-5
    assert scores.truncated_tokens.sum() == 0
    assert scorer.scale == "probability"
    check_scorer(scorer)


def test_segments_are_given_only_where_the_tokenizer_gives_them(tmp_path: Path) -> None:
    bert(tmp_path, 1)
    told = CrossEncoder.open(tmp_path).score(EVERY).values
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "model_input_names": ["input_ids", "attention_mask"]}))
    values = CrossEncoder.open(tmp_path).score(EVERY).values
    assert np.abs(values - plain_cross_encoder(tmp_path, EVERY)).max() < 1e-5
    assert np.abs(values - told).max() > 1e-3


def test_one_output_as_a_probability(tmp_path: Path) -> None:
    bert(tmp_path, 1)
    logits = CrossEncoder.open(tmp_path, scale="logit").score(EVERY).values
    values = CrossEncoder.open(tmp_path, scale="probability").score(EVERY).values
    assert np.allclose(values, 1 / (1 + np.exp(-logits)), atol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("budget", [1, 30, 10_000])
def test_batches_and_threads_do_not_change_scores(
    threads: int, budget: int, tmp_path: Path
) -> None:
    scorer = CrossEncoder.open(bert(tmp_path, 1), threads=threads)
    before = torch.get_num_threads()
    torch.set_num_threads(5)
    values = replace(scorer, budget=budget).score(EVERY).values
    assert torch.get_num_threads() == 5
    torch.set_num_threads(before)
    assert np.abs(values - scorer.score(EVERY).values).max() < 1e-5


def test_only_the_document_is_cut_and_the_cut_is_counted(tmp_path: Path) -> None:
    scorer = CrossEncoder.open(bert(tmp_path, 1), max_length=23)
    pairs = Pairs(
        ["drum sieve", "net " * 30], ["grain " * 100, "sea"],
        np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.int32),
    )  # fmt: skip
    scores = scorer.score(pairs)
    assert scores.truncated_tokens.tolist() == [102 - 20, 0, 130 - 20, 31 - 20]
    truncated_tokens = Pairs(
        ["drum sieve", "net " * 10, "net " * 19], ["grain " * 18, "grain " * 10, "sea"],
        np.array([[0, 0], [1, 1], [2, 2]], np.int32),
    )  # fmt: skip
    assert np.allclose(scores.values[[0, 2, 3]], scorer.score(truncated_tokens).values, atol=1e-6)


def test_a_million_words_do_no_harm(tmp_path: Path) -> None:
    scorer = CrossEncoder.open(bert(tmp_path, 1))
    pairs = Pairs(["net"], ["sea " * 1_000_000, "sea"], np.array([[0, 0], [0, 1]], np.int32))
    assert scorer.score(pairs).truncated_tokens.tolist() == [1_000_001 - 63, 0]


def test_lengths_the_model_cannot_take_are_refused(tmp_path: Path) -> None:
    bert(tmp_path, 1)
    with pytest.raises(InputError, match="cannot truncate pairs at 67 tokens"):
        CrossEncoder.open(tmp_path, max_length=67)
    with pytest.raises(InputError, match="cannot truncate pairs at 4"):
        CrossEncoder.open(tmp_path, max_length=4)
    with pytest.raises(InputError, match="0 threads"):
        CrossEncoder.open(tmp_path, threads=0).score(EVERY)


def test_three_outputs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="3 outputs"):
        CrossEncoder.open(bert(tmp_path, 3))


def test_a_model_without_a_head_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no classifier\.weight"):
        CrossEncoder.open(masked(tmp_path))


def plain_vectors(folder: Path, texts: Sequence[str], pooling: str) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    encoded = tokenizer(list(texts), padding=True, return_tensors="pt")
    with torch.inference_mode():
        states = model(**encoded).last_hidden_state
    mask = encoded["attention_mask"][:, :, None]
    pool_tokens = states[:, 0] if pooling == "cls" else (states * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(pool_tokens).numpy()


@pytest.mark.filterwarnings("ignore")  # transformers reports weights that this model has no use for
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_bi_encoder_encodes_as_transformers_does(pooling: Any, tmp_path: Path) -> None:
    scorer = BiEncoder.open(bert(tmp_path, 1), pooling=pooling)
    vectors = scorer.encode(TEXTS)
    assert np.abs(vectors - plain_vectors(tmp_path, TEXTS, pooling)).max() < 1e-5
    values = scorer.score(EVERY).values
    query, text = EVERY.index.T
    cosines = (scorer.encode(QUERIES)[query] * vectors[text]).sum(1)
    assert np.abs(values - cosines).max() < 1e-6
    assert scorer.encode([]).shape == (0, 32)
    check_scorer(scorer)


def test_a_bi_encoder_asks_how_to_pool(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not say how token vectors are pooled") as caught:
        BiEncoder.open(bert(tmp_path, 1))
    assert "pooling=" in caught.value.hint


def test_a_bi_encoder_counts_what_is_cut(tmp_path: Path) -> None:
    scorer = BiEncoder.open(bert(tmp_path, 1), pooling="mean", max_length=12)
    vectors, truncated_tokens = scorer.encode_with_truncation(["net " * 30, "net " * 10])
    assert truncated_tokens.tolist() == [20, 0]
    assert np.allclose(vectors[0], vectors[1], atol=1e-6)


def test_a_bi_encoder_encodes_each_text_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = BiEncoder.open(bert(tmp_path, 1), pooling="mean")
    seen: list[str] = []
    encode = Tokens.encode

    def counting(self: Tokens, texts: Sequence[str], keep: int) -> Any:
        seen.extend(texts)
        return encode(self, texts, keep)

    monkeypatch.setattr(Tokens, "encode", counting)
    scorer.score(EVERY)
    assert sorted(seen) == sorted([*QUERIES, *TEXTS])


def plain_words(
    folder: Path, kind: Any, prompts: list[str], how: str, ids: Any, *, double: bool = False
) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = kind.from_pretrained(folder).eval()
    model = model.double() if double else model
    rows = []
    for prompt in prompts:
        block = torch.tensor([tokenizer(prompt)["input_ids"]])
        with torch.inference_mode():
            if kind is transformers.T5ForConditionalGeneration:
                start = torch.zeros(1, 1, dtype=torch.long)
                logits = model(block, decoder_input_ids=start).logits[0, 0]
            else:
                place = -1
                if kind is transformers.BertForMaskedLM:
                    place = block[0].tolist().index(tokenizer.mask_token_id)
                logits = model(block).logits[0, place]
        if how == "words":
            rows.append(logits[list(ids)].softmax(0)[0].item())
        else:
            rows.append((logits if how == "logit" else logits.softmax(0))[ids[0]].item())
    return np.array(rows)


def prompts(end: str = "Relevant:") -> list[str]:
    return [f"Query: {query} Document: {text} {end}" for query, text in in_order(EVERY)]


@pytest.mark.parametrize("how", ["words", "logit", "vocabulary"])
@pytest.mark.parametrize(("feed", "tied"), [("gated-gelu", False), ("relu", True)])
def test_t5_target_words_are_those_of_transformers(
    how: Score, feed: str, tied: bool, tmp_path: Path
) -> None:
    scorer = TargetWords.open(t5(tmp_path, feed, tied), ("true", "false"), score=how)
    kind = transformers.T5ForConditionalGeneration
    expected = plain_words(tmp_path, kind, prompts(), how, scorer.ids)
    assert np.ptp(expected) > 1e-5
    exact = plain_words(tmp_path, kind, prompts(), how, scorer.ids, double=True)
    rounded = np.abs(expected - exact).max()  # random weights: up to 5e-5 of a logit of 7
    assert np.abs(scorer.score(EVERY).values - exact).max() < 5e-6 + 2 * rounded
    assert scorer.scale == ("logit" if how == "logit" else "probability")


@pytest.mark.parametrize(
    ("make", "kind", "end"),
    [(causal, "GPT2LMHeadModel", "Relevant:"), (masked, "BertForMaskedLM", "Relevant: [MASK]")],
)
def test_causal_and_masked_target_words(make: Any, kind: str, end: str, tmp_path: Path) -> None:
    scorer = TargetWords.open(make(tmp_path), ("true", "false"))
    model = getattr(transformers, kind)
    expected = plain_words(tmp_path, model, prompts(end), "words", scorer.ids)
    assert np.ptp(expected) > 1e-3
    assert np.abs(scorer.score(EVERY).values - expected).max() < 1e-5
    check_scorer(scorer)


def test_a_t5_without_its_own_output_matrix_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = t5(tmp_path)
    weights = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    save_file(
        {name: weight for name, weight in weights.items() if name != "lm_head.weight"},
        folder / "model.safetensors",
    )
    with pytest.raises(InputError, match=r"the weights have no lm_head\.weight"):
        TargetWords.open(folder, ["true", "false"])
    save_file(
        {**weights, "lm_head.weight": weights["shared.weight"].clone()},
        folder / "model.safetensors",
    )
    assert TargetWords.open(folder, ["true", "false"]).ids


def test_t5_keeps_the_contract(tmp_path: Path) -> None:
    check_scorer(TargetWords.open(t5(tmp_path), ("true", "false")))


@pytest.mark.parametrize("make", [t5, causal, masked])
def test_the_end_of_the_template_is_never_cut(make: Any, tmp_path: Path) -> None:
    scorer = TargetWords.open(make(tmp_path), ("true", "false"), max_length=90)
    texts = [("net " * 400, "sea " * 400), ("net", "sea " * 400), ("net " * 400, "sea")]
    ids, truncated_tokens = scorer.template.encode(scorer.tokens, texts, 90)
    whole, _ = scorer.template.encode(scorer.tokens, texts, 100_000)
    tail = 3 if make is t5 else 6
    for each, full, lost in zip(ids, whole, truncated_tokens, strict=True):
        assert (len(each), len(each) + lost) == (90, len(full))
        assert each[-tail:].tolist() == full[-tail:].tolist()


def test_a_document_loses_its_end(tmp_path: Path) -> None:
    scorer = TargetWords.open(t5(tmp_path), ("true", "false"), max_length=20)
    long, short = "sea grain" + " net" * 100, "sea grain" + " net" * 8
    (truncated_tokens, whole), lost = scorer.template.encode(
        scorer.tokens, [("sieve", long), ("sieve", short)], 20
    )
    assert len(whole) <= 20
    assert truncated_tokens[: len(whole) - 3].tolist() == whole[:-3].tolist()
    assert lost[0] > 80
    assert lost[1] == 0


def test_a_template_that_fills_the_room_is_refused(tmp_path: Path) -> None:
    scorer = TargetWords.open(t5(tmp_path), ("true", "false"), max_length=8)
    with pytest.raises(InputError, match="the template alone fills"):
        scorer.score(Pairs(["net"], ["sea " * 9], np.zeros((1, 2), np.int32)))


def test_a_word_is_a_word_a_piece_or_an_id(tmp_path: Path) -> None:
    tokens = Tokens.open(t5(tmp_path))
    number = tokens.backend.token_to_id("▁true")
    assert [word_id(tokens, word) for word in ("true", "▁true", "_true", number)] == [number] * 4
    with pytest.raises(InputError, match="'trues' is not one token: it is ▁true s") as caught:
        word_id(tokens, "trues")
    assert "true" in caught.value.hint
    with pytest.raises(InputError, match="no id 5000"):
        word_id(tokens, 5000)
    with pytest.raises(InputError, match="same token"):
        word_ids(tokens, ("true", "_true"))
    with pytest.raises(InputError, match=r"'trues' is not one token.*; 'falses' is not one"):
        word_ids(tokens, ("trues", "falses"))
    for nothing in ("", " "):
        with pytest.raises(InputError, match=f"'{nothing}' is no word"):
            word_ids(tokens, (nothing, "false"))


@pytest.mark.parametrize("template", ["Query: {query}", "{query} {document} {query}", ""])
def test_a_bad_template_is_refused(template: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not name the query and the document"):
        TargetWords.open(t5(tmp_path), ("true", "false"), template=template or "nothing")


def test_words_must_be_given_and_the_family_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names no target words"):
        TargetWords.open(t5(tmp_path / "t5"))
    with pytest.raises(InputError, match="what kind of language model"):
        TargetWords.open(bert(tmp_path / "bert", 1), ("net", "sea"))
    family: Family = "masked"
    with pytest.raises(InputError, match=r"has no weights cls.* and is no masked language model"):
        TargetWords.open(bert(tmp_path / "encoder", 1), ("net", "sea"), family=family)
    with pytest.raises(InputError, match="no score 'best'"):
        TargetWords.open(masked(tmp_path / "m"), ("net", "sea"), score="best", family=family)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", [t5, causal, masked])
def test_an_adopted_language_model_needs_nothing_more(make: Any, tmp_path: Path) -> None:
    make(tmp_path / "plain")
    note = import_model(
        tmp_path / "plain", tmp_path / "out", words=("true", "false"), max_length=200
    )
    scorer = TargetWords.open(tmp_path / "plain", ("true", "false"), max_length=200)
    assert note.word_ids == scorer.ids
    assert note.scorer == "target-words"
    values = open_scorer(tmp_path / "out").score(EVERY).values
    assert np.array_equal(values, scorer.score(EVERY).values)


def test_more_tokens_than_positions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot truncate texts at 601 tokens"):
        TargetWords.open(causal(tmp_path), ("true", "false"), max_length=601)


def test_importing_scorers_does_not_import_torch() -> None:
    code = (
        "import sys, tamis.models, tamis.scorers.target_words;"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_real_minilm_encodes_as_sentence_transformers_does(models: Path) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    texts = ["A drum sieve, or tamis.", "", "rivers " * 400, "Ünïcödé 円い箱 🙂 \x00 \x07?"]
    model = sentence_transformers.SentenceTransformer(str(models / "minilm"), device="cpu")
    vectors, truncated_tokens = BiEncoder.open(models / "minilm").encode_with_truncation(texts)
    assert np.abs(vectors - model.encode(texts)).max() < 1e-5
    assert truncated_tokens.tolist() == [0, 0, 400 - 254, 0]


def test_real_t5_scores_as_transformers_does(models: Path) -> None:
    scorer: Scorer = TargetWords.open(models / "t5", ("true", "false"))
    assert isinstance(scorer, TargetWords)
    assert scorer.ids == (1176, 6136)
    kind = transformers.T5ForConditionalGeneration
    expected = plain_words(models / "t5", kind, prompts()[:6], "words", scorer.ids)
    assert np.abs(scorer.score(EVERY).values[:6] - expected).max() < 1e-5
