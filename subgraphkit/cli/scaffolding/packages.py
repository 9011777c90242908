"""The folder of a backend's package, found by its name without importing it, and the way back."""

from importlib.util import find_spec
from pathlib import Path

from subgraphkit.backend.manifest import MANIFEST_FILE
from subgraphkit.errors import CallerError
from subgraphkit.finding.catalogue import CATALOGUE, BackendRecord


def folder_of(word: str) -> Path:
    """Find the folder of a package.

    Raises:
        CallerError: The backend of that name is in no folder (SGK242).
    """
    folder = Path(word)
    if (folder / MANIFEST_FILE).exists() or (folder / "__init__.py").exists():
        return folder
    records = CATALOGUE.find(word)
    found = next(filter(None, map(_folder, records)), None)
    if records and found is None:
        raise CallerError(
            "SGK242",
            f"the package of backend {word!r} is in no folder",
            hint="A backend has files of its own where it is installed as a package, such as by "
            "pip install -e.",
            backend=word,
        )
    return found or folder


def record_of(folder: Path) -> BackendRecord | None:
    """Find the installed backend whose package is in a folder, if there is one."""
    here = folder.resolve()
    return next((one for one in CATALOGUE.records() if _folder(one) == here), None)


def _folder(record: BackendRecord) -> Path | None:
    package = record.entry_point.partition(":")[0].partition(".")[0]
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]).resolve() if places else None
