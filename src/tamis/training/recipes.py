"""The recipes that have names: each paper's settings, with the source beside every number.

A paper is cited by its first author (docs/explanation/papers.md) and section; "ours" stands where
it is silent, with the reason. The `-small` siblings are sized for two cores of a laptop: a MiniLM
of six layers learns from 13 to 25 texts a second there and a FLAN-T5-small derivative distilled for
writing titles from six, so that an hour is some 50,000 and 20,000 texts.
"""

from __future__ import annotations

import types
from collections.abc import Mapping

from tamis.errors import InputError
from tamis.training.recipe import Recipe
from tamis.training.settings import WORD_PAIRS, unknown_name

__all__ = ["CHAINS", "RECIPES", "WORD_PAIRS", "Recipe", "resolve"]

NO_CLIP = (None, "ours: Adafactor bounds its own updates")
NO_DROPOUT = (0.0, "ours: in so few steps noise costs more than it protects from")
SHORT = (256, "ours: half the tokens, half the time; passages of 100 words still fit")
BEST = (
    "best",
    "ours: a short training is stopped where it is best; the last state where pseudo-labels are "
    "held out, as the best would be the one most like BM25",
)
LAST = ("last", "ours: the paper names no validation")
TWO_WORDS = ("words", "ours: all of the few steps go to the two words that rank")
TO_ZERO = ("linear", "ours: a short training ends better at a small rate")
FAST = (
    1e-4,
    "ours: one training of monobert-pairwise-small a rate: RR .655 held out, .528 at 2e-5",
)
FAST_HEAD = (1e-3, "ours: ten times the body's, as Mokrii")
TENTH = (0.1, "ours: a fresh head moves the body at random until it has learnt something")

