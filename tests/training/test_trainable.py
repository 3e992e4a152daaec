"""Models in training: the scores of the scorer, the gradients of transformers, folders that all
three open, and the same bits from the same seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from tamis.backends._dropout import generator_of
from tamis.errors import InputError
from tamis.labels import Examples
from tamis.labels.examples import LabelType
from tamis.models import import_model, open_model, open_scorer
from tamis.pipeline.document_lookup import MappingLookup
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import TargetWords
from tamis.training._gradient import accumulate, micro_batches
from tamis.training.loop import Job, train
from tamis.training.recipe import LOSSES_WITH_MARGIN, POINTWISE, Loss, Recipe
from tamis.training.trainable import Trainable, open_trainable
from tamis.types import Document, Pairs, Queries, Query, score_texts

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
os.environ["HF_HUB_OFFLINE"] = "1"

WORDS = "a drum sieve is or net grain rivers flow to the sea and how does it work".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "true", "false", "Query", "Document", "Relevant"]
QUERIES = ["how does a drum sieve work", "grain", "", "net or sea", "grain"]
TEXTS = ["a drum sieve is a net", "rivers flow " * 9, "", "grain or sea", "net"]
EACH = Pairs(QUERIES, TEXTS, np.repeat(np.arange(5, dtype=np.int32), 2).reshape(5, 2))
SHAPE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
         "intermediate_size": 48, "max_position_embeddings": 66, "pad_token_id": 0}  # fmt: skip
SIZE = len(SPECIAL) + len(WORDS)
Make = Callable[..., Path]


def save(folder: Path, model: Any) -> Path:
    numbers = {word: number for number, word in enumerate([*SPECIAL, *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
    model.save_pretrained(folder)
    names = ["input_ids", "token_type_ids", "attention_mask"]
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", model_input_names=names
    ).save_pretrained(folder)
    return folder


def bert(folder: Path, outputs: int = 1, kind: str = "ForSequenceClassification") -> Path:
    torch.manual_seed(1)
    config = transformers.BertConfig(vocab_size=SIZE, num_labels=outputs, **SHAPE)
    return save(folder, getattr(transformers, f"Bert{kind}")(config))


def roberta(folder: Path, outputs: int = 1, kind: str = "ForSequenceClassification") -> Path:
    torch.manual_seed(2)
    config = transformers.RobertaConfig(
        vocab_size=SIZE, num_labels=outputs, type_vocab_size=2, **SHAPE
    )
    return save(folder, getattr(transformers, f"Roberta{kind}")(config))


def t5(folder: Path, feed: str = "gated-gelu", tied: bool = False) -> Path:
    torch.manual_seed(3)
    config = transformers.T5Config(
        vocab_size=SIZE, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=3,
        num_heads=3, feed_forward_proj=feed, tie_word_embeddings=tied, decoder_start_token_id=0,
        relative_attention_max_distance=20, relative_attention_num_buckets=8,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    if not tied:
        model.lm_head.weight = torch.nn.Parameter(torch.randn(SIZE, 32))
        model.config.tie_word_embeddings = False
    return save(folder, model)


def words(folder: Path, **options: Any) -> Trainable:
    options = {"words": ("true", "false"), "dropout": 0, **options}
    return open_trainable(folder, scorer="target-words", **options)


def their_pairs(folder: Path) -> tuple[Any, Any]:
    """The model of transformers without dropout, and its logits on padded pairs."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return model, model(**tokenizer(QUERIES, TEXTS, padding=True, return_tensors="pt")).logits


def their_words(folder: Path) -> tuple[Any, Any]:
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = [
        f"Query: {query} Document: {text} Relevant:"
        for query, text in zip(QUERIES, TEXTS, strict=True)
    ]
    given = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    return model, model(**given, decoder_input_ids=torch.zeros(5, 1).long()).logits[:, 0]


def close(one: Any, other: Any, by: float = 1e-5) -> bool:
    """Whether two tensors differ by less than this, or than that of the largest value."""
    largest = max(1.0, float(other.detach().abs().max()))
    return bool((one - other).detach().abs().max() < by * largest)


