"""Messages about finding, loading and opening backends; golden tests render each."""

from collections.abc import Iterable, Sequence
from typing import Final

from subgraphkit import errors
from subgraphkit.backend.messages import did_you_mean, join_words, lines
from subgraphkit.backend.plugin_api import PLUGIN_API, api_text


def missing(
    name: str, origin: str, install: str, usable: Sequence[str]
) -> errors.BackendNotFoundError:
    """SGK101: the name is known, the distribution is not installed."""
    return errors.BackendNotFoundError(
        "SGK101",
        f"backend {name!r} is not installed (named by {origin})",
        hint=lines(
            f"Install it:       {install}",
            f"Installed:        {join_words(usable)}",
            f"If it is optional write '{name}?' in the list, or set SUBGRAPH_ON_MISSING=warn.",
        ),
        backend=name,
        problem="it is not installed",
        fix=f"Install it: {install}",
    )


def unknown(
    name: str, origin: str, usable: Sequence[str], known: Iterable[str]
) -> errors.BackendNotFoundError:
    """SGK102: no backend has the name."""
    guess = did_you_mean(name, {*usable, *known})
    return errors.BackendNotFoundError(
        "SGK102",
        f"unknown backend {name!r} (named by {origin}){guess}",
        hint=lines(
            f"Installed:        {join_words(usable)}", "Every known name: subgraphkit list --all"
        ),
        backend=name,
        is_likely_typo=bool(guess),
    )


def unknown_distribution(
    name: str, distribution: str, providers: Sequence[str], origin: str
) -> errors.BackendNotFoundError:
    """SGK102: the name exists, but not from the distribution that was asked for."""
    guess = did_you_mean(distribution, providers)
    return errors.BackendNotFoundError(
        "SGK102",
        f"no distribution {distribution!r} provides backend {name!r} (named by {origin}){guess}",
        hint=f"Provided by:      {join_words(providers)}",
        backend=name,
        distribution=distribution,
    )


def load_failed(
    name: str, provider: str, entry_point: str, problem: str, install: Sequence[str] = ()
) -> errors.BackendLoadError:
    """SGK103: installed, but importing, registering or building it failed."""
    return errors.BackendLoadError(
        "SGK103",
        f"backend {name!r} is installed ({provider}) but could not be loaded: {problem}",
        backend=name,
        hint=lines(
            f"Entry point:      {entry_point}",
            *(f"Missing:          {line}" for line in install),
            f"Diagnose:         subgraphkit doctor {name}",
            f"Ignore it:        SUBGRAPH_BLOCK={name}",
        ),
    )


def incompatible(
    name: str, provider: str, needed: tuple[int, int], *, imported: bool
) -> errors.BackendIncompatibleError:
    """SGK105: the plugin was made for another version of the contract."""
    plugin_is_newer = needed > PLUGIN_API
    distribution = provider.split(" ", 1)[0]
    return errors.BackendIncompatibleError(
        "SGK105",
        f"backend {name!r} ({provider}) needs plugin API {api_text(needed)}, but this subgraphkit "
        f"provides {api_text(PLUGIN_API)}",
        backend=name,
        hint=lines(
            "Upgrade core:     pip install --upgrade subgraphkit"
            if plugin_is_newer
            else f"Upgrade plugin:   pip install --upgrade {distribution}",
            "" if imported else "The plugin was not imported.",
        ),
    )


def conflict(name: str, providers: Sequence[tuple[str, str]]) -> errors.BackendConflictError:
    """SGK106: several distributions provide one name; ``providers`` are (provider, value)."""
    ordered = sorted(providers)
    joined = " and ".join(f"{provider} ({value})" for provider, value in ordered)
    first = ordered[0][0].split(" ", 1)[0]
    return errors.BackendConflictError(
        "SGK106",
        f"several distributions provide the backend name {name!r}: {joined}",
        backend=name,
        hint=f"Uninstall all but one, or name the one you want: {name}@{first}",
    )


def shadowed_backend(name: str, provider: str, ours: str) -> errors.BackendConflictError:
    """SGK129: another distribution has a backend by the name of one that ships with us."""
    distribution = provider.split(" ", 1)[0]
    return errors.BackendConflictError(
        "SGK129",
        f"backend {name!r} of {provider} is not used, because {ours}, which ships with "
        "subgraphkit, has that name",
        backend=name,
        hint=f"To use it all the same: {name}@{distribution}",
    )


def unused_options(
    backend: str, given: Sequence[tuple[str, str]], selected: Sequence[str]
) -> errors.ConfigError:
    """SGK113, a warning: ``given`` are (option, origin) of a backend that takes none of them."""
    joined = ", ".join(f"{key!r} (given by {origin})" for key, origin in given)
    reason = "it was given as an instance" if backend in selected else "it is not selected"
    return errors.ConfigError(
        "SGK113",
        f"options for backend {backend!r} are not used, because {reason}: {joined}"
        f"{'' if backend in selected else did_you_mean(backend, selected)}",
        hint=f"Selected:         {join_words(selected)}",
    )


