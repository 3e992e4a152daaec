"""PACRR-DRMM: convolutions over the cosines of query terms and document terms, a score a term.

The network is that of McDonald, Brokos and Androutsopoulos (EMNLP 2018) and of their code; a study
of document ranking trains it with a pairwise margin. `docs/how-to/rankers.md` says what is whose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, TrainingError, require
from tamis.evaluation.evaluate import evaluate
from tamis.rankers._folder import ranker_spec, read_ranker, rescored, save_ranker
from tamis.rankers._pacrr_inputs import kernel_threads, network_inputs, score_rows
from tamis.rankers.sampling import check_trainable, relevant_rows, sample_pairs
from tamis.rankers.term_texts import CandidateTerms, Longs, TermSource, open_terms
from tamis.registry import Opening, check_keys, python_spec
from tamis.types import Qrels, Run, Spec, Stage

KIND = "pacrr-drmm"
WEIGHTS_FILE = "model.safetensors"
MEASURE = "AP"
Loss = Literal["margin", "softmax"]
Combine = Literal["positions", "gated_sum", "pacrr"]
HIDDEN_SIZES = {"positions": 7, "gated_sum": 7, "pacrr": 70}
Module = Any


@dataclass(frozen=True)
class PACRRDRMMSettings:
    """How the network is built and trained.

    Sizes, `window`, `filters`, `kmax`, `batch_size` and the softmax loss are those of the authors'
    code: 30 and 300 terms for abstracts (BioASQ; for news, Robust04, it has 5 and 1000). The margin
    loss, and selecting the epoch by MAP, are those of the study. With `resample` the other document
    of each pair is drawn anew each epoch (ours); the authors draw pairs once. `patience`, after how
    many epochs without a better MAP training ends, is ours; the authors train 50 or 100 epochs.

    `combine` says how terms make a score: `positions` weighs the term at each place of the query
    by itself, as the authors do; `gated_sum` sums terms weighted by idf, wherever they stand, and
    suits long queries; `pacrr` has one MLP over all terms, which is plain PACRR. `hidden_size` None
    is 7, and 70 for PACRR.
    """

    loss: Loss = "margin"
    margin: float = 1.0
    resample: bool = True
    max_query_terms: int = 30
    max_document_terms: int = 300
    window: int = 3
    filters: int = 16
    kmax: int = 2
    hidden_size: int | None = None
    combine: Combine = "positions"
    learning_rate: float = 1e-3
    batch_size: int = 32
    epochs: int = 100
    patience: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        hidden = self.hidden_size
        sizes = (
            self.max_query_terms,
            self.max_document_terms,
            self.window,
            self.filters,
            self.kmax,
        )
        counts = (self.batch_size, self.epochs, self.patience, 1 if hidden is None else hidden)
        if min(*sizes, *counts) < 1 or not self.learning_rate > 0 or not self.margin > 0:
            raise InputError(
                "a setting of PACRR-DRMM is too small",
                hint="counts are from 1, the learning rate and the margin above 0",
            )
        if self.max_document_terms < self.kmax:
            raise InputError(
                f"{self.max_document_terms} terms of a document have no {self.kmax} best",
                hint="raise max_document_terms or lower kmax",
            )
        _check_choice("loss", self.loss, get_args(Loss))
        _check_choice("combine", self.combine, get_args(Combine))


def _check_choice(what: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"there is no {what} {value!r}", hint=f"one of {', '.join(choices)}")


@dataclass(frozen=True)
class Validation:
    """MAP on the validation queries after so many epochs."""

    epoch: int
    mean_average_precision: float


@dataclass(frozen=True, eq=False)
class PACRRDRMM(Stage):
    """Ranks by a network over the terms of query and document, and the score before.

    A score depends on the other candidates through the z-score of the score before alone. `losses`
    are the mean training losses of epochs.
    """

    network: Module
    texts: TermSource
    settings: PACRRDRMMSettings
    losses: tuple[float, ...] = ()
    validations: tuple[Validation, ...] = ()
    path: Path | None = None

    @classmethod
    def fit(
        cls,
        run: Run,
        qrels: Qrels,
        texts: TermSource,
        settings: PACRRDRMMSettings | None = None,
        *,
        validation: tuple[Run, Qrels] | None = None,
        on_epoch: Callable[[int, float], None] | None = None,
    ) -> PACRRDRMM:
        """Train on pairs of a run's candidates; see `PACRRDRMMSettings`.

        With `validation` the weights of the epoch with the best MAP on it are selected, without it
        those of the last epoch. `on_epoch` is called with the number of each epoch and its loss.
        """
        settings, texts = settings or PACRRDRMMSettings(), texts.complete()
        relevant = relevant_rows(run, qrels)
        check_trainable(run, relevant)
        network = build_network(settings)
        terms = _terms_of(run, texts, settings)
        training = _Training(run, relevant, terms, settings, np.random.default_rng(settings.seed))
        held_out = None
        if validation is not None:
            held_out = (*validation, _terms_of(validation[0], texts, settings))
        losses, validations = _train(network, training, held_out, on_epoch)
        return cls(network, texts, settings, losses, validations)

    def __call__(self, run: Run) -> Run:
        return rescored(run, score_rows(self.network, _terms_of(run, self.texts, self.settings)))

    def spec(self) -> Spec:
        """See `Stage.spec`; a ranker can be opened again once it is saved."""
        if self.path is None:
            return python_spec("stage", self)
        return ranker_spec(self, KIND, self.path, None, texts=self.texts.spec())

    def save(self, folder: Path | str, *, force: bool = False) -> PACRRDRMM:
        """Write the ranker's folder, with word counts and the vector of unknown words."""
        write = require("safetensors.torch").save_file

        def write_files(place: Path) -> None:
            write(self.network.state_dict(), place / WEIGHTS_FILE)
            self.texts.save(place)

        path = save_ranker(
            folder, KIND, force, write_files,
            settings=asdict(self.settings), texts=self.texts.to_json(),
            losses=list(self.losses), validations=[asdict(one) for one in self.validations],
        )  # fmt: skip
        return replace(self, path=path)

    @classmethod
    def load(cls, folder: Path | str, texts: TermSource) -> PACRRDRMM:
        """Open a folder that `save` wrote, with the word vectors that it was trained with."""
        path = Path(folder)
        facts = read_ranker(path, KIND)
        for name, value in texts.to_json().items():
            if facts["texts"].get(name) != value:
                raise InputError(
                    f"{path} was trained with {name} {facts['texts'].get(name)!r}, not {value!r}",
                    hint="give the word vectors and the column that the ranker was trained with",
                )
        settings = PACRRDRMMSettings(**facts["settings"])
        network = build_network(settings)
        network.load_state_dict(require("safetensors.torch").load_file(path / WEIGHTS_FILE))
        validations = tuple(Validation(**one) for one in facts["validations"])
        losses = tuple(facts["losses"])
        return cls(network, texts.as_saved(path), settings, losses, validations, path)


