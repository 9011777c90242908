"""The engine cache of one bind: look first, compile on a miss, and keep the engine.

Whatever goes wrong here, the subgraph is compiled as without a cache. A bad disk, another user's
folder, a damaged entry or a failed restoring costs time and a line in the log. It never changes the
result.
"""

import copy
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from subgraphkit.backend.messages import warn_user
from subgraphkit.backend.operator import SubgraphOperator, maker_of
from subgraphkit.backend.property import BindContext
from subgraphkit.compiling.caching.keying import BackendIdentity, EngineKey, identify, make_key
from subgraphkit.compiling.caching.store import About, DamagedError, Description, EngineStore
from subgraphkit.compiling.proving import (
    EngineFaultError,
    Proofs,
    Unproven,
    came_back,
    engine_of,
    restored_by,
)
from subgraphkit.errors import CacheError, InvalidModelError, describe_exception
from subgraphkit.ir import Subgraph
from subgraphkit.ir.structure import NoKeyError, data_digest
from subgraphkit.logs import logger_of
from subgraphkit.partitioning.claims import Claim
from subgraphkit.storing import messages

Compile = Callable[[], SubgraphOperator]

# Seconds to wait for another process that compiles the same engine; then compile it as well.
_LOCK_TIMEOUT: Final = 600.0

_logger = logger_of("cache")


