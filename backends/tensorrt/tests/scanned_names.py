"""The names of TensorRT that a package's sources touch, told by our names for its objects."""

import ast
from collections.abc import Iterator
from pathlib import Path

CALLED = {
    "builder": "Builder",
    "network": "INetworkDefinition",
    "parser": "OnnxParser",
    "config": "IBuilderConfig",
    "profile": "IOptimizationProfile",
    "runtime": "Runtime",
    "engine": "ICudaEngine",
    "execution_context": "IExecutionContext",
    "refitter": "Refitter",
    "inspector": "EngineInspector",
}
"""By the usual name of a variable, the class of TensorRT that it holds."""


def names_used(package: Path) -> Iterator[tuple[str, str]]:
    """Go through the files of a package and the names each touches."""
    for path in sorted(package.rglob("*.py")):
        for used in names_in(path.read_text(encoding="utf-8")):
            yield path.relative_to(package).as_posix(), used


def names_defined(package: Path) -> set[str]:
    """Return the names of methods and attributes that the package's own classes have."""
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self":
                found.add(node.attr)
    return found


def names_in(source: str) -> Iterator[str]:
    """Go through the names that a module touches, such as ``"Builder.create_network"``."""
    tree = ast.parse(source)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            words = [word.lstrip("_") if word in _OURS else word for word in _words(node)]
            if words[0] in {"self", "library"} and "trt" in words:
                words = words[words.index("trt") :]
            elif words[0] in {"self", "parsed"}:  # a ``ParsedNetwork`` holds builder and parser
                words = words[1:]
            if len(words) > 1:
                yield from _named(words[0].lstrip("_"), words[1], words[2] if words[2:] else "")


_OURS = {f"_{name}" for name in (*CALLED, "library", "trt")}


def _named(owner: str, name: str, member: str) -> Iterator[str]:
    if name.startswith("_"):
        return
    if owner == "trt":
        yield name if member.startswith("_") or not member else f"{name}.{member}"
    elif owner in CALLED:
        yield f"{CALLED[owner]}.{name}"


def _words(node: ast.expr) -> list[str]:
    words: list[str] = []
    while isinstance(node, ast.Attribute):
        words.insert(0, node.attr)
        node = node.value
    return [node.id if isinstance(node, ast.Name) else "", *words]
