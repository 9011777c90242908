"""The subjects of the pictures: each is drawn from what the code itself says or does."""

import ast
import inspect
import re
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import networkx as nx
import numpy as np
import onnx
import onnx.backend.test
from svg import Box, Sheet, graph

import subgraphkit as sk
from subgraphkit import viewing
from subgraphkit.backend.contract import set_lack
from subgraphkit.texts import count_of
from subgraphkit.viewing.drawing import draw_pictures

ROOT: Final = Path(__file__).resolve().parents[2]
LIGHT: Final = Path(onnx.backend.test.__file__).parent / "data" / "light"

_BLUE: Final = "#56b4e9"
_GREEN: Final = "#3fbf95"

Drawn = tuple[Sheet, str]
"""A picture, and what it shows in words."""


def road() -> Drawn:
    """Draw the steps of the road: names, what they return and say of themselves."""
    steps = [sk.load, sk.bind, sk.partition, sk.compile_subgraphs, sk.plan, sk.Session.run]
    nouns = [inspect.signature(step).return_annotation for step in steps[:-1]]
    names = ["model.onnx", *(noun.__name__ for noun in nouns), "results"]
    sheet, height = Sheet(), 74
    for at, name in enumerate(names):
        sheet.box(
            0, at * height, (190, 36), name, colour=_BLUE if 0 < at < len(names) - 1 else None
        )
    for at, step in enumerate(steps):
        top = at * height + 36
        sheet.arrow([(95, top), (95, top + 37)])
        called = "Session(plan).run" if step is sk.Session.run else step.__name__
        sheet.text(112, top + 23, f"{called}(\N{HORIZONTAL ELLIPSIS})", bold=True)
        said = (inspect.getdoc(step) or "").split(".")[0].split(";")[0]
        _wrapped(sheet, 290, top + 23, said, 64)
    verbs = ", ".join(step.__name__ for step in steps)
    return sheet, f"The road: {' to '.join(names)}, by {verbs}."


def house() -> Drawn:
    """Draw the layers of the import contract, with what each room says of itself."""
    layers, entered = house_layers(), _entered_by_backends()
    sheet, top = Sheet(), 0
    for rooms in layers:
        for room in rooms:
            sheet.box(16, top, (118, 34), room, colour=_GREEN if room in entered else None)
            _wrapped(sheet, 146, top + 22, _first_sentence(room), 88)
            top += 34
        top += 8
    sheet.arrow([(4, 0), (4, top - 9)])
    sheet.box(16, top + 8, (30, 18), colour=_GREEN)
    sheet.text(54, top + 22, "rooms that the backends of this project import", small=True)
    listed = "; ".join(" beside ".join(rooms) for rooms in layers)
    return sheet, f"The house, from the roof down; a room imports those below it only: {listed}."


