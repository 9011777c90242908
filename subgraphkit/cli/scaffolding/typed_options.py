"""Options of a backend as a typed class, written from its manifest."""

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from subgraphkit.backend.manifest import Manifest
from subgraphkit.backend.options import Option

_WIDTH: Final = 100
WRITTEN: Final = '"""Options of the backend as types'
"""Every file of typed options begins so."""
_MAPPINGS: Final = {"mapping": "OptionMapping", "shapes": "OptionShapes"}
_TYPES: Final = {"bytes": "int", "path": "Path", "list": "tuple[str, ...]", **_MAPPINGS}
"""By kind of option, the type of its values where it is not called the same."""
_IMPORTS: Final = {
    "Path": "from pathlib import Path\n",
    "MappingProxyType(": "from types import MappingProxyType\n",
    "Literal[": "from typing import Literal\n",
}
"""The imports that a word in types and defaults needs."""


def render_options(manifest: Manifest) -> str:
    """Write the options of a manifest as a module with a frozen, typed class ``Options``."""
    name, options = manifest.name, manifest.options
    code = "".join(map(_declaration, options))
    factory = ", field" if "= field(" in code else ""
    imports = "".join(line for word, line in _IMPORTS.items() if word in code)
    mappings = ", ".join(word for word in _MAPPINGS.values() if word in code)
    imports += f"\nfrom subgraphkit.backend import {mappings}\n" if mappings else ""
    title = f"{WRITTEN}, as `subgraphkit author manifest write` writes them."
    about = f"Options of backend {name!r}; `subgraphkit list {name} --options` says more."
    fields = "".join(_declaration(option) + _docstring(option) for option in options)
    text = (
        f'{title}"""\n\nfrom dataclasses import dataclass{factory}\n{imports}\n'
        '__all__ = ["Options"]\n\n\n@dataclass(frozen=True, slots=True, kw_only=True)\n'
        f'class Options:\n    """{about}"""\n\n{fields}'
    )
    return f"{text.rstrip()}\n"


def _declaration(option: Option) -> str:
    words = [_literal(choice) for choice in option.choices]
    has_words = bool(words) and not any(isinstance(one, float | Path) for one in option.choices)
    kind = f"Literal[{', '.join(words)}]" if has_words else _TYPES.get(option.kind, option.kind)
    if option.default is None:
        kind += " | None"
    default = _literal(option.default)
    if option.kind in {"path", *_MAPPINGS} and option.default is not None:
        default = f"field(default_factory=lambda: {default})"
    start = f"    {option.name}: "
    if len(f"{start}{kind} = {default}") <= _WIDTH:
        return f"{start}{kind} = {default}\n"
    if len(f"{start}{kind} = (") <= _WIDTH:
        return f"{start}{kind} = (\n        {default}\n    )\n"
    several = "".join(f"        {word},\n" for word in words)
    return f"{start}Literal[\n{several}    ]{' | None' * (option.default is None)} = {default}\n"


def _docstring(option: Option) -> str:
    unit = f"Unit: {option.unit}." if option.unit else "In bytes." * (option.kind == "bytes")
    text = f"{option.help} {unit}".strip().replace("\\", "\\\\").replace('"', '\\"')
    lines = textwrap.wrap(f'"""{text}', _WIDTH - 7, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines) + '"""\n', "    ") if text else ""


def _literal(value: Any) -> str:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Path():
            own = value.relative_to(Path.home()) if value.is_relative_to(Path.home()) else None
            # ~ is the home of its reader, not of its writer
            return f"Path({_literal(str(value))})" if own is None else f'Path.home() / "{own}"'
        case Mapping():
            items = (f"{_literal(key)}: {_literal(one)}" for key, one in value.items())
            return f"MappingProxyType({{{', '.join(items)}}})"
        case tuple():
            return f"({', '.join(map(_literal, value))}{',' * (len(value) == 1)})"
        case _:
            return repr(value)
