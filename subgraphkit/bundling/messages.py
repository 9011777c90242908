"""Messages about faulty bundles; each is rendered in a golden test."""

from collections.abc import Mapping
from pathlib import Path

from subgraphkit.backend.contract import EngineOrigin
from subgraphkit.errors import (
    BackendNotFoundError,
    BackendUnavailableError,
    BundleError,
    CompileError,
)

_OWN_BACKENDS = (
    "A bundle runs on its own backends alone: open it where they run, or export the model again "
    "for a backend that runs here."
)
_EXPORT_AGAIN = "Export the session again, or copy the whole folder again."


def unwritable(target: Path, problem: str, fix: str) -> BundleError:
    """SGK180: nothing was written, or nothing is left of it."""
    text = f"no bundle is written to {str(target)!r}: {problem}"
    return BundleError("SGK180", text, hint=fix, path=str(target))


def not_a_bundle(folder: Path, problem: str) -> BundleError:
    """SGK181: nothing says that it is one."""
    text = f"{str(folder)!r} is not a bundle: {problem}"
    written = "session.export() or 'subgraphkit build --bundle' wrote"
    fix = f"Give the folder that {written}, or an ONNX file."
    return BundleError("SGK181", text, hint=fix, path=str(folder))


def unknown_format(folder: Path, found: object, known: int, by: str) -> BundleError:
    """SGK181: another version of subgraphkit wrote it."""
    what = f"the bundle {str(folder)!r} is of format {found!r}, written by subgraphkit {by}"
    text = f"{what}; this version reads format {known}"
    fix = "Open it with a version that reads it, or export the session again with this one."
    return BundleError("SGK181", text, hint=fix, path=str(folder))


def bad_bundle(folder: Path, problem: str) -> BundleError:
    """SGK182: it differs from the exported bundle."""
    text = f"the bundle {str(folder)!r} is damaged: {problem}"
    return BundleError("SGK182", text, hint=_EXPORT_AGAIN, path=str(folder))


def unreadable(path: Path, error: OSError) -> BundleError:
    """SGK182: the operating system does not let us read it."""
    text = f"a file of a bundle, {str(path)!r}, cannot be read: {error.strerror or error}"
    fix = f"Let yourself read it. {_EXPORT_AGAIN}"
    return BundleError("SGK182", text, hint=fix, path=str(path))


def untrusted_bundle(path: Path, problem: str, fix: str) -> BundleError:
    """SGK183: somebody else could have put engines there, and engines are run like programs."""
    text = f"the bundle is not opened, because {str(path)!r} {problem}"
    hint = f"{fix}\nOr, if you would run a program that lies there: trust=True (--trust)."
    return BundleError("SGK183", text, hint=hint, path=str(path))


def contradiction(problem: str, fix: str) -> BundleError:
    """SGK185: compiled engines cannot be changed any more."""
    return BundleError("SGK185", problem, hint=fix)


def backend_is_missing(
    folder: Path,
    error: BackendNotFoundError | BackendUnavailableError,
    backend: str,
    counts: tuple[int, int],
) -> BackendNotFoundError | BackendUnavailableError:
    """SGK101, SGK104, SGK117: nobody can run the compiled engines.

    ``error``: The error for a backend to compile for; its own remedies do not help here.
    """
    mine, total = counts
    problem = error.context.get("problem", error.message)
    fix = error.context.get("fix", error.hint).splitlines()
    text = (
        f"the bundle {str(folder)!r} cannot run here: {mine} of its {total} subgraphs were "
        f"exported for backend {backend!r}, which cannot be used: {problem}"
    )
    return type(error)(error.code, text, backend=backend, hint="\n".join([*fix, _OWN_BACKENDS]))


def other_engine(
    backend: str, made: EngineOrigin, here: EngineOrigin, reason: str = ""
) -> BundleError:
    """SGK186: an engine is not proven to fit."""
    pairs = [
        ("library and device", made.fingerprint, here.fingerprint),
        ("system", made.system, here.system),
        ("backend", made.implementation, here.implementation),
    ]
    lines = [
        f"{what}: made with {then or 'nothing known'}, here is {now or 'nothing known'}"
        for what, then, now in pairs
        if then != now
    ]
    told = f": {reason}" if reason else ""
    return BundleError(
        "SGK186",
        f"the engines of backend {backend!r} in the bundle were not made for what is here{told}",
        hint="\n".join([*lines, "Export the session again here, or with what is here."]),
        backend=backend,
    )


def other_types(subgraph: str, versions: Mapping[str, str], here: Mapping[str, str]) -> BundleError:
    """SGK186: the model does not come to the same types as when it was exported."""
    lines = [
        f"{name}: exported with {versions.get(name, 'unknown')}, here is {now}"
        for name, now in here.items()
        if versions.get(name) != now
    ]
    return BundleError(
        "SGK186",
        f"subgraph {subgraph!r} of the bundle is not the one that was exported: operators, types "
        "or shapes differ",
        hint="\n".join([*lines, "Export the session again here, or use the versions it names."]),
        subgraph=subgraph,
    )


def engine_failed(
    backend: str, subgraph: str, doing: str, problem: str, hint: str = ""
) -> CompileError:
    """SGK187: a backend broke its side; the hint has its own words."""
    return CompileError(
        "SGK187",
        f"backend {backend!r} failed to {doing} subgraph {subgraph!r} of a bundle: {problem}",
        backend=backend,
        subgraph=subgraph,
        hint=hint
        or "If library and device are those the bundle was exported for, this is a fault of the "
        "backend; report it to its author.",
    )
