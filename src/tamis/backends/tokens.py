"""A model folder's tokenizer: texts to token ids, two texts to one sequence, and what is truncated.

Only the document is truncated. A query keeps at least half of the room, and is itself truncated
only where it is longer than that and the document needs the rest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.errors import InputError, require

TokenIds = NDArray[np.int32]
TEXTS_PER_BATCH = 256
DEFAULT_LENGTH = 512
SBERT_FILE = "sentence_bert_config.json"
"""Where sentence-transformers writes how it runs a transformer."""
PLAIN_CLASSES = ("TokenizersBackend", "PreTrainedTokenizerFast")
"""Tokenizers of transformers that do what tokenizer.json says, and no more."""
SEGMENTED_CLASSES = (
    "BertTokenizer", "CanineTokenizer", "ConvBertTokenizer", "DebertaTokenizer",
    "DebertaV2Tokenizer", "FNetTokenizer", "MobileBertTokenizer", "SqueezeBertTokenizer",
)  # fmt: skip
"""Tokenizers of transformers that tell a model which of two texts a token is from."""
SEGMENTED_TYPES = (
    "bert", "canine", "convbert", "deberta", "deberta-v2", "electra", "ernie", "megatron-bert",
    "mobilebert", "nomic_bert", "squeezebert",
)  # fmt: skip
"""The types of models that have one of these where a folder names no tokenizer."""
OLDER_FILES = (
    "vocab.txt", "vocab.json", "spiece.model", "spm.model", "tokenizer.model",
    "sentencepiece.bpe.model",
)  # fmt: skip
"""Where tokenizers were kept before there was tokenizer.json."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """The first token ids of a text, and how many tokens the whole text has."""

    ids: TokenIds
    length: int


@dataclass(frozen=True)
class Layout:
    """What stands before, between and after one or two texts, and the segment of each part."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    segments: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)

    @property
    def extra(self) -> int:
        """How many tokens are no text."""
        return len(self.before) + len(self.between) + len(self.after)

    def join(self, query: TokenIds, text: TokenIds) -> tuple[TokenIds, TokenIds]:
        """The ids of a query and a text as one sequence, and the segment of each.

        >>> layout = Layout((101,), (102,), (102,), (0, 0, 0, 1, 1))
        >>> ids, segments = layout.join(np.array([7, 8]), np.array([9]))
        >>> ids.tolist(), segments.tolist()
        ([101, 7, 8, 102, 9, 102], [0, 0, 0, 0, 1, 1])
        """
        pieces = (self.before, query, self.between, text, self.after)
        ids = np.concatenate([np.asarray(piece, np.int32) for piece in pieces])
        return ids, np.repeat(np.array(self.segments, np.int32), [len(piece) for piece in pieces])


@dataclass(frozen=True, eq=False)
class Tokens:
    """The tokenizer of a model folder, without its own truncation and padding."""

    backend: Any
    segmented: bool = True
    """Whether the model is told which of two texts a token is from."""

    @classmethod
    def open(cls, folder: Path) -> Tokens:
        """The tokenizer in a Hugging Face folder."""
        path = folder / "tokenizer.json"
        if path.is_file():
            backend = _read_tokenizer(path)
        elif any((folder / name).is_file() for name in OLDER_FILES):
            backend = _converted(folder)
        else:
            raise InputError(
                f"{folder} has no tokenizer: there is no tokenizer.json",
                hint="save the tokenizer into the same folder as the weights",
            )
        _lower_as_said(backend, folder)
        return cls.of(backend, _has_segments(folder))

    @classmethod
    def of(cls, backend: Any, segmented: bool) -> Tokens:
        """A tokenizer that gives all tokens of a text, and no others."""
        backend.no_truncation()
        backend.no_padding()
        return cls(backend, segmented)

    @cached_property
    def size(self) -> int:
        """One more than the highest id it can give."""
        return max(self.backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, texts: Sequence[str], keep: int) -> list[Encoded]:
        """The first `keep` ids of every text, without special tokens."""
        encoded: list[Encoded] = []
        for start in range(0, len(texts), TEXTS_PER_BATCH):
            batch = [clean(text) for text in texts[start : start + TEXTS_PER_BATCH]]
            for encoding in self.backend.encode_batch_fast(batch, add_special_tokens=False):
                ids = encoding.ids
                encoded.append(Encoded(np.array(ids[:keep], np.int32), len(ids)))
        return encoded

    def pair_layout(self) -> Layout:
        """How the tokenizer joins two texts."""
        encoding = self.backend.encode("a", "a")
        ids_by_place: list[list[int]] = [[], [], [], [], []]
        segments = [0] * 5
        for token, segment, place in _assign_places(encoding):
            ids_by_place[place].append(token)
            segments[place] = segment if self.segmented else 0
        first, second, third, fourth, fifth = segments
        return Layout(
            tuple(ids_by_place[0]),
            tuple(ids_by_place[2]),
            tuple(ids_by_place[4]),
            (first, second, third, fourth, fifth),
        )

    def single_layout(self) -> Layout:
        """What the tokenizer puts around one text."""
        encoding = self.backend.encode("a")
        inside = [number for number, of in enumerate(encoding.sequence_ids) if of == 0]
        ids = encoding.ids
        return Layout(tuple(ids[: inside[0]]), (), tuple(ids[inside[-1] + 1 :]))


