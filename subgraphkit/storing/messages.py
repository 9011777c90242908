"""Messages about faults of folders for kept files; see the golden tests."""

from pathlib import Path

from subgraphkit.errors import CacheError, describe_exception

__all__ = ["untrusted", "unusable"]

_OTHERWISE = "Or keep engines elsewhere with SUBGRAPH_CACHE_DIR, or none with SUBGRAPH_CACHE=off."


def untrusted(path: Path, problem: str, fix: str) -> CacheError:
    """SGK150: somebody else could have put engines there, and engines are run like programs."""
    return CacheError(
        "SGK150",
        f"the engine cache is not used, because {str(path)!r} {problem}",
        hint=f"{fix}\n{_OTHERWISE}",
        path=str(path),
    )


def unusable(path: Path | str, doing: str, error: Exception) -> CacheError:
    """SGK151: the operating system does not let us read or write there."""
    return CacheError(
        "SGK151",
        f"the engine cache cannot {doing} {str(path)!r}: {describe_exception(error)}",
        hint="Engines are compiled again each time, with the same results.\n"
        f"Make room there, or let yourself write there.\n{_OTHERWISE}",
        path=str(path),
    )
