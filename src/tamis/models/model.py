"""A model that ranks texts for a query: what `tamis.load_model` gives to Python."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends.devices import resolve_device, resolve_dtype
from tamis.backends.protocols import Backend
from tamis.errors import InputError
from tamis.manifest import read_manifest
from tamis.models.model_lookup import (
    ALIGNMENT,
    LEXICAL,
    find_model,
    is_trusted,
    open_model_folder,
)
from tamis.models.ranked import Ranked
from tamis.scorers.bi_encoder import BiEncoder
from tamis.types import Pairs, Scorer
from tamis.types.pipeline import Scale

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Model:
    """A model with its weights, ready to score.

    >>> from tamis.types import Scores
    >>> class Length:
    ...     scale = "regression"
    ...     def score(self, pairs):
    ...         lengths = np.array([len(text) for text in pairs.texts], np.float32)
    ...         return Scores(lengths[pairs.index[:, 1]], np.zeros(len(pairs), np.int32))
    >>> model = Model(Length(), "length")
    >>> [(hit.index, hit.score) for hit in model.rank("sieve", ["net", "a drum", "tub"])]
    [(1, 6.0), (0, 3.0), (2, 3.0)]
    >>> model.score("sieve", ["net", "a drum"]).tolist()
    [3.0, 6.0]
    """

    scorer: Scorer
    name: str

    @property
    def scale(self) -> Scale:
        """What a score is: a probability, a logit, a cosine, or a number of another scale."""
        return self.scorer.scale

    def rank(self, query: str, texts: Sequence[str]) -> list[Ranked]:
        """The texts, best first; of equal scores the earlier text first."""
        texts = _checked(texts)
        scores = self.score(query, texts)
        order = np.argsort(-scores, kind="stable")
        return [Ranked(number, float(scores[number]), texts[number]) for number in order.tolist()]

    def score(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """One score per text. Texts that were truncated to fit the model are counted in the log."""
        if not isinstance(query, str):
            raise InputError(
                f"the query is {_kind(query)}", hint="hand in one string; for many, score each"
            )
        texts = _checked(texts)
        if not texts:
            return np.zeros(0, np.float32)
        index = np.zeros((len(texts), 2), np.int32)
        index[:, 1] = np.arange(len(texts))
        scores = self.scorer.score(Pairs([query], texts, index))
        truncated = int((scores.truncated_tokens > 0).sum())
        if truncated:
            _log.info("%s: %d of %d texts truncated to fit", self.name, truncated, len(texts))
        return scores.values

    def encode(self, texts: Sequence[str], *, are_queries: bool = False) -> NDArray[np.float32]:
        """The embeddings of texts, one row per text, of length one; only a bi-encoder has them.

        `are_queries` matters to a model that encodes queries and documents differently.
        """
        if not isinstance(self.scorer, BiEncoder):
            raise InputError(
                f"{self.name} has no embeddings: it is no bi-encoder",
                hint="use .rank or .score, or load a bi-encoder such as all-MiniLM-L6-v2",
            )
        encoder = self.scorer if are_queries else self.scorer.documents or self.scorer
        return encoder.encode(_checked(texts))


def load_model(
    name_or_folder: str | Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    threads: int | None = None,
    backend: Backend | None = None,
    trust_remote_code: str | Path | bool = False,
) -> Model:
    """The model in a folder of tamis, a Hugging Face folder, an installed package or a hub id.

    It runs on a GPU if there is one, there in half precision; else on the CPU in float32, on all
    cores unless `threads` says otherwise. `device`, `dtype` and `backend` say it otherwise; see
    `tamis.models.open_scorer`. Code that a model brings is run only where `trust_remote_code`
    names that very model.

    >>> from tamis.errors import InputError
    >>> try:
    ...     load_model("all-MiniLM-L6-v2", device="cuda:99")
    ... except InputError as error:
    ...     print(str(error).partition(":99")[0])
    there is no device 'cuda
    """
    resolve_dtype(dtype, resolve_device(device))
    name = str(name_or_folder)
    if name == LEXICAL or name.startswith(ALIGNMENT):
        raise InputError(
            f"{name} is no model: it scores by the statistics of an index",
            hint="tamis.models.open_ranker(name, documents=index)",
        )
    manifest = read_manifest(Path(name).expanduser())
    if manifest is not None and manifest["kind"] == "sieve":
        raise InputError(f"{name} is a sieve", hint=f"tamis.load_sieve({name!r})")
    trusted = is_trusted(name, trust_remote_code)
    folder = find_model(name, trust_remote_code=trusted)
    scorer = open_model_folder(
        folder, threads=threads, backend=backend, device=device, dtype=dtype,
        trust_remote_code=trusted,
    )  # fmt: skip
    return Model(scorer, name)


def _checked(texts: Sequence[str]) -> list[str]:
    """The texts as a list, if that is what they are."""
    if isinstance(texts, str):
        raise InputError("the texts are one string", hint="hand in a list: [text]")
    listed = list(texts)
    for place, text in enumerate(listed):
        if not isinstance(text, str):
            raise InputError(f"texts[{place}] is {_kind(text)}", hint="every text is a string")
    return listed


def _kind(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