def same_gradients(ours: Trainable, scores: Any, theirs: Any, logits: Any) -> None:
    """Compare scores, and the gradient of a sum of their squares for every parameter."""
    assert close(scores, logits)
    (logits**2).sum().backward()
    (scores**2).sum().backward()
    mine = {name: each.grad for name, each in ours.named_parameters()}
    peers = {name: each.grad for name, each in theirs.named_parameters()}
    assert set(mine) == set(peers)
    for name, grad in peers.items():
        own = torch.zeros_like(grad) if mine[name] is None else mine[name].to_dense()
        assert close(own, grad, 1e-4), name  # both are some 3e-5 from those in double precision


@pytest.mark.parametrize("make", [bert, roberta])
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_cross_encoder_has_the_gradients_of_transformers(
    make: Make, outputs: int, tmp_path: Path
) -> None:
    model = open_trainable(make(tmp_path, outputs), dropout=0)
    scores = model(model.prepare(QUERIES, TEXTS))
    assert scores.shape == (5, outputs)
    same_gradients(model, scores, *their_pairs(tmp_path))


@pytest.mark.parametrize(
    ("feed", "tied"), [("gated-gelu", False), ("relu", True), ("gated-silu", True)]
)
def test_a_t5_has_the_gradients_of_transformers(feed: str, tied: bool, tmp_path: Path) -> None:
    model = words(t5(tmp_path, feed, tied))
    scores = model(model.prepare(QUERIES, TEXTS))
    theirs, logits = their_words(tmp_path)
    same_gradients(model, scores, theirs, logits[:, [4, 5]])


def test_the_whole_vocabulary_can_be_asked_for(tmp_path: Path) -> None:
    model = words(t5(tmp_path), vocabulary=True)
    same_gradients(model, model(model.prepare(QUERIES, TEXTS)), *their_words(tmp_path))


@pytest.mark.parametrize("make", [bert, roberta])
def test_scores_are_those_of_the_scorer(make: Make, tmp_path: Path) -> None:
    make(tmp_path)
    model = open_trainable(tmp_path)
    expected = CrossEncoder.open(tmp_path, scale="logit").score(EACH).values
    assert np.abs(model.scorer().score(EACH).values - expected).max() == 0
    found = model.train(False)(model.prepare(QUERIES, TEXTS))[:, 0]
    assert np.abs(found.detach().numpy() - expected).max() < 1e-5


def test_words_are_scored_as_by_the_scorer(tmp_path: Path) -> None:
    model = words(t5(tmp_path))
    expected = TargetWords.open(tmp_path, ("true", "false")).score(EACH).values
    assert np.abs(model.scorer().score(EACH).values - expected).max() == 0
    found = model(model.prepare(QUERIES, TEXTS)).softmax(1)[:, 0]
    assert np.abs(found.detach().numpy() - expected).max() < 1e-5


def step(model: Trainable, threads: int = 1) -> None:
    """One step of gradient descent that changes every weight that counts."""
    for each in model.parameters():
        each.grad = None
    accumulate(model, *batch(model), bce, budget=40, threads=threads)
    with torch.no_grad():
        for each in model.parameters():
            if each.grad is not None:
                each.sub_(each.grad, alpha=0.05)


def batch(model: Trainable) -> tuple[list[Any], list[Any]]:
    made = model.prepare(QUERIES, TEXTS)
    values = np.array([1, 0, 0, 1, 1], np.float32)
    parts = [slice(0, 2), slice(2, 3), slice(3, 5)]
    return [made[part] for part in parts], [values[part] for part in parts]


def bce(scores: Any, values: Any, sizes: Any) -> Any:
    one = scores if scores.ndim == 1 else scores[:, 0] - scores[:, 1]
    function = torch.nn.functional.binary_cross_entropy_with_logits
    return torch.stack(
        [part.sum() for part in function(one, values, reduction="none").split(sizes)]
    )


