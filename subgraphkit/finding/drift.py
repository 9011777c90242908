"""Keep the manifest and the backend class telling the same story.

The manifest is written from the class (``subgraphkit manifest write``) and a conformance check
fails where the two have drifted apart.
"""

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any

from subgraphkit.backend.contract import Backend
from subgraphkit.backend.manifest import Manifest, Requirement
from subgraphkit.backend.options import Option
from subgraphkit.backend.plugin_api import api_text, parse_api
from subgraphkit.finding import messages

__all__ = ["manifest_drift", "manifest_from_class", "render_manifest"]

_OPTION_FIELDS = {
    "type": "type",
    "default": "default",
    "help": "help",
    "choices": "choices",
    "minimum": "min",
    "maximum": "max",
    "unit": "unit",
    "scope": "scope",
    "cache": "cache",
    "alias": "alias",
}


def manifest_from_class(backend_cls: type[Backend]) -> Manifest:
    """Return what a manifest of the class must say; what a class does not know is left empty.

    Raises:
        BackendLoadError: If ``api`` is not a version (SGK115).
    """
    summary = (inspect.getdoc(backend_cls) or "").split("\n", 1)[0].rstrip(".")
    try:
        api = parse_api(backend_cls.api)
    except ValueError as error:
        raise messages.bad_registration(backend_cls.name, f"api: {error}") from None
    return Manifest(backend_cls.name, api, summary=summary, options=tuple(backend_cls.options))


def manifest_drift(manifest: Manifest, backend_cls: type[Backend]) -> list[str]:
    """Say where a manifest and the class it describes disagree.

    Name, API version and options are compared; the rest is the manifest's alone.

    Returns:
        One sentence for each difference; empty if there is none.
    """
    truth = manifest_from_class(backend_cls)
    drift = []
    if manifest.name != truth.name:
        drift.append(f"name is {manifest.name!r}, the class says {truth.name!r}")
    if manifest.api != truth.api:
        drift.append(f"api is {api_text(manifest.api)}, the class says {api_text(truth.api)}")
    written = {option.name: option for option in manifest.options}
    declared = {option.name: option for option in truth.options}
    drift += [f"option {name!r} is not in the class" for name in written if name not in declared]
    drift += [f"option {name!r} is missing" for name in declared if name not in written]
    for name, option in written.items():
        if name in declared:
            drift += _option_drift(option, declared[name])
    return drift


def _option_drift(written: Option, declared: Option) -> Iterator[str]:
    for attribute, key in _OPTION_FIELDS.items():
        if getattr(written, attribute) != getattr(declared, attribute):
            yield (
                f"{key} of option {declared.name!r} is {getattr(written, attribute)!r}, "
                f"the class says {getattr(declared, attribute)!r}"
            )


def render_manifest(manifest: Manifest) -> str:
    """Write a manifest as TOML; ``parse_manifest`` reads it back equal."""
    head = {
        "name": manifest.name,
        "api": api_text(manifest.api),
        "summary": manifest.summary,
        "priority": manifest.priority,
        "devices": manifest.devices,
        "homepage": manifest.homepage,
        "docs": manifest.docs,
        "license": manifest.license,
    }
    blocks = [_assignments(head)]
    blocks += ["[[requires]]\n" + _assignments(_requirement(need)) for need in manifest.requires]
    blocks += [
        f"[options.{option.name}]\n" + _assignments(_option(option)) for option in manifest.options
    ]
    for name, ops in manifest.ops.items():
        fields = {
            "since": ops.since,
            "until": ops.until,
            "dtypes": ops.dtypes,
            "notes": ops.notes,
        }
        blocks.append(f"[ops.{_value(name)}]\n" + _assignments(fields))
    if manifest.conformance:
        blocks.append("[conformance]\n" + _assignments(dict(manifest.conformance)))
    return "\n".join(blocks)


def _requirement(need: Requirement) -> dict[str, Any]:
    return {
        "module": need.module,
        "min": need.minimum,
        "pip": need.pip,
        "library": need.library,
        "hint": need.hint,
    }


def _option(option: Option) -> dict[str, Any]:
    fields = {key: getattr(option, attribute) for attribute, key in _OPTION_FIELDS.items()}
    return {"type": option.kind, **{key: fields[key] for key in fields if key != "type"}}


def _assignments(fields: dict[str, Any]) -> str:
    # an empty text or list says no more than its absence; zero and false do
    # but for a default: without, there is none
    kept = {
        key: value
        for key, value in fields.items()
        if value is not None and (key == "default" or value not in ("", (), []))
    }
    return "".join(f"{key} = {_value(value)}\n" for key, value in kept.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        items = (f"{_value(key)} = {_value(of)}" for key, of in value.items())
        return f"{{{', '.join(items)}}}"
    # a JSON string is a TOML basic string, but for DEL, which TOML wants escaped
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
