"""The names of TensorRT's Python API, release by release, small enough to keep beside the tests.

``data/tensorrt_api.json`` says for every name in which releases it exists, with which arguments.
It holds names, arguments and numbers, measured on the published bindings; run as a program, this
module measures the bindings installed here and adds them:

    python backends/tensorrt/tests/tensorrt_api.py tensorrt_bindings

A release is a column; a name's columns are the bits of a number, the first column the lowest.
"""

import enum
import importlib
import json
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

DATA = Path(__file__).parent / "data" / "tensorrt_api.json"
RTX = "rtx-"
PROPERTY = "property"
_WITHOUT = re.compile(
    r"I\w*Layer|I?Plugin\w+V[23]\w*|I(Plugin|Attention|Loop|MoE|Trip|Recurr|Iterator|IfCond|Dist)\w*"
    r"|\w+Operation|Dims\w+|I?(Dimension|Expr|Sym)\w*|\w*(Caffe|Uff|Calibrat|Algorithm)\w*"
)
_KEPT = re.compile(r"ILayer|IPluginRegistry|IPluginCreator\w*|IPluginV2|IPluginV3")
_LAYER = re.compile(r"INetworkDefinition\.add_(?!input|plugin|plugin_v[23])\w+")


class Api:
    """The names of one release."""

    def __init__(self, release: str) -> None:
        self.release = release
        self.flavour = "tensorrt_rtx" if release.startswith(RTX) else "tensorrt"
        self._bit = 1 << _data()["releases"].index(release)

    def has(self, path: str) -> bool:
        """Say whether the release has ``Class``, ``Class.member`` or ``function``."""
        return bool(columns(path) & self._bit)

    def arguments(self, path: str) -> list[str]:
        """Return the ways a function can be called, each as its arguments, ``=`` for optional."""
        forms = _forms(path)
        return [form for form, bits in forms.items() if bits & self._bit and form != PROPERTY]

    def _member(self, path: str) -> property:
        """Return a property for what may be set, or stands for a function."""
        return property(None, None if self.arguments(path) else _ignore)

    def module(self) -> ModuleType:
        """Return a module with the classes and enumerations of the release, which do nothing."""
        module = ModuleType(self.flavour)
        module.__version__ = self.release.removeprefix(RTX)  # type: ignore[attr-defined]
        for owner, members in _data()["classes"].items():
            if self.has(owner):
                there = [name for name in members if name and self.has(f"{owner}.{name}")]
                made = {name: self._member(f"{owner}.{name}") for name in there}
                setattr(module, owner, type(owner, (), made))
        for owner, members in _enumerations(self._bit).items():
            if self.has(owner):
                setattr(module, owner, members)
        return module


def _ignore(owner: object, value: object) -> None:
    """Take a value that nobody reads."""


@lru_cache(maxsize=16)
def _enumerations(bit: int) -> dict[str, type[enum.IntEnum]]:
    """Return the enumerations of a release."""
    return {
        owner: enum.IntEnum(
            owner,
            {
                name: int(number)
                for name, numbers in members.items()
                for number, bits in numbers.items()
                if bits & bit
            },
        )
        for owner, members in _data()["enums"].items()
    }


def releases() -> list[str]:
    """Return every column."""
    return list(_data()["releases"])


def columns(path: str) -> int:
    """Return in which releases a name exists, as bits."""
    owner, _, member = path.partition(".")
    data = _data()
    if member:
        return _union(_forms(path).values())
    if owner in data["enums"]:
        return _union(bits for forms in data["enums"][owner].values() for bits in forms.values())
    if owner in data["classes"]:
        return int(data["classes"][owner][""])
    return _union(data["functions"].get(owner, {}).values())


def known_classes() -> set[str]:
    """Return the classes, enumerations and functions that the data speaks of."""
    return set(_data()["classes"]) | set(_data()["enums"]) | set(_data()["functions"])


def add(data: dict[str, Any], release: str, module: Any) -> None:
    """Add the names of imported bindings as one release, or measure it anew."""
    if release not in data["releases"]:
        data["releases"].append(release)
    bit = 1 << data["releases"].index(release)
    for owner, value in filter(_is_measured, vars(module).items()):
        if isinstance(value, type) and hasattr(value, "__members__"):
            members = data["enums"].setdefault(owner, {})
            for name, member in value.__members__.items():
                _mark(members.setdefault(name, {}), str(int(member)), bit)
        elif isinstance(value, type):
            _add_class(data["classes"].setdefault(owner, {"": 0}), value, bit)
        elif callable(value):
            for one in _written(owner, value):
                _mark(data["functions"].setdefault(owner, {}), one, bit)


def _is_measured(one: tuple[str, Any]) -> bool:
    is_left_out = _WITHOUT.fullmatch(one[0]) and not _KEPT.fullmatch(one[0])
    return not (one[0].startswith("_") or is_left_out)


def _add_class(members: dict[str, Any], owner: type, bit: int) -> None:
    members[""] |= bit
    for name in dir(owner):
        if not name.startswith("_") and not _LAYER.fullmatch(f"{owner.__name__}.{name}"):
            for one in _written(name, getattr(owner, name)) or [PROPERTY]:
                _mark(members.setdefault(name, {}), one, bit)


def _written(name: str, value: Any) -> list[str]:
    """Return the ways a function can be called; none for a property."""
    lines = (line.strip() for line in (getattr(value, "__doc__", "") or "").splitlines())
    found = [re.sub(r"^\d+\. ", "", line) for line in lines if f"{name}(" in line and "->" in line]
    is_property = isinstance(value, property)
    return sorted({_arguments(it) for it in found if it.startswith(f"{name}(") and not is_property})


def _arguments(signature: str) -> str:
    """Keep the names of a signature's arguments, with ``=`` where there is a default."""
    inside = signature[signature.index("(") + 1 : signature.rindex(") ->")]
    depth, words = 0, [""]
    for letter in inside:
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth == 0:
            words.append("")
        else:
            words[-1] += letter
    names = [re.split(r"[:=]", word)[0].strip() + "=" * (" = " in word) for word in words]
    return ", ".join(name for name in names if name not in {"", "self"})


def _mark(forms: dict[str, int], form: str, bit: int) -> None:
    forms[form] = forms.get(form, 0) | bit


def _union(numbers: Any) -> int:
    total = 0
    for number in numbers:
        total |= number
    return total


def _forms(path: str) -> Mapping[str, int]:
    owner, _, member = path.partition(".")
    data = _data()
    held: Mapping[str, Any] = data["enums"].get(owner) or data["classes"].get(owner) or {}
    found: Mapping[str, int] = held.get(member, {})
    return found


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return data


def write(data: dict[str, Any]) -> None:
    """Write the data, a line for each class."""
    lines = [f'"releases": {json.dumps(data["releases"])}']
    for key in ("classes", "enums", "functions"):
        items = (
            f"{json.dumps(name)}: {json.dumps(dict(sorted(of.items())), separators=(',', ':'))}"
            for name, of in sorted(data[key].items())
        )
        lines.append(f'"{key}": {{\n{",".join(f"{chr(10)} {item}" for item in items)[1:]}\n}}')
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def main(names: list[str]) -> None:
    """Measure the modules of these names and add them to the data."""
    data = _data()
    for name in names:
        module = importlib.import_module(name)
        release = ".".join(module.__version__.split(".")[:3])
        add(data, f"{RTX}{release}" if "rtx" in name else release, module)
    write(data)


if __name__ == "__main__":
    main(sys.argv[1:])