def house_layers() -> list[list[str]]:
    """Return the rooms of each layer of the import contract, from the top."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one["type"] == "layers"]
    return [re.findall(r"\w+", layer) for layer in layers]


def _entered_by_backends() -> set[str]:
    sources = (ROOT / "backends").glob("*/subgraphkit_*/**/*.py")
    pattern = re.compile(r"^(?:from|import) subgraphkit\.(\w+)", re.MULTILINE)
    return {room for path in sources for room in pattern.findall(path.read_text(encoding="utf-8"))}


def _first_sentence(room: str) -> str:
    folder = ROOT / "subgraphkit"
    path = folder / room / "__init__.py"
    text = (path if path.exists() else folder / f"{room}.py").read_text(encoding="utf-8")
    said = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0]
    said = re.sub(r"\.$", "", " ".join(said.replace("``", "").split()))
    return re.sub(r"^\w+: ", "", said)


def _wrapped(sheet: Sheet, x: float, y: float, words: str, width: int) -> None:
    """Write words in as many lines as they need, around a height."""
    lines = textwrap.wrap(words, width)
    for at, line in enumerate(lines):
        sheet.text(x, y + (at - (len(lines) - 1) / 2) * 16, line, small=True)


DIAMOND: Final = """
diamond (float[2, 3] x) => (float[2, 3] y) {
  a = Relu(x)
  b = Neg(a)
  c = Abs(a)
  y = Add(b, c)
}
"""

CROSSED: Final = """
crossed (float[2] x) => (float[2] y, float[2] z) {
  p = Relu(x)
  a = Neg(p)
  b = Abs(p)
  y = Add(a, b)
  z = Sub(b, a)
}
"""


def convexity() -> Drawn:
    """Draw regions of a diamond, whether each is convex, and what partitioning makes of one."""
    bound = _bound(DIAMOND)
    sheet, said = Sheet(), []
    for at, region in enumerate([{0, 1, 3}, {0, 1}, {1, 2}]):
        left_by = leaving(bound, region)
        verdict = "convex"
        if left_by:
            verdict = f"not convex: {_path(left_by)} leaves and returns"
        panel = _nodes_drawn(bound, dict.fromkeys(region, "one"))
        sheet.put(panel, at * 196, 0)
        sheet.text(at * 196, panel.height + 22, _set(region), bold=True)
        _wrapped(sheet, at * 196, panel.height + 48, verdict, 27)
        said.append(f"the region {_set(region)} is {verdict}")
    made = sk.partition(bound, [_claiming("one", "Relu", "Neg", "Add"), "numpy"])
    homes = {
        node: one.id if one.backend == "one" else one.backend  # two pieces, two colours
        for one in made.subgraphs
        for node in one.nodes
    }
    sheet.put(_nodes_drawn(bound, homes), 588, 0)
    names = ", ".join(f"{one.id} {_set(one.nodes)}" for one in made.subgraphs)
    sheet.text(588, panel.height + 22, "as partitioned", bold=True)
    for at, one in enumerate(made.subgraphs):
        sheet.text(588, panel.height + 40 + 16 * at, f"{one.id} {_set(one.nodes)}", small=True)
    return sheet, (
        f"A diamond of four nodes, in which {'; '.join(said)}. A backend that can run "
        f"#0, #1 and #3 gets them in pieces that are convex: {names}."
    )


def deadlock() -> Drawn:
    """Draw two convex regions that wait for one another, and what partitioning makes of them."""
    bound = _bound(CROSSED)
    claims = {"a": {"Neg", "Add"}, "b": {"Abs", "Sub"}}
    home = [
        next((at for at, types in enumerate(claims.values()) if node.op_type in types), 2)
        for node in bound.nodes
    ]
    names = [*claims, "numpy"]
    colours = viewing.colours_of(names)
    wanted = [
        Box(f"{name}\n{_set(_of(home, at))}", colours[name]) for at, name in enumerate(claims)
    ]
    crossing = {(home[a], home[b]) for a, b in _arrows(bound)}
    waits = sorted(arrow for arrow in crossing if arrow in {(0, 1), (1, 0)})
    backends = [_claiming(name, *types) for name, types in claims.items()]
    made = sk.partition(bound, [*backends, "numpy"])
    _, order = _subgraphs(made)
    boxes = [Box(f"{one.id}\n{_set(one.nodes)}", colours[one.backend]) for one in made.subgraphs]
    sheet = Sheet()
    _side_by_side(
        sheet,
        (
            "who can run what",
            _nodes_drawn(bound, {node: names[at] for node, at in enumerate(home)}),
        ),
        ("both convex, and a deadlock", graph(wanted, waits)),
        ("as partitioned", graph(boxes, order)),
    )
    turns = ", ".join(f"{one.id} {_set(one.nodes)}" for one in made.subgraphs)
    return sheet, (
        "Backend a can run #1 and #3, backend b #2 and #4. Each pair is convex, but a waits for b "
        f"and b for a. As partitioned, nothing waits in a circle: {turns}, in this order."
    )


OVERVIEW: Final = """
detector (float[1, 3, 32, 32] image) => (float[1, 4] scores, float[k] levels)
{
  seen = Conv <pads = [1, 1, 1, 1]> (image, weights)
  lit = Relu (seen)
  pooled = GlobalAveragePool (lit)
  flat = Flatten (pooled)
  scores = Gemm <transB = 1> (flat, matrix)
  level = ReduceMax <keepdims = 0> (scores)
  levels = Unique (level)
}
"""


def overview() -> Drawn:
    """Draw a model, who takes which of its nodes, and what runs, with the reason for the cut."""
    bound = _bound(OVERVIEW, weights=(8, 3, 3, 3), matrix=(4, 8))
    made = sk.partition(bound, ["tensorrt", "numpy"], dry_run=True)
    _, order = _subgraphs(made)
    homes = {node: one.backend for one in made.subgraphs for node in one.nodes}
    colours = viewing.colours_of(homes.values())
    ((_, refusal),) = made.refusals_by("tensorrt").items()
    reason = refusal.text.partition(";")[0].replace(" for RTX", "")
    boxes = [
        Box(f"{one.id}\n{count_of(len(one.nodes), 'node')}", colours[one.backend])
        for one in made.subgraphs
    ]
    whole = graph(boxes, order)
    whole.text(0, whole.height + 16, reason, small=True)
    described = _side_by_side(
        sheet := Sheet(),
        ("an ONNX model", _nodes_drawn(bound, {})),
        ("who takes which nodes", _nodes_drawn(bound, homes)),
        ("what runs, as one session", whole),
    )
    runs = ", ".join(f"{one.id} with {count_of(len(one.nodes), 'node')}" for one in made.subgraphs)
    return sheet, f"{described}: {runs}, because {reason}."


def placement() -> Drawn:
    """Draw who has what of a real network before its batch size is given, and after."""
    sheet, left, said = Sheet(), 0.0, []
    for title, shapes in (("batch is open", None), ('shapes={"batch": 1}', {"batch": 1})):
        made = _inception(shapes)
        sheet.text(left, 14, title, bold=True)
        sheet.svg(_areas(made), left, 26)
        left = sheet.width + 60
        counts = Counter({one.backend: 0 for one in made.subgraphs})
        counts.update(made.home_of(node).backend for node in made.graph.order)
        said.append(f"{title}: {', '.join(f'{n} has {c} nodes' for n, c in counts.items())}")
    return sheet, f"Inception v1 on onednn,numpy. {'; '.join(said)}."


def report() -> str:
    """Return the page that the network has after it."""
    made = _inception({"batch": 1})
    for claim in made.passes.claims:
        set_lack(claim.backend, None)  # what the machine lacks that builds the pages is no news
    page: str = made.to_html()
    return page


def _inception(shapes: dict[str, int] | None) -> Any:
    """Divide Inception v1, whose batch is left open, among oneDNN and NumPy."""
    proto = onnx.load(LIGHT / "light_inception_v1.onnx")
    stored = {tensor.name for tensor in proto.graph.initializer}
    for value in [*proto.graph.input, *proto.graph.output]:
        if value.name not in stored:
            value.type.tensor_type.shape.dim[0].dim_param = "batch"
    bound = sk.bind(sk.load(proto), shapes)
    return sk.partition(bound, ["onednn", "numpy"], dry_run=True)


def _areas(made: Any) -> str:
    """Draw the subgraphs as reports do, areas by arithmetic."""
    quotient = made.to_networkx()
    whole = sum(quotient.nodes[name]["flops"] for name in quotient)
    places = {name: at for at, name in enumerate(quotient)}
    boxes = [
        viewing.Box(
            name,
            of["backend"],
            of["flops"],
            f"{count_of(of['nodes'], 'node')}, {of['flops'] / whole:.1%} of FLOPs",
        )
        for name, of in quotient.nodes(data=True)
    ]
    arrows = [
        viewing.Arrow(places[source], places[target], of["bytes"])
        for source, target, of in quotient.edges(data=True)
    ]
    drawing = viewing.Drawing(boxes, arrows)
    ((_, picture),) = draw_pictures(drawing)
    return picture


def _subgraphs(made: Any) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """Return the place of each node's subgraph, and the arrows between subgraphs by place."""
    places = {node: at for at, one in enumerate(made.subgraphs) for node in one.nodes}
    crossing = {(places[a], places[b]) for a, b in _arrows(made.graph)}
    return places, sorted(arrow for arrow in crossing if arrow[0] != arrow[1])


