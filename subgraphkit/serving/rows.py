"""The rows of a table through a session: columns become feeds, and outputs become columns.

A model for a fixed number of rows gets that many at a time. The last lot is filled up with copies
of its last row, whose results are dropped. Without rows, nothing is computed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import numpy as np

import subgraphkit as sk

Outputs = Sequence[str] | Mapping[str, str] | None
"""Outputs to compute, or by output the column that it becomes; None for all."""

_Columns = Mapping[str, Any]
_TEXT: Final = (str, bytes)
_KINDS: Final = "biufOU"  # of arrays that tables hold


class Rows:
    """Runs a session over tables, which are arrays by column.

    Raises:
        InputError: The session has no such input or output, or one that has no rows; or two columns
            of the result have one name (SGK340).

    Thread-safety: as the session.
    """

    def __init__(
        self,
        session: sk.Session,
        columns: Mapping[str, str] | None = None,
        outputs: Outputs = None,
        keep: Sequence[str] = (),
    ) -> None:
        needed = {one.name: one.shape for one in session.get_inputs()}
        others = {one.name: one.shape for one in session.get_overridable_initializers()}
        known, made = {**needed, **others}, [one.name for one in session.get_outputs()]
        columns = columns or {}
        self.columns = {name: columns.get(name, name) for name in (*needed, *columns)}
        named = outputs if isinstance(outputs, Mapping) else {}
        self._outputs = {one: named.get(one, one) for one in (made if outputs is None else outputs)}
        self._session, self._keep = session, tuple(keep)
        for kind, asked, there in (
            ("input", self.columns, list(known)),
            ("output", self._outputs, made),
        ):
            if unknown := [name for name in asked if name not in there]:
                _refuse(f"the model has no {kind} {unknown[0]!r}", f"It has {', '.join(there)}.")
        self._empty = [_without_rows(name, session.graph.types.get(name)) for name in self._outputs]
        self._size = _rows_at_once({name: known[name] for name in self.columns})
        result = [*self._keep, *self._outputs.values()]
        if twice := [name for name in result if result.count(name) > 1]:
            hint = "Name the columns that outputs become: outputs={'logits': 'predicted'}."
            _refuse(f"the result would have two columns {twice[0]!r}", hint)

    def __call__(self, table: _Columns) -> dict[str, Any]:
        """Return columns kept and computed; InputError (SGK340) if one is missing or uneven."""
        kept = {name: _column(table, name) for name in self._keep}
        feeds = {name: _dense(_column(table, one), one) for name, one in self.columns.items()}
        counts = {len(values) for values in feeds.values()}
        results = self._run(feeds, max(counts)) if any(counts) else self._empty
        return {**kept, **dict(zip(self._outputs.values(), results, strict=True))}

    def _run(self, feeds: _Columns, count: int) -> list[Any]:
        size, names = self._size or count, list(self._outputs)
        lots: list[list[Any]] = []
        for start in range(0, count, size):
            lot = {name: _fill_up(one[start : start + size], size) for name, one in feeds.items()}
            results = self._session.run(names, lot)
            for name, shape in zip(names, map(np.shape, results), strict=True):
                if shape[:1] != (size,):
                    found = f"output {name!r} of {size} rows has the shape {list(shape)}"
                    _refuse(f"{found}: not a row each")
            lots.append([result[: count - start] for result in results])
        if len(lots) == 1:
            return lots[0]
        return [np.concatenate(one) for one in zip(*lots, strict=True)]


def _refuse(message: str, hint: str = "") -> NoReturn:
    raise sk.errors.InputError("SGK340", message, hint=hint)


def _rows_at_once(inputs: Mapping[str, Sequence[Any]]) -> int | None:
    """Return for how many rows a model is made; None if for any number."""
    if not inputs or not all(inputs.values()):
        _refuse(f"rows are the first axis of an array; the inputs have the shapes {dict(inputs)}")
    sizes = sorted({shape[0] for shape in inputs.values() if isinstance(shape[0], int)})
    if len(sizes) > 1 or sizes == [0]:
        _refuse(f"the inputs of the model have {' and '.join(map(str, sizes))} rows")
    return sizes[0] if sizes else None


def _without_rows(name: str, kind: Any) -> Any:
    """Return no rows of an output; a size that is not known is 0."""
    shape, dtype = getattr(kind, "shape", ()), getattr(kind, "dtype", None)
    if dtype is None or shape == () or dtype.numpy.kind not in _KINDS:
        _refuse(f"output {name!r} is {kind}, which is no column", "Name the outputs to compute.")
    sizes = [size if isinstance(size, int) else 0 for size in (shape or (0,))[1:]]
    return np.empty((0, *sizes), dtype.numpy)


def _column(table: _Columns, name: str) -> Any:
    if name not in table:
        _refuse(f"there is no column {name!r}", f"There are {', '.join(map(str, table))}.")
    return table[name]


def _dense(values: Any, column: str) -> Any:
    """Return rows as one array; tables hold lists and tensors as an array of arrays."""
    values = np.asarray(values)
    if values.dtype != object or all(isinstance(one, _TEXT) for one in values.flat):
        return values
    if values.ndim == 0 or any(one is None for one in values):
        _refuse(f"column {column!r} has gaps, or something that is no number, text or array")
    rows = [_dense(one, column) for one in values]
    if len(shapes := sorted({row.shape for row in rows})) > 1:
        found = " and ".join(str(list(shape)) for shape in shapes[:2])
        text = f"rows of column {column!r} have different shapes: {found}"
        _refuse(text, "Pad them, or sort them.")
    return np.stack(rows)


def _fill_up(values: Any, size: int) -> Any:
    """Return as many rows as the model is made for; the last one stands for those that are not."""
    missing = size - len(values)
    return np.concatenate([values, np.repeat(values[-1:], missing, axis=0)]) if missing else values
