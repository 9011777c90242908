"""The engines of one subgraph: the one that covers the shapes at hand, or a new one."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from subgraphkit.backend import BindContext, Progress
from subgraphkit.errors import CompileError, ExecutionError
from subgraphkit.ir import Subgraph
from subgraphkit_tensorrt.backend_options import Options
from subgraphkit_tensorrt.building.build import build_engine
from subgraphkit_tensorrt.building.plan import EnginePlan
from subgraphkit_tensorrt.building.profiles import InputRange, exact_ranges
from subgraphkit_tensorrt.library.flavours import Library
from subgraphkit_tensorrt.library.logger import LOGGER
from subgraphkit_tensorrt.running.arrays import fetch_to_host, is_on_device
from subgraphkit_tensorrt.running.device import Device, Loader
from subgraphkit_tensorrt.running.engine import LoadedEngine
from subgraphkit_tensorrt.running.io_tensors import IOTensor

Shapes = tuple[tuple[int, ...], ...]
_CHOSEN: Final = 256
"""Shapes of which it is remembered which engine runs them."""

Ranges = Mapping[str, InputRange]
_OTHER_RANGES: Final = frozenset({"SGK169", "SGK170", "SGK171", "SGK172"})
"""Failures of a build that a smaller range may do away with."""


@dataclass(eq=False)
class PooledEngine:
    """An engine with the plan it was loaded from.

    Attributes:
        retired: Whether it is to be closed when nobody holds it any more.
        met: Whether its range comes from shapes that were met, and may grow.
    """

    plan: EnginePlan
    engine: LoadedEngine
    met: bool = False
    users: int = 0
    retired: bool = False

    def tightest(self, inputs: Sequence[Any]) -> tuple[int, int] | None:
        """Find the range that fits arrays best; may wait for arrays on the device.

        Returns:
            Two numbers: how many elements the largest inputs of the range have together, and the
            place of the range. The fewest elements win. None if no range covers the arrays.
        """
        return min(
            (
                (sum(int(np.prod(one.max, dtype=np.int64)) for one in ranges), place)
                for place, ranges in enumerate(self.plan.profiles)
                if _covers(ranges, self.engine, inputs)
            ),
            default=None,
        )


class Engines:
    """Engines by range of shapes, those used last; TF-TRT's cache, with ranges.

    Thread-safety: may be used from any thread; one builds at a time.
    """

    def __init__(
        self, subgraph: Subgraph, library: Library, context: BindContext[Options], *, times: bool
    ) -> None:
        self.subgraph = subgraph
        self.loader = Loader.of(library, context.options)
        self.builds = 0
        self._library = library
        self._context = context
        self._options = context.options
        self._times = times
        self._entries: list[PooledEngine] = []  # the one used last is last
        self._chosen: dict[Shapes, tuple[PooledEngine, int]] = {}
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._progress = Progress()
        self._behind: threading.Thread | None = None
        self._has_failed = self._is_closed = False

    @property
    def can_build(self) -> bool:
        """Whether a shape that no engine covers gets one."""
        return bool(self._options.allow_runtime_build)

    def current(self) -> list[tuple[EnginePlan, LoadedEngine]]:
        """Return plans and engines, the one used last at the end."""
        with self._lock:
            return [(entry.plan, entry.engine) for entry in self._entries]

    def add(self, plan: EnginePlan, *, met: bool = False) -> None:
        """Load a plan, the longest unused making room; CompileError (SGK162, SGK179) if refused."""
        names, options = (plan.inputs, plan.outputs), self._options
        loaded = LoadedEngine(plan.data, *names, self.loader, options, times=self._times)
        entry = PooledEngine(plan, loaded, met)
        with self._lock:
            # An engine that grew out of another takes its place.
            inner = [one for one in self._entries if met and one.met and _within(one, entry)]
            kept = [one for one in self._entries if one not in inner]
            spare = max(len(kept) + 1 - self._options.max_engines, 0)
            self._entries = [*kept[spare:], entry]
            retired = [*inner, *kept[:spare]]
        self._retire(retired)

    def plans(self) -> list[EnginePlan]:
        """Return the plans whole, in memory of the host; CompileError (SGK162) if it cannot."""
        return [
            plan if plan.data else replace(plan, data=engine.serialize())
            for plan, engine in self.current()
        ]

    def drop_plan_bytes(self, *, are_stale: bool = False) -> None:
        """Let go of the bytes that engines were loaded from: those can write them again.

        Plans that carry a runtime or stream weights are kept: NVIDIA does not say that these are
        written as they were.
        """
        options = self._options
        is_special = options.weight_streaming or options.builder.get("VERSION_COMPATIBLE")
        if is_special and not are_stale:
            return
        with self._lock:
            for entry in self._entries:
                if entry.plan.data:
                    entry.plan = replace(entry.plan, data=b"")

    def find(self, inputs: Sequence[Any], shapes: Shapes) -> tuple[PooledEngine, int] | None:
        """Return an engine that covers arrays of these shapes, until it is released, and its range.

        None if there is none.
        """
        with self._lock:
            if (chosen := self._chosen.get(shapes)) is not None:
                self._use(chosen[0])
                return chosen
        return self._hold(inputs, shapes)

    def build(self, inputs: Sequence[Any], shapes: Shapes) -> tuple[PooledEngine, int]:
        """Build an engine that covers the shapes of arrays, unless another thread has; as ``find``.

        Raises:
            ExecutionError: There is none, and none may be built (SGK178).
            CompileError: It cannot be built or loaded.
        """
        with self._building:
            if (found := self.find(inputs, shapes)) is None:
                self.add(self._plan_for(self._ranges_for(inputs), _shapes_text(inputs)), met=True)
                self.drop_plan_bytes()
                found = self.find(inputs, shapes)
            if found is None:
                raise self._uncovered_error(inputs)
            return found

    def build_behind(self, inputs: Sequence[Any]) -> bool:
        """Begin to build a wider engine in a thread; say whether one is being built.

        The run waits for the first engine of all. It also waits for the next one after a failed
        build, so that the user gets the error.
        """
        with self._lock:
            if not self._entries or not self.can_build or self._has_failed or self._is_closed:
                return False
            if self._behind is not None and self._behind.is_alive():
                return True
        given = self._ranges_for(inputs), _shapes_text(inputs)
        with self._lock:
            self._progress = Progress()
            self._behind = threading.Thread(target=self._widen, args=given, daemon=True)
            self._behind.start()
        return True

    def _widen(self, ranges: Sequence[Ranges], text: str) -> None:
        try:
            with self._building:
                self.add(self._plan_for(ranges, text), met=True)
                self.drop_plan_bytes()
        except BaseException as error:  # noqa: BLE001 (nobody waits for this thread)
            if not self._is_closed:
                self._has_failed = True
                LOGGER.warning("no engine of %s for %s: %s", self.subgraph.id, text, str(error))
        if self._is_closed:
            self.close()

    def release(self, entry: PooledEngine) -> None:
        """Take back what ``find`` or ``build`` returned."""
        with self._lock:
            entry.users -= 1
            closes = entry.retired and not entry.users
        if closes:
            entry.engine.close()

    def _use(self, entry: PooledEngine) -> None:
        entry.users += 1
        if self._entries[-1] is not entry:
            self._entries.remove(entry)
            self._entries.append(entry)

    def close(self) -> None:
        """Close all; those in use when they are no longer. What is being built is stopped."""
        self._progress.cancel()
        with self._lock:
            self._is_closed = True
            entries, self._entries = self._entries, []
        self._retire(entries)

    def _retire(self, entries: Sequence[PooledEngine]) -> None:
        with self._lock:
            self._chosen.clear()
            for entry in entries:
                entry.retired = True
            idle = [entry for entry in entries if not entry.users]
        for entry in idle:
            entry.engine.close()

    def _hold(self, inputs: Sequence[Any], shapes: Shapes) -> tuple[PooledEngine, int] | None:
        while True:
            with self._lock:
                entries = list(self._entries)
            found = [(entry, entry.tightest(inputs)) for entry in entries]
            fits = [(best, entry) for entry, best in found if best is not None]
            if not fits:
                return None
            (_, profile), entry = min(fits, key=lambda one: one[0][0])
            with self._lock:
                if entry in self._entries:  # otherwise it was let go of meanwhile
                    self._use(entry)
                    if all(one.engine.leaves_host_alone for one in self._entries):
                        self._chosen[shapes] = entry, profile
                        while len(self._chosen) > _CHOSEN:
                            del self._chosen[next(iter(self._chosen))]
                    return entry, profile

    def _plan_for(self, ranges: Sequence[Ranges], text: str) -> EnginePlan:
        """Build for the first of some ranges that the builder takes."""
        LOGGER.info("building an engine of %s for %s", self.subgraph.id, text)
        device = self.loader.device
        with device.active():  # the builder times kernels in what is free, and skips others
            device.memory.trim()
        *wider, least = ranges
        for one in wider:
            try:
                return self._build_for(one)
            except CompileError as error:
                if error.code not in _OTHER_RANGES:
                    raise
        return self._build_for(least)

    def _build_for(self, ranges: Ranges) -> EnginePlan:
        context = replace(self._context, progress=self._progress)
        plan = build_engine(self.subgraph, context, self._library, [ranges])
        self.builds += 1
        return plan

    def _ranges_for(self, inputs: Sequence[Any]) -> list[dict[str, InputRange]]:
        """Return the ranges to try: these shapes, and those met before if they may grow.

        Sizes grow to powers of two. Where the model does not take those, they grow no further than
        needed.
        """
        if not self.can_build:
            raise self._uncovered_error(inputs)
        host = [
            fetch_to_host(one, name, self.loader.device)
            if is_on_device(one) and len(one.shape) <= 1
            else one
            for name, one in zip(self.subgraph.inputs, inputs, strict=True)
        ]
        ranges = exact_ranges(self.subgraph, host)
        with self._lock:
            met = next((entry for entry in reversed(self._entries) if entry.met), None)
        if met is None or self._options.dynamic == "exact":
            return [ranges]
        (grown,) = met.plan.profiles  # what is built for shapes that were met has one range
        former = dict(zip(self.subgraph.inputs, grown, strict=True))
        found: list[dict[str, InputRange]] = []
        for rounds in (True, False):
            wider = {
                name: former[name].cover(one, rounds=rounds)
                if len(former[name].min) == len(one.min)
                else one
                for name, one in ranges.items()
            }
            if wider not in found:
                found.append(wider)
        return found

    def _uncovered_error(self, inputs: Sequence[Any]) -> ExecutionError:
        with self._lock:
            ranges = [
                "; ".join(map(_write_range, ranges))
                for entry in self._entries
                for ranges in entry.plan.profiles
            ]
        return ExecutionError(
            "SGK178",
            f"no engine of subgraph {self.subgraph.id!r} takes inputs of shapes "
            f"{_shapes_text(inputs)}; there are engines for {' and for '.join(ranges) or 'none'}",
            backend="tensorrt",
            subgraph=self.subgraph.id,
            hint="Give the range when the session is made, dims={'batch': (1, 8, 32)} say, or set "
            "allow_runtime_build=true.",
        )


def _covers(ranges: Sequence[InputRange], engine: LoadedEngine, inputs: Sequence[Any]) -> bool:
    places = zip(ranges, engine.inputs, inputs, strict=True)
    # The elements of an input count only if shapes are computed from them, on the host.
    return all(
        one.covers(value.shape)
        and (
            tensor is None
            or not tensor.on_host
            or _covers_values(one, tensor, value, engine.device)
        )
        for one, tensor, value in places
    )


def _covers_values(one: InputRange, tensor: IOTensor, value: Any, device: Device) -> bool:
    host = fetch_to_host(value, tensor.name, device) if is_on_device(value) else np.asarray(value)
    return one.covers_values([int(element) for element in host.reshape(-1)])


def _within(inner: PooledEngine, outer: PooledEngine) -> bool:
    return all(
        outer.plan.covers([one.min for one in ranges])
        and outer.plan.covers([one.max for one in ranges])
        for ranges in inner.plan.profiles
    )


def _shapes_text(inputs: Sequence[Any]) -> str:
    return ", ".join(str(tuple(value.shape)) for value in inputs) or "none"


def _write_range(one: InputRange) -> str:
    return str(one.min) if one.min == one.max else f"{one.min} to {one.max}"
