"""What 8 bits cost a bi-encoder: RR@10 of its embeddings in float and from the 8-bit export.

    TAMIS_DATA=… TAMIS_MODELS=… python -m benchmarks.int8 --work FOLDER [--model minilm]

Documents and test queries are those of `benchmarks.bases`, ranked by cosine alone, all documents
against every query. Both exports are written into FOLDER; documents and queries are encoded by the
same one. Seconds are processor time of the encoding on one thread.
"""

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.bases import COLLECTIONS, MEASURE, Sample, sample_of
from benchmarks.scorers import write_exports
from tamis.backends.onnx import OnnxBiEncoder, Session
from tamis.backends.protocols import Backend
from tamis.collection.readers import open_collection
from tamis.evaluation import evaluate
from tamis.evaluation.significance import randomisation_test
from tamis.scorers.bi_encoder import BiEncoder
from tamis.types import Run

TOP = 10
BACKENDS: tuple[Backend, ...] = ("onnx", "onnx-int8")


def ranked(encoder: BiEncoder, sample: Sample) -> tuple[Run, float]:
    """The nearest documents of every query, and the seconds that encoding took."""
    documents = list(open_collection(sample.documents).documents)
    start = time.process_time()
    rows = encoder.encode([f"{document.title} {document.text}" for document in documents])
    asked = encoder.encode(list(sample.queries.texts or ()))
    seconds = time.process_time() - start
    cosines = asked @ rows.T
    found = {}
    for query, row in zip(sample.queries, cosines, strict=True):
        best = np.argsort(-row, kind="stable")[:TOP]
        found[query.id] = {documents[n].id: float(row[n]) for n in best.tolist()}
    return Run.from_dict(found), seconds


def main() -> None:
    """Encode, rank and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", default="minilm", help="a folder of TAMIS_MODELS")
    parser.add_argument("--collection", action="append", choices=COLLECTIONS)
    given = parser.parse_args()
    data, folder = Path(os.environ["TAMIS_DATA"]), Path(os.environ["TAMIS_MODELS"]) / given.model
    out = given.work / f"{given.model}-exports"
    plain = BiEncoder.open(folder, threads=1, device="cpu")
    if not out.is_dir():
        out.mkdir(parents=True)
        write_exports(plain, folder, out, "bi-encoder")
    for collection in given.collection or COLLECTIONS:
        sample = sample_of(data, collection, given.work)
        runs: dict[str, Run] = {}
        seconds: dict[str, float] = {}
        for backend in BACKENDS:
            session = Session.open(out, backend, "bi-encoder")
            encoder = replace(plain, model=OnnxBiEncoder(session))
            runs[backend], seconds[backend] = ranked(encoder, sample)
        evaluation = evaluate(sample.qrels, runs, [MEASURE])
        difference = evaluation.values("onnx-int8", MEASURE) - evaluation.values("onnx", MEASURE)
        print(
            f"{collection}: {MEASURE} {evaluation.mean('onnx', MEASURE):.4f} in float, "
            f"{evaluation.mean('onnx-int8', MEASURE):.4f} in 8 bits "
            f"({difference.mean():+.4f}, p {randomisation_test(difference):.3f}), "
            f"{seconds['onnx'] / seconds['onnx-int8']:.2f} times as fast",
            flush=True,
        )


if __name__ == "__main__":
    main()
