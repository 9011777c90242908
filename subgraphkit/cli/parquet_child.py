"""A child process that computes parts of a Parquet file's rows, as it is told.

``python -m subgraphkit.cli.parquet_child`` reads a job and then the numbers of parts, each a line
of JSON, and answers when a part is written. It ends with its parent.
"""

import io
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, reduce
from itertools import accumulate, islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from subgraphkit import SessionSpec
from subgraphkit.cli.parquet import Job
from subgraphkit.errors import CallerError, InputError, SubgraphkitError
from subgraphkit.finding.child_probe import answering
from subgraphkit.serving.models import with_threads
from subgraphkit.serving.rows import Rows
from subgraphkit.storing.files import write_whole
from subgraphkit.transport import carried


class Parts:
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
        self._read = lru_cache(1)(self._read_groups)

    def write(self, number: int) -> None:
        """Compute a part and write it.

        Raises:
            InputError: Its rows do not fit the model, or its outputs no column (SGK340).
            CallerError: It cannot be read or written (SGK342).
            SubgraphkitError: As for ``run``.
        """
        job, file = self._job, io.BytesIO()
        try:
            table = self._slice(number * job.part_rows, (number + 1) * job.part_rows)
        except (pa.ArrowException, OSError) as error:
            raise CallerError("SGK342", f"{job.source!r} cannot be read: {error}") from error
        batches = [
            self._computed(table.slice(start, job.batch_size))
            for start in range(0, max(1, len(table)), job.batch_size)
        ]
        schemas = [batch.schema for batch in batches]
        try:
            schemas += [pq.read_schema(one) for one in islice(job.parts(), 1)]
            self._compare(schemas)
            pq.write_table(pa.concat_tables(batches), file)
            write_whole(job.part(number), file.getvalue(), mode=0o666)
        except (pa.ArrowException, OSError) as error:
            raise CallerError(
                "SGK342", f"part {number} of {job.folder!r} cannot be written: {error}"
            ) from error

    def _compare(self, schemas: Sequence[Any]) -> None:
        for name in {*schemas[0].names}.difference(self._job.keep):
            kinds = [one.field(name).type for one in schemas]
            if others := [kind for kind in kinds if kind != kinds[0]]:
                raise InputError(
                    "SGK340",
                    f"column {name!r} would be {kinds[0]} in one place and {others[0]} in another",
                    hint="Have the model return rows of one shape, whatever is run with them.",
                )

    def _read_groups(self, groups: tuple[int, ...]) -> Any:
        return self._file.read_row_groups([*groups], columns=self._wanted)

    def _slice(self, start: int, stop: int) -> Any:
        groups = [
            group
            for group, (first, end) in enumerate(pairwise(self._starts))
            if first < stop and end > start
        ]
        first = self._starts[groups[0]] if groups else start
        return self._read(tuple(groups)).slice(start - first, stop - start)

    def _computed(self, table: Any) -> Any:
        kept = {name: table[name] for name in self._job.keep if name in table.column_names}
        fed = [one for one in self._rows.columns.values() if one in table.column_names]
        made = self._rows({**kept, **{name: _array(table[name], name) for name in fed}})
        try:
            return pa.table({name: _column(kept.get(name, made[name])) for name in made})
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(
                "SGK340", f"the outputs cannot be written as columns: {error}"
            ) from error


def _array(column: Any, name: str) -> Any:
    """Return a column as NumPy has it, which has no gaps: it would make numbers of them."""
    whole = column.combine_chunks() if column.num_chunks else pa.array([])
    if _has_gaps(whole):
        raise InputError(
            "SGK340",
            f"column {name!r} has gaps: rows, or elements of them, that are null",
            hint="Fill them, or leave their rows out.",
        )
    if isinstance(whole, pa.FixedShapeTensorArray):
        return whole.to_numpy_ndarray()
    return whole.to_numpy(zero_copy_only=False)


def _has_gaps(array: Any) -> bool:
    stored = array.storage if isinstance(array, pa.ExtensionArray) else array
    if stored.null_count:
        return True
    return hasattr(stored, "flatten") and any(map(_has_gaps, _within(stored.flatten())))


def _within(flat: Any) -> Any:
    return flat if isinstance(flat, list) else [flat]  # a list for each field of a struct


def _column(values: Any) -> Any:
    """Return an array as a column; rows that are arrays themselves are tensors of a fixed shape."""
    if isinstance(values, pa.ChunkedArray):
        return values
    if values.dtype == object:
        kind = reduce(lambda inner, _: pa.list_(inner), values.shape[1:], pa.string())
        return pa.array(values.tolist(), kind)
    if values.ndim == 1:
        return pa.array(values)
    if len(values):
        return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(values))
    kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(values.dtype), values.shape[1:])
    return pa.ExtensionArray.from_storage(kind, pa.array([], kind.storage_type))


def main() -> int:
    """Compute parts until nobody asks."""
    lines = (json.loads(line) for line in sys.stdin)
    job: Mapping[str, Any] = next(lines, {})
    parts: Parts | None = None
    with answering() as answer, suppress(BrokenPipeError):
        for line in lines:
            try:
                parts = parts or Parts(Job(**job))
                parts.write(line["part"])
                answer({})
            except SubgraphkitError as error:
                answer({"failed": carried(error)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
