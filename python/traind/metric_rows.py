"""metric_rows.py: the values that a job has reported."""
from __future__ import annotations

import math
from typing import Any, List, Mapping, NamedTuple, Optional


class Metric(NamedTuple):
    name: str
    step: int
    value: float  # nan: what was reported is not finite
    epoch: Optional[float]
    time: float  # seconds since the epoch of Unix

    @classmethod
    def from_reply(cls, row: Mapping[str, Any]) -> Metric:
        value = row.get("value")
        return cls(row["name"], row["step"], math.nan if value is None else value, row.get("epoch"), row["time"])


class Metrics(List[Metric]):
    """The rows, oldest first."""

    def named(self, name: str) -> Metrics:
        """The rows of one metric."""
        return Metrics(row for row in self if row.name == name)

    def to_pandas(self) -> Any:
        """A table with a row for each step and a column for each metric. Needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas, which is not here: pip install pandas") from error
        rows = pandas.DataFrame(list(self), columns=Metric._fields)
        # a job that was set back reports some steps again; the daemon keeps the latest value of each
        return rows.pivot(index="step", columns="name", values="value").rename_axis(columns=None)
