"""The search for the nodes that keep float32 so that a rewritten model is as accurate as asked for.

A search by trying. The model is rewritten as asked and compared value by value, to find the nodes
in which the error arises. These, and those ahead of them, come first. The search keeps 1, 2, 4 and
so on of them until the bound holds. Then bisection finds how few are enough. The same model,
batches and bounds make the same trials. Tuning searches the regions of a placement the same way.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from subgraphkit.backend.progress import Progress
from subgraphkit.binding import bind
from subgraphkit.errors import CallerError
from subgraphkit.ir import BoundGraph
from subgraphkit.onnx_io import Model, ModelSource
from subgraphkit.precision.accuracy import AccuracyReport, LayerAccuracy, measure_accuracy
from subgraphkit.rewriting import Precision, Ranges, Rewriting, rewrite
from subgraphkit.texts import printable

# The blame that a node inherits from one that reads it: cancelling brings out earlier errors.
_AHEAD: Final = 0.25

# The blame that a node inherits from an overflowing one that it reads: it would overflow again.
_BEHIND: Final = 0.5

# Noise above this, such as infinity, is all the same.
_WORST: Final = 1e4

# The number of kept nodes in a text for people; all are in ``kept``.
_SHOWN: Final = 10


@dataclass(frozen=True, eq=False)
class PrecisionSearch:
    """The result of a search.

    Attributes:
        precision: The precision asked for, with all that is kept in ``keep``. It makes the same
            rewriting again, also in a backend's options, and a search that begins with it ends at
            once.
        rewriting: The rewritten model with its account.
        accuracy: How far its outputs are off.
        kept: The nodes found, the worst first. Each has its entry in ``keep``, its operator, its
            name and a short reason.
        trials: How many rewritings were tried.
    """

    precision: Precision
    rewriting: Rewriting
    accuracy: AccuracyReport
    kept: Mapping[str, str]
    trials: int

    def to_text(self) -> str:
        """Return how much was kept, and of the worst ten nodes why, for people."""
        count, changed = len(self.kept), len(self.rewriting.changed)
        head = f"{count} of {count + changed} nodes stay, found in {self.trials} trials"
        lines = [f"  {text}" for text in list(self.kept.values())[:_SHOWN]]
        more = [f"  and {count - _SHOWN} more"] if count > _SHOWN else []
        return "\n".join(map(printable, [head, *lines, *more]))


def precision_search(  # noqa: PLR0913 (a bound of either kind)
    source: ModelSource | Model,
    precision: Precision,
    batches: Iterable[Mapping[str, Any]],
    *,
    max_error: float | None = None,
    min_snr: float | None = None,
    ranges: Ranges | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> PrecisionSearch:
    """Find few nodes that keep float32 so that every output is within a bound.

    Args:
        source: The model, as for ``rewrite``.
        precision: The precision asked for; nodes in its ``keep`` stay in any case.
        batches: Arrays by input name; they are gone through once per trial.
        max_error: Largest absolute error allowed.
        min_snr: Smallest ratio of signal to noise allowed, in dB.
        ranges: How large values get, as for ``rewrite``.
        progress: Told after every trial; stops the work.
        **settings: What else ``bind`` takes, and ``backend``, NumPy unless given, which runs both.

    Returns:
        The rewriting with as few nodes kept as were found, and which they are.

    Raises:
        CallerError: Neither bound is given, the batches can be read only once, or no output is
            floating point (SGK234). Or nothing is left to rewrite before the bound is met (SGK237,
            with the best that was reached).
        SubgraphkitError: Whatever rewriting or a step of the road raises.

    Source: for bisecting on precision, the debug tools of NVIDIA's Polygraphy.
    """
    if max_error is None and min_snr is None:
        raise CallerError("SGK234", "there is no bound to search for: give max_error or min_snr")
    if iter(batches) is batches:
        why = "the batches are gone through once per trial, and an iterator gives them only once"
        raise CallerError("SGK234", why, hint="Pass a list of batches.")
    settings = {"backend": "numpy", **settings}
    bound = bind(source, **settings)
    model = bound.model
    progress = bound.extensions.hearing(progress)
    tried: list[PrecisionSearch] = []
    order: Sequence[str] = ()

    def holds(count: int) -> bool:
        kept = {re.escape(value): _describe_kept(bound, layers, value) for value in order[:count]}
        asked = replace(precision, keep=tuple(dict.fromkeys([*precision.keep, *kept])))
        done = rewrite(model, asked, ranges)
        # where the error is born shows as long as nothing is kept
        report = measure_accuracy(model, done.model, batches, values=not tried, **settings)
        tried.append(PrecisionSearch(asked, done, report, kept, len(tried) + 1))
        text = f"{count} kept, error {report.max_error:.3g}, SNR {report.min_snr:.1f} dB"
        progress("searching", len(tried), message=f"trial {len(tried)}: {text}")
        progress.check()
        return report.meets(max_error, min_snr)

    layers: Sequence[LayerAccuracy] = ()
    if holds(0):
        return tried[0]
    layers = tried[0].accuracy.layers
    order = _rank_nodes(bound, layers, tried[0].rewriting.changed)
    count = fewest(len(order), holds)
    found = next((one for one in tried if len(one.kept) == count), None)
    if found is None or not found.rewriting.changed:
        raise _unreached_error(precision, tried, max_error, min_snr)
    return replace(found, trials=len(tried))


def fewest(most: int, holds: Callable[[int], bool]) -> int | None:
    """Return the fewest first ones of a ranking with which something holds; None if it never does.

    It tries 1, 2, 4 and so on, then bisects.
    """
    low, high = 0, min(1, most)
    while not (high and holds(high)):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _rank_nodes(
    bound: BoundGraph, layers: Iterable[LayerAccuracy], changed: Iterable[str]
) -> list[str]:
    """Return the nodes, by their first outputs, the most to blame for the error first.

    A node is to blame for errors that arise in it, and for a part of later ones.
    """
    producers, inputs = bound.producers, bound.table.inputs
    blame = {producers[layer.output]: min(layer.born, _WORST) for layer in layers}
    endless = {layer.output for layer in layers if math.isinf(layer.born)}
    for node in bound.order:
        if not endless.isdisjoint(inputs[node]):
            blame[node] = max(blame.get(node, 0.0), _BEHIND * _WORST)
    for node in reversed(bound.order):
        passed = _AHEAD * blame.get(node, 0.0)
        for before in (producers[name] for name in inputs[node] if name in producers):
            blame[before] = max(blame.get(before, 0.0), passed)
    scores = {value: blame.get(producers.get(value, -1), 0.0) for value in changed}
    return sorted(changed, key=lambda value: -scores[value])  # stable: in the graph's order


def _describe_kept(bound: BoundGraph, layers: Iterable[LayerAccuracy], value: str) -> str:
    """Return the node that makes a value, and its error before it was kept."""
    table, node = bound.table, bound.producers.get(value)
    if node is None:
        return value
    layer = next((one for one in layers if one.output in table.outputs[node]), None)
    text = "it feeds those at fault" if layer is None else layer.to_text()
    return f"{table.op_types[node]} {table.names[node] or value}: {text}"


def _unreached_error(
    precision: Precision,
    tried: Iterable[PrecisionSearch],
    max_error: float | None,
    min_snr: float | None,
) -> CallerError:
    wanted = [f"an error of {max_error:.4g}"] if max_error is not None else []
    wanted += [f"{min_snr:g} dB"] if min_snr is not None else []
    lossy = [one for one in tried if one.rewriting.changed]
    reached = ""
    if lossy:
        best = max(lossy, key=lambda one: (one.accuracy.min_snr, -one.accuracy.max_error))
        reached = (
            f"; the best was an error of {best.accuracy.max_error:.4g} and "
            f"{best.accuracy.min_snr:.1f} dB, with {len(best.kept)} nodes kept and "
            f"{len(best.rewriting.changed)} rewritten"
        )
    return CallerError(
        "SGK237",
        f"{precision.kind} was not brought within {' and '.join(wanted)}: no node may be "
        f"rewritten then{reached}",
        hint="Allow more error, take a precision of more digits, or calibrate with other batches.",
    )
