"""Checks of the results of engines against those of the fallback backend."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from subgraphkit.backend import ModelOpener, OpenedModel
from subgraphkit.errors import BackendUnavailableError, OptionError
from subgraphkit_tensorrt.library import cudart
from subgraphkit_tensorrt.library.cudart import Cuda
from subgraphkit_tensorrt.library.flavours import Installation, Library, find, wanted_flavour
from subgraphkit_tensorrt.library.gpus import FP8_FROM, Gpu
from subgraphkit_tensorrt.rules.operators import operator_table
from subgraphkit_tensorrt.selftest import models


class NotAsExpected(Exception):  # noqa: N818 (its text is the finding)
    """Something came out differently."""


class NotAvailable(Exception):  # noqa: N818 (not a failure)
    """What was to be tried cannot be, for want of something."""


def require(holds: bool, text: str) -> None:  # noqa: FBT001 (reads as an assertion)
    """Make sure of something; NotAsExpected if it does not hold."""
    if not holds:
        raise NotAsExpected(text)


def installation() -> Installation:
    """Return what is installed, and the GPUs."""
    return find(wanted_flavour())


def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs; NotAvailable if there is none, or no driver."""
    here = installation().machine
    if not here.devices:
        raise NotAvailable(f"{here.problem}; {here.hint}")
    return here.devices


def cuda_library() -> Cuda:
    """Return CUDA's runtime library; NotAvailable without it or a GPU."""
    gpus()
    try:
        return cudart.cuda_runtime()
    except BackendUnavailableError as error:
        raise NotAvailable(f"{error.message}; {error.hint}") from error


def tensorrt() -> Library:
    """Return the library in use, which runs engines; NotAvailable if there is none."""
    cuda_library()
    found = installation()
    if found.library is None or found.state != "ready":
        raise NotAvailable(f"{found.problem}; {found.hint}")
    return found.library


EXACT: Final = 1e-4
"""Largest error against the largest value, without TF32; below, in fewer bits."""
HALF: Final = 1e-2
BRAIN: Final = 4e-2
RANGES: Final[dict[str, Any]] = {"dims": {"n": (1, 4, 8)}}
_MOST: Final = 256
_MOST_KEPT: Final = 64 << 20


@contextmanager
def open_model(bench: ModelOpener, model: Any, **options: Any) -> Iterator[OpenedModel]:
    """Open a model without TF32, for the length of a check.

    Raises:
        NotAvailable: There is no library or no device. Or the library cannot honour the options, or
            lacks an operator.
        NotAsExpected: A node of the model does not run on TensorRT.
    """
    library = tensorrt()
    table = operator_table(library.capabilities.generation, library.flavour.name)
    lacking = table.missing.intersection(node.op_type for node in model.graph.node)
    if lacking:
        raise NotAvailable(f"{library.flavour.title} has no {', '.join(sorted(lacking))}")
    given = {"tf32": False, "min_subgraph_nodes": 1, **options}
    try:
        found = bench.open(model, **given)
    except OptionError as error:
        raise NotAvailable(error.message) from error
    try:
        left = found.elsewhere()
        require(bool(found.operators()), "no node of the model came to TensorRT")
        require(not left, f"{', '.join(left)} did not come to TensorRT")
        yield found
    finally:
        found.close()


def same(
    bench: ModelOpener, model: Any, found: OpenedModel, feeds: dict[str, Any], most: float = EXACT
) -> float:
    """Run a model on both; NotAsExpected if more than ``most`` apart, or other in shape or type."""
    worst = 0.0
    for actual, expected in zip(found.run(feeds), bench.expected(model, feeds), strict=True):
        require(actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}")
        require(actual.dtype == expected.dtype, f"{actual.dtype}, expected {expected.dtype}")
        if not expected.size:
            continue
        wide, right = actual.astype(np.float64), expected.astype(np.float64)
        scale = max(float(np.abs(right).max()), 1e-30)
        worst = max(worst, float(np.abs(wide - right).max()) / scale)
    require(worst <= most, f"the error is {worst:.1e}, expected {most:.0e} at most")
    return worst


def draw(*shape: int) -> Any:
    """Return numbers of float32 that follow from the shape."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def agreement(
    text: models.Text,
    *shapes: tuple[int, ...],
    most: float = EXACT,
    products: str = "",
    **options: Any,
) -> Callable[[ModelOpener], str]:
    """Return what runs a model on both backends, and says how far results are apart.

    ``shapes``: Those of its input ``x``, in turn.
    ``products``: The element type that its products have to multiply, if it is not to be float32.

    Raises:
        NotAsExpected: It is above ``most``, or no product is of that type, or as ``open_model``.
    """

    def check(bench: ModelOpener) -> str:
        model = models.model(text)
        with open_model(bench, model, **options) as found:
            errors = [same(bench, model, found, {"x": draw(*shape)}, most) for shape in shapes]
            if products:
                require_products(found, products)
        return f"the error is {max(errors):.1e}"

    return check


def require_products(found: OpenedModel, products: str) -> None:
    """Require engines that multiply numbers of a type; else NotAsExpected."""
    reports = [one["report"] for each in found.operators() for one in each["engines"]]
    kinds = {kind for one in reports for kind in one["products"]}
    require(products in kinds, f"products are of {kinds}, none of {products}")


def require_float8() -> None:
    """Require a GPU that computes in float8, as since Ada and Hopper; else NotAvailable."""
    if all(gpu.compute_capability < FP8_FROM for gpu in gpus()):
        raise NotAvailable("no GPU here computes in float8; those of 8.9, 9.0 and newer do")


def every_length(bench: ModelOpener) -> str:
    """Batches of every size, in memory that does not add up."""
    model = models.model(models.PERCEPTRON)
    with open_model(bench, model, dims={"n": (1, _MOST // 4, _MOST)}) as found:
        for n in range(1, _MOST + 1):
            found.run({"x": draw(n, 16)})
        errors = [same(bench, model, found, {"x": draw(n, 16)}) for n in (1, _MOST)]
        memory = found.operators()[0]["memory"]
    kept, most = memory["device_bytes_kept"], _MOST_KEPT
    require(kept <= most, f"{kept:,} bytes are kept, expected {most:,} at most")
    return f"{_MOST} batch sizes, {kept:,} bytes are kept, the error is {max(errors):.1e}"