MONOT5 = Recipe.of(
    "monot5",
    scorer=("target-words", "Nogueira, section 2"),
    loss=("target-words", "Nogueira, section 2"),
    word_loss=("vocabulary", "Nogueira, section 2: fine-tuned to produce the words"),
    sampler=("balanced", "Nogueira, section 3.2"),
    batch_size=(128, "Nogueira, section 3.2"),
    steps=(100_000, "Nogueira, section 3.2"),
    optimizer=("adafactor", "ours: T5's own; the paper names none"),
    learning_rate=(1e-3, "Nogueira, section 3.2, constant"),
    schedule=("constant", "Nogueira, section 3.2"),
    max_grad_norm=NO_CLIP,
    max_length=(512, "Nogueira, section 3.2"),
    words=(WORD_PAIRS["baseline"], "Nogueira, section 2"),
    keep=("last", "Nogueira, section 3.2: the final checkpoint"),
    validate_every=(5_000, "ours: twenty points of a curve"),
)
FEW_T5 = MONOT5.but(
    "few-t5",
    sampler=("balanced", "ours: as in section 3.2 of Nogueira"),
    samples=(2_000, "Nogueira, section 4.2: 1,000 + 1,000; 20,000 is its other size"),
    batch_size=(32, "Nogueira, section 4.2"),
    epochs=(3, "Nogueira, section 4.2"),
    steps=(None, "Nogueira, section 4.2 counts epochs"),
    learning_rate=(1e-3, "Nogueira, section 4.2"),
    keep=LAST,
    validate_every=(None, "ours: five times"),
)
FEW_BERT = Recipe.of(
    "few-bert",
    loss=("softmax", "Nogueira, section 4.3: a layer that decides between two classes"),
    outputs=(2, "Nogueira, section 4.3"),
    sampler=("balanced", "ours: as for the T5 it is compared with"),
    samples=(2_000, "Nogueira, section 4.2: 1,000 + 1,000; 20,000 is its other size"),
    batch_size=(32, "Nogueira, section 4.2"),
    epochs=(3, "Nogueira, section 4.2"),
    learning_rate=(1e-6, "Nogueira, section 4.2"),
    warmup_ratio=(0.0, "Nogueira, section 4.2: none"),
    keep=LAST,
)
FEW_BERT_TUNED = FEW_BERT.but(
    "few-bert-tuned",
    learning_rate=(
        5e-5,
        "ours: BERT's authors' largest; with MiniLM RR .611 held out, .604 at 1e-4",
    ),
    warmup_ratio=TENTH,
    schedule=TO_ZERO,
)
MONOBERT = Recipe.of(
    "monobert-pairwise",
    loss=("margin", "Mokrii, section 4"),
    margin=(1.0, "ours: the paper names none"),
    sampler=("pairs", "Mokrii, section 4: one pair a query an epoch"),
    batch_size=(16, "Mokrii, section 4; pairs, as its toolkit counts them"),
    epochs=(32, "Mokrii, section 4: 32 epochs for 32 queries"),
    epoch_rule=(
        "falling",
        "Mokrii, section 4: they start at 32 and fall; ours: with the root of the queries",
    ),
    optimizer=("adamw", "Mokrii, section 4"),
    learning_rate=(2e-5, "Mokrii, section 4"),
    head_learning_rate=(2e-4, "Mokrii, section 4"),
    weight_decay=(1e-7, "Mokrii, section 4"),
    warmup_ratio=(0.2, "Mokrii, section 4, note 5"),
    schedule=("linear", "ours: the paper is silent on what follows; its toolkit falls to zero"),
    document_tokens=(445, "Mokrii, section 4"),
    keep=("last", "Mokrii, section 4: a fixed number of epochs"),
    measure=("RR", "Mokrii, section 4"),
)
INFUSE_SCORES = Recipe.of(
    "infuse-scores",
    loss=("squared", "Yadav, section 3.2: regression"),
    scale=("regression", "Yadav, section 3.2"),
    batch_size=(32, "Yadav, section 3.2"),
    gradient_accumulation_steps=(8, "Yadav, section 3.2; 256 rows a step, as transformers counts"),
    epochs=(3, "Yadav, section 3.2, first step"),
    learning_rate=(2e-5, "ours: the paper names none; BERT's authors' middle one"),
    schedule=("linear", "ours: as transformers trains by default"),
    max_length=(128, "Yadav, section 3.2"),
    keep=LAST,
    then=("infuse-gold", "Yadav, section 3.2"),
)
INFUSE_GOLD = INFUSE_SCORES.but(
    "infuse-gold",
    epochs=(4, "Yadav, section 3.2, second step"),
    fresh_head=(False, "Yadav, section 3.2: training goes on, with the same head"),
    then=(None, "Yadav, section 3.2"),
)
DOCRANK = Recipe.of(
    "docrank",
    loss=("bce", "Rudra, section 4.1"),
    scale=("probability", "Rudra, section 3.2: the output is a probability"),
    sampler=(
        "balanced",
        "Rudra, section 3.3: as many non-relevant pairs as relevant ones, drawn at random; said of "
        "QA-DocRank, and section 4.1 trains Doc-Labelled by the same design. Ours: drawn anew "
        "every epoch",
    ),
    batch_size=(16, "Rudra, section 4.1"),
    epochs=(3, "ours: the paper names none"),
    learning_rate=(1e-5, "Rudra, section 4.1"),
    max_length=(512, "Rudra, section 4.1"),
    measure=("AP", "Rudra, section 4.1: models are chosen by it"),
    seed=(123, "Rudra, section 4.2"),
)

BI_ENCODER = Recipe.of(
    "bi-encoder",
    scorer=("bi-encoder", "ours: a base that ranks by vectors needs little to rank better"),
    loss=("listwise-softmax", "ours: as sentence-transformers, with the candidates as negatives"),
    sampler=("lists", "ours: the query is run once for its list"),
    list_size=(8, "ours: positives always among them, other negatives each epoch"),
    batch_size=(8, "ours: 64 texts a step"),
    epochs=(8, "ours: at 32 queries; a model that ranks already needs few steps"),
    epoch_rule=("falling", "ours: as monobert-pairwise"),
    learning_rate=(2e-5, "ours: the base ranks already; 6e-5 and 2e-4 lose on openbookqa"),
    warmup_ratio=TENTH,
    schedule=TO_ZERO,
    max_length=SHORT,
    dropout=NO_DROPOUT,
)

