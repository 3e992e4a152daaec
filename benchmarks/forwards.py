"""Our forwards against those of transformers: the same weights, the same batches of tokens.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.forwards
    TAMIS_DATA=… python -m benchmarks.forwards --only modernbert --share 0.25

Texts are 400 answers of medquad (their tokens' vectors averaged) and 400 pairs of trec-dl19 (the
vector of the first token), at their real lengths, truncated at 512 tokens. transformers gets the
same batches, sorted by length and padded to the longest of each, with SDPA where it has it, a mask
only where something is padded, and the products of tamis's back end for it, or its own by
--own-products. Times are processor time on one thread; with --wall-clock also wall clock on two,
where transformers runs batches side by side as tamis does, or shares each among threads, whichever
is faster. Weights are random; speed does not depend on them.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.backends.batches import Numbers, Rows, batches, run_batches
from tamis.backends.fast import Body, build, pool_tokens
from tamis.backends.tokens import Tokens
from tamis.backends.weights import Loaded
from tamis.cores import processor

TEXTS = 400
LONGEST = 512
MODERNBERT = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
SHAPES = {
    "modernbert-17m": (256, 7, 4, 384),
    "modernbert-32m": (384, 10, 6, 576),
    "modernbert-base": (768, 22, 12, 1152),
}
"""Ettin's two smallest, and ModernBERT-base."""
NAMES = (*SHAPES, "distilbert")
Ids = NDArray[np.int32]


@dataclass(frozen=True)
class Contest:
    """One model, twice, on some sequences."""

    ours: Body
    theirs: Any
    sequences: list[Ids]
    pooling: str

    def tamis(self, threads: int) -> Rows:
        """One vector per sequence, as tamis makes them."""
        return self._run(self._ours, threads)

    def side_by_side(self, threads: int) -> Rows:
        """The same by transformers, one batch a thread."""
        return self._run(self._theirs, threads)

    def shared(self, threads: int) -> Rows:
        """The same by transformers, all threads in one batch."""
        import torch

        lengths = [len(sequence) for sequence in self.sequences]
        values = np.empty((len(lengths), self.ours.dimensions), np.float32)
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        for batch in batches(lengths):
            values[batch] = self._theirs(batch)
        torch.set_num_threads(before)
        return values

    def _run(self, forward: Callable[[Numbers], Rows], threads: int) -> Rows:
        lengths = [len(sequence) for sequence in self.sequences]
        return run_batches(forward, lengths, width=self.ours.dimensions, threads=threads)

    def _ours(self, batch: Numbers) -> Rows:
        import torch

        some = [self.sequences[number] for number in batch.tolist()]
        with torch.inference_mode():
            values: Rows = pool_tokens(self.ours, some, self.pooling).numpy()
        return values

    def _theirs(self, batch: Numbers) -> Rows:
        import torch

        some = [self.sequences[number] for number in batch.tolist()]
        lengths = np.array([len(sequence) for sequence in some])
        is_token = np.arange(lengths.max()) < lengths[:, None]
        ids = np.ones(is_token.shape, np.int64)
        ids[is_token] = np.concatenate(some)
        mask = torch.from_numpy(is_token)
        given = {} if is_token.all() else {"attention_mask": mask.long()}
        with torch.inference_mode():
            states = self.theirs(torch.from_numpy(ids), **given).last_hidden_state
            if self.pooling == "cls":
                values: Rows = states[:, 0].numpy()
            else:
                values = ((states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)).numpy()
        return values


def model_of(name: str, own_products: bool) -> tuple[Body, Any]:
    """A model of this shape: ours and that of transformers."""
    import torch
    import transformers

    from tamis.backends._dense_product import with_dense_layers

    torch.manual_seed(0)
    config: Any = transformers.DistilBertConfig()
    if name in SHAPES:
        settings: Any = dict(zip(MODERNBERT, SHAPES[name], strict=True))
        config = transformers.ModernBertConfig(**settings)
    auto: Any = transformers.AutoModel
    theirs = auto.from_config(config, attn_implementation="sdpa")
    weights = {name: value.detach() for name, value in theirs.state_dict().items()}
    plain = json.loads(theirs.config.to_json_string())
    tokens: Any = None
    ours = build(Loaded(Path(name), plain, weights, tokens))
    return ours, theirs.eval() if own_products else with_dense_layers(theirs.eval())


