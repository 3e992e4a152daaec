"""Parquet and Arrow as tables of documents or queries; Parquet holds runs and judgements too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa

from tamis import durable
from tamis.collection._records import Columns, Record
from tamis.collection.arrow_files import (
    PARQUET_MAGIC,
    ROWS_IN_MEMORY,
    ParquetWriter,
    arrow_batches,
    parquet_batches,
    reading,
)
from tamis.collection.base import Faults
from tamis.collection.judgements import read_parquet_qrels, write_parquet_qrels
from tamis.collection.lines import packing
from tamis.collection.loss_notes import LossNotes
from tamis.collection.runs import read_parquet_run, write_parquet_run
from tamis.collection.tables import RecordStream, check_named, table_format
from tamis.errors import InputError

ARROW_MAGICS = (b"ARROW1", b"\xff\xff\xff\xff")
"""How Arrow files begin, and Arrow streams."""


def _read(
    read_batches: Callable[[Path], Iterator[pa.RecordBatch]],
    path: Path,
    columns: Columns,
    faults: Faults,
) -> Iterator[tuple[int, Record]]:
    """The rows of a file; it has no lines, so what is wrong is always raised."""
    if packed := packing(path):
        raise InputError(
            f"{path} is packed with {packed}", hint="unpack it: Parquet and Arrow pack themselves"
        )
    number = 0
    for batch in read_batches(path):
        if number == 0:
            check_named(path, batch.schema.names, columns)
        with reading(path):
            records = batch.to_pylist()
        for record in records:
            number += 1
            yield number, record


def _write_parquet(records: RecordStream, path: Path, notes: LossNotes, force: bool) -> None:
    with durable.new_file(path, force=force) as unfinished:
        names = records.column_names()
        schema = pa.schema([pa.field(name, pa.string()) for name in names])
        stream = records.read(notes)
        with ParquetWriter(unfinished, schema) as writer:
            while rows := [*islice(stream, ROWS_IN_MEMORY)]:
                cells = [pa.array([row.get(name) for row in rows], pa.string()) for name in names]
                writer.write(pa.record_batch(cells, schema=schema))


PARQUET = replace(
    table_format(
        "parquet",
        "Parquet with named columns",
        lambda head: head.raw.startswith(PARQUET_MAGIC),
        partial(_read, parquet_batches),
        _write_parquet,
    ),
    read_run=read_parquet_run,
    write_run=write_parquet_run,
    read_qrels=read_parquet_qrels,
    write_qrels=write_parquet_qrels,
)
ARROW = table_format(
    "arrow",
    "Arrow file or stream with named columns",
    lambda head: head.raw.startswith(ARROW_MAGICS),
    partial(_read, arrow_batches),
    None,
)
