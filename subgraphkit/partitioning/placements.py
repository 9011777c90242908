"""Placements of a bind: the one that a selection names or the cache has, and its conditions.

``tune`` measures one, keeps it in the cache and writes it into a plan file; ``Partitioning.save``
writes one with its regions. A bind finds it again: ``backend="@plan.json"`` names the file, and
``auto`` looks into the cache.
"""

import importlib.metadata
import re
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from subgraphkit.binding import BoundModel
from subgraphkit.configuration.config import ResolvedConfig
from subgraphkit.configuration.layers import processor_name
from subgraphkit.configuration.selection import AUTO, NONE, Selection, parse_selection
from subgraphkit.errors import ConfigError, SubgraphkitError
from subgraphkit.finding.catalogue import CATALOGUE, version_of
from subgraphkit.finding.registry import find_record, probe_record
from subgraphkit.ir.structure import NoKeyError, canonical
from subgraphkit.logs import logger_of
from subgraphkit.partitioning.constraints import Constraints, all_demands
from subgraphkit.partitioning.plan_files import (
    Placement,
    plain_placement,
    read_placement,
    shapes_of,
)
from subgraphkit.storing.folders import kept_folder
from subgraphkit.storing.kept_files import Answers, Passing

_logger = logger_of("placement")

_DISTRIBUTION: Final = re.compile(r"[A-Za-z0-9._-]+")
_placements: Final = Answers("placements", most=100)


def circumstances(bound: BoundModel, settings: ResolvedConfig) -> dict[str, Any]:
    """Return all that a measured placement depends on, as plain data; else NoKeyError.

    Keys: ``model`` (a digest of its structure, names and shapes; weights are left out), ``shapes``
    (of the inputs, for people), ``last`` (who takes the refused nodes), ``max_error`` unless it is
    0, and those of ``surroundings``.
    """
    return {
        "model": bound.digest,
        "shapes": shapes_of(bound),
        "last": NONE if settings.strict else settings.fallback,
        **({"max_error": settings.max_error} if settings.max_error else {}),
        **surroundings(settings),
    }


def surroundings(settings: ResolvedConfig) -> dict[str, Any]:
    """Return all that measured seconds depend on beside the model, as plain data.

    Keys: ``threads``, ``options``, ``machine`` and ``versions`` (of distributions).
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
    """Return the versions of the backends' distributions and of their requirements."""
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


_version: Final = cache(version_of)  # loaded modules stay, and every bind on auto asks


@cache
def _required_by(distribution: str) -> list[str]:
    try:
        required = importlib.metadata.requires(distribution) or ()
    except Exception:  # noqa: BLE001 (as above)
        return []
    return [match[0] for one in required if (match := _DISTRIBUTION.match(one)) is not None]


def find_placement(bound: BoundModel, settings: ResolvedConfig) -> Placement | None:
    """Return the placement that a selection names, or that is kept for ``auto``; None if none is.

    A kept placement does not count if one of its backends cannot be used now. A named plan file
    that cannot be read is a ConfigError (SGK124).
    """
    if (choice := settings.auto) is None:
        return None
    if choice.plan is not None:
        return read_placement(choice.plan)
    folder = kept_folder(settings.cache_dir, AUTO) if settings.cache else None
    if folder is None or not any(folder.iterdir()):
        return None
    if settings.max_error:  # the one tuned for it, or else for float32
        exact = replace(settings, max_error=0.0)
        return _read_kept(bound, settings, folder) or _read_kept(bound, exact, folder)
    return _read_kept(bound, settings, folder)


def _read_kept(bound: BoundModel, settings: ResolvedConfig, folder: Path) -> Placement | None:
    try:
        question = canonical(circumstances(bound, settings))
    except NoKeyError:
        return None
    found: Any = _placements.recall(question, lambda: Passing(None), folder)
    if found is None:
        return None
    kept = plain_placement(found)
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
    then = placement.circumstances
    kept = then if placement.regions else now  # an unmeasured plan depends on less
    differing = [key for key, value in now.items() if key in kept and then.get(key) != value]
    if "shapes" in differing:  # the digest has them too, and a model without these nodes is refused
        differing = [key for key in differing if key != "model"]
    if differing:
        _logger.warning(
            "plan file %r was measured under other circumstances (%s differ); "
            "run 'subgraphkit tune' to measure it anew",
            str(path),
            ", ".join(differing),
        )


def resolve_selection(
    bound: BoundModel, backends: Selection | None, constraints: Constraints | None
) -> tuple[ResolvedConfig, Placement | None]:
    """Return the settings with the selection, and the placement if there is one.

    ConfigError: the selection cannot be read (SGK107), or you demand nodes beside a plan file
    (SGK123). Or the plan file cannot be read, or is of another model (SGK124).
    """
    settings = bound.settings
    if isinstance(backends, Placement):
        return _following(backends, settings, "a placement measured here")
    if backends is not None:
        origin = f"argument backend={backends!r}"
        settings = settings.selecting(parse_selection(backends, origin), "call", origin)
    demanded = all_demands(settings, constraints) is not None
    named = next((one.plan for one in settings.backends if one.plan is not None), None)
    if demanded and named is not None:
        raise ConfigError(
            "SGK123",
            f"plan file {str(named)!r} places every node, so none can be pinned or kept off",
            hint="Leave out the constraints, or name backends in place of the plan file.",
        )
    # kept placements were measured without regard to required shares
    passed_over = demanded or (settings.require and named is None)
    placement = None if passed_over else find_placement(bound, settings)
    if placement is None:
        return settings, None
    origin = "a placement measured here"
    if named is not None:
        origin = f"plan file {str(named)!r}"
        warn_of_differences(placement, bound, settings, named)
    return _following(placement, settings, origin)


def _following(
    placement: Placement, settings: ResolvedConfig, origin: str
) -> tuple[ResolvedConfig, Placement]:
    return settings.selecting(placement.choices(origin), "placement", origin), placement
