"""Seconds that the conformance kit takes for each installed backend, by level.

``--write`` puts the table into ``docs/conformance.md``.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from measuring import Table, base_parser, show, store

from subgraphkit import list_backends
from subgraphkit.configuration.layers import processor_name

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
BETWEEN = ("<!-- times: begin -->", "<!-- times: end -->")
LAST_LEVEL = 5
MOST_SECONDS = 1800


def main() -> None:
    """Try each backend, and print or write the table."""
    parser = base_parser(__doc__, repeat=1)
    parser.add_argument("--backends", nargs="+", metavar="NAME", help="those to try, not all")
    parser.add_argument("--level", type=int, default=LAST_LEVEL, help="the last level")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    arguments = parser.parse_args()
    names = arguments.backends or sorted({one.name for one in list_backends()})
    rows = [_row(name, arguments.level) for name in names]
    levels = [f"level {number}" for number in range(arguments.level + 1)]
    where = f"{os.cpu_count()} processors ({processor_name()})"
    note = f"On {where}, with `--within` as it is unless told otherwise."
    columns = ("backend", *levels, "all", "cases tried", "right", "wrong")
    table = Table("Seconds of each level", columns, rows, (note,))
    show(table, markdown=arguments.markdown)
    if arguments.write:
        store(PAGE, [table], between=BETWEEN)


def _row(name: str, level: int) -> list[str]:
    words = ["author", "test", name, "--level", str(level), "--json"]
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "subgraphkit", *words],
        stdout=subprocess.PIPE,
        timeout=MOST_SECONDS,
        check=False,
    )
    taken = time.monotonic() - began
    document: dict[str, Any] = json.loads(ended.stdout)["data"]
    seconds = {one["level"]: f"{one['seconds']:.0f}" for one in document["levels"]}
    count = len(document["findings"])
    tried = count - sum(one["outcome"] == "untried" for one in document["findings"])
    return [
        name,
        *(seconds.get(number, "") for number in range(level + 1)),
        f"{taken:.0f}",
        f"{tried} of {count}",
        str(document["right"]),
        str(document["wrong"]),
    ]


if __name__ == "__main__":
    main()
