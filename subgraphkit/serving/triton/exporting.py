"""Export of a spec as a version of a model in Triton's model repository."""

import os
import re
import shutil
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import subgraphkit as sk
from subgraphkit.serving.triton.configuration import batch_of, configuration_of, no_export


def export_triton(  # noqa: PLR0913 (each is a setting of the configuration)
    spec: sk.SessionSpec,
    folder: str | os.PathLike[str],
    *,
    name: str,
    version: int = 1,
    max_batch: int | None = None,
    delay_s: float = 0.001,
    instances: int = 1,
    device: Literal["cpu", "gpu"] = "cpu",
    packages: str | os.PathLike[str] | None = None,
) -> Path:
    """Write a model for Triton's Python backend, which opens the session of a spec.

    The session is opened here, too, to learn its inputs and outputs. A version appears at once and
    whole, so a server that polls the repository never sees half of one. Existing versions stay as
    they are.

    ``max_batch``: How many rows Triton may gather from requests, 0 for none. It needs one open
    dimension that is the first of all inputs and outputs. By default, 16 if there is one, and no
    input or output has this axis alone: Triton's clients write these as ``[N, 1]``.
    ``delay_s``: How long a request may wait for others, in seconds.
    ``packages``: Folder in which Triton's Python finds subgraphkit. Empty for its own folders, None
    for that of this Python.

    Raises:
        CallerError: Triton cannot hold the model, name or version (SGK345).
        SubgraphkitError: As opening the session raises.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", name):
        raise no_export(f"{name!r} is no name for it", "Use letters, digits, '_', '-' and '.'.")
    if min(version, instances) < 1 or (max_batch or 0) < 0 or delay_s < 0:
        raise no_export("version and instances begin at 1, max_batch and delay_s at 0")
    with spec.open() as session:
        how: Any = {"instances": instances, "device": device, "delay_s": delay_s}
        text = configuration_of(session, name, max_batch=batch_of(session, max_batch), **how)
    found = sysconfig.get_path("purelib") if packages is None else os.fspath(packages)
    texts = {"config.pbtxt": text, "spec.json": spec.to_json(), "packages.txt": found}
    try:
        return _write(Path(folder, name), version, texts)
    except OSError as error:
        raise no_export(f"{Path(folder, name)} cannot be written: {error}") from error


def _write(model: Path, version: int, texts: Mapping[str, str]) -> Path:
    place, part = model / str(version), model / f".{version}-{os.getpid()}"
    if place.exists():
        raise no_export(f"{place} exists", "Give another version; a server may be using this one.")
    part.mkdir(parents=True)
    try:
        for file, text in texts.items():
            (part / file).write_text(text, encoding="utf-8")
        shutil.copyfile(Path(__file__).with_name("model.py"), part / "model.py")
        (part / "config.pbtxt").replace(model / "config.pbtxt")
        return part.rename(place)
    finally:
        shutil.rmtree(part, ignore_errors=True)