def build_network(settings: PACRRDRMMSettings) -> Module:
    """A network with weights by chance."""
    torch = require("torch", "safetensors")
    from tamis.rankers._pacrr_network import Network

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        return Network(
            settings.max_query_terms, settings.max_document_terms, settings.window,
            settings.filters, settings.kmax,
            settings.hidden_size or HIDDEN_SIZES[settings.combine], settings.combine,
        )  # fmt: skip


def _terms_of(run: Run, texts: TermSource, settings: PACRRDRMMSettings) -> CandidateTerms:
    return texts.of(run, settings.max_query_terms, settings.max_document_terms)


@dataclass(frozen=True, eq=False)
class _Training:
    """The candidates that are learnt from; `rng` is drawn from as training goes on."""

    run: Run
    relevant: NDArray[np.bool_]
    terms: CandidateTerms
    settings: PACRRDRMMSettings
    rng: np.random.Generator

    def pairs(self) -> Longs:
        """Rows of a relevant document and of another."""
        pairs = sample_pairs(self.run.offsets, self.relevant, self.rng)
        if not len(pairs):
            raise InputError(
                "no query has both a relevant candidate and another",
                hint="give more queries or candidates",
            )
        return pairs


HeldOut = tuple[Run, Qrels, CandidateTerms]


def _train(
    network: Module, training: _Training, held_out: HeldOut | None,
    on_epoch: Callable[[int, float], None] | None,
) -> tuple[tuple[float, ...], tuple[Validation, ...]]:  # fmt: skip
    """Train a network in place; the loss of each epoch, and MAP on validation queries."""
    settings = training.settings
    optimizer = require("torch").optim.Adam(network.parameters(), settings.learning_rate)
    losses, validations = list[float](), list[Validation]()
    pairs, best = training.pairs(), Validation(0, -1.0)
    weights: dict[str, Any] | None = None
    for epoch in range(1, settings.epochs + 1):
        if settings.resample and epoch > 1:
            pairs = training.pairs()
        losses.append(_train_epoch(network, optimizer, training, pairs))
        if on_epoch is not None:
            on_epoch(epoch, losses[-1])
        if held_out is None:
            continue
        validations.append(Validation(epoch, _average_precision(network, *held_out)))
        if validations[-1].mean_average_precision > best.mean_average_precision:
            best = validations[-1]
            weights = {name: value.clone() for name, value in network.state_dict().items()}
        if epoch - best.epoch >= settings.patience:
            break
    if weights is not None:
        network.load_state_dict(weights)
    return tuple(losses), tuple(validations)


def _average_precision(network: Module, run: Run, qrels: Qrels, terms: CandidateTerms) -> float:
    ranked = rescored(run, score_rows(network, terms))
    return evaluate(qrels, {KIND: ranked}, [MEASURE]).mean(KIND, MEASURE)


def _train_epoch(network: Module, optimizer: Any, training: _Training, pairs: Longs) -> float:
    """One pass over all pairs, in an order by chance; their mean loss, each before its step."""
    from tamis.rankers._pacrr_network import margin_loss, softmax_loss

    settings, total = training.settings, 0.0
    order = training.rng.permutation(len(pairs))
    with kernel_threads() as pool:
        for start in range(0, len(order), settings.batch_size):
            batch = pairs[order[start : start + settings.batch_size]]
            scores = network(*network_inputs(network, training.terms, batch.T.ravel(), pool))
            relevant, other = scores[: len(batch)], scores[len(batch) :]
            loss: Any = (
                margin_loss(relevant, other, settings.margin)
                if settings.loss == "margin"
                else softmax_loss(relevant, other)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
    if not np.isfinite(total):
        raise TrainingError("the loss is no number any more", hint="lower the learning rate")
    return total / len(order)


def open_stage(values: Spec, opening: Opening) -> PACRRDRMM:
    """See `registry.OPENERS`."""
    check_keys("PACRR-DRMM", values, {"path": str, "texts": dict})
    texts = open_terms(values["texts"], opening)
    return PACRRDRMM.load(opening.path(values["path"]), texts)