def texts_of(data: Path, share: float) -> dict[str, list[Ids]]:
    """Token ids of answers and of pairs, evenly spread over their collections."""
    tokens = Tokens.open(Path(os.environ["TAMIS_MODELS"]) / "minilm")
    count = int(TEXTS * share)

    def lines(path: Path) -> list[dict[str, str]]:
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    def ids(texts: list[str]) -> list[Ids]:
        return [text.ids for text in tokens.encode(texts, LONGEST)]

    answers = lines(data / "medquad" / "corpus.jsonl")
    passages = {line["_id"]: line["text"] for line in lines(data / "trec-dl19" / "corpus.jsonl")}
    queries = {line["_id"]: line["text"] for line in lines(data / "trec-dl19" / "queries.jsonl")}
    run = (data / "trec-dl19" / "bm25-top100.trec").read_text().splitlines()
    found = [line.split() for line in run[:: max(1, len(run) // count)][:count]]
    return {
        "mean": ids([line["text"] for line in answers[:: len(answers) // count][:count]]),
        "cls": ids([f"{queries[line[0]]} {passages[line[2]]}" for line in found]),
    }


def medians(
    contestants: Mapping[str, Callable[[], object]], clock: Callable[[], float], rounds: int
) -> dict[str, float]:
    """The median time of each, in turn, round after round, after one that is not timed."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, contestant in contestants.items():
            start = clock()
            contestant()
            if number:
                times[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def compare(name: str, contest: Contest, rounds: int, wall_clock: bool) -> None:
    """Print a line: how long both take, and how many times as long transformers does."""
    off = np.abs(contest.tamis(1) - contest.side_by_side(1)).max()
    one = medians(
        {"tamis": lambda: contest.tamis(1), "theirs": lambda: contest.shared(1)},
        time.process_time,
        rounds,
    )
    columns = _columns(one["tamis"], one["theirs"])
    if wall_clock:
        two = medians(
            {
                "tamis": lambda: contest.tamis(2),
                "side by side": lambda: contest.side_by_side(2),
                "shared": lambda: contest.shared(2),
            },
            time.perf_counter,
            rounds,
        )
        columns += _columns(two["tamis"], min(two["side by side"], two["shared"]))
    print(f"{name:16}{contest.pooling:>5}{columns}{off:10.1g}", flush=True)


def _columns(ours: float, theirs: float) -> str:
    return f"{ours:9.2f}{theirs:9.2f}{theirs / ours:7.2f}"


def main() -> None:
    """Print a table, a line a model and a kind of text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default="", help="models whose name begins so")
    parser.add_argument("--share", type=float, default=1.0, help="of the texts")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wall-clock", action="store_true", help="on two threads, too")
    parser.add_argument("--own-products", action="store_true", help="transformers as it is")
    given = parser.parse_args()
    texts = texts_of(Path(os.environ["TAMIS_DATA"]), given.share)
    for pooling, sequences in texts.items():
        lengths = [len(sequence) for sequence in sequences]
        print(f"{pooling}: {len(lengths)} texts, {sum(lengths):,} tokens, longest {max(lengths)}")
    print(f"{processor()}\nseconds of tamis, of transformers, their ratio; largest difference")
    for name in NAMES:
        if name.startswith(given.only):
            ours, theirs = model_of(name, given.own_products)
            for pooling, sequences in texts.items():
                compare(
                    name, Contest(ours, theirs, sequences, pooling), given.rounds, given.wall_clock
                )


if __name__ == "__main__":
    main()
