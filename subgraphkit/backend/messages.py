"""The wording of everything that can go wrong while backends are chosen and loaded.

One function per message, from plain facts to an error that has not been raised yet; the golden
tests render each. Keeping the texts together keeps their tone and their hints alike.

Source: error texts of the plugin study; JAX and fsspec for naming the install command.
"""

from collections.abc import Iterable, Sequence

from subgraphkit.backend.plugin_api import PLUGIN_API, api_text
from subgraphkit.backend.suggestion import did_you_mean
from subgraphkit.errors import (
    BackendConflictError,
    BackendIncompatibleError,
    BackendLoadError,
    BackendNotFoundError,
    BackendUnavailableError,
    ConfigError,
    OptionError,
)

__all__ = [
    "bad_file",
    "bad_manifest",
    "bad_option_type",
    "bad_registration",
    "bad_selection",
    "bad_setting",
    "blocked",
    "conflict",
    "deprecated_option",
    "describe_exception",
    "extension_failed",
    "incompatible",
    "load_failed",
    "missing",
    "option_out_of_range",
    "unavailable",
    "unknown",
    "unknown_backend_hook",
    "unknown_distribution",
    "unknown_hook",
    "unknown_option",
    "unknown_setting",
    "unused_options",
]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "(none)"


def _lines(*lines: str) -> str:
    return "\n".join(line for line in lines if line)


def describe_exception(error: BaseException) -> str:
    """Return the type and the first line of the text of an exception."""
    text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def missing(name: str, origin: str, install: str, usable: Sequence[str]) -> BackendNotFoundError:
    """SGK101: the name is known, the distribution is not installed."""
    return BackendNotFoundError(
        "SGK101",
        f"backend {name!r} is not installed (named by {origin})",
        hint=_lines(
            f"Install it:       {install}",
            f"Installed:        {_listed(usable)}",
            f"If it is optional write '{name}?' in the list, or set SUBGRAPH_ON_MISSING=warn.",
        ),
        backend=name,
        problem="it is not installed",
        fix=f"Install it: {install}",
    )


def unknown(
    name: str, origin: str, usable: Sequence[str], known: Iterable[str]
) -> BackendNotFoundError:
    """SGK102: nobody knows the name."""
    guess = did_you_mean(name, {*usable, *known})
    return BackendNotFoundError(
        "SGK102",
        f"unknown backend {name!r} (named by {origin}){guess}",
        hint=_lines(
            f"Installed:        {_listed(usable)}",
            "Every known name: subgraphkit list --all",
        ),
        backend=name,
        is_likely_typo=bool(guess),
    )


def unknown_distribution(
    name: str, distribution: str, providers: Sequence[str], origin: str
) -> BackendNotFoundError:
    """SGK102: the name exists, but not from the distribution that was asked for."""
    guess = did_you_mean(distribution, providers)
    return BackendNotFoundError(
        "SGK102",
        f"no distribution {distribution!r} provides backend {name!r} (named by {origin}){guess}",
        hint=f"Provided by:      {_listed(providers)}",
        backend=name,
        distribution=distribution,
    )


def load_failed(
    name: str,
    provider: str,
    entry_point: str,
    problem: str,
    install: Sequence[str] = (),
    *,
    code: str = "SGK103",
) -> BackendLoadError:
    """SGK103: installed, but importing, registering or building it failed."""
    return BackendLoadError(
        code,
        f"backend {name!r} is installed ({provider}) but could not be loaded: {problem}",
        backend=name,
        hint=_lines(
            f"Entry point:      {entry_point}",
            *(f"Missing:          {line}" for line in install),
            f"Diagnose:         subgraphkit doctor {name}",
            f"Ignore it:        SUBGRAPH_BLOCK={name}",
        ),
    )


