"""What came of the campaign: a small file of numbers, and the page that is written from it."""

import functools
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
from filelock import FileLock

from tests.campaign.judges import NOT_HEARD
from tests.campaign.trials import KINDS, Attack, Tally

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
RESULTS: Final = HERE / "results.json"
PAGE: Final = ROOT / "RELIABILITY.md"

_SAME: Final = ("attack", "backend", "commit", "machine", "versions")
_LIBRARIES: Final = {
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "onednn": "onednn-cpu-gomp",
    "tvm": "apache-tvm",
    "iree": "iree-base-compiler",
}
_PLEDGES: Final = """\
## What is not promised

- A trial is no proof. The numbers say how often nothing happened, on one machine with one set of
  versions.
- Libraries crash on models that nobody has tried yet. Only `isolate="process"` keeps the process
  that asked alive then; without it a crash of a library is a crash of the program.
- A plugin that is named runs as the user does. It may end the process; no limit holds it.
- Where ONNX Runtime and `onnx.reference` do not agree, or one of them does not answer, nobody says
  here what is right; the column *judged* counts the results that were compared.
- Sizes that a model multiplies out of shapes that are fed, and how often a loop runs, are bounded
  on NumPy alone.
- Random numbers, models of several gigabytes, graphics cards and other systems than Linux are not
  part of the campaign.

What is trusted and what is not, and how to report a fault, is in the
[security policy](SECURITY.md).

## Do it again

`make campaign` takes about ten minutes and `make campaign-long` a night; both add to the numbers.
One attack alone; of one revision, the same seed is the same trial:

```sh
python -m tests.campaign --attack mutants --backend numpy --seed 123 --count 1000 --seconds 600
```

Every failure is minimised and kept in `tests/campaign/found`; each file there is a test.
"""


def machine() -> str:
    """Return what this machine is, without a name."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    processor = names[0] if names else platform.machine()
    system = f"{platform.system()} {platform.release().split('-')[0]}"
    return f"{processor}, {len(names)} processors, {memory} GiB, {system}"


def versions(backend: str) -> str:
    """Return the versions that decide what comes out."""
    found = [f"Python {platform.python_version()}", f"onnx {version('onnx')}"]
    found += [f"numpy {np.__version__}"]
    library = _LIBRARIES.get(backend, "numpy")
    return ", ".join([*found, *([f"{library} {version(library)}"] * (library != "numpy"))])


def commit() -> str:
    """Return the last revision that changed the software, with a plus if it was changed since."""
    command = ["git", "-C", str(ROOT)]
    places = ["--", "subgraphkit", "backends", ":!backends/*/tests/*", ":!*.md"]
    last, changed = (
        subprocess.run([*command, *words, *places], capture_output=True, text=True, check=False)
        for words in (["log", "-1", "--format=%h", "--abbrev=10"], ["status", "--porcelain"])
    )
    return f"{last.stdout.strip() or 'unknown'}{'+' if changed.stdout else ''}"


def record(attack: Attack, backend: str, start: tuple[str, int], tally: Tally) -> dict[str, Any]:
    """Write a tally as it is kept."""
    revision, first = start
    codes = sorted(tally.codes.items(), key=lambda one: -one[1])
    plain: dict[str, int] = {}
    for code, count in codes:
        plain[code.split()[0]] = plain.get(code.split()[0], 0) + count
    return {
        "attack": attack.name,
        "backend": backend,
        "commit": revision,
        "machine": machine(),
        "versions": versions(backend),
        "day": datetime.now(UTC).date().isoformat(),
        "seeds": [[first, first + tally.trials - 1]],
        "trials": tally.trials,
        "counts": {kind: tally.counts.get(kind, 0) for kind in KINDS},
        "judged": tally.judged,
        "codes": plain,
        "seconds": round(tally.seconds, 1),
    }


def merge(path: Path, new: Mapping[str, Any]) -> None:
    """Add a record to those that are kept, at the end; of one revision there is one for each."""
    with FileLock(f"{path}.lock"):
        kept = read(path)
        same = next((one for one in kept if all(one[key] == new[key] for key in _SAME)), None)
        if same is not None:
            kept.remove(same)
            new = {**_sum(same, new), "seeds": _joined([*same["seeds"], *new["seeds"]])}
        kept.append(dict(new))
        path.write_text("[\n" + ",\n".join(json.dumps(one) for one in kept) + "\n]\n")
    Path(f"{path}.lock").unlink(missing_ok=True)


def read(path: Path = RESULTS) -> list[dict[str, Any]]:
    """Return the records that are kept, the newest last."""
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []
    return found


def next_seed(records: Iterable[Mapping[str, Any]], attack: str, backend: str) -> int:
    """Return the first seed that was never tried."""
    mine = [one for one in records if (one["attack"], one["backend"]) == (attack, backend)]
    return max((last + 1 for one in mine for _, last in one["seeds"]), default=0)


def _sum(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Add up two records."""
    total = {**one, "day": max(one["day"], other["day"])}
    for key in ("trials", "judged", "seconds"):
        total[key] = round(one[key] + other[key], 1)
    for table in ("counts", "codes"):
        both = {**one[table], **other[table]}
        total[table] = {key: one[table].get(key, 0) + other[table].get(key, 0) for key in both}
    return total


