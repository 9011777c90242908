"""Cases of level 5 that try all that a backend claims of the tables, many operators at a time."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from subgraphkit.testing import run_checks
from subgraphkit.testing.cases import Case, Finding, Outcome
from subgraphkit.testing.combinations import PRODUCERS, combinations
from subgraphkit.testing.operator_variants import (
    FAMILIES,
    USUAL_OPSET,
    OperatorVariant,
    older_operations,
    operations,
)
from subgraphkit.testing.run_checks import Check, Opened, check_session
from subgraphkit.testing.subject import Subject
from subgraphkit.testing.sweeps import Sweep, number_of

_WIDTHS: Final = (
    *range(1, 34),
    *(63, 64, 65, 127, 128, 129, 255, 256, 257),
    *(1023, 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537),
)
"""Every length about the widths of vectors and of blocks, up to more than 16 bits."""
_LEAST_MOST: Final = {
    "arithmetic": (0, 65537),
    "curves": (0, 65537),
    "movement": (3, 4097),
    "reductions": (1, 65537),
    "products": (1, 1025),
    "windows": (6, 33),
    "normalisations": (1, 257),
    "attention": (1, 129),
    "quantised": (1, 4097),
}
"""The sizes that mean something to a family, and that take no longer than they must."""
_USUAL: Final = {"products": 17, "windows": 11}
_USUAL_SIZE: Final = 19
_LARGE: Final = {
    "arithmetic": 20011, "curves": 20011, "reductions": 9001, "quantised": 20011, "movement": 4099,
    "products": 301, "windows": 67, "normalisations": 301, "attention": 301,
}  # fmt: skip
_MOST_AT_ONCE: Final = 48
_SECONDS: Final = 10.0
"""How long a case may compute before it leaves the rest out."""
_MOST_SECONDS: Final = 40.0
"""How long it may take, if others compute for it, or beside it."""
_TIMEOUT_FACTOR: Final = 2.0
_WHOLE_FACTOR: Final = 60.0
"""How many times longer than usual a case may take: as it is, and where none is left out."""
_MOST_SQUARE: Final = 129
_BANDS: Final = ((1, 33), (34, 1022), (1023, 70000))
_THREADS: Final = 4
_RUNS_PER_THREAD: Final = 6
_SECONDS_PER_THREAD: Final = 0.5
_MOST_IN_THREADS: Final = 24


_Row = tuple[OperatorVariant, int]
_Steps = Sequence[tuple[str, Check]]


def sweep_cases(subject: Subject) -> Iterator[Case]:
    """Build the cases of each family: every use, older versions, sizes, threads; and fused ones."""
    factor = _WHOLE_FACTOR if subject.complete else _TIMEOUT_FACTOR

    def case(name: str, run: Callable[[Subject], Finding], *needs: str) -> Case:
        return Case(f"L5/{name}", run, needs=needs, timeout_factor=factor)

    for family in FAMILIES:
        yield case(f"operators/{family}", partial(_in_use, family))
        if older_operations(family):
            yield case(f"versions/{family}", partial(_versions, family))
    for kind in PRODUCERS:
        yield case(f"fused/{kind}", partial(_try_fused, kind))
    for family in FAMILIES:
        yield case(f"sizes/open/{family}", partial(_open_sizes, family), "dynamic_shapes")
        yield case(f"sizes/fixed/{family}", partial(_fixed_sizes, family))
        yield case(f"threads/large/{family}", partial(_large_threads, family), "threads")
    yield case("sizes/repeated", _try_repeated, "dynamic_shapes")


def _rows_taken(subject: Subject, rows: Sequence[_Row], **form: bool) -> list[_Row]:
    """Return those of which the backend takes a node; nothing is compiled."""
    taken: list[_Row] = []
    for of_one in _by_opset(rows):
        claimed = subject.nodes_claimed(Sweep(of_one, **form).proto)
        numbers = {number_of(name) for _, name in claimed}
        taken += [row for number, row in enumerate(of_one) if number in numbers]
    return taken


def _by_opset(rows: Sequence[_Row]) -> list[list[_Row]]:
    """Put the rows together that may be in one model, the newest operator set first."""
    opsets = sorted({variant.opset for variant, _ in rows}, reverse=True)
    return [[row for row in rows if row[0].opset == opset] for opset in opsets]


def _models_of(rows: Sequence[_Row]) -> list[list[_Row]]:
    """Divide rows into models, each with something of every part of the table."""
    parted = ((of_one, -(-len(of_one) // _MOST_AT_ONCE)) for of_one in _by_opset(rows))
    return [of_one[part::parts] for of_one, parts in parted for part in range(parts)]


def _try_rows(
    subject: Subject,
    rows: Sequence[_Row],
    what: str,
    steps: _Steps,
    *,
    most: int = 1 << 30,
    **form: bool,
) -> Finding:
    """Carry checks out, until one finds fault, on sessions with some of the rows each.

    If there is no time for all models, only the first are tried, unless you ask for all; the
    finding says so. Each model has something of every part of the table.
    """
    rows = _rows_taken(subject, rows, **form)
    if not rows:
        return Finding(Outcome.UNCLAIMED, f"it takes nothing {what}")
    models = _models_of(rows[:: -(-len(rows) // most)])
    started, worked = time.monotonic(), time.process_time()
    taken: dict[str, None] = {}
    left_out: list[str] = []
    for place, some in enumerate(models):
        spent = time.process_time() - worked, time.monotonic() - started
        if not subject.complete and (spent[0] > _SECONDS or spent[1] > _MOST_SECONDS):
            left_out = [f"{place} of {len(models)} models, as there was no time for the others"]
            break
        signs = not (form.get("is_open") and "open_zeros" in subject.declarations.lacking)
        model = Sweep(some, signs=signs, **form)
        found = check_session(subject, model, partial(_step_through, steps, left_out))
        taken |= dict.fromkeys(found.taken)
        if found.outcome not in {Outcome.RIGHT, Outcome.UNCLAIMED}:
            return replace(found, taken=tuple(taken))
    text = f"in part: {left_out[-1]}" if left_out else ""
    return Finding(Outcome.RIGHT if taken else Outcome.UNCLAIMED, text, tuple(taken))


def _step_through(steps: _Steps, excused: list[str], opened: Opened) -> Finding | None:
    """Go through checks until one finds fault; note why others find none."""
    for name, step in steps:
        found = step(opened)
        if found is not None and found.is_wrong:
            return found.about(name)
        excused += [found.detail] if found is not None else []
    return None


def _usual(family: str) -> int:
    return _USUAL.get(family, _USUAL_SIZE)


# -- fused ---------------------------------------------------------------------------------------


def _try_fused(kind: str, subject: Subject) -> Finding:
    """Fused operators compute as they do one by one."""
    rows = [(one, 1) for one in combinations(kind)]
    return _try_rows(subject, rows, f"of {kind}", [("fused", _once)])


# -- in use --------------------------------------------------------------------------------------


def _in_use(family: str, subject: Subject) -> Finding:
    """All uses of a session are tried on one that has all operators of a family."""
    rows = [(one, _usual(family)) for one in _newest(family)]
    steps = {"first run": _once, "special values": _special, **run_checks.USES}
    del steps["feeds/stride_zero"]  # which changes values
    return _try_rows(subject, rows, f"of {family}", [*steps.items()])


def _newest(family: str) -> list[OperatorVariant]:
    return [one for one in operations(family) if one.opset >= USUAL_OPSET]


def _versions(family: str, subject: Subject) -> Finding:
    """An operator of an earlier operator set is computed with its meaning there."""
    rows = [(one, _usual(family)) for one in older_operations(family)]
    steps: _Steps = [("first run", _once), ("repeated", run_checks.repeated_runs_are_right)]
    return _try_rows(subject, rows, f"of older {family}", steps)


def _once(opened: Opened) -> Finding | None:
    return opened.feed(opened.model.feeds())


def _special(opened: Opened) -> Finding | None:
    subject, claims = opened.subject, opened.session.partitioning.passes.claims
    losing = frozenset[str]().union(
        *(one.backend.traits.loses_nan for one in claims if one.backend.name == subject.name)
    )
    denormals = "denormals" not in subject.declarations.lacking
    sweep: Any = opened.model
    several = (sweep.special(seed, losing, denormals=denormals) for seed in range(2))
    return next(filter(None, map(opened.feed, several)), None)


# -- sizes ---------------------------------------------------------------------------------------


def _open_rows(family: str) -> list[_Row]:
    return [
        (one, _usual(family))
        for one in _newest(family)
        if not one.is_square and not any(a.is_stored and "N" in a.dims for a in one.arguments)
    ]


def _sizes(family: str) -> list[int]:
    least, most = _LEAST_MOST[family]
    sizes = [size for size in (0, *_WIDTHS) if least <= size <= most]
    return sizes[:12] + sizes[-3:] if family == "windows" else sizes


def _open_sizes(family: str, subject: Subject) -> Finding:
    """One session computes in every size, down and up again, the first again at the end."""
    sizes = _sizes(family)
    # the smallest and the middle; down; by leaps up and down again; and up from the smallest
    order = [*sizes[:2], sizes[len(sizes) // 2], *sizes[::-1], *sizes[-9::4], sizes[-1]]
    seeds = {size: seed for seed, size in enumerate(order)}
    order += sizes[:6]
    steps = [(f"N={size}", partial(_feed_once, seeds[size], size, None)) for size in order]
    return _try_rows(subject, _open_rows(family), f"of {family}", steps, is_open=True)


def _try_repeated(subject: Subject) -> Finding:
    """Inputs are repeated along sizes that turn out to be 1, each in its turn, or none is."""
    rows = [
        (one, _USUAL_SIZE)
        for one in _newest("arithmetic")
        if sum("N" in argument.dims for argument in one.arguments) > 1
        and not any(argument.is_stored for argument in one.arguments)
        and one.nodes[-1].op_type != "Mean"  # onnx.reference adds into an array of its first input
    ]
    steps = [(f"argument {at} of 1", partial(_feed_once, at, None, at)) for at in (0, 1, 2)]
    what = "whose inputs may be repeated"
    return _try_rows(subject, rows, what, steps, is_open=True, own_sizes=True)


def _feed_once(seed: int, size: int | None, repeated: int | None, opened: Opened) -> Finding | None:
    sweep: Any = opened.model
    return opened.feed(sweep.feeds(seed, size, repeated))


def _fixed_sizes(family: str, subject: Subject) -> Finding:
    """Operators that cannot be open are compiled for a few sizes each."""
    sizes = _sizes(family)
    is_open = set(_rows_taken(subject, _open_rows(family), is_open=True))
    rows: list[_Row] = []
    for number, one in enumerate(_newest(family)):
        if (one, _usual(family)) in is_open:
            continue
        for place, (low, high) in enumerate(_BANDS):
            most = min(high, _MOST_SQUARE) if one.is_square else high
            band = [size for size in sizes if low <= size <= most]
            if band:
                rows.append((one, band[(number * 5 + place) % len(band)]))
    if not rows:
        return Finding(Outcome.PASSED, f"all of {family} is taken with open sizes")
    return _try_rows(subject, rows, f"of {family}", [("sizes", _once)])


# -- threads -------------------------------------------------------------------------------------


def _large_threads(family: str, subject: Subject) -> Finding:
    """Threads share a session, each with large arrays of its own."""
    floats = [one for one in _newest(family) if one.element_type == "float" and not one.is_square]
    rows = [(one, _LARGE[family]) for one in floats]

    def in_threads(opened: Opened) -> Finding | None:
        entrances = [lambda: opened.session] * _THREADS
        return run_checks.in_threads(
            subject, opened.model, entrances, _RUNS_PER_THREAD, _SECONDS_PER_THREAD
        )

    steps = [("large arrays", in_threads)]
    return _try_rows(subject, rows, f"of {family}", steps, most=_MOST_IN_THREADS)
