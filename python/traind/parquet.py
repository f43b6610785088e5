"""parquet.py: the metrics of jobs as one table in a file of Parquet, as `trainctl export --csv` writes it. Needs pyarrow.

    import traind.parquet
    traind.parquet.write("metrics.parquet", 12, 13, job)
"""
from __future__ import annotations

import operator
import os
import tempfile
from typing import Any, Dict, Iterator, List, Optional, SupportsIndex, Tuple

import pyarrow
import pyarrow.parquet

from . import varlink
from .jobs import Names, metrics
from .metric_rows import Metrics

COLUMNS = pyarrow.schema([("job", pyarrow.int64()), ("job_name", pyarrow.string()), ("metric", pyarrow.string()),
                          ("step", pyarrow.int64()), ("epoch", pyarrow.float64()), ("time", pyarrow.float64()),
                          ("value", pyarrow.float64())])


def write(path: str, *jobs: SupportsIndex, names: Names = None, wide: bool = False, socket: Optional[str] = None) -> int:
    """Writes the values of all jobs, or those of some names, and returns how many there are. A row is a value, or with
    `wide` a step of a job, which has a column for each metric. A file that is there is replaced when the new one is whole."""
    folder, name = os.path.split(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=name + ".", dir=folder)
    os.close(descriptor)
    try:
        count = (write_wide if wide else write_long)(temporary, fetch(jobs, names, socket))
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp makes it private
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return count


def fetch(jobs: Tuple[SupportsIndex, ...], names: Names, socket: Optional[str]) -> Iterator[Tuple[int, str, Metrics]]:
    for job in jobs:
        address = socket or getattr(job, "socket", None)
        number = operator.index(job)
        yield number, varlink.call("Show", socket=address, id=number)["job"]["name"], metrics(job, names, socket=address)


def write_long(path: str, jobs: Iterator[Tuple[int, str, Metrics]]) -> int:
    count = 0
    with pyarrow.parquet.ParquetWriter(path, COLUMNS) as writer:
        for job, job_name, rows in jobs:  # one at a time is in memory
            writer.write_table(pyarrow.table({"job": [job] * len(rows), "job_name": [job_name] * len(rows),
                                              "metric": [row.name for row in rows], "step": [row.step for row in rows],
                                              "epoch": [row.epoch for row in rows], "time": [row.time for row in rows],
                                              "value": [row.value for row in rows]}, schema=COLUMNS))
            count += len(rows)
    return count


def write_wide(path: str, jobs: Iterator[Tuple[int, str, Metrics]]) -> int:
    steps: List[Dict[str, Any]] = []
    names: Dict[str, None] = {}  # of the metrics, in the order in which they came
    count = 0
    for job, job_name, rows in jobs:
        lines: Dict[int, Dict[str, Any]] = {}
        for row in rows:
            names.setdefault(row.name)
            line = lines.setdefault(row.step, {"values": {}, "epoch": None})
            line.update(job=job, job_name=job_name, step=row.step, time=row.time,
                        epoch=line["epoch"] if row.epoch is None else row.epoch)
            line["values"][row.name] = row.value
        steps += (lines[step] for step in sorted(lines))
        count += len(rows)
    fixed = [COLUMNS.field(name) for name in ("job", "job_name", "step", "epoch", "time")]
    columns = [pyarrow.array([line[field.name] for line in steps], field.type) for field in fixed]
    columns += [pyarrow.array([line["values"].get(name) for line in steps], pyarrow.float64()) for name in names]
    pyarrow.parquet.write_table(pyarrow.Table.from_arrays(columns, [field.name for field in fixed] + list(names)), path)
    return count
