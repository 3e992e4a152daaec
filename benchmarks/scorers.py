"""Scorers against sentence-transformers and transformers: same weights, same pairs.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks scorers
    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.scorers --only cross-encoder --depth 20

Pairs are the first passages that BM25 found for the 43 queries of trec-dl19, at their real lengths.
Weights are those in TAMIS_MODELS: `ce` (a cross-encoder of MiniLM-L6 shape), `minilm`, `t5` (a
FLAN-T5-small derivative distilled for writing titles). Every contestant scores all pairs in turn,
round after round; opening and exporting are not timed. `--threads 1 --processor-time` counts
processor time. Texts are split on one thread. Memory is the most that a process of its own held.
"""

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import interleaved
from tamis.backends.batches import batches
from tamis.backends.onnx import (
    ONNX_FILES,
    OnnxBiEncoder,
    OnnxCrossEncoder,
    OnnxLanguageModel,
    Session,
)
from tamis.collection.readers import open_collection
from tamis.collection.runs import read_run
from tamis.cores import processor
from tamis.evaluation.agreement import tau_b
from tamis.models.onnx_files import write_float, write_int8
from tamis.scorers.bi_encoder import BiEncoder
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.scorers.target_words import DEFAULT_TEMPLATE, TargetWords
from tamis.text.passages import parse_spec, split
from tamis.text.sentences import split_sentences
from tamis.types import Document, Pairs, Scorer

Scores = NDArray[np.floating[Any]]
Contestants = dict[str, Callable[[], Scores]]
THREADS = 2
WORDS = ("true", "false")
LONGEST = 512


@dataclass(frozen=True)
class Setting:
    """What is measured on, how often, with which weights."""

    data: Path
    models: Path
    depth: int
    rounds: int
    threads: int = THREADS
    clock: Callable[[], float] = time.perf_counter
    cross_encoder: str = "ce"
    """The folder of models that is the cross-encoder."""

    def pairs(self, depth: int | None = None) -> Pairs:
        """The first passages of every query."""
        collection = open_collection(self.data / "trec-dl19")
        run = read_run(self.data / "trec-dl19" / "bm25-top100.trec").top(depth or self.depth)
        run = run.with_queries(collection.queries)
        texts = {document.id: document.text for document in collection.documents}
        number_of, text = np.unique(run.doc, return_inverse=True)
        query = np.repeat(np.arange(len(run)), run.sizes())
        found = [texts[run.docs[number]] for number in number_of.tolist()]
        return Pairs(run.queries.texts or (), found, np.stack([query, text], 1).astype(np.int32))


def in_order(pairs: Pairs) -> list[tuple[str, str]]:
    """Query and text of every pair."""
    return [(pairs.queries[q], pairs.texts[t]) for q, t in pairs.index.tolist()]


def scoring(scorer: Scorer, pairs: Pairs) -> Callable[[], Scores]:
    """A call that scores all pairs."""
    return lambda: scorer.score(pairs).values


@contextmanager
def exported(scorer: Any, folder: Path, kind: Any) -> Iterator[dict[str, Any]]:
    """The scorer from ONNX, in float and in 8-bit integers."""
    with TemporaryDirectory() as name:
        write_exports(scorer, folder, Path(name), kind)
        found = {}
        for backend in ONNX_FILES:
            session = Session.open(Path(name), backend, kind)
            if kind == "target-words":
                found[f"tamis {backend}"] = replace(
                    scorer, language_model=OnnxLanguageModel(session)
                )
            else:
                runner = OnnxCrossEncoder if kind == "cross-encoder" else OnnxBiEncoder
                found[f"tamis {backend}"] = replace(scorer, model=runner(session))
        yield found


def write_exports(scorer: Any, folder: Path, out: Path, kind: Any) -> None:
    """Write both ONNX files of a model."""
    files = {backend: out / file for backend, file in ONNX_FILES.items()}
    files["onnx"].parent.mkdir(exist_ok=True)
    write_float(files["onnx"], scorer, folder)
    write_int8(files["onnx-int8"], files["onnx"], kind)


def compare(
    title: str, contestants: Contestants, pairs: Pairs, setting: Setting, exact: str | Scores
) -> None:
    """Time all, and print pairs a second, ratios to the first, and how far scores are from one's,
    or from scores that are given.
    """
    scores = {name: contestant() for name, contestant in contestants.items()}
    right = scores[exact] if isinstance(exact, str) else exact
    seconds = interleaved(contestants, setting.rounds, setting.clock)
    first = next(iter(seconds))
    head = f"{'':30}{'pairs/s':>9}{'ratio':>8}{'differ by':>11}{'tau':>8}{'least':>8}"
    print(f"\n{title}: {len(pairs):,} pairs, {processor()}\n{head}")
    for name, value in seconds.items():
        taus = per_query(pairs, right, scores[name])
        off = np.abs(right - scores[name]).max()
        print(
            f"{name:30}{len(pairs) / value:9.1f}{seconds[first] / value:8.2f}{off:11.2g}"
            f"{taus.mean():8.4f}{taus.min():8.4f}",
            flush=True,
        )


