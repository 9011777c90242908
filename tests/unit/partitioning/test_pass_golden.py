"""Tricky graphs: model, backends and partitioning as text, in tests/golden/partitionings.

Above the line ``---`` stand the backends (see ``pass_support``), the fewest regions of the first of
them, worked out by hand or by brute force, and the model; below it what the pass makes of it.
"""

import pytest

from subgraphkit.errors import SubgraphkitError
from subgraphkit.partitioning import partition
from tests.golden_support import GOLDEN, GoldenCheck
from tests.unit.partitioning.pass_support import bound, described, regions, shown

FOLDER = GOLDEN / "partitionings"
CASES = sorted(path.stem for path in FOLDER.glob("*.txt"))
MODES = ("any", "connected")


def read(name: str) -> tuple[str, str, list[str], dict[str, int]]:
    """Return the text above the line, the model, the backends, and the expected counts."""
    above = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n---\n")[0]
    lines = above.splitlines()
    remarks = [line.removeprefix("# ") for line in lines if line.startswith("# ")]
    model = "\n".join(line for line in lines if not line.startswith("# "))
    backends = [text.removeprefix("backend ") for text in remarks if text.startswith("backend ")]
    counts = next((text for text in remarks if text.startswith("fewest ")), "fewest")
    expected = dict(pair.split("=") for pair in counts.split()[1:])
    return above, model, backends, {mode: int(count) for mode, count in expected.items()}


def result_of(model: str, backends: list[str], mode: str) -> str:
    try:
        graph = bound(model)
    except SubgraphkitError as error:
        return str(error)
    return shown(partition(graph, [described(line, mode) for line in backends]))


@pytest.mark.parametrize("name", CASES)
def test_a_tricky_graph_is_partitioned_as_written_down(name: str, golden: GoldenCheck) -> None:
    above, model, backends, _ = read(name)
    results = {mode: result_of(model, backends, mode) for mode in MODES}
    if len(set(results.values())) == 1:
        below = f"{' and '.join(MODES)}:\n{results['any']}"
    else:
        below = "\n\n".join(f"{mode}:\n{text}" for mode, text in results.items())
    golden(f"partitionings/{name}", f"{above}\n---\n{below}")


@pytest.mark.parametrize("name", [name for name in CASES if read(name)[3]])
@pytest.mark.parametrize("mode", MODES)
def test_the_first_backend_has_as_few_regions_as_possible(name: str, mode: str) -> None:
    _, model, backends, expected = read(name)
    made = [described(line, mode) for line in backends]
    found = partition(bound(model), made)
    assert len(regions(found, made[0].name)) == expected[mode]
