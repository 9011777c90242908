"""One model of a server: its session, and the requests that are in it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import subgraphkit as sk


class LiveModel:
    """A model as one spec has it; ``version`` begins its digest, ``busy`` counts its requests."""

    def __init__(self, spec: str, batching: dict[str, Any]) -> None:
        self.words, said = (spec, batching), sk.SessionSpec.from_json(spec)
        self.session, self.version = said.open(), said.digest[:12]
        self._batcher = sk.Batcher(self.session, **batching) if batching else None
        self.timeout_s: float | None = None
        self.busy, self.idle = 0, asyncio.Event()
        self.idle.set()
        self.session.stats()  # which begins to count

    async def run(
        self,
        feeds: Mapping[str, Any],
        outputs: Sequence[str] | None = None,
        timeout_s: float | None = None,
        caller: str = "",
    ) -> list[Any]:
        """Compute outputs, with other requests if there are batches.

        ``timeout_s``: Seconds that the caller gives it; that of the model holds if it is shorter.
        ``caller``: For whom it is; callers take turns, where there are no batches.
        """
        with self.in_use():
            given = [one for one in (timeout_s, self.timeout_s) if one is not None]
            limit = min(given, default=None)
            if self._batcher is not None:
                return await self._batcher.arun(feeds, outputs, timeout=limit)
            return await self.session.arun(feeds, outputs, timeout=limit, caller=caller)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the session open."""
        self.busy += 1
        self.idle.clear()
        try:
            yield
        finally:
            self.busy -= 1
            if not self.busy:
                self.idle.set()

    def close(self) -> None:
        """Release what it holds."""
        if self._batcher is not None:
            self._batcher.close()
        self.session.close()


def refuse(status: int, message: str, hint: str = "") -> NoReturn:
    """Raise that a request cannot be answered (SGK341), with its status for HTTP."""
    raise sk.errors.InputError("SGK341", message, hint=hint, status=status)