def unavailable(
    name: str, problems: Sequence[str], hint: str = "", way_around: str = ""
) -> BackendUnavailableError:
    """SGK104: installed, but the machine lacks something.

    The way around is of use to those who compile here, and not to those who open a bundle.
    """
    problem = "; ".join(problems) or "its probe gave no reason"
    return BackendUnavailableError(
        "SGK104",
        f"backend {name!r} is installed but cannot run here: {problem}",
        backend=name,
        hint=_lines(
            f"{hint} {way_around}".strip(),
            f"If it is optional write '{name}?' in the list, or set SUBGRAPH_ON_MISSING=warn.",
        ),
        problem=problem,
        fix=hint,
    )


def incompatible(
    name: str, provider: str, needed: tuple[int, int], *, imported: bool
) -> BackendIncompatibleError:
    """SGK105: the plugin was made for another version of the contract."""
    plugin_is_newer = needed > PLUGIN_API
    distribution = provider.split(" ", 1)[0]
    return BackendIncompatibleError(
        "SGK105",
        f"backend {name!r} ({provider}) needs plugin API {api_text(needed)}, but this subgraphkit "
        f"provides {api_text(PLUGIN_API)}",
        backend=name,
        hint=_lines(
            "Upgrade core:     pip install --upgrade subgraphkit"
            if plugin_is_newer
            else f"Upgrade plugin:   pip install --upgrade {distribution}",
            "" if imported else "The plugin was not imported.",
        ),
    )


def conflict(name: str, providers: Sequence[tuple[str, str]]) -> BackendConflictError:
    """SGK106: several distributions provide one name; ``providers`` are (provider, value)."""
    ordered = sorted(providers)
    listed = " and ".join(f"{provider} ({value})" for provider, value in ordered)
    first = ordered[0][0].split(" ", 1)[0]
    return BackendConflictError(
        "SGK106",
        f"several distributions provide the backend name {name!r}: {listed}",
        backend=name,
        hint=f"Uninstall all but one, or name the one you want: {name}@{first}",
    )


def bad_selection(origin: str, problem: str) -> ConfigError:
    """SGK107: a selection of backends cannot be read."""
    return ConfigError(
        "SGK107",
        f"cannot read {origin}: {problem}",
        hint="Examples:         tensorrt | tensorrt:precision=fp16,numpy | tensorrt?,numpy | none",
    )


def bad_setting(location: str, expected: str) -> ConfigError:
    """SGK108: a setting has a value of the wrong kind; ``location`` shows the value."""
    return ConfigError("SGK108", f"{location} is not {expected}")


def bad_file(path: str, line: int | None, problem: str) -> ConfigError:
    """SGK109: a configuration file is malformed."""
    where = f"{path}, line {line}" if line is not None else path
    return ConfigError(
        "SGK109",
        f"cannot read the configuration file {where}: {problem}",
        hint="To read no file:  SUBGRAPH_CONFIG=none",
        path=path,
        line=line,
    )


def unknown_option(
    backend: str, key: str, origin: str, valid: Sequence[str], instead: str = ""
) -> OptionError:
    """SGK110: the backend has no such option; ``instead`` is what its author says of the name."""
    if instead:
        return OptionError(
            "SGK110",
            f"backend {backend!r} has no option {key!r} (given by {origin})",
            hint=_lines(instead, f"Options:          subgraphkit info {backend} --options"),
            backend=backend,
            option=key,
        )
    return OptionError(
        "SGK110",
        f"backend {backend!r} has no option {key!r} (given by {origin}){did_you_mean(key, valid)}",
        hint=f"Options:          {_listed(valid)}   (subgraphkit info {backend} --options)",
        backend=backend,
        option=key,
    )


def bad_option_type(backend: str, key: str, given: str, expected: str) -> OptionError:
    """SGK111: the value of an option is of the wrong type; ``given`` shows value and origin."""
    return OptionError(
        "SGK111",
        f"option {key!r} of backend {backend!r} is {given}, expected {expected}",
        backend=backend,
        option=key,
    )


