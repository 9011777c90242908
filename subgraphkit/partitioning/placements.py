"""Placements: which backend runs which nodes of a model, as measured, and where that holds.

``tune`` measures one, keeps it in the cache and writes it into a plan file. A bind finds it again:
``backend="@plan.json"`` names the file, and ``auto`` looks into the cache.
"""

import importlib.metadata
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from subgraphkit.binding import BoundModel
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.processors import processor_name
from subgraphkit.configuration.selection import (
    AUTO,
    NONE,
    BackendChoice,
    Selection,
    parse_selection,
)
from subgraphkit.errors import ConfigError, SubgraphkitError
from subgraphkit.finding.catalogue import CATALOGUE
from subgraphkit.finding.registry import find_record, probe_record
from subgraphkit.ir.structure import NoKeyError, canonical
from subgraphkit.logs import logger_of
from subgraphkit.partitioning.constraints import Constraints, NodeSelector, configured
from subgraphkit.storing.answers import Answers, Passing
from subgraphkit.storing.folders import kept_folder

_logger = logger_of("placement")

_FORMAT: Final = 1
_LARGEST: Final = 64 << 20
_DISTRIBUTION: Final = re.compile(r"[A-Za-z0-9._-]+")
_placements: Final = Answers("placements", most=100)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Which backend runs which nodes of a model.

    Attributes:
        backends: The options of each backend that takes part, in the order of claiming. The last
            one also takes what those before it refuse.
        nodes: By backend, the nodes it is to take; see ``first_output``.
        circumstances: What it was measured for and where; see ``circumstances``.
        figures: What was measured, for people.
    """

    backends: Mapping[str, Mapping[str, Any]]
    nodes: Mapping[str, tuple[str, ...]]
    circumstances: Mapping[str, Any]
    figures: Mapping[str, Any]

    def choices(self, origin: str) -> tuple[BackendChoice, ...]:
        """Return the selection of backends."""
        return tuple(
            BackendChoice(name, options=options, origin=origin)
            for name, options in self.backends.items()
        )

    def constraints(self, bound: BoundModel) -> Constraints:
        """Return what keeps every node from the backends that it is not placed on.

        Raises:
            ConfigError: The model has no such nodes (SGK124).
        """
        makers = {first_output(bound, node): node for node in range(len(bound.table.outputs))}
        placed = {name: backend for backend, names in self.nodes.items() for name in names}
        unknown = [name for name in placed if name not in makers]
        if unknown:
            raise ConfigError(
                "SGK124",
                f"the plan is of another model: it places the node that makes {unknown[0]!r}, "
                f"which {bound.name!r} does not have",
                hint="Measure this model: subgraphkit tune MODEL.",
            )
        first = list(self.backends)[:-1]
        exclusions: dict[str, list[NodeSelector]] = {name: [] for name in first}
        for value, backend in placed.items():
            for name in first:
                if name != backend:
                    exclusions[name].append(makers[value])
        return Constraints(exclusions=exclusions)

    def to_json(self) -> str:
        """Return the text of a plan file."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=2) + "\n"


def read_placement(path: Path) -> Placement:
    """Read a plan file.

    Raises:
        ConfigError: It cannot be read, or is no plan file (SGK124).
    """
    try:
        with path.open("rb") as file:
            return placement_of(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            "SGK124",
            f"plan file {str(path)!r} cannot be read: {_reason(error)}",
            hint="Write one: subgraphkit tune MODEL --output plan.json.",
        ) from error


def _reason(error: OSError | ValueError | RecursionError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    no_json = isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
    return f"it is not JSON: {error}" if no_json else str(error)


def placement_of(text: str | bytes) -> Placement:
    """Return the placement in the text of a plan file.

    Raises:
        ValueError: There is none.
        RecursionError: It is nested too deeply.
    """
    read = json.loads(text)
    if not isinstance(read, dict) or read.pop("format", None) != _FORMAT:
        raise ValueError(f"it has no 'format' that is {_FORMAT}")
    return _placement(read)


def _placement(read: Mapping[str, Any]) -> Placement:
    for key in (one.name for one in fields(Placement)):
        if not isinstance(read.get(key), dict):
            raise ValueError(f"{key!r} is not a JSON object in it")  # noqa: TRY004 (a bad file)
    backends, nodes = read["backends"], read["nodes"]
    if not backends or not nodes.keys() <= backends.keys():
        raise ValueError("it places nodes on backends that it does not list")
    for name in backends:
        if not isinstance(backends[name], dict) or not _is_names(nodes.get(name, [])):
            raise ValueError(f"what it says of backend {name!r} is not options and a list of names")
    return Placement(
        backends=backends,
        nodes={name: tuple(names) for name, names in nodes.items()},
        circumstances=read["circumstances"],
        figures=read["figures"],
    )


def _is_names(names: Any) -> bool:
    return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)


def first_output(bound: BoundModel, node: int) -> str:
    """Return the first output of a node that has a name, by which a placement names the node."""
    return next(filter(None, bound.table.outputs[node]), "")


def circumstances(bound: BoundModel, settings: ResolvedConfig) -> dict[str, Any]:
    """Return all that a measured placement depends on, as plain data.

    Keys: ``model`` (a digest of its structure, names and shapes; weights are left out), ``shapes``
    (of the inputs, for people), ``last`` (who takes what the others refuse), ``max_error`` unless
    it is 0, and those of ``surroundings``.

    Raises:
        NoKeyError: Something in the model has no canonical form, or it has no nodes.
    """
    return {
        "model": bound.digest,
        "shapes": {name: str(bound.types.get(name)) for name in bound.inputs},
        "last": NONE if settings.strict else settings.fallback,
        **({"max_error": settings.max_error} if settings.max_error else {}),
        **surroundings(settings),
    }