@pytest.mark.parametrize("kind", ["Model", "ForMaskedLM"])
@pytest.mark.parametrize("make", [bert, roberta])
def test_a_trained_encoder_is_opened_by_all(make: Make, kind: str, tmp_path: Path) -> None:
    peers = pytest.importorskip("sentence_transformers")
    model = open_trainable(make(tmp_path / "base", kind=kind), max_length=60)
    step(model)
    model.save(tmp_path / "made", facts={"seed": 7})
    expected = model.train(False)(model.prepare(QUERIES, TEXTS))[:, 0].detach().numpy()
    found = open_scorer(tmp_path / "made").score(EACH).values
    assert np.abs(found - expected).max() < 1e-5 < np.ptp(expected)
    assert np.abs(their_pairs(tmp_path / "made")[1][:, 0].detach().numpy() - found).max() < 1e-5
    theirs = peers.CrossEncoder(str(tmp_path / "made"), device="cpu")
    values = theirs.predict(list(zip(QUERIES, TEXTS, strict=True)))
    assert np.abs(values - found).max() < 1e-5
    note = open_model(tmp_path / "made")
    assert (note.max_length, note.scale, note.facts["seed"]) == (60, "logit", 7)
    assert note.base is not None and note.base.name == "base"


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("fresh", [True, False])
def test_a_trained_t5_is_opened_by_all(tied: bool, fresh: bool, tmp_path: Path) -> None:
    model = words(t5(tmp_path / "base", tied=tied), fresh_head=fresh)
    step(model)
    model.save(tmp_path / "made")
    expected = model(model.prepare(QUERIES, TEXTS)).detach()
    found = open_scorer(tmp_path / "made").score(EACH).values
    assert np.abs(found - expected.softmax(1)[:, 0].numpy()).max() < 1e-5 < np.ptp(found)
    _, logits = their_words(tmp_path / "made")
    assert close(logits[:, [4, 5]], expected)


def test_a_trained_model_is_a_base_that_keeps_its_head(tmp_path: Path) -> None:
    model = open_trainable(bert(tmp_path / "base", kind="Model"), outputs=2, max_length=50)
    step(model)
    model.save(tmp_path / "made")
    again = open_trainable(tmp_path / "made")
    assert (again.manifest.outputs, again.manifest.max_length) == (2, 50)
    for (name, one), (_, other) in zip(
        model.named_parameters(), again.named_parameters(), strict=True
    ):
        assert torch.equal(one, other), name
    with pytest.raises(InputError, match="has a head with 2 outputs, not 1"):
        open_trainable(tmp_path / "made", outputs=1)
    assert open_trainable(tmp_path / "made", outputs=1, fresh_head=True).manifest.outputs == 1