def _side_by_side(sheet: Sheet, *panels: tuple[str, Sheet]) -> str:
    """Draw panels with a title each; return the titles as a sentence."""
    left = 0.0
    for title, panel in panels:
        sheet.text(left, 14, title, bold=True)
        sheet.put(panel, left, 26)
        left += max(panel.width, len(title) * 7.4) + 48
    return ", ".join(title for title, _ in panels).capitalize()


def _bound(text: str, **shapes: tuple[int, ...]) -> Any:
    """Bind the text of a graph, and zeros of these shapes."""
    proto = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 18]>' + text)
    for name, shape in shapes.items():
        zeros = onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name)
        proto.graph.initializer.append(zeros)
    return sk.bind(sk.load(proto), backend="numpy")


def _claiming(name_: str, *operators: str) -> type[sk.Backend]:
    """Make a backend that claims operators by name."""

    class Property(sk.SubgraphProperty):
        def create_selector(self, graph: Any) -> sk.SubgraphSelector:
            return sk.OpSelector(graph, operators)

    class Claiming(sk.Backend):
        name = name_

        def properties(self) -> list[sk.SubgraphProperty]:
            return [Property()]

    return Claiming


def _arrows(bound: Any) -> list[tuple[int, int]]:
    return [(node.id, after.id) for node in bound.nodes for after in node.consumers()]


def leaving(bound: Any, region: Iterable[int]) -> list[int]:
    """Return a path that leaves a region and comes back; an empty one if the region is convex."""
    inside, whole = set(region), nx.DiGraph(_arrows(bound))
    for outside in set(whole) - inside:
        before = inside & nx.ancestors(whole, outside)
        after = inside & nx.descendants(whole, outside)
        if before and after:
            first = nx.shortest_path(whole, max(before), outside)
            return [*first, *nx.shortest_path(whole, outside, min(after))[1:]]
    return []


def _nodes_drawn(bound: Any, homes: dict[int, str]) -> Sheet:
    """Draw the nodes of a model, coloured by the backend that has them, if one has."""
    colours = viewing.colours_of(homes.values())
    boxes = [
        Box(f"#{node.id} {node.op_type}", colours[homes[node.id]] if node.id in homes else None)
        for node in bound.nodes
    ]
    return graph(boxes, _arrows(bound))


def _of(home: Sequence[int], at: int) -> list[int]:
    return [node for node, place in enumerate(home) if place == at]


def _set(members: Iterable[int]) -> str:
    return "{" + ", ".join(f"#{node}" for node in sorted(members)) + "}"


def _path(path: Sequence[int]) -> str:
    return " \N{RIGHTWARDS ARROW} ".join(f"#{node}" for node in path)
