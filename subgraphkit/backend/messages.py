"""Messages about options and manifests, and the pieces that other rooms build messages from.

One function per message, from plain facts to an error that has not been raised yet; the golden
tests render each. Keeping the texts together keeps their tone and their hints alike. Warnings, and
notes on what a plugin raised, are written here, too.

Source: error texts of the plugin study; JAX and fsspec for naming the install command.
"""

import itertools
import warnings
from collections.abc import Iterable, Sequence
from typing import Final

from subgraphkit.boundary import PLUGIN_MARK
from subgraphkit.errors import (
    BackendLoadError,
    BackendUnavailableError,
    OptionError,
    SubgraphkitError,
    SubgraphkitWarning,
)
from subgraphkit.logs import logger_of


def join_words(words: Iterable[str]) -> str:
    """Return words with commas between them; ``(none)`` if there are none."""
    return ", ".join(words) or "(none)"


def lines(*lines: str) -> str:
    """Return one text of the lines that say something."""
    return "\n".join(line for line in lines if line)


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate most like ``word``, ignoring case, or None if none is near."""
    import difflib  # noqa: PLC0415 (only a misspelt word is compared)

    names = sorted(candidates)
    # a prefix that all share, such as SUBGRAPH_, says nothing about likeness
    skipped = min((_shared_prefix(word, name).rfind("_") + 1 for name in names), default=0)
    by_folded = {name[skipped:].casefold(): name for name in names}
    found = difflib.get_close_matches(word[skipped:].casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def _shared_prefix(one: str, other: str) -> str:
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(letter for letter, _ in pairs)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or an empty string if nothing is near."""
    found = nearest(word, candidates)
    return f"; did you mean {found!r}?" if found is not None else ""


def unknown_option(
    backend: str, key: str, origin: str, valid: Sequence[str], instead: str = ""
) -> OptionError:
    """SGK110: the backend has no such option; ``instead`` has its author's words on the name."""
    guess, known = "", f"Options:          subgraphkit list {backend} --options"
    if not instead:
        guess = did_you_mean(key, valid)
        known = f"Options:          {join_words(valid)}   (subgraphkit list {backend} --options)"
    text = f"backend {backend!r} has no option {key!r} (given by {origin}){guess}"
    hint = lines(instead, known)
    return OptionError("SGK110", text, hint=hint, backend=backend, option=key)


def bad_option_type(backend: str, key: str, given: str, expected: str) -> OptionError:
    """SGK111: the value of an option is of the wrong type; ``given`` shows value and origin."""
    text = f"option {key!r} of backend {backend!r} is {given}, expected {expected}"
    return OptionError("SGK111", text, backend=backend, option=key)


def option_out_of_range(backend: str, key: str, given: str, expected: str) -> OptionError:
    """SGK112: the value of an option is of the right type but not allowed."""
    text = f"option {key!r} of backend {backend!r} is {given}, expected {expected}"
    return OptionError("SGK112", text, backend=backend, option=key)


def bad_manifest(backend: str, source: str, problem: str) -> BackendLoadError:
    """SGK116: the manifest beside a plugin's package is malformed."""
    return BackendLoadError(
        "SGK116",
        f"cannot read the manifest of backend {backend!r}, {source}: {problem}",
        backend=backend,
        hint="The plugin was not imported; its author can mend the file, "
        f"or ignore it with SUBGRAPH_BLOCK={backend}.",
    )


def unavailable(
    name: str, problems: Sequence[str], hint: str = "", way_around: str = ""
) -> BackendUnavailableError:
    """SGK104: installed, but the machine lacks something.

    The way around helps you if you compile here, and not if you open a bundle.
    """
    problem = "; ".join(problems) or "its probe gave no reason"
    return BackendUnavailableError(
        "SGK104",
        f"backend {name!r} is installed but cannot run here: {problem}",
        backend=name,
        hint=lines(
            f"{hint} {way_around}".strip(),
            f"If it is optional write '{name}?' in the list, or set SUBGRAPH_ON_MISSING=warn.",
        ),
        problem=problem,
        fix=hint,
    )


PLACEMENT_LOG: Final = logger_of("placement")
"""The log for the one warning of a session that its placement is not as asked."""


def warn_user(notice: SubgraphkitError) -> None:
    """Issue ``notice`` as a ``SubgraphkitWarning`` at the first frame outside this package.

    Python shows a warning once per place. So each line of yours that causes it shows it once.
    """
    import inspect  # noqa: PLC0415 (few are warned)

    frame = inspect.currentframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "subgraphkit":
        frame = frame.f_back
        level += 1
    warnings.warn(str(notice), SubgraphkitWarning, stacklevel=level)


def mark_as_plugin_error(error: BaseException, plugin: str) -> None:
    """Note on an exception that passes as it is which plugin raised it."""
    error.add_note(f"{PLUGIN_MARK}{plugin}")


def is_of_plugin(error: BaseException) -> bool:
    """Say whether ``mark_as_plugin_error`` has been called for an exception."""
    return any(note.startswith(PLUGIN_MARK) for note in getattr(error, "__notes__", ()))