def bad_registration(backend: str, problem: str) -> errors.BackendLoadError:
    """SGK115: a registered object, or its name, cannot be taken."""
    return errors.BackendLoadError(
        "SGK115", f"cannot register backend {backend!r}: {problem}", backend=backend
    )


def blocked_backend(name: str, origin: str, blocked_by: str) -> errors.BackendUnavailableError:
    """SGK117: the backend was named and is blocked."""
    return errors.BackendUnavailableError(
        "SGK117",
        f"backend {name!r} is blocked by {blocked_by} (named by {origin})",
        backend=name,
        hint=f"Unblock it, or leave {name!r} out of the list.",
        problem=f"it is blocked by {blocked_by}",
        fix="Unblock it.",
    )


_UNCHANGED: Final = (
    "It is tried again when its files or its version change, or after: "
    "subgraphkit deploy cache clear"
)


def forked_library(name: str) -> errors.BackendUnavailableError:
    """SGK127: a library whose threads and locks were in use when this process was forked."""
    return errors.BackendUnavailableError(
        "SGK127",
        f"backend {name!r} was at work on another thread when this process was forked, and might "
        "wait for ever here",
        backend=name,
        hint="Fork before sessions run. With multiprocessing: set_start_method('spawn'), or "
        "'forkserver'.",
        problem="it was at work when this process was forked",
    )


def harmful(name: str, code: str, problem: str) -> errors.BackendUnavailableError:
    """SGK320, SGK321: ``auto`` leaves out a backend that is not safe to import."""
    return errors.BackendUnavailableError(
        code,
        f"backend {name!r} is left out of auto: {problem}",
        backend=name,
        hint=lines(
            f"Diagnose:         subgraphkit doctor {name}",
            f"Ignore it:        SUBGRAPH_BLOCK={name}",
            f"Use it even so:   name it, SUBGRAPH_BACKEND={name}",
            _UNCHANGED,
        ),
        problem=problem,
    )


def extension_harmful(label: str, name: str, code: str, problem: str) -> errors.ConfigError:
    """SGK320, SGK321, a warning: an extension that nobody named is not safe to import."""
    return errors.ConfigError(
        code,
        f"extension {label} is not loaded: {problem}",
        hint=lines(
            f"Ignore it:        SUBGRAPH_BLOCK={name}",
            f"Load it even so:  name it, SUBGRAPH_PLUGINS={name}",
            _UNCHANGED,
        ),
    )


def extension_failed(label: str, where: str, problem: str) -> errors.ConfigError:
    """SGK190, a warning: an extension raised; ``where`` is a hook or "import"."""
    return errors.ConfigError(
        "SGK190",
        f"extension {label} failed in {where} and was switched off: {problem}",
        hint="Raise instead:    SUBGRAPH_RAISE_PLUGIN_ERRORS=1",
    )


def wrong_types(extension: str, node: str, operator: str, problem: str) -> errors.BackendError:
    """SGK223: an extension types an operator as it cannot be."""
    return errors.BackendError(
        "SGK223",
        f"extension {extension!r} types operator {operator!r}, and for node {node} its "
        f"subgraphkit_types {problem}",
        backend=extension,
        hint="Its author can mend it. Until then it can be left out, and the types are unknown:    "
        f"SUBGRAPH_BLOCK={extension}",
    )


def wrong_edit(
    extension: str, model: str, nodes: Sequence[str], problem: str
) -> errors.BackendError:
    """SGK224: an extension edits a graph as it cannot be."""
    where = f" in the place of {join_words(nodes)}" if nodes else ""
    return errors.BackendError(
        "SGK224",
        f"what extension {extension!r} puts into model {model!r}{where} cannot be: {problem}",
        backend=extension,
        hint="Its author can mend it. Until then you can leave it out:    "
        f"SUBGRAPH_BLOCK={extension}",
    )


def unknown_hook(label: str, hook: str, valid: Sequence[str]) -> errors.ConfigError:
    """SGK191, a warning: an extension implements a hook that nobody will ever call."""
    return errors.ConfigError(
        "SGK191",
        f"extension {label} implements {hook!r}, which is not a hook{did_you_mean(hook, valid)}",
    )


def unknown_backend_hook(
    backend: str, provider: str, hook: str, valid: Sequence[str]
) -> errors.BackendLoadError:
    """SGK191: a backend implements a hook that nobody will ever call."""
    return errors.BackendLoadError(
        "SGK191",
        f"backend {backend!r} ({provider}) implements {hook!r}, which is not a hook"
        f"{did_you_mean(hook, valid)}",
        backend=backend,
    )
