"""Values that a model hands to itself from step to step, such as a decoder's keys and values."""

import copy
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np

from subgraphkit.errors import InputError
from subgraphkit.running.devices import HOST, left_for, to_host
from subgraphkit.running.feeds import places_of
from subgraphkit.running.in_place import find_outputs_in_place
from subgraphkit.running.session import Session
from subgraphkit.running.stopping import RunOptions
from subgraphkit.types import TensorType

_KV: Final[Mapping[str, str]] = {"past_key_values.*": "present.*"}


class State:
    """Runs a model step by step, and feeds results such as caches to the next step.

    A value that keeps its size has one buffer, which operators that can write in place. One that
    grows is never copied: the next step reads it where the backend made it.

    Args:
        session: The session. It may have any number of states.
        pairs: Outputs, each by the input that the next step reads it as. ``*`` stands for any text,
            the same on both sides. By default the caches as transformers and optimum call them.
        once: A pattern of inputs that only the first step fills: ``*.encoder.*`` for the keys of
            the encoder in a merged decoder.

    Raises:
        InputError: The model has no such input (SGK142) or output (SGK143), or an output is of
            another type than its input (SGK141).

    Thread-safety: none; use one state per thread.
    """

    def __init__(self, session: Session, pairs: Mapping[str, str] = _KV, *, once: str = "") -> None:
        self._session = session
        self._places = {name: place for place, name in enumerate(session.graph.outputs)}
        self._pairs: dict[str, int] = {}  # the places of outputs, by input
        for pattern, made in pairs.items():
            self._pair(pattern, made)
        handed_on = self._pairs.values()
        self._others = [name for name, place in self._places.items() if place not in handed_on]
        self._once = {name for name in self._pairs if fnmatchcase(name, once)}
        self.reset()

    def _pair(self, pattern: str, made: str) -> None:
        graph, wanted = self._session.graph, "(.*)".join(map(re.escape, pattern.split("*")))
        matches = [found for name in graph.inputs if (found := re.fullmatch(wanted, name))]
        if not matches:
            problem = f"the model has no input {pattern!r}"
            raise InputError("SGK142", problem, hint="Its inputs: " + ", ".join(graph.inputs))
        for match in matches:
            name, output = match[0], made.replace("*", "".join(match.groups()))
            (self._pairs[name],) = places_of([output], self._places)
            read, given = graph.types[name].onnx_name, graph.types[output].onnx_name
            if read != given:
                raise InputError("SGK141", f"output {output!r} is {given}; {name!r} takes {read}")

    @property
    def values(self) -> Mapping[str, Any]:
        """The values that the next step reads, by input; that step may write to them."""
        return dict(self._values)

    def reset(self, values: Mapping[str, Any] | None = None) -> None:
        """Begin anew.

        Args:
            values: The values that the first step reads, by input; the others are zeros. A named
                axis then has the length in the first step's feeds, and is empty if they do not have
                it.
        """
        self._values: dict[str, Any] = dict(values or {})
        self._fed: frozenset[str] | None = None
        self._written: list[str] = []
        self._has_run = False

    def fork(self) -> "State":
        """Return a second state that goes on from here by itself."""
        other = copy.copy(self)
        copied = {name: self._values[name].copy() for name in self._written}
        other._values, other._fed = self._values | copied, None  # noqa: SLF001 (it is one)
        return other

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Run a step. If it fails, the state stays, except for values with one buffer.

        Args:
            output_names: As for ``Session.run``; None for all that are not handed on.
            input_feed: The other inputs.
            run_options: As for ``Session.run``.

        Raises:
            SubgraphkitError: As ``Session.run``; or an input of the state is fed (SGK142).
        """
        wanted = places_of(output_names or self._others, self._places)
        for name in self._pairs.keys() & input_feed.keys():
            raise InputError("SGK142", f"input {name!r} is fed by the state", hint="See reset().")
        if frozenset(input_feed) != self._fed:  # at first, and where one with a default is left out
            self._bind(input_feed)
        for name, array in input_feed.items():
            self._binding.bind_cpu_input(name, array)
        self._session.run_with_iobinding(self._binding, run_options)
        results = self._binding.get_outputs()
        for name, place in self._pairs.items():
            if not self._has_run or name not in self._once:
                self._values[name] = results[place]
                self._binding.bind_cpu_input(name, results[place])
        self._has_run = True
        found = ((place, to_host(results[place])) for place in wanted)
        return [np.array(one) if place in self._pairs.values() else one for place, one in found]

    def _bind(self, feeds: Mapping[str, Any]) -> None:
        session, graph = self._session, self._session.graph
        self._binding, self._fed, self._written = session.io_binding(), frozenset(feeds), []
        in_place = find_outputs_in_place(session.plan)
        for output in graph.outputs:
            self._binding.bind_output(output)
        sizes = {
            dim: size
            for name, value in feeds.items()
            for dim, size in zip(graph.shape(name) or (), np.shape(value), strict=False)
        }
        for name, place in self._pairs.items():
            output, shape, type_ = graph.outputs[place], graph.shape(name), graph.types[name]
            known = [dim if isinstance(dim, int) else sizes.get(dim) for dim in shape or ()]
            dtype = type_.dtype.numpy if isinstance(type_, TensorType) else None
            stays = shape == graph.shape(output) or in_place.get(output) == name
            zeros = np.zeros([size or 0 for size in known], dtype)
            value = self._values.setdefault(name, zeros)
            device = left_for(session.plan, output, name)
            if device != HOST:
                kind, _, number = device.partition(":")
                self._binding.bind_output(output, kind, int(number or 0))
            elif None not in known and name not in self._once and stays:
                value = self._values[name] = np.array(value)  # not a caller's, nor a fork's
                self._binding.bind_output(output, value)
                self._written.append(name)
            self._binding.bind_cpu_input(name, value)
