"""Arranging loops by rule: what code is worth without having been tuned.

Left as they are, the loops of TVM's operators walk a reduction innermost and one by one. The rules
here run them over threads, put a vector of outputs innermost, and keep a tile of outputs in
registers while the reduction passes. That is about ten times as fast for convolutions, and still
many times slower than hand-written kernels.

Steps that compute element by element stay loops of their own. If they were written into one
another, expressions that use a value more than once would grow exponentially along a chain.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, Final

from subgraphkit_tvm.library import tvm

_LANES: Final = 16
"""Elements per vector where nothing is reduced; a register of AVX-512 in float32."""

_MOST_LANES: Final = 32
_LEAST_LANES: Final = 4
_ROWS: Final = 8
"""Most rows of a tile of outputs that is kept in registers."""

_WORTH_THREADS: Final = 1 << 15
"""Steps of a loop nest below which starting threads costs more than it saves."""

_MARK: Final = "tirx.is_scheduled"


@dataclass(frozen=True, slots=True)
class _Axis:
    """One loop around a block: the loop, its length, its variable, whether outputs differ by it."""

    loop: Any
    length: int
    variable: Any
    is_spatial: bool


def arrange_loops(module: Any) -> Any:
    """Arrange the loops of every function of a module that nobody has arranged yet."""
    function_type = tvm("tirx").PrimFunc
    changed = {}
    for name, function in module.functions_items():
        if isinstance(function, function_type) and _MARK not in (function.attrs or {}):
            changed[name] = _arrange_blocks(function)
    for name, function in changed.items():
        module[name] = function
    return module


def _arrange_blocks(function: Any) -> Any:
    """Arrange one function; whatever a rule cannot be applied to stays as it is, right but slow."""
    try:
        schedule = tvm("s_tir").Schedule(function)
        blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
        names = [schedule.get(block).name_hint for block in blocks]
    except Exception:  # noqa: BLE001 (not written in blocks; TVM has no narrower class)
        return function
    for name in names:
        trial = schedule.copy()
        try:
            _arrange(trial, trial.get_sblock(name))
        except Exception:  # noqa: BLE001, S112 (a rule that does not apply)
            continue
        schedule = trial
    return schedule.mod["main"].with_attr(_MARK, 1)


def _axes(schedule: Any, block: Any) -> list[_Axis]:
    """Return the loops around a block, if each stands for one of its axes; else nothing."""
    tirx = tvm("tirx")
    loops, variables = schedule.get_loops(block), schedule.get(block).iter_vars
    extents = [schedule.get(loop).extent for loop in loops]
    kinds = {tirx.IterVar.DataPar: True, tirx.IterVar.CommReduce: False}
    if len(loops) != len(variables) or not all(isinstance(one, tirx.IntImm) for one in extents):
        return []
    if not all(variable.iter_type in kinds for variable in variables):
        return []
    return [
        _Axis(loop, int(extent), variable.var, kinds[variable.iter_type])
        for loop, extent, variable in zip(loops, extents, variables, strict=True)
    ]


def _arrange(schedule: Any, block: Any) -> None:
    axes = _axes(schedule, block)
    spatial = [axis for axis in axes if axis.is_spatial]
    if not spatial:
        return
    threads = prod(axis.length for axis in axes) >= _WORTH_THREADS
    if len(spatial) == len(axes):
        _arrange_elementwise(schedule, spatial, threads=threads)
    elif spatial[-1].length >= _LEAST_LANES and len(schedule.get(block).writes) == 1:
        _arrange_reduction(schedule, block, axes, threads=threads)
    elif threads:
        _run_on_threads(schedule, axes)


def _arrange_elementwise(schedule: Any, axes: list[_Axis], *, threads: bool) -> None:
    outer = [axis.loop for axis in axes[:-1]]
    last = axes[-1]
    vector = last.loop
    if last.length > _LANES:
        rest, vector = schedule.split(last.loop, [None, _LANES])
        outer = outer or [rest]
    schedule.vectorize(vector)
    if threads and outer:
        schedule.parallel(schedule.fuse(*outer))


def _arrange_reduction(schedule: Any, block: Any, axes: list[_Axis], *, threads: bool) -> None:
    """Keep a tile of outputs, rows by lanes, in registers while the reduction passes over it."""
    spatial = [axis for axis in axes if axis.is_spatial]
    reduced = [axis.loop for axis in axes if not axis.is_spatial]
    outer = [axis.loop for axis in spatial[:-1]]
    lanes = _lanes(spatial[-1].length)
    rest, vector = schedule.split(spatial[-1].loop, [None, lanes])
    place, count = _tiled_axis(schedule.get(block), spatial[:-1])
    rows = []
    if count > 1:
        outer[place], row = schedule.split(outer[place], [None, count])
        rows.append(row)
    schedule.reorder(*outer, rest, *reduced, *rows, vector)
    stored = schedule.cache_write(block, 0, "global")
    tile = schedule.fuse(*outer, rest)
    schedule.reverse_compute_at(stored, tile)
    if threads:
        schedule.parallel(tile)
    schedule.vectorize(vector)
    for row in rows:
        schedule.unroll(row)
    start = schedule.get_loops(schedule.decompose_reduction(block, reduced[0]))
    if rows:
        schedule.unroll(start[-2])
    written = schedule.get_loops(stored)[-1]
    if int(schedule.get(written).extent) == lanes:
        schedule.vectorize(written)


def _run_on_threads(schedule: Any, axes: list[_Axis]) -> None:
    leading = [axes[0]] if axes[0].is_spatial else []
    for before, axis in pairwise(axes):
        if leading and leading[-1] is before and axis.is_spatial:
            leading.append(axis)
    if leading:
        schedule.parallel(schedule.fuse(*(axis.loop for axis in leading)))


def _lanes(length: int) -> int:
    """Choose a divisor, so that no vector is cut short; for lengths without one, cut."""
    divisor = max(lanes for lanes in range(1, _MOST_LANES + 1) if length % lanes == 0)
    return divisor if divisor >= _LEAST_LANES else min(_LANES, length)


def _tiled_axis(block: Any, axes: list[_Axis]) -> tuple[int, int]:
    """Choose the axis whose neighbouring outputs share most of what they read, and how many."""
    best = (0, 0)
    for place, axis in enumerate(axes):
        if axis.length < 2 or all(_depends(read, axis.variable) for read in block.reads):  # noqa: PLR2004 (nothing to divide)
            continue
        divisor = max(rows for rows in range(1, _ROWS + 1) if axis.length % rows == 0)
        rows = _ROWS if divisor == 1 and axis.length > _ROWS else divisor
        best = max(best, (rows, -place))
    return -best[1], best[0]


def _depends(read: Any, variable: Any) -> bool:
    undefined = tvm("tirx").analysis.undefined_vars
    return any(found.same_as(variable) for part in read.region for found in undefined(part.min, []))