def _joined(ranges: list[list[int]]) -> list[list[int]]:
    """Join ranges of seeds that follow each other."""
    joined: list[list[int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(last, joined[-1][1])
        else:
            joined.append([first, last])
    return joined


def page(records: list[dict[str, Any]], abouts: Mapping[str, str]) -> str:
    """Write the page from the records."""
    lines = [
        "# Reliability",
        "",
        "What was tried against this software, how often, and what came out. The page is written",
        "by `python -m tests.campaign --page` from `tests/campaign/results.json`.",
        "",
        "A trial *ran* when what came out was right as far as anybody can say, and is *coded* when",
        "it ended in an error of ours with a code. Everything else is a failure: an error without",
        "a code, a crash of the process, a hang, a wrong answer, or more memory or time than a",
        "trial may take. One trial of some attacks makes many runs or opens a model many times;",
        "their outcomes are counted by run and by opening.",
        "",
        "## The newest revision that each was tried on",
        "",
        "A revision is the last commit that changed the software; changes of tests and pages make",
        "none. Failures in this table are open.",
        "",
        *_table(_newest(records)),
        "",
        "What the words mean:",
        "",
        *(f"- `{name}`: {about}" for name, about in abouts.items()),
        "",
        "## Where a judge is not heard",
        "",
        "Of valid graphs `onnx.reference` and ONNX Runtime, not optimised, are asked, and count",
        "where they agree. `onnx.reference` is not asked where the specification's text decides",
        "against it:",
        "",
        *(f"- `{name}`: it {what}" for name, what in sorted(NOT_HEARD.items())),
        "",
        "Not drawn is what the text leaves open: what integers become beyond their range or by a",
        "mean, where regions of `RoiAlign` have their maximum, and what a last digit decides.",
        "",
        "## All revisions together",
        "",
        "Failures of former revisions are mended unless they are in the first table as well.",
        "",
        *_table(list(_summed(records))),
        "",
        "## When and where",
        "",
        *_places(records),
        "",
        _PLEDGES,
    ]
    return "\n".join(lines)


def _newest(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last record of each attack on each backend."""
    last = {(one["attack"], one["backend"]): one for one in records}
    return [last[key] for key in sorted(last)]


def _summed(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield what all records of an attack on a backend say together, and on all backends."""
    for attack in sorted({one["attack"] for one in records}):
        same = [one for one in records if one["attack"] == attack]
        backends = sorted({one["backend"] for one in same})
        for backend in backends:
            mine = [one for one in same if one["backend"] == backend]
            tried = len({one["commit"] for one in mine})
            yield {**functools.reduce(_sum, mine), "commit": f"{tried} in all"}
        if len(backends) > 1:
            yield {**functools.reduce(_sum, same), "backend": "all", "commit": ""}


def _table(records: list[dict[str, Any]]) -> list[str]:
    head = ["attack", "backend", "revision", "trials", *KINDS, "judged", "minutes"]
    rows = [
        [
            one["attack"],
            one["backend"],
            one["commit"],
            f"{one['trials']:,}",
            *(f"{one['counts'][kind]:,}" for kind in KINDS),
            f"{one['judged']:,}",
            f"{one['seconds'] / 60:.1f}",
        ]
        for one in records
    ]
    rule = [*["---"] * 3, *["---:"] * (len(head) - 3)]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]


def _places(records: list[dict[str, Any]]) -> Iterator[str]:
    found: dict[tuple[str, str], set[str]] = {}
    for one in records:
        text = f"{one['machine']}; {one['versions']}"
        found.setdefault((one["day"], text), set()).add(one["commit"])
    for (day, text), commits in sorted(found.items()):
        yield f"- {day}, {', '.join(f'`{one}`' for one in sorted(commits))}: {text}"