def test_a_fresh_head_leaves_the_rest_alone(tmp_path: Path) -> None:
    def changed(one: Trainable, other: Trainable) -> set[str]:
        weights = other.state_dict()
        return {
            name
            for name, value in one.state_dict().items()
            if name not in weights or not torch.equal(value, weights[name])
        }

    bert(tmp_path / "bert")
    kept, fresh = (open_trainable(tmp_path / "bert", fresh_head=each) for each in (False, True))
    assert changed(fresh, kept) == fresh.head_names == {"classifier.weight", "classifier.bias"}
    bert(tmp_path / "no pooler", kind="ForMaskedLM")
    pooler = {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
    assert open_trainable(tmp_path / "no pooler").head_names == fresh.head_names | pooler
    roberta(tmp_path / "roberta", kind="Model")
    one, two = (open_trainable(tmp_path / "roberta", seed=seed) for seed in (0, 1))
    drawn = {"classifier.dense.weight", "classifier.out_proj.weight"}
    assert changed(one, two) == drawn < one.head_names
    t5(tmp_path / "t5", tied=True)
    assert changed(words(tmp_path / "t5", fresh_head=True), words(tmp_path / "t5")) == {
        "lm_head.weight"
    }
    model, plain = words(tmp_path / "t5", fresh_head=True, vocabulary=True), None
    logits = model(model.prepare(QUERIES, TEXTS))
    plain = words(tmp_path / "t5", vocabulary=True)
    before = plain(plain.prepare(QUERIES, TEXTS))
    others = [number for number in range(SIZE) if number not in (4, 5)]
    assert (logits - before)[:, others].abs().max() < 1e-5
    assert (logits - before)[:, [4, 5]].abs().min() > 1e-5


@pytest.mark.parametrize("make", [bert, roberta, t5])
def test_random_weights_have_the_spread_of_transformers(make: Make, tmp_path: Path) -> None:
    make(tmp_path)
    kind = words if make is t5 else open_trainable
    model = kind(tmp_path, random_weights=True, seed=5)
    again = kind(tmp_path, random_weights=True, seed=5)
    torch.manual_seed(0)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    auto = transformers.AutoModelForSeq2SeqLM if make is t5 else (
        transformers.AutoModelForSequenceClassification
    )  # fmt: skip
    theirs = auto.from_config(config).state_dict()
    repeated = again.state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(value, repeated[name])
        if value.numel() > 500 and name != "lm_head.weight":
            assert abs(float(value.std() / theirs[name].std()) - 1) < 0.15, name
        elif value.ndim == 1:
            assert torch.equal(value, theirs[name]), name


def test_dropout_is_the_bases_own_and_only_in_training(tmp_path: Path) -> None:
    model = open_trainable(bert(tmp_path))
    made = model.prepare(QUERIES, TEXTS)

    def scores(seed: int) -> Any:
        return model(made, generator_of(seed, torch.device("cpu"))).detach()

    assert torch.equal(scores(1), scores(1)) and not torch.equal(scores(1), scores(2))
    mean = torch.stack([scores(seed) for seed in range(400)]).mean(0)
    model.train(False)
    assert torch.equal(scores(1), scores(2))
    assert (mean - scores(1)).abs().max() < 0.2


@pytest.mark.parametrize("make", [bert, t5])
def test_the_gradient_of_a_batch_is_the_sum_of_its_parts(make: Make, tmp_path: Path) -> None:
    make(tmp_path)
    kind = words if make is t5 else open_trainable
    model = kind(tmp_path, dropout=0)

    def gradients(budget: int, threads: int) -> tuple[float, list[Any]]:
        for each in model.parameters():
            each.grad = None
        lost = accumulate(model, *batch(model), bce, budget=budget, threads=threads)
        return lost, [each.grad for each in model.parameters() if each.grad is not None]

    units, values = batch(model)
    scores = model([text for unit in units for text in unit]).squeeze(1)
    whole = bce(scores, torch.from_numpy(np.concatenate(values)), [2, 1, 2])
    expected = torch.autograd.grad(whole.sum() / 3, model.parameters(), allow_unused=True)
    expected = [each.to_dense() for each in expected if each is not None]
    for budget, threads in ((1000, 1), (30, 1), (30, 2)):
        lost, found = gradients(budget, threads)
        assert abs(lost - whole.sum().item()) < 1e-4  # sums in another order, as below
        for one, other in zip(found, expected, strict=True):
            assert not one.is_sparse and close(one, other, 1e-4)  # sums in another order
    one, two = gradients(30, 1), gradients(30, 2)
    assert one[0] == two[0] and all(map(torch.equal, one[1], two[1]))


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_seed_trains_the_same_model(threads: int, tmp_path: Path) -> None:
    bert(tmp_path)

    def trained() -> dict[str, Any]:
        torch.manual_seed(9)
        model = open_trainable(tmp_path)
        for _ in range(3):
            step(model, threads)
        weights: dict[str, Any] = model.state_dict()
        return weights

    one, two = trained(), trained()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_micro_batches_hold_every_unit_once_and_weigh_alike() -> None:
    tokens = np.random.default_rng(0).integers(10, 300, 97).tolist()
    parts = micro_batches(tokens, 1024)
    assert sorted(number for part in parts for number in part) == list(range(97))
    weights = [sum(tokens[number] for number in part) for part in parts]
    assert len(parts) % 2 == 0 and max(weights) <= 1024 and max(weights) - min(weights) < 60
    assert micro_batches([7]) == [[0]] and micro_batches([2000, 3000]) == [[1], [0]]


def test_what_is_cut_is_counted(tmp_path: Path) -> None:
    bert(tmp_path / "bert")
    (made,) = open_trainable(tmp_path / "bert", max_length=23).prepare(["net net"], ["sea " * 50])
    assert (len(made), made.truncated_tokens) == (23, 32)
    model = open_trainable(tmp_path / "bert", document_tokens=4)
    (made,) = model.prepare(["net net"], ["sea " * 50])
    assert (made.ids.tolist()[-5:-1], len(made), made.truncated_tokens) == ([20] * 4, 9, 46)
    assert made.segments.tolist() == [0] * 4 + [1] * 5


def test_what_cannot_be_trained_is_refused(tmp_path: Path) -> None:
    bert(tmp_path / "bert")
    t5(tmp_path / "t5")
    for folder, options, problem in [
        ("bert", {"scorer": "target-words", "words": ("a", "or")}, "what kind of language model"),
        ("bert", {"scorer": "ranker"}, "does not train a ranker"),
        ("t5", {"scorer": "target-words"}, "names no target words"),
        ("bert", {"outputs": 3}, "cannot have 3 outputs"),
        ("bert", {"scorer": "bi-encoder"}, "does not say how token vectors are pooled"),
        ("bert", {"dropout": 1}, "cannot drop"),
        ("bert", {"document_tokens": 0}, "cannot truncate the documents"),
        ("t5", {"scorer": "target-words", "document_tokens": 4}, "cannot truncate the documents"),
        ("bert", {"max_length": 4}, "cannot truncate pairs at 4"),
    ]:
        with pytest.raises(InputError, match=problem):
            open_trainable(tmp_path / folder, **options)  # type: ignore[arg-type]


def test_an_adopted_t5_says_its_words(tmp_path: Path) -> None:
    template = "{query} or {document}"
    t5(tmp_path / "plain")
    import_model(tmp_path / "plain", tmp_path / "made", words=("net", "sea"), template=template)
    model = open_trainable(tmp_path / "made", scorer="target-words")
    assert (model.manifest.words, model.manifest.template) == (("net", "sea"), template)


THINGS = "drum sieve net grain sea".split()
PAIRED = [(one, other) for one in THINGS for other in THINGS if one < other]


@pytest.mark.parametrize("loss", get_args(Loss))
def test_by_every_loss_the_loop_puts_ten_pairs_in_order(loss: Loss, tmp_path: Path) -> None:
    """Each query has two words, and the text with the first of them is right."""
    asked = Queries.of(Query(f"{one}-{other}", f"{one} or {other}") for one, other in PAIRED)
    texts = {name: Document(name, f"the {name}") for name in THINGS}
    rows: list[Any] = []
    for one, other in PAIRED:
        query = f"{one}-{other}"
        rows += [(query, one, 1.0, "positive"), (query, other, 0.0, "negative")]
    kind: LabelType = "score" if loss == "margin-distillation" else "class"
    made = Examples.of_rows(rows, source="gold", kind=kind).with_queries(asked)
    plain: dict[str, Any] = {"sampler": "lists", "list_size": 2, "batch_size": 10}
    if loss in POINTWISE:
        plain = {"sampler": "points", "batch_size": 20}
    plain |= {"outputs": 2} if loss == "softmax" else {}
    plain |= {"margin": 1.0} if loss in LOSSES_WITH_MARGIN else {}
    if loss == "target-words":
        plain |= {"scorer": "target-words", "words": ("true", "false"), "word_loss": "words"}
    plain |= {
        "steps": 150 if loss == "target-words" else 50,
        "learning_rate": 3e-3,
        "max_length": 32,
    }
    recipe = Recipe("ten", loss=loss, dropout=0.0, keep="last", **plain)
    folder = tmp_path / "base"
    base = t5(folder) if loss == "target-words" else bert(folder, 2 if loss == "softmax" else 1)
    done = train(Job(made, MappingLookup(texts), recipe, base, tmp_path / "out", threads=1))
    assert done.history.losses[-1] < 0.1 * done.history.losses[0]
    scorer = open_scorer(tmp_path / "out")
    for one, other in PAIRED:
        both = [texts[name].text for name in (one, other)]
        right, wrong = score_texts(scorer, f"{one} or {other}", both)
        assert right > wrong
