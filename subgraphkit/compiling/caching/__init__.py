"""The engine cache: what backends compiled, kept for the next bind and never believed unchecked."""

from subgraphkit.compiling.caching.engine_cache import EngineCache
from subgraphkit.compiling.caching.store import EngineStore, StoredEngine

__all__ = ["EngineCache", "EngineStore", "StoredEngine"]