def option_out_of_range(backend: str, key: str, given: str, expected: str) -> OptionError:
    """SGK112: the value of an option is of the right type but not allowed."""
    return OptionError(
        "SGK112",
        f"option {key!r} of backend {backend!r} is {given}, expected {expected}",
        backend=backend,
        option=key,
    )


def unused_options(
    backend: str, given: Sequence[tuple[str, str]], selected: Sequence[str]
) -> ConfigError:
    """SGK113, a warning: ``given`` are (option, origin) of a backend that takes none of them."""
    listed = ", ".join(f"{key!r} (given by {origin})" for key, origin in given)
    reason = "it was given as an instance" if backend in selected else "it is not selected"
    return ConfigError(
        "SGK113",
        f"options for backend {backend!r} are not used, because {reason}: {listed}"
        f"{'' if backend in selected else did_you_mean(backend, selected)}",
        hint=f"Selected:         {_listed(selected)}",
    )


def unknown_setting(names: Sequence[str], where: str, valid: Sequence[str]) -> ConfigError:
    """SGK114: settings that do not exist; a warning for the environment, an error elsewhere."""
    listed = ", ".join(f"{name!r}{_guess(name, valid)}" for name in names)
    return ConfigError(
        "SGK114",
        f"unknown setting in {where}: {listed}",
        hint=f"Settings:         {_listed(valid)}",
    )


def _guess(name: str, valid: Sequence[str]) -> str:
    guess = did_you_mean(name, valid).removeprefix("; ")
    return f" ({guess})" if guess else ""


def bad_registration(backend: str, problem: str) -> BackendLoadError:
    """SGK115: what was registered, or the name it was registered under, cannot be taken."""
    return BackendLoadError(
        "SGK115", f"cannot register backend {backend!r}: {problem}", backend=backend
    )


def bad_manifest(backend: str, source: str, problem: str) -> BackendLoadError:
    """SGK116: the manifest beside a plugin's package is malformed."""
    return BackendLoadError(
        "SGK116",
        f"cannot read the manifest of backend {backend!r}, {source}: {problem}",
        backend=backend,
        hint="The plugin was not imported; its author can mend the file, "
        f"or ignore it with SUBGRAPH_BLOCK={backend}.",
    )


def blocked(name: str, origin: str, blocked_by: str) -> BackendUnavailableError:
    """SGK117: the backend was named and is blocked."""
    return BackendUnavailableError(
        "SGK117",
        f"backend {name!r} is blocked by {blocked_by} (named by {origin})",
        backend=name,
        hint=f"Unblock it, or leave {name!r} out of the list.",
        problem=f"it is blocked by {blocked_by}",
        fix="Unblock it.",
    )


def deprecated_option(backend: str, alias: str, name: str, origin: str) -> ConfigError:
    """SGK118, a warning: an option was given by its former name."""
    return ConfigError(
        "SGK118",
        f"option {alias!r} of backend {backend!r} is now called {name!r} (given by {origin})",
    )


def extension_failed(label: str, where: str, problem: str) -> ConfigError:
    """SGK190, a warning: an extension raised; ``where`` is a hook or "import"."""
    return ConfigError(
        "SGK190",
        f"extension {label} failed in {where} and was switched off: {problem}",
        hint="Raise instead:    SUBGRAPH_RAISE_PLUGIN_ERRORS=1",
    )


def unknown_hook(label: str, hook: str, valid: Sequence[str]) -> ConfigError:
    """SGK191, a warning: an extension implements a hook that nobody will ever call."""
    return ConfigError(
        "SGK191",
        f"extension {label} implements {hook!r}, which is not a hook{did_you_mean(hook, valid)}",
    )


def unknown_backend_hook(
    backend: str, provider: str, hook: str, valid: Sequence[str]
) -> BackendLoadError:
    """SGK191: a backend implements a hook that nobody will ever call."""
    return BackendLoadError(
        "SGK191",
        f"backend {backend!r} ({provider}) implements {hook!r}, which is not a hook"
        f"{did_you_mean(hook, valid)}",
        backend=backend,
    )
