"""Messages about settings, selections and configuration files; golden tests render each."""

from collections.abc import Sequence

from subgraphkit.backend.messages import did_you_mean
from subgraphkit.errors import ConfigError


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


def unknown_setting(names: Sequence[str], where: str, valid: Sequence[str]) -> ConfigError:
    """SGK114: settings that do not exist; a warning for the environment, an error elsewhere."""
    joined = ", ".join(f"{name!r}{_guess(name, valid)}" for name in names)
    return ConfigError(
        "SGK114",
        f"unknown setting in {where}: {joined}; 'subgraphkit doctor --settings' lists them all",
    )


def unreadable_metadata(where: str, problem: str) -> ConfigError:
    """SGK128: a distribution is left out, with all that it may provide."""
    return ConfigError(
        "SGK128",
        f"the metadata of an installed package in {where} cannot be read, so no plugin of it is "
        f"used: {problem}",
        hint="Nothing else is affected. Install the package again, or remove that folder.",
    )


def untrusted_file(location: str, folder: str, user_file: str) -> ConfigError:
    """SGK126: a file that was found in a folder nobody vouches for asks for too much."""
    return ConfigError(
        "SGK126",
        f"{location} names code to load or widens what is trusted, and nobody vouches for files in "
        f"{folder!r}",
        hint=f"If you trust whoever can write there, say so in one of these places:\n"
        f"  environment:     SUBGRAPH_TRUSTED_FOLDERS={folder}\n"
        f"  your own file:   trusted_folders = [{folder!r}] in {user_file}\n"
        "To read no file:  SUBGRAPH_CONFIG=none",
        path=folder,
    )


def untrusted_spec(what: str) -> ConfigError:
    """SGK126: a spec that came as JSON asks for too much."""
    return ConfigError(
        "SGK126",
        f"the spec says {what}, which names code to load or widens what is trusted, and it came as "
        "JSON from whoever wrote it",
        hint="If you trust who writes the specs that this process reads, say so where it starts:\n"
        "  SUBGRAPH_TRUST_SPECS=1, or sk.config.set(trust_specs=True)\n"
        "Or say the same for all specs, in the environment or a file of this process.",
    )


def _guess(name: str, valid: Sequence[str]) -> str:
    guess = did_you_mean(name, valid).removeprefix("; ")
    return f" ({guess})" if guess else ""