def per_query(pairs: Pairs, first: Scores, second: Scores) -> NDArray[np.float64]:
    """Kendall's tau of every query."""
    query = pairs.index[:, 0]
    taus = [tau_b(first[query == n], second[query == n]) for n in np.unique(query).tolist()]
    return np.array([tau for tau in taus if not np.isnan(tau)])


def cross_encoder(setting: Setting) -> None:
    """The cross-encoder against sentence-transformers at its defaults and plain transformers."""
    import torch
    from sentence_transformers import CrossEncoder as Theirs
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder, pairs = setting.models / setting.cross_encoder, setting.pairs()
    texts = in_order(pairs)
    theirs: Any = Theirs(str(folder), device="cpu", activation_fn=torch.nn.Identity())
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder).eval()

    def plain(model: Any) -> Scores:
        order = np.argsort([len(query) + len(text) for query, text in texts])
        values = np.empty(len(texts))
        for start in range(0, len(order), 32):
            some = order[start : start + 32]
            queries, documents = zip(*(texts[n] for n in some), strict=True)
            given = tokenizer(list(queries), list(documents), padding=True, truncation=True,
                              max_length=LONGEST, return_tensors="pt")  # fmt: skip
            with torch.inference_mode():
                values[some] = model(**given).logits[:, 0].numpy()
        return values

    ours, other = (
        CrossEncoder.open(
            folder, threads=setting.threads, scale="logit", backend=backend, device="cpu"
        )
        for backend in ("fast", "transformers")
    )
    with exported(ours, folder, "cross-encoder") as exports:
        contestants: Contestants = {
            "CrossEncoder.predict": lambda: theirs.predict(texts),
            "transformers, sorted, 32": lambda: plain(model),
            "tamis fast": scoring(ours, pairs),
            "tamis transformers": scoring(other, pairs),
            **{name: scoring(each, pairs) for name, each in exports.items()},
        }
        doubled: Any = AutoModelForSequenceClassification.from_pretrained(folder).double().eval()
        compare("cross-encoder", contestants, pairs, setting, plain(doubled))


