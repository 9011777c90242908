"""Models that a server may load and unload by name, from one folder that its operator names."""

from pathlib import Path

import subgraphkit as sk
from subgraphkit.serving.live_model import refuse
from subgraphkit.serving.models import Models, with_threads

_ENDINGS = (".json", ".onnx", "")
"""A spec, a model, and a bundle."""


async def change(models: Models, verb: str, name: str) -> None:
    """Load or unload a model; InputError (SGK341) if there is no such folder, or none in it."""
    if models.folder is None:
        hint = "Deploy it with the models that you want, or with one replica and a repository."
        refuse(400, f"to {verb} a model is the deployment's, which names no repository", hint)
    if verb == "unload":
        models.find(name or "''")
        await models.change(name, None)
        return
    if (place := _places(models.folder).get(name)) is None:
        refuse(404, f"there is no model {name!r} in the repository")
    is_spec, read = place.suffix == ".json", sk.SessionSpec.from_json
    spec = read(place.read_bytes()) if is_spec else sk.SessionSpec.of(place)
    await models.change(name, with_threads(spec, models.processors).to_json())


def index(models: Models) -> list[dict[str, str]]:
    """Return the answer of ``/v2/repository/index``: models that are served, and that could be."""
    ready = {name: model.version for name, model in models.items()}
    others = {} if models.folder is None else _places(models.folder).keys() - ready.keys()
    rows = [(name, version, "READY", "") for name, version in ready.items()]
    rows += [(name, "", "UNAVAILABLE", "not loaded") for name in sorted(others)]
    return [dict(zip(("name", "version", "state", "reason"), row, strict=True)) for row in rows]


def _places(folder: Path) -> dict[str, Path]:
    """Return the models of a folder by name, without targets of links elsewhere."""
    inside = folder.resolve()
    return {
        one.stem if one.suffix in _ENDINGS else one.name: one
        for one in sorted(inside.iterdir(), reverse=True)
        if (one.suffix in _ENDINGS[:2] or one.is_dir()) and one.resolve().is_relative_to(inside)
    }