class EngineCache:
    """Engines of earlier binds, for the subgraphs of one; ``size_limit`` is in bytes.

    Attributes:
        kept: Ids of the subgraphs whose engines are in the cache now.
        proofs: The engines that are kept once they are proven. Until then the lock is held that
            other processes wait for.

    Thread-safety: used by one thread at a time; other threads and processes have caches of their
    own over the same folder.
    """

    def __init__(self, cache_dir: Path | None, size_limit: int, proofs: Proofs) -> None:
        self.proofs = proofs
        self.kept: set[str] = set()
        self._cache_dir = cache_dir
        self._size_limit = size_limit
        self._store: EngineStore | None = None
        self._is_open = False
        self._is_writable = True
        self._room = 0  # the folder is looked through when the first engine is stored
        self._identities: dict[Claim, BackendIdentity | None] = {}
        self._held: set[str] = set()

    def apart(self) -> "EngineCache":
        """Return the same cache for the regions of a subgraph; it lists its engines apart."""
        inner = copy.copy(self)
        inner.kept = set()
        return inner

    def obtain(
        self, subgraph: Subgraph, claim: Claim, compile_: Compile, context: BindContext
    ) -> tuple[SubgraphOperator, bool]:
        """Restore the operator of a subgraph, or compile it and keep its engine; say which it was.

        It raises errors of ``compile_``, and no others. ``context`` is for restoring it.
        """
        store = self._open_store()
        key = self._key(subgraph, claim) if store is not None else None
        # A region that is all of the subgraph being compiled may have its key, whose lock is held.
        if store is None or key is None:
            return compile_(), False
        if key.digest in self.proofs.waiting:
            self.proofs.settle(gives_up=False)
        if key.digest in {*self._held, *self.proofs.waiting, *self.proofs.refused}:
            return compile_(), False
        look = partial(self._restore_operator, store, key, subgraph, claim, context)
        operator = look(is_last_word=False)
        if operator is not None:
            return operator, True
        with ExitStack() as holding:
            text = "waiting for another process that compiles %s"
            told = partial(_logger.info, text, subgraph.id)
            lock = store.hold_lock(key, _LOCK_TIMEOUT, told)
            holding.enter_context(lock)
            # Another process may have stored it meanwhile, or was just about to.
            operator = look(is_last_word=True)
            if operator is not None:
                return operator, True
            self._held.add(key.digest)
            try:
                operator, engine, seconds = self._compile_subgraph(subgraph, compile_)
            finally:
                self._held.discard(key.digest)
            if engine is not None:
                check = came_back(
                    claim.backend, partial(claim.backend.deserialize, engine, context=context)
                )
                keep = partial(self._keep, store, _describe(key, subgraph, engine, seconds), engine)
                release = holding.pop_all().close
                self.proofs.waiting[key.digest] = Unproven(
                    claim.backend, subgraph, operator, check, keep, release
                )
            return operator, False

    # -- inside ------------------------------------------------------------------------------

    def _open_store(self) -> EngineStore | None:
        if not self._is_open:
            self._is_open = True
            try:
                self._store = EngineStore.open(self._cache_dir)
            except CacheError as error:
                warn_user(error)
        return self._store

    def _key(self, subgraph: Subgraph, claim: Claim) -> EngineKey | None:
        try:
            if claim not in self._identities:
                self._identities[claim] = None  # if it fails, it is not tried again
                self._identities[claim] = identify(
                    claim.backend, claim.property, claim.property_name
                )
            identity = self._identities[claim]
            return make_key(subgraph, claim.backend, identity) if identity is not None else None
        except (NoKeyError, InvalidModelError) as error:
            _logger.info("subgraph %s is not cached: %s", subgraph.id, error)
        except Exception as error:  # noqa: BLE001 (the backend's own code; told, not passed on)
            problem = describe_exception(error)
            warn_user(messages.engine_failed(claim.backend.name, subgraph.id, "identify", problem))
        return None

    def _compile_subgraph(
        self, subgraph: Subgraph, compile_: Compile
    ) -> tuple[SubgraphOperator, bytes | None, float]:
        """Compile; return the engine as well, if it is to be kept, and how long it took."""
        started = time.perf_counter()
        operator = compile_()
        seconds = time.perf_counter() - started
        # This backend could not restore another's engine.
        if not self._is_writable or maker_of(operator):
            return operator, None, seconds
        try:
            engine = engine_of(operator)
        except EngineFaultError as fault:
            warn_user(messages.engine_failed(subgraph.backend, subgraph.id, "store", str(fault)))
            engine = None
        if engine is not None and len(engine) > self._size_limit:
            _logger.info("the engine of %s is larger than cache_size: not kept", subgraph.id)
            engine = None
        return operator, engine, seconds

    def _keep(self, store: EngineStore, description: Description, engine: bytes) -> None:
        try:
            store.write(description, engine)
            self.kept.add(description.about.subgraph)
            self._room -= len(engine)
            if self._room < 0:
                self._room = store.shrink(self._size_limit, keep=description.key)
        except CacheError as error:
            self._give_up_writing(error)
        except OSError as error:
            self._give_up_writing(messages.unusable(store.folder, "write to", error))

    def _give_up_writing(self, error: CacheError) -> None:
        self._is_writable = False
        warn_user(error)

    def _restore_operator(
        self,
        store: EngineStore,
        key: EngineKey,
        subgraph: Subgraph,
        claim: Claim,
        context: BindContext,
        *,
        is_last_word: bool,
    ) -> SubgraphOperator | None:
        """Return the operator of a stored engine; None if there is none that is sound."""
        try:
            if (engine := store.read(key)) is None:
                return None
            restore = partial(claim.backend.deserialize, engine, context=context)
            operator = restored_by(restore, subgraph)
        except DamagedError as error:
            problem = str(error)
        except EngineFaultError as fault:
            name = claim.backend.name
            problem = messages.engine_failed(name, subgraph.id, "restore", str(fault)).message
        except CacheError as error:
            problem = error.message
        except OSError as error:
            problem = describe_exception(error)
        else:
            self.kept.add(subgraph.id)
            return operator
        if is_last_word:  # before that, it may just be about to be written
            _logger.warning("stored engine %s is not used: %s", key.digest, problem)
        return None


def _describe(key: EngineKey, subgraph: Subgraph, engine: bytes, seconds: float) -> Description:
    about = About(
        model=subgraph.graph.name,
        subgraph=subgraph.id,
        node_count=len(subgraph.nodes),
        seconds=round(seconds, 3),
        created=round(time.time(), 3),
    )
    return Description(key.digest, dict(key.fields), len(engine), data_digest(engine), about)
