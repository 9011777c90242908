"""One small model down the whole road on a backend: does it compile, run, and compute rightly?

A backend takes the nodes it likes, so a few common ones are offered, and at last a chain for those
that take no node alone. What they are to compute is computed here by NumPy, so that no other
backend is needed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from subgraphkit.backend.tolerances import tolerance_for
from subgraphkit.binding import bind
from subgraphkit.comparing.differences import compare_values
from subgraphkit.comparing.messages import wrong
from subgraphkit.compiling import compile_subgraphs
from subgraphkit.configuration.config import resolve
from subgraphkit.configuration.selection import NONE
from subgraphkit.errors import SubgraphkitError, UnclaimedNodesError
from subgraphkit.finding.child_probe import end_of_traceback
from subgraphkit.finding.opening import open_fallback
from subgraphkit.onnx_io import Model, load
from subgraphkit.partitioning import partition
from subgraphkit.planning import plan
from subgraphkit.running import Session

__all__ = ["OFFERED", "Trial", "try_backend"]

_Floats = npt.NDArray[np.float32]

_HEADER: Final = '<ir_version: 8, opset_import: ["" : 17]>'
_WEIGHTS: Final = "<float[3, 3] w = {1, 2, 3, 0, -1, 1, 2, 0, -2}>"
_W: Final = np.array([[1, 2, 3], [0, -1, 1], [2, 0, -2]], np.float32)

# Reduced precision is a choice of the user's; what is looked for here are results that are wrong.
_RELATIVE: Final = 0.05
_ABSOLUTE: Final = 0.05


@dataclass(frozen=True, slots=True)
class _Offer:
    """A model with one float32 input ``x`` of shape [2, 3] and one output ``y``."""

    text: str
    compute: Callable[[_Floats], _Floats]

    def model(self) -> Model:
        text = f"{_HEADER} trial (float[2, 3] x) => (float[2, 3] y) {self.text}"
        return load(text.encode())


OFFERED: Final = {
    "Relu": _Offer("{ y = Relu(x) }", lambda x: np.maximum(x, 0)),
    "Add": _Offer("{ y = Add(x, x) }", lambda x: x + x),
    "Mul": _Offer("{ y = Mul(x, x) }", lambda x: x * x),
    "MatMul": _Offer(f"{_WEIGHTS} {{ y = MatMul(x, w) }}", lambda x: x @ _W),
    "Softmax": _Offer("{ y = Softmax(x) }", lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "MatMul-Add-Relu": _Offer(
        f"{_WEIGHTS} {{ a = MatMul(x, w)  b = Add(a, x)  y = Relu(b) }}",
        lambda x: np.maximum(x @ _W + x, 0),
    ),
    "Add-Relu-Mul": _Offer(
        "{ a = Add(x, x)  b = Relu(a)  y = Mul(b, x) }", lambda x: np.maximum(x + x, 0) * x
    ),
}
"""What a backend is offered, in this order, by the operators."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a backend on the first of ``OFFERED`` that it took.

    Attributes:
        state: ``ok``; ``idle`` if it took nothing; ``wrong`` if results are not those of NumPy;
            ``error`` if it failed to claim, to compile or to run.
        operators: What it took, a key of ``OFFERED``; empty if ``idle``.
        code: Code of the error, or an empty string.
        text: What happened, as a user would be told; empty if ``ok``.
        trace: The end of the traceback of the backend's own exception, if it raised one.
    """

    state: Literal["ok", "idle", "wrong", "error"]
    operators: str = ""
    code: str = ""
    text: str = ""
    trace: str = ""


def try_backend(
    backend: Any, starting: Callable[[str], None] = lambda _: None, *, runs: bool = True
) -> Trial:
    """Compile and run the first of a few small models that a backend takes, and compare.

    Options are those that are configured for the backend.

    Args:
        backend: One backend, as in a selection.
        starting: Called with the operators before each model, for those who wait outside.
        runs: Whether it can run here; else it compiles, and that is all.

    Returns:
        What became of it; this function does not raise because of a plugin.
    """
    for operators, offer in OFFERED.items():
        starting(operators)
        try:
            trial = _tried(backend, operators, offer, runs=runs)
        except UnclaimedNodesError:  # there is no fallback either
            continue
        except SubgraphkitError as error:
            trace = end_of_traceback(error.__cause__) if error.__cause__ is not None else ""
            return Trial("error", operators, error.code, str(error), trace)
        except Exception as error:  # noqa: BLE001 (errors of plugins that are raised as they are)
            text = f"{type(error).__name__}: {error}"
            return Trial("error", operators, text=text, trace=end_of_traceback(error))
        if trial is not None:
            return trial
    return Trial("idle", text=f"takes none of {', '.join(OFFERED)} in float32")


def _tried(backend: Any, operators: str, offer: _Offer, *, runs: bool) -> Trial | None:
    """Return what became of one model; None if the backend takes nothing of it."""
    bound = bind(
        offer.model(),
        backend=backend,
        on_run_error="raise",
        on_compile_error="raise",
        strict=False,
        on_fallback="ok",
        require={},
        cache=False,  # an engine of another day would hide that it no longer compiles
        fallback=_healthy_fallback(),
    )
    name = bound.settings.backends[0].name
    partitioning = partition(bound)
    if not _takes_part(name, partitioning.subgraphs):
        return None
    x = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)
    planned = plan(partitioning, compile_subgraphs(partitioning))
    with Session(planned) as session:
        if not _takes_part(name, session.partitioning.subgraphs):
            return None  # it gave back what it had claimed
        if not runs:
            return Trial("ok", operators)
        (y,) = session.run(None, {"x": x})
    (found,) = compare_values(
        "y", y, offer.compute(x), lambda dtype: tolerance_for(dtype, _RELATIVE, _ABSOLUTE)
    )
    if found.agrees:
        return Trial("ok", operators)
    error = wrong(name, operators, found.problem or f"{found.got}, expected {found.expected}")
    return Trial("wrong", operators, error.code, str(error))


def _healthy_fallback() -> str:
    """Return the fallback, or none if it is what is ill."""
    resolved = resolve()
    try:
        open_fallback(resolved)
    except SubgraphkitError:
        return NONE
    name: str = resolved.fallback
    return name


def _takes_part(name: str, subgraphs: Any) -> bool:
    return any(subgraph.backend == name for subgraph in subgraphs)
