"""Messages about faults of the cache: of its folders, and of its engines; see the golden tests."""

from pathlib import Path

from subgraphkit.errors import CacheError, describe_exception

_OTHERWISE = "Or keep engines elsewhere with SUBGRAPH_CACHE_DIR, or none with SUBGRAPH_CACHE=off."


def untrusted_path(path: Path, problem: str, fix: str) -> CacheError:
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


def engine_failed(backend: str, subgraph: str, doing: str, problem: str) -> CacheError:
    """SGK152: a backend broke its side; the results are right, but nothing is gained."""
    return CacheError(
        "SGK152",
        f"backend {backend!r} failed to {doing} the engine of subgraph {subgraph!r}: {problem}",
        hint="The engine is compiled each time, with the same results.\n"
        "This is a fault of the backend; report it to its author.",
        backend=backend,
        subgraph=subgraph,
    )


def not_proven(backend: str, subgraph: str, problem: str) -> CacheError:
    """SGK155: the restored engine would differ from the compiled one; the results are right."""
    return CacheError(
        "SGK155",
        f"the engine that backend {backend!r} made of subgraph {subgraph!r} is not kept: {problem}",
        hint="It is compiled each time, with the same results.\n"
        "If it can be restored and computes something else, report it to the backend's author.",
        backend=backend,
        subgraph=subgraph,
        problem=problem,
    )
