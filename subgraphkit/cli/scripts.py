"""Scripts: the Python that does what a command line did, with names that anybody may import."""

import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from subgraphkit.cli.values import merge_options, merge_pairs

_LINE: Final = 88
_OTHERS: Final = "options strict fold pin keep_off"
_LOAD: Final = "model = sk.load({model}, *[data_roots])\n"
_BIND: Final = f"{_LOAD}bound = sk.bind(model, *[shapes backend {_OTHERS} require])\n"
_FEEDS: Final = (
    "feeds = {name: feed.array for name, feed in make_feeds(bound, {files}, {seed}).items()}\n"
)
_PLAIN: Final = f'{_LOAD}bound = sk.bind(model, *[shapes], backend="none")\n{_FEEDS}'

SCRIPTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "run": f"""
?output import numpy as np
import subgraphkit as sk
from subgraphkit.comparing import make_feeds

with sk.InferenceSession({{model}}, *[backend shapes {_OTHERS} data_roots trust]) as session:
    bound = session.plan.graph
    {_FEEDS}    outputs = dict(zip(bound.outputs, session.run(None, feeds)))
for name, value in outputs.items():
    print(name, value)
?output np.savez({{output}}, **outputs)
""",
        "plan": f"""
?html from pathlib import Path
import subgraphkit as sk

{_BIND}partitioning = sk.partition(bound, dry_run=True)
?against bound = sk.bind(model, *[shapes fold], backend={{against}})
?against other = sk.partition(bound, dry_run=True)
?explain nodes = [at for at, name in enumerate(bound.table.names) if name == {{explain}}]
?explain print(*map(partitioning.explain, nodes or [int({{explain}}.lstrip("#"))]), sep="\\n\\n")
?dot graph = partitioning.to_networkx()
?memory print(partitioning.memory())
?full print(partitioning.report(verbose=True))
?brief print(partitioning.report())
?against print(other.report())
?page Path({{html}}).write_text(partitioning.to_html(), encoding="utf-8")
?pages Path({{html}}).write_text(partitioning.to_html(against=other), encoding="utf-8")
if (shortfall := partitioning.shortfall()) is not None:
    shortfall.report(partitioning)
""",
        "build": f"""
?engine from pathlib import Path
import subgraphkit as sk

{_BIND}compiled = sk.compile_subgraphs(sk.partition(bound))
for subgraph, operator in zip(compiled.partitioning.subgraphs, compiled):
    print(subgraph.id, subgraph.backend, dict(operator.info()))
?engine Path({{engine}}).write_bytes(compiled[0].bare_engine())
?bundle with sk.Session(sk.plan(compiled.partitioning, compiled)) as session:
?bundle     session.export({{bundle}}, *[overwrite shared])
""",
        "verify": f"""
?comparison from pathlib import Path
?limited from functools import partial
import subgraphkit as sk
?bisect from subgraphkit.comparing import bisect, make_feeds
?nan from subgraphkit.comparing import find_not_finite, make_feeds
?compare from subgraphkit.comparing import make_feeds, verify
?limited from subgraphkit.comparing import tolerance_for

{_PLAIN}?limited tolerance = partial(tolerance_for, relative={{rtol}}, absolute={{atol}})
?judged tolerance = None  # as suits the element type and the backend
?bisect found = bisect(model, feeds, {{backend}}, {{reference}}, folder={{output}}, \
tolerance=tolerance, *[words shapes options])
?bisect print(found.summary)
?bisect raise SystemExit(0 if found.verdict == "nothing" else 1)
?nan for backend in ({{backend}}, {{reference}}):
?nan     print(find_not_finite(model, feeds, backend, *[shapes options]).text)
?compare found = verify(model, feeds, {{backend}}, {{reference}}, tolerance=tolerance, \
*[per_subgraph shapes options])
?compare for one in found.outputs:
?compare     print(one)
?parts print(*found.subgraphs, sep="\\n")
?comparison Path({{html}}).write_text(found.to_html(), encoding="utf-8")
?compare raise SystemExit(0 if found.agrees else 1)
""",
        "profile": f"""
?html from pathlib import Path
import subgraphkit as sk
from subgraphkit.comparing import make_feeds

with sk.InferenceSession({{model}}, *[backend shapes {_OTHERS} data_roots]) as session:
    bound = session.plan.graph
    {_FEEDS}    with session.profile({{runs}}) as profile:
        profile.run(feeds)
print(profile.table({{top}}))
?chrome profile.to_chrome({{chrome}})
?html Path({{html}}).write_text(profile.to_html(), encoding="utf-8")
""",
        "bench": f"""
?html from pathlib import Path
import subgraphkit as sk
from subgraphkit.comparing import Schedule, bench, make_feeds

{_PLAIN}schedule = Schedule({{repeat}}, {{warmup}}, {{threads}}, {{timeout}})
found = bench({{model}}, feeds, {{contenders}}, schedule=schedule, \
*[shapes options pin keep_off data_roots])
for one in found.measured:
    print(one.selection, one.median if one.ran else one.text)
?html Path({{html}}).write_text(found.to_html(), encoding="utf-8")
raise SystemExit(0 if found.agrees else 1)
""",
        "tune": f"""
?written from pathlib import Path
import subgraphkit as sk
from subgraphkit.comparing import make_feeds
from subgraphkit.placing import tune

{_LOAD}bound = sk.bind(model, *[shapes options threads], backend="auto")
{_FEEDS}found = tune(bound, feeds=feeds, *[seconds backends again])
print(found.report())
?html Path({{html}}).write_text(found.to_html(), encoding="utf-8")
?output Path({{output}}).write_text(found.placement.to_json(), encoding="utf-8")
""",
    }
)
"""By command, its script: ``{word}`` is what the command line gives for a word, ``*[words]`` those
that it gives as arguments, and a line that begins with ``?word`` is there if it gives it."""