QUERY_ENCODER = BI_ENCODER.but(
    "query-encoder",
    fixed_documents=(
        True,
        "ours: documents keep the vectors that an index has, so only queries run",
    ),
    list_size=(32, "ours: a text costs nothing once its vector is known"),
    batch_size=(16, "ours: as monobert-pairwise"),
    epochs=(16, "ours: at 32 queries; twice as many as bi-encoder"),
    micro_batch_tokens=(8192, "ours: they count a query for each of its texts, and it is run once"),
)

SMALL = (
    MONOT5.but(
        "monot5-small",
        word_loss=TWO_WORDS,
        batch_size=(32, "ours: as few-t5"),
        steps=(600, "ours: 19,200 texts, an hour"),
        max_length=SHORT,
        dropout=NO_DROPOUT,
        keep=BEST,
        validate_every=(100, "ours: every ten minutes"),
    ),
    FEW_T5.but(
        "few-t5-small",
        word_loss=("words", "ours: the same loss as a fresh head's, so that only rows differ"),
        max_length=SHORT,
        dropout=NO_DROPOUT,
    ),
    FEW_BERT.but("few-bert-small", max_length=SHORT, dropout=NO_DROPOUT),
    FEW_BERT_TUNED.but("few-bert-tuned-small", max_length=SHORT, dropout=NO_DROPOUT),
    MONOBERT.but(
        "monobert-pairwise-small",
        max_length=SHORT,
        learning_rate=FAST,
        head_learning_rate=FAST_HEAD,
        document_tokens=(189, "ours: what leaves the query 64 tokens, as 445 of 512 does"),
        dropout=NO_DROPOUT,
        keep=BEST,
    ),
    INFUSE_SCORES.but(
        "infuse-scores-small",
        learning_rate=FAST,
        head_learning_rate=FAST_HEAD,
        list_size=(8, "ours: of long candidate lists some rows a query, others each epoch"),
        gradient_accumulation_steps=(1, "ours: few rows are few steps, so each is of 32"),
        warmup_ratio=TENTH,
        dropout=NO_DROPOUT,
        then=("infuse-gold-small", "Yadav, section 3.2"),
    ),
    INFUSE_GOLD.but(
        "infuse-gold-small",
        learning_rate=FAST,
        head_learning_rate=FAST_HEAD,
        list_size=(8, "ours: as for the scores; positives are always among them"),
        gradient_accumulation_steps=(1, "ours: few rows are few steps, so each is of 32"),
        warmup_ratio=TENTH,
        dropout=NO_DROPOUT,
        keep=BEST,
    ),
    DOCRANK.but(
        "docrank-small",
        epochs=(2, "ours: 10,000 passages are some twenty minutes an epoch at worst"),
        learning_rate=FAST,
        head_learning_rate=FAST_HEAD,
        warmup_ratio=TENTH,
        schedule=TO_ZERO,
        max_length=SHORT,
        dropout=NO_DROPOUT,
    ),
)

RECIPES: Mapping[str, Recipe] = types.MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            MONOT5,
            FEW_T5,
            FEW_BERT,
            FEW_BERT_TUNED,
            MONOBERT,
            INFUSE_SCORES,
            INFUSE_GOLD,
            DOCRANK,
            BI_ENCODER,
            QUERY_ENCODER,
            *SMALL,
        )
    }
)
CHAINS: Mapping[str, tuple[str, str]] = types.MappingProxyType(
    {
        "infuse": ("infuse-scores", "infuse-gold"),
        "infuse-small": ("infuse-scores-small", "infuse-gold-small"),
    }
)
"""Two trainings, one after the other: the model of the first is the base of the second, whose
examples are others and whose head is the same."""


def resolve(name: str, settings: Mapping[str, str] | None = None) -> Recipe:
    """The recipe of a name, with settings as the command line gives them.

    >>> resolve("docrank", {"epochs": "1.5", "seed": "7"}).epochs
    1.5
    >>> resolve("docrank").source_of("learning_rate")
    'Rudra, section 4.1'
    """
    if name in CHAINS:
        first, second = CHAINS[name]
        raise InputError(
            f"{name!r} is two trainings, one after the other",
            hint=f"train {first} on weak examples, then {second} on gold ones from that model; "
            "tamis train does both",
        )
    if name not in RECIPES:
        raise unknown_name(name, (*RECIPES, *CHAINS), "recipe")
    return RECIPES[name].changed(settings or {})