def _converted(folder: Path) -> Any:
    """A tokenizer in an older format, as transformers converts it."""
    auto = require("transformers").AutoTokenizer
    try:
        return auto.from_pretrained(folder, local_files_only=True).backend_tokenizer
    except (ImportError, ValueError, OSError, AttributeError, KeyError, TypeError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"{folder} has no tokenizer.json, and its tokenizer cannot be converted: "
            f"{reason[0][:150]}",
            hint="where sentencepiece is installed, AutoTokenizer.from_pretrained(FOLDER)"
            ".save_pretrained(FOLDER) writes tokenizer.json",
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is no file."""
    return json_of(path) if path.is_file() else {}


def _read_tokenizer(path: Path) -> Any:
    tokenizer = require("tokenizers").Tokenizer
    try:
        return tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing more exact
        json_of(path)  # which may say more of what is wrong
        raise InputError(
            f"{path} holds no tokenizer: {error}", hint="save it again, or copy the folder again"
        ) from None


def json_of(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}", hint="copy the folder again") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} holds no JSON object", hint="copy the folder again")
    return value


def tokenizer_length(folder: Path) -> int | None:
    """The length in tokens at which a tokenizer says texts are truncated, if it does.

    A tokenizer that knows no limit writes a number beyond all bounds, which is taken as it is.
    """
    path = folder / "tokenizer_config.json"
    length = json_of(path).get("model_max_length") if path.is_file() else None
    return int(length) if isinstance(length, int | float) and length >= 1 else None


def default_length(folder: Path, longest: int) -> int:
    """The length in tokens of a model that does not say one: at most 512 and `longest`."""
    return min(DEFAULT_LENGTH, longest, tokenizer_length(folder) or DEFAULT_LENGTH)


def _has_segments(folder: Path) -> bool:
    """Whether a tokenizer gives segments: as it says, else as its class does in transformers, else
    as that of its model's type.
    """
    config = read_json(folder / "tokenizer_config.json")
    if names := config.get("model_input_names"):
        return "token_type_ids" in names
    if name := config.get("tokenizer_class"):
        return str(name).removesuffix("Fast") in SEGMENTED_CLASSES
    return read_json(folder / "config.json").get("model_type") in SEGMENTED_TYPES


def _lower_as_said(backend: Any, folder: Path) -> None:
    """Lower the case of texts where a folder says so beside its tokenizer.json: for its tokenizer
    of WordPiece, or for all that its module of sentence-transformers reads.
    """
    config = read_json(folder / "tokenizer_config.json")
    normalizer, said = backend.normalizer, config.get("do_lower_case")
    is_plain = config.get("tokenizer_class") in PLAIN_CLASSES
    if isinstance(said, bool) and type(normalizer).__name__ == "BertNormalizer" and not is_plain:
        normalizer.lowercase = said
    if lowers_case(folder):
        lower_case(backend)


def lowers_case(folder: Path) -> bool:
    """Whether sentence-transformers lowers the case of all that a folder's tokenizer reads."""
    return bool(read_json(folder / SBERT_FILE).get("do_lower_case"))


def lower_case(backend: Any) -> None:
    """Lower the case of a text before anything else is done with it."""
    normalizers = require("tokenizers").normalizers
    steps = [normalizers.Lowercase(), *([backend.normalizer] if backend.normalizer else [])]
    backend.normalizer = normalizers.Sequence(steps)


def check_truncation_side(folder: Path) -> None:
    """Refuse a tokenizer that would truncate a text at its start."""
    path = folder / "tokenizer_config.json"
    if read_json(path).get("truncation_side", "right") != "right":
        raise InputError(
            f"{path} truncates texts at their start, which tamis does not do",
            hint='write "truncation_side": "right" into it: long texts lose their end instead',
        )


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which are no characters."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def _assign_places(encoding: Any) -> list[tuple[int, int, int]]:
    """Every token with its segment and its place: before, first, between, second, after."""
    of = encoding.sequence_ids
    first = [number for number, sequence in enumerate(of) if sequence == 0]
    second = [number for number, sequence in enumerate(of) if sequence == 1]
    places = []
    for number, (token, segment) in enumerate(zip(encoding.ids, encoding.type_ids, strict=True)):
        place = 1 + 2 * of[number] if of[number] is not None else 0
        if of[number] is None:
            place = 0 if number < first[0] else 2 if number < second[0] else 4
        places.append((token, segment, place))
    return places


def share_room(query: int, document: int, room: int) -> tuple[int, int]:
    """How many tokens of a query and of a document fit into so much room.

    >>> share_room(10, 100, 60), share_room(90, 100, 60), share_room(90, 10, 60)
    ((10, 50), (30, 30), (50, 10))
    """
    query_tokens = min(query, max(room // 2, room - document))
    return query_tokens, min(document, room - query_tokens)
