"""What every source file keeps to."""

import ast
import re
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.house.tree import CORE, ROOT, modules, shown, text_files

MAX_LINES = 400
UNPICKLING = {"cloudpickle", "dill", "joblib", "marshal", "shelve"}

# The first word of a clause without a noun, or of an order to nobody.
CLAUSES: Final = re.compile(r"(What|How|Which|Whether|When|Where|Who|Whose|Whoever|That|Tell)\b")

HOMONYMS: Final = {
    "Emitted": "a plan as Python, and in the NumPy backend a graph as Python",
    "IOBinding": "ours, and one over it that speaks as ONNX Runtime's does",
    "InferenceSession": "ours, and one over it that is called as ONNX Runtime's is",
    "Options": "one per backend, written from its manifest and imported from its package",
    "RunOptions": "ours, and one of it that has the attributes of ONNX Runtime's as well",
}
"""Public class names that several modules define, each with the reason."""

# A suppression names its rule and gives its reason in brackets or in a comment that follows.
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore)(?P<rest>.*)")
REASONED = re.compile(
    r"(: [A-Z]+\d+(, ?[A-Z]+\d+)* +\(.{4,}\)|\[[a-z-]+(, ?[a-z-]+)*\] +#? ?.{4,})"
)


@dataclass(frozen=True)
class Module:
    """What the rules look at in a module, which is parsed once for all of them."""

    name: str
    text: str
    docstring: str
    imports: frozenset[str]
    classes: tuple[str, ...]


@cache
def _modules():
    found = []
    for path in modules():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
        docstring = ast.get_docstring(tree) or ""
        found.append(Module(shown(path), text, docstring, _imports(tree), classes))
    return found


def _offenders(is_wrong):
    """Return the modules that are wrong."""
    return [module.name for module in _modules() if is_wrong(module)]


def _is_long(text):
    return len(text.splitlines()) > MAX_LINES


def _imports(tree):
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
            names |= {alias.name for alias in node.names}
    return frozenset(names)


def _unpickles(module):
    names = module.imports
    return bool(names & UNPICKLING) or any("pickle" in name.lower() for name in names)


def test_modules_are_found():
    assert len(_modules()) > 300


def test_every_module_is_short():
    assert _offenders(lambda module: _is_long(module.text)) == []


def test_every_module_says_what_it_is_for():
    assert _offenders(lambda module: not module.docstring) == []


def test_the_docstring_of_a_module_begins_with_a_noun_or_an_order():
    assert _offenders(lambda module: CLAUSES.match(module.docstring)) == []


def test_the_name_of_a_public_class_means_one_thing():
    places: dict[str, list[str]] = defaultdict(list)
    for module in _modules():
        for name in module.classes:
            if not name.startswith("_"):
                places[name].append(module.name)
    several = {name: found for name, found in places.items() if len(found) > 1}
    assert sorted(several) == sorted(HOMONYMS), several


def test_no_module_unpickles_anything():
    assert _offenders(_unpickles) == []


def test_no_module_hides_an_import():
    assert _offenders(lambda module: "TYPE_CHECKING" in module.imports) == []


def test_what_is_written_for_people_is_written_in_one_way():
    raw = re.compile(r"= logging\.getLogger\(|sys\.(__)?std(out|err)(__)?\.buffer|\bprint\(")
    own = {"subgraphkit/logs.py", "subgraphkit/texts.py"}
    assert set(_offenders(lambda module: raw.search(module.text))) <= own


def test_numpy_files_are_never_read_with_pickles():
    assert _offenders(lambda module: "allow_pickle" + "=True" in module.text) == []


def test_test_files_are_short_too():
    tests = [path for path in text_files() if path.suffix == ".py" and "tests" in shown(path)]
    assert [shown(path) for path in tests if _is_long(path.read_text(encoding="utf-8"))] == []


def test_every_suppression_names_its_rule_and_its_reason():
    bare = []
    for path in text_files():
        if path.suffix != ".py" or path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found = SUPPRESSION.search(line)
            if found and found[1] != "noqa" and "tests" in shown(path):
                continue  # a test hands over what the types forbid; that is its reason
            if found and not REASONED.match(found["rest"]):
                bare.append(f"{shown(path)}:{number}: {line.strip()}")
    assert bare == []


def test_the_linter_bounds_functions_and_nobody_is_excused():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert settings["select"] == ["ALL"]
    assert settings["pylint"]["max-statements"] == 30
    assert settings["mccabe"]["max-complexity"] == 8
    excused = re.compile(r"noqa:.*\b(PLR0915|C901)\b")
    assert _offenders(lambda module: excused.search(module.text)) == []


def test_no_room_is_called_utils():
    names = {path.stem for path in modules()} | {path.name for path in CORE.iterdir()}
    assert not names & {"common", "helpers", "misc", "util", "utils"}
