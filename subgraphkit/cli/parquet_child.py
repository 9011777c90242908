"""A child process that computes parts of a Parquet file's rows, as it is told.

``python -m subgraphkit.cli.parquet_child`` reads a job and then the numbers of parts, each a line
of JSON, and answers when a part is written. It ends with its parent.
"""

import io
import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from subgraphkit import SessionSpec
from subgraphkit.cli.parquet import Job
from subgraphkit.errors import InputError, SubgraphkitError
from subgraphkit.finding.child_probe import answering
from subgraphkit.serving.models import with_threads
from subgraphkit.serving.rows import Rows
from subgraphkit.storing.files import write_whole
from subgraphkit.transport import carried

__all__ = ["main"]


class _Parts:
    """Computes parts of a job.

    Raises:
        SubgraphkitError: As for ``SessionSpec.open`` and ``Rows``.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._file = job, pq.ParquetFile(job.source)
        groups = self._file.metadata.num_row_groups
        counts = (self._file.metadata.row_group(one).num_rows for one in range(groups))
        self._starts = list(accumulate(counts, initial=0))
        session = with_threads(SessionSpec.from_json(job.spec), job.threads).open()
        self._rows = Rows(session, job.columns, job.outputs or None, job.keep)
        self._wanted = sorted({*self._rows.columns.values(), *job.keep})
        # Parts follow each other, so several are of one group.
        self._group = lru_cache(1)(self._read)

    def write(self, number: int) -> None:
        """Compute a part and write it."""
        job = self._job
        table = self._slice(number * job.part_rows, (number + 1) * job.part_rows)
        batches = [
            self._computed(table.slice(start, job.batch_size))
            for start in range(0, max(1, len(table)), job.batch_size)
        ]
        file = io.BytesIO()
        pq.write_table(pa.concat_tables(batches), file)
        write_whole(job.part(number), file.getvalue(), mode=0o666)

    def _read(self, group: int) -> Any:
        return self._file.read_row_group(group, columns=self._wanted)

    def _slice(self, start: int, stop: int) -> Any:
        pieces = [self._file.schema_arrow.empty_table().select(self._there())]
        ends = zip(self._starts, self._starts[1:], strict=False)
        for group, (first, end) in enumerate(ends):
            if first < stop and end > start:
                table = self._group(group)
                pieces.append(table.slice(max(0, start - first), stop - max(start, first)))
        return pa.concat_tables(pieces)

    def _there(self) -> list[str]:
        return [name for name in self._wanted if name in self._file.schema_arrow.names]

    def _computed(self, table: Any) -> Any:
        kept = {name: table[name] for name in self._job.keep if name in table.column_names}
        made = self._rows({**kept, **{name: _array(table[name]) for name in self._fed(table)}})
        try:
            return pa.table({name: _column(kept.get(name, made[name])) for name in made})
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(
                "SGK340", f"the outputs cannot be written as columns: {error}"
            ) from error

    def _fed(self, table: Any) -> list[str]:
        return [one for one in self._rows.columns.values() if one in table.column_names]


def _array(column: Any) -> Any:
    """Return a column as NumPy has it."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.FixedShapeTensorArray):
        return whole.to_numpy_ndarray()
    return whole.to_numpy(zero_copy_only=False)


def _column(values: Any) -> Any:
    """Return an array as a column; rows that are arrays themselves are tensors of a fixed shape."""
    if isinstance(values, pa.ChunkedArray):
        return values
    if values.ndim == 1:
        return pa.array(values)
    if len(values):
        return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(values))
    kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(values.dtype), values.shape[1:])
    return pa.ExtensionArray.from_storage(kind, pa.array([], kind.storage_type))


def main() -> int:
    """Compute parts until nobody asks.

    Returns:
        The exit status: 0.
    """
    lines = (json.loads(line) for line in sys.stdin)
    job: Mapping[str, Any] = next(lines, {})
    parts: _Parts | None = None
    with answering() as answer, suppress(BrokenPipeError):
        for line in lines:
            try:
                parts = parts or _Parts(Job(**job))
                parts.write(line["part"])
                answer({})
            except SubgraphkitError as error:
                answer({"failed": carried(error)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