def target_words(setting: Setting) -> None:
    """T5 target words against generate, and against the encoder and one decoder step."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder, pairs = setting.models / "t5", setting.pairs(max(2, setting.depth // 4))
    prompts = [
        DEFAULT_TEMPLATE.format(query=query, document=text) for query, text in in_order(pairs)
    ]
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    ours = TargetWords.open(folder, WORDS, threads=setting.threads)
    ids = list(ours.ids)

    def encoded(some: Sequence[int]) -> Any:
        texts = [prompts[n] for n in some]
        return tokenizer(texts, padding=True, truncation=True, max_length=LONGEST,
                         return_tensors="pt")  # fmt: skip

    def generate() -> Scores:
        values = np.empty(len(prompts), np.float32)
        for start in range(0, len(prompts), 32):
            some = list(range(start, min(start + 32, len(prompts))))
            with torch.inference_mode():
                done = model.generate(
                    **encoded(some), max_new_tokens=1, do_sample=False, output_logits=True,
                    return_dict_in_generate=True,
                )  # fmt: skip
            values[some] = done.logits[0][:, ids].softmax(1)[:, 0].numpy()
        return values

    def one_step() -> Scores:
        lengths = [len(each) for each in tokenizer(prompts, truncation=True, max_length=LONGEST)[
            "input_ids"]]  # fmt: skip
        values = np.empty(len(prompts), np.float32)
        for batch in batches(lengths):
            start = torch.full((len(batch), 1), model.config.decoder_start_token_id)
            with torch.inference_mode():
                logits = model(**encoded(batch.tolist()), decoder_input_ids=start).logits[:, 0]
            values[batch] = logits[:, ids].softmax(1)[:, 0].numpy()
        return values

    with exported(ours, folder, "target-words") as exports:
        contestants: Contestants = {
            "generate, batches of 32": generate,
            "encoder + one step, sorted": one_step,
            "tamis fast": scoring(ours, pairs),
            **{name: scoring(each, pairs) for name, each in exports.items()},
        }
        compare("T5 target words", contestants, pairs, setting, "encoder + one step, sorted")


def bi_encoder(setting: Setting) -> None:
    """Encoding every text, against SentenceTransformer.encode."""
    from sentence_transformers import SentenceTransformer

    folder, given = setting.models / "minilm", setting.pairs()
    pairs = Pairs(given.queries, given.texts, given.index)
    theirs: Any = SentenceTransformer(str(folder), device="cpu")
    ours, other = (
        BiEncoder.open(folder, threads=setting.threads, backend=backend, device="cpu")
        for backend in ("fast", "transformers")
    )

    def cosines(encode: Callable[[list[str]], Any]) -> Callable[[], Scores]:
        def scored() -> Scores:
            queries, texts = encode(list(pairs.queries)), encode(list(pairs.texts))
            found: Scores = np.einsum(
                "nd,nd->n", queries[pairs.index[:, 0]], texts[pairs.index[:, 1]]
            )
            return found

        return scored

    with exported(ours, folder, "bi-encoder") as exports:
        contestants: Contestants = {
            "SentenceTransformer.encode": cosines(theirs.encode),
            "tamis fast": cosines(ours.encode),
            "tamis transformers": cosines(other.encode),
            **{name: cosines(each.encode) for name, each in exports.items()},
        }
        compare("bi-encoder", contestants, pairs, setting, "SentenceTransformer.encode")


def splitting(setting: Setting) -> None:
    """Megabytes of text a second that are split into sentences and windows."""
    collection = open_collection(setting.data / "squad")
    documents = list(collection.documents)
    documents = [
        Document(str(n), " ".join(document.text for document in documents[n : n + 20]))
        for n in range(0, len(documents), 20)
    ]
    size = sum(len(document.text.encode()) for document in documents) / 1e6
    backend = BiEncoder.open(setting.models / "minilm").tokens.backend
    spans = {
        document.text: backend.encode(document.text, add_special_tokens=False).offsets
        for document in documents
    }

    def windows(spec: str, tokens: Any = None) -> Callable[[], object]:
        parsed = parse_spec(spec)
        return lambda: [split(document, parsed, tokens=tokens) for document in documents]

    def tokenised(text: str) -> Any:
        return backend.encode(text, add_special_tokens=False).offsets

    contestants: Mapping[str, Callable[[], object]] = {
        "sentences": lambda: [split_sentences(document.text) for document in documents],
        "sentences:10:5": windows("sentences:10:5"),
        "words:150:75": windows("words:150:75"),
        "words:100 to sentence ends": windows("words:100"),
        "tokens:384:192, tokens known": windows("tokens:384:192", spans.__getitem__),
        "tokens:384:192, tokenising": windows("tokens:384:192", tokenised),
    }
    print(f"\nsplitting {size:.1f} MB of {len(documents):,} documents\n{'':30}{'MB/s':>9}")
    for name, seconds in interleaved(contestants, setting.rounds, setting.clock).items():
        print(f"{name:30}{size / seconds:9.1f}", flush=True)


MEMORY = """
import sys
import numpy as np
from benchmarks.scorers import Setting, THREADS
from pathlib import Path
from tamis.scorers.cross_encoder import CrossEncoder
from tamis.types import Pairs
data, folder, count, backend = sys.argv[1:]
some = Setting(Path(data), Path(folder), 100, 1).pairs()
texts = [f"{n} {' '.join(some.texts[n % len(some.texts)].split()[:12])}" for n in range(int(count))]
index = np.stack([np.arange(len(texts)) % len(some.queries), np.arange(len(texts))], 1)
scorer = CrossEncoder.open(folder, threads=THREADS, backend=backend)
scorer.score(Pairs(some.queries, texts, index.astype(np.int32)))
print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])
"""


def memory(setting: Setting) -> None:
    """Megabytes held at most with ten times the pairs (passages cut to twelve words)."""
    import shutil

    with TemporaryDirectory() as name:
        folder = Path(name) / "ce"
        shutil.copytree(setting.models / setting.cross_encoder, folder)
        write_exports(CrossEncoder.open(folder), folder, folder, "cross-encoder")
        print(f"\nmemory{'':24}{'2,000':>9}{'20,000 pairs':>15}")
        for backend in ("fast", "onnx", "onnx-int8"):
            held = [peak(setting.data, folder, count, backend) for count in (2_000, 20_000)]
            print(f"tamis {backend:24}{held[0]:6,} MB{held[1]:12,} MB", flush=True)


def peak(data: Path, folder: Path, count: int, backend: str) -> int:
    """Megabytes that a process holds at most while it scores so many pairs."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(data), str(folder), str(count), backend],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout) // 1024


PARTS: Mapping[str, Callable[[Setting], None]] = {
    "cross-encoder": cross_encoder,
    "target-words": target_words,
    "bi-encoder": bi_encoder,
    "splitting": splitting,
    "memory": memory,
}


def main(arguments: Sequence[str] = ()) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="repeatable")
    parser.add_argument("--depth", type=int, default=20, help="passages of each of 43 queries")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--processor-time", action="store_true", help="of all threads")
    parser.add_argument("--cross-encoder", default="ce", help="its folder, in TAMIS_MODELS")
    given = parser.parse_args(arguments)
    if not os.environ.get("TAMIS_DATA") or not os.environ.get("TAMIS_MODELS"):
        print("scorers: skipped, TAMIS_DATA and TAMIS_MODELS are not set")
        return
    warnings.simplefilter("ignore")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers.utils import logging as logging_of_theirs

    logging: Any = logging_of_theirs
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(given.threads)
    setting = Setting(
        Path(os.environ["TAMIS_DATA"]), Path(os.environ["TAMIS_MODELS"]), given.depth, given.rounds,
        given.threads, time.process_time if given.processor_time else time.perf_counter,
        given.cross_encoder,
    )  # fmt: skip
    for part in given.only or PARTS:
        PARTS[part](setting)


if __name__ == "__main__":
    main(sys.argv[1:])
