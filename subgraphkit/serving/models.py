"""Models of a server by name, opened from specs, and exchanged while they are asked."""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import subgraphkit as sk
from subgraphkit.serving.live_model import LiveModel, refuse

_LATEST: Final = "1"
"""The version that is served, for clients of servers with numbers."""
_RECENT_SECONDS: Final = 10.0
MOST_BYTES: Final = 64 << 20
"""Of the body of a request, unless a server says otherwise."""
MOST_JSON_BYTES: Final = 2 << 20
"""Of the JSON in it: its reader is not interrupted, and takes more memory than the JSON."""


def with_threads(spec: sk.SessionSpec, processors: float) -> sk.SessionSpec:
    """Return a spec with as many threads as its process has processors, unless it says how many."""
    return replace(spec, settings={"threads": max(1, int(processors)), **spec.settings})


class Models:
    """Models by name, each with a session of its own.

    Attributes:
        metrics: A ``serving.metrics.Metrics``, if requests are to be counted.
        folder: Where models are that may be loaded by name; None for nowhere.
        processors: How many a session may use, unless its spec says.

    Thread-safety: used by one event loop, which no run and no opening holds up.
    """

    def __init__(self) -> None:
        self._served: dict[str, LiveModel] = {}
        self._turn = asyncio.Lock()
        self.is_draining = False
        self.metrics: Any = None
        self.folder: Path | None = None
        self.processors = 1.0
        self._how: tuple[Any, float | None] = ({}, None)
        self.max_body_bytes, self.max_json_bytes = MOST_BYTES, MOST_JSON_BYTES

    async def drain(self) -> None:
        """Take no request more, and return when those that have begun are answered."""
        self.is_draining = True
        for model in self._served.values():
            await model.idle.wait()

    async def exchange(
        self, specs: Mapping[str, str], batching: Any = None, timeout_s: float | None = None
    ) -> None:
        """Serve these models from now on.

        New models are opened first, then all are exchanged at once. Removed ones are closed when
        their requests are over. Equal specs keep their models, and exchanges take turns.

        ``timeout_s``: Seconds that a request may take; None for as long as it takes. If a model
        cannot be opened, all is as before.
        """
        async with self._turn:
            self._how = (batching or {}, timeout_s)
            await self._exchange(specs)

    async def change(self, name: str, spec: str | None) -> None:
        """Serve one model more, or another by that name, or none; as ``exchange``."""
        async with self._turn:
            specs = {one: model.words[0] for one, model in self._served.items() if one != name}
            await self._exchange(specs if spec is None else {**specs, name: spec})

    async def _exchange(self, specs: Mapping[str, str]) -> None:
        batching, timeout_s = self._how
        before, after, name = self._served, dict[str, LiveModel](), ""
        try:
            for name, spec in specs.items():
                one, words = before.get(name), (spec, dict(batching))
                if one is None or one.words != words:
                    one = await asyncio.to_thread(LiveModel, *words)
                after[name] = one
        except BaseException as error:
            error.add_note(f"This was model {name!r}.")
            await _close(after, before)
            raise
        for one in after.values():
            one.timeout_s = timeout_s
        self._served = after
        await _close(before, after)

    def items(self) -> list[tuple[str, LiveModel]]:
        """Return the models that are served, with their names."""
        return list(self._served.items())

    async def ping(self, name: str = "") -> None:
        """Make sure that every model answers, or one of them.

        A model that just answered a request does, and so does one that nobody can make inputs for.
        """
        asked = [self.find(name)] if name else list(self._served.values())
        with ExitStack() as uses:  # of all at once, lest an exchange closes the last of them
            for model in asked:
                uses.enter_context(model.in_use())
            for model in asked:
                try:
                    await asyncio.to_thread(model.session.ping, recent_s=_RECENT_SECONDS)
                except sk.errors.CallerError as error:
                    if error.code != "SGK197":
                        raise

    def working(self, name: str, version: str = "") -> LiveModel:
        """Return a model for an inference, unless the server is ending (503); see ``find``."""
        self.refuse_if_ending()
        return self.find(name, version)

    def refuse_if_ending(self) -> None:
        """Refuse work when no more is taken (SGK341, with status 503)."""
        if self.is_draining:
            refuse(503, "the server is ending", "Ask another, or this one in a second.")

    def find(self, name: str = "", version: str = "") -> LiveModel:
        """Return a model, the only one if not named; InputError (SGK341) if it is not here."""
        names = list(self._served)
        model = self._served.get(name or names[0] if len(names) == 1 else name)
        if model is None:
            refuse(404, f"there is no model {name!r}", f"There are: {', '.join(names) or 'none'}.")
        if version not in {"", _LATEST, model.version}:
            refuse(404, f"model {name!r} has no version {version!r}", f"It has {model.version}.")
        return model


async def _close(some: Mapping[str, LiveModel], others: Mapping[str, LiveModel]) -> None:
    """Close the models that others do not have as well, each when its requests are over."""
    for model in some.values():
        if all(model is not one for one in others.values()):
            await model.idle.wait()
            await asyncio.to_thread(model.close)
