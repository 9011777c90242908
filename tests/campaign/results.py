"""What came of the campaign: a small file of numbers, and the tables that the page has of them."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from tests.campaign.judges import NOT_HEARD
from tests.campaign.trials import KINDS, Attack, Tally

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = Path(__file__).with_name("results.json")
PAGE: Final = ROOT / "RELIABILITY.md"


def commit() -> str:
    """Return the last revision that changed the software, with a plus if it was changed since."""
    command = ["git", "-C", str(ROOT)]
    places = ["--", "subgraphkit", "backends", ":!backends/*/tests/*", ":!*.md"]
    last, changed = (
        subprocess.run([*command, *words, *places], capture_output=True, text=True, check=False)
        for words in (["log", "-1", "--format=%h", "--abbrev=10"], ["status", "--porcelain"])
    )
    return f"{last.stdout.strip() or 'unknown'}{'+' if changed.stdout else ''}"


def add(path: Path, key: tuple[str, str], revision: str, first: int, tally: Tally) -> None:
    """Add a tally to what is kept of an attack on a backend: of one revision, and of all."""
    with FileLock(f"{path}.lock"):
        kept = read(path)
        one = kept.setdefault(" ".join(key), {"next": 0, "total": {}})
        if one.get("commit") != revision:
            one["newest"] = {}
        one.update(commit=revision, next=max(one["next"], first + tally.trials))
        for which in ("newest", "total"):
            one[which] = _sum([one[which], tally.numbers()])
        lines = (f"{json.dumps(key)}: {json.dumps(kept[key])}" for key in sorted(kept))
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    Path(f"{path}.lock").unlink(missing_ok=True)


def read(path: Path = RESULTS) -> dict[str, Any]:
    """Return what is kept, by attack and backend."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def page(text: str, kept: Mapping[str, Any], attacks: Mapping[str, Attack]) -> str:
    """Write the tables and lists of the page anew, each below its comment."""
    totals: dict[str, list[Any]] = {}
    for key, one in kept.items():
        totals.setdefault(key.split()[0], []).append(one["total"])
    newest = ([*key.split(), one["commit"], one["newest"]] for key, one in kept.items())
    parts = {
        "newest": _table(["attack", "backend", "revision"], newest),
        "totals": _table(["attack"], ([name, _sum(several)] for name, several in totals.items())),
        "attacks": [f"- `{name}`: {attack.about}" for name, attack in attacks.items()],
        "judges": [f"- `{name}`: it {what}" for name, what in sorted(NOT_HEARD.items())],
    }
    for name, lines in parts.items():
        before, rest = text.split(f"<!-- {name}: begin -->")
        _, after = rest.split(f"<!-- {name}: end -->")
        body = "\n".join(["", "", *lines, "", ""])
        text = f"{before}<!-- {name}: begin -->{body}<!-- {name}: end -->{after}"
    return text


def _sum(several: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total = Counter[str]()
    for one in several:
        total.update(one)  # type: ignore[arg-type]
    return {name: round(number, 1) for name, number in total.items()}


def _table(labels: list[str], rows: Iterable[list[Any]]) -> Iterator[str]:
    counts = ["trials", *KINDS, "judged"]
    yield f"| {' | '.join([*labels, *counts, 'minutes'])} |"
    yield f"| {' | '.join([*['---'] * len(labels), *['---:'] * (len(counts) + 1)])} |"
    for *names, numbers in rows:
        minutes = numbers["seconds"] / 60
        cells = [*names, *(f"{numbers[name]:,}" for name in counts), f"{minutes:.1f}"]
        yield f"| {' | '.join(cells)} |"