_PLACE: Final = r"([\w.]+)\(([^()]*?)(?:, )?\*\[([\w ]+)\](?:, ([^()]*))?\)|(?<!\{)\{(\w+)\}"


def tolerance_words(arguments: Namespace) -> list[str]:
    """Return what a command line says of tolerances, as it would say it again."""
    given = {"--rtol": arguments.rtol, "--atol": arguments.atol}
    return [f"{word}={value}" for word, value in given.items() if value is not None]


_WORDS: Final[Mapping[str, Callable[[Namespace], Any]]] = MappingProxyType(
    {
        "shapes": lambda told: (
            dict(merge_pairs(told.shape, "--shape")) | merge_pairs(told.symbol, "--symbol")
        ),
        "options": lambda told: merge_options(told.option),
        "data_roots": lambda told: told.data_root,
        "files": lambda told: merge_pairs(told.input, "--input"),
        "require": lambda told: getattr(told, "min_coverage", None),
        "brief": lambda told: not (told.explain or told.dot or told.memory or told.reasons),
        "full": lambda told: told.reasons and not (told.explain or told.dot or told.memory),
        "written": lambda told: told.output or told.html,
        "page": lambda told: told.html and not told.against,
        "pages": lambda told: told.html and told.against,
        "compare": lambda told: not (told.bisect or told.nan),
        "parts": lambda told: told.per_subgraph and not (told.bisect or told.nan),
        "contenders": lambda told: told.selections or [None],
        "backends": lambda told: told.backend,
        "limited": tolerance_words,
        "words": tolerance_words,
        "comparison": lambda told: told.html and not (told.bisect or told.nan),
        "judged": lambda told: not (tolerance_words(told) or told.nan),
    }
)
"""Words of scripts that are not those of the command line."""


def script_of(arguments: Namespace) -> str:
    """Write the script of a command line.

    Raises:
        CallerError: Something is given twice (SGK301).
    """

    def given(word: str) -> Any:
        return _WORDS[word](arguments) if word in _WORDS else getattr(arguments, word, None)

    def filled(place: re.Match[str]) -> str:
        function, fixed, words, last, word = place.groups()
        if word:
            return repr(given(word))
        told = [f"{word}={given(word)!r}" for word in words.split() if _is_given(given(word), word)]
        fixed, last = (re.sub(_PLACE, filled, one or "") for one in (fixed, last))
        parts = [part for part in (fixed, *told, last) if part]
        line = f"{function}({', '.join(parts)})"
        broken = "".join(f"\n    {part}," for part in parts)
        return line if len(line) <= _LINE else f"{function}({broken}\n)"

    lines = []
    for line in SCRIPTS[arguments.command].lstrip("\n").splitlines():
        condition, _, rest = line.partition(" ") if line.startswith("?") else ("", "", line)
        if not condition or given(condition[1:]):
            lines.append(re.sub(_PLACE, filled, rest))
    return "\n".join(lines)


def _is_given(value: Any, word: str) -> bool:
    return bool(value) or (word == "fold" and value is False)