def surroundings(settings: ResolvedConfig) -> dict[str, Any]:
    """Return all that measured seconds depend on beside the model, as plain data.

    Keys: ``threads``, ``options``, ``machine`` and ``versions`` (of what is installed).
    """
    options = {
        name: {key: str(value) for key, (value, *_) in sorted(entries.items())}
        for name, entries in sorted(settings.option_sources.items())
        if entries
    }
    return {
        "threads": settings.threads,
        "options": options,
        "machine": processor_name(),
        "versions": _versions(settings),
    }


def _versions(settings: ResolvedConfig) -> dict[str, str]:
    """Return the versions of the backends' distributions and of what those require."""
    names: dict[str, None] = {"subgraphkit": None}
    versions = {}
    for record in CATALOGUE.records():
        if record.name in settings.block:
            continue
        versions[record.name] = record.provider
        if record.distribution:
            names |= dict.fromkeys(_required_by(record.distribution))
    found = {name: _version(name) for name in names}
    versions |= {name: version for name, version in found.items() if version}
    return dict(sorted(versions.items()))


@cache  # what is loaded stays, and every bind on auto asks
def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except Exception:  # noqa: BLE001 (not installed, or with metadata that cannot be read)
        return ""


@cache
def _required_by(distribution: str) -> list[str]:
    try:
        required = importlib.metadata.requires(distribution) or ()
    except Exception:  # noqa: BLE001 (as above)
        return []
    return [match[0] for one in required if (match := _DISTRIBUTION.match(one)) is not None]


def find_placement(bound: BoundModel, settings: ResolvedConfig) -> Placement | None:
    """Return the placement that a selection names, or that is kept for ``auto``; None if none is.

    What is kept is passed over where one of its backends cannot be used now.

    Raises:
        ConfigError: A plan file that is named cannot be read (SGK124).
    """
    choice = settings.auto
    if choice is None:
        return None
    if choice.plan is not None:
        return read_placement(choice.plan)
    folder = kept_folder(settings.cache_dir, AUTO) if settings.cache else None
    if folder is None or not any(folder.iterdir()):
        return None
    if settings.max_error:  # what was tuned for it, or else in float32
        exact = replace(settings, max_error=0.0)
        return _kept(bound, settings, folder) or _kept(bound, exact, folder)
    return _kept(bound, settings, folder)


def _kept(bound: BoundModel, settings: ResolvedConfig, folder: Path) -> Placement | None:
    try:
        question = canonical(circumstances(bound, settings))
    except NoKeyError:
        return None
    found: Any = _placements.recall(question, lambda: Passing(None), folder)
    if found is None:
        return None
    kept = _placement(found)
    return kept if _is_usable(kept, settings) else None


def _is_usable(placement: Placement, settings: ResolvedConfig) -> bool:
    for choice in placement.choices("a placement measured here"):
        try:
            probe_record(find_record(choice, settings), raise_errors=settings.raise_plugin_errors)
        except SubgraphkitError as error:
            _logger.info("what was measured for this model cannot be used now: %s", error.message)
            return False
    return True


def keep_placement(placement: Placement, settings: ResolvedConfig) -> None:
    """Keep a placement in the cache, where ``auto`` finds it under the same circumstances."""
    folder = kept_folder(settings.cache_dir, AUTO) if settings.cache else None
    if folder is not None:
        _placements.put(canonical(dict(placement.circumstances)), asdict(placement), folder)


def warn_of_differences(
    placement: Placement, bound: BoundModel, settings: ResolvedConfig, path: Path
) -> None:
    """Write a warning to the log if a plan file was measured under other circumstances."""
    try:
        now = circumstances(bound, settings)
    except NoKeyError:
        return
    differing = [key for key, value in now.items() if placement.circumstances.get(key) != value]
    if "shapes" in differing:  # the digest has them too, and a model without these nodes is refused
        differing = [key for key in differing if key != "model"]
    if differing:
        _logger.warning(
            "plan file %r was measured under other circumstances (%s differ); "
            "subgraphkit tune measures anew",
            str(path),
            ", ".join(differing),
        )


def selected(
    bound: BoundModel, backends: Selection | None, constraints: Constraints | None
) -> tuple[ResolvedConfig, Constraints | None]:
    """Return the settings with the selection, and the demands of a placement if there is one.

    Raises:
        ConfigError: The selection cannot be read (SGK107), nodes are demanded beside a plan file
            (SGK123), or the file cannot be read or is of another model (SGK124).
    """
    settings = bound.settings
    if isinstance(backends, Placement):
        return _following(backends, bound, settings, "a placement measured here")
    if backends is not None:
        origin = f"argument backend={backends!r}"
        settings = settings.selecting(parse_selection(backends, origin), "call", origin)
    demanded = configured(settings, constraints) is not None
    named = next((one.plan for one in settings.backends if one.plan is not None), None)
    if demanded and named is not None:
        raise ConfigError(
            "SGK123",
            f"plan file {str(named)!r} places every node, so none can be pinned or kept off",
            hint="Leave out the constraints, or name backends in place of the plan file.",
        )
    # what is kept was measured without regard to the shares that are required
    passed_over = demanded or (settings.require and named is None)
    placement = None if passed_over else find_placement(bound, settings)
    if placement is None:
        return settings, None
    origin = "a placement measured here"
    if named is not None:
        origin = f"plan file {str(named)!r}"
        warn_of_differences(placement, bound, settings, named)
    return _following(placement, bound, settings, origin)


def _following(
    placement: Placement, bound: BoundModel, settings: ResolvedConfig, origin: str
) -> tuple[ResolvedConfig, Constraints]:
    choices = placement.choices(origin)
    return settings.selecting(choices, "placement", origin), placement.constraints(bound)
