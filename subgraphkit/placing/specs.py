"""The part of a call that a spec carries: the selection, options and settings, as plain data."""

import json
import math
import os
import re
import reprlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from subgraphkit import bundling
from subgraphkit.binding import BoundModel, Shapes, bind
from subgraphkit.configuration.config import ResolvedConfig, plain_value
from subgraphkit.configuration.demands import Pin
from subgraphkit.configuration.settings import OtherSettings
from subgraphkit.errors import CallerError, ConfigError
from subgraphkit.finding.catalogue import declared_options
from subgraphkit.loading import load
from subgraphkit.onnx_io import Model
from subgraphkit.partitioning import Constraints
from subgraphkit.partitioning.constraints import all_demands, listed_selectors
from subgraphkit.running.messages import ARGUMENTS, OPEN_A_FILE, foreign_argument, no_spec
from subgraphkit.viewing.progress import ShownAs

MARK: Final = "subgraphkit_spec"
"""The member that says that JSON is a spec, and of which schema."""

# Number of the schema; it grows when an older version cannot read the new one.
_SCHEMA: Final = 1

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_KINDS: Final[Mapping[str, tuple[Any, str]]] = {
    "source": (str, "a path"),
    "digest": (str, "a SHA-256"),
    "backend": (str | None, "a selection"),
    **dict.fromkeys(("shapes", "options", "settings"), (Mapping, "an object")),
    "trust": (bool, "true or false"),
    "warm_up": (bool | Mapping, "true, false or shapes"),
}
_MOST_DEPTH: Final = 16
# Of a spec as text; with pickle's additions, it stays below 4 KiB.
_MOST_BYTES: Final = 4000
_HOW: Final = "Specs are written by SessionSpec.to_json() and by 'subgraphkit deploy spec'."
_PINS: Final = ("pin", "keep_off")
_APART: Final = frozenset({"backend", "model_root", *_PINS})
# Settings that say something of a machine; they are carried if the call says them.
_OF_THE_PLACE: Final = frozenset(
    {"cache_dir", "data_roots", "trusted_folders", "trust_specs", "verbose", "progress"}
)


class OpenCall(NamedTuple):
    """The arguments that a session is opened with; ``digest``: the model's, if it must have one."""

    source: Any
    backend: Any
    shapes: Shapes | None
    options: Mapping[str, Mapping[str, Any]] | None
    constraints: Constraints | None
    trust: bool
    progress: Any
    settings: OtherSettings
    digest: str = ""

    def to_remember(self) -> "OpenCall":
        """Return the call without large objects; CallerError (SGK114) if not of our words."""
        for word in filter(self.settings.__contains__, ARGUMENTS):
            raise foreign_argument(word)
        is_path = isinstance(self.source, str | os.PathLike)
        kept = os.fspath(self.source) if is_path else type(self.source)
        kind = self.progress if isinstance(self.progress, str | None) else type(self.progress)
        shapes = None if self.shapes is None else dict(self.shapes)
        return self._replace(source=kept, backend=None, options=None, shapes=shapes, progress=kind)

    def require_plain(self) -> "OpenCall":
        """Return the call if source and progress can be sent; else CallerError (SGK192)."""
        if isinstance(self.source, type):  # all that is kept of objects that cannot be sent
            problem = f"its source is {self.source.__name__}, and other processes read files"
            raise no_spec(problem, OPEN_A_FILE)
        if isinstance(self.progress, type):
            raise no_spec("progress is a function", "Give a word, such as progress='log'.")
        return self

    def require(self, digest: str | None) -> None:
        """Require the model that is wanted; CallerError (SGK194) for another."""
        if self.digest and digest != self.digest:
            found = digest[:12] if digest else "a file that changes"
            raise CallerError(
                "SGK194",
                f"{os.fspath(self.source)!r} is another model than when its spec was made: "
                f"expected SHA-256 {self.digest[:12]}, found {found}",
                hint="Put that model there, or make a new spec: SessionSpec.of(...).",
                expected=self.digest,
                found=digest,
            )


def is_folder(source: Any) -> bool:
    """Say whether a source is the path of a folder, which is a bundle then."""
    return isinstance(source, str | os.PathLike) and os.path.isdir(source)  # noqa: PTH112 (no name makes it raise)


def bound_by(call: OpenCall) -> tuple[BoundModel, ShownAs]:
    """Load and bind the model of a call; return how its progress is shown as well.

    CallerError (SGK194) if it is not the model that is wanted; else as ``load`` and ``bind``.
    """
    source, progress = call.source, call.progress
    if call.digest:
        source = _load(call)
        call.require(None if source.folders is None else source.folders.digest())
    told: Any = {} if progress is None or callable(progress) else {"progress": progress}
    told |= {**call.settings, "backend": call.backend, "options": call.options}
    bound = bind(source, call.shapes, **told)
    return bound, bound.settings.progress if progress is None else progress


def _load(call: OpenCall) -> Model:
    roots, limits = call.settings.get("data_roots"), call.settings.get("limits")
    return load(call.source, data_roots=roots, limits=limits)


def digest_of(call: OpenCall) -> str | None:
    """Digest the model or bundle of a call; None if it may change; raises as ``load``."""
    if is_folder(call.source):
        return bundling.BundleFiles(Path(call.source), trust=call.trust).digest
    folders = _load(call).folders
    return None if folders is None else folders.digest()


def carried_call(call: OpenCall, settings: ResolvedConfig) -> dict[str, Any]:
    """Return the members of a spec for a call's session; CallerError (SGK192) if not plain data."""
    is_bundle, is_chosen = is_folder(call.source), settings.sources["backend"][0] == "call"
    carried = _settings(settings, call.settings, without={"fold"} if is_bundle else set())
    return {
        "backend": None if is_bundle and not is_chosen else _selection(settings),
        "options": _options(settings),
        "settings": carried | _demands(settings, call.constraints),
    }


def _selection(settings: ResolvedConfig) -> str | None:
    if settings.sources["backend"][0] == "default":
        return None
    names = []
    for one in settings.backends:
        if one.target is not None:
            fix = "Name it, and have its package installed where the session is opened."
            raise no_spec(f"backend {one.name!r} is given as a class or an object", fix)
        if one.plan is not None:
            return f"@{path_from(one.plan, settings.model_root)}"
        distribution = f"@{one.distribution}" if one.distribution else ""
        names.append(f"{one.name}{distribution}{'?' * one.optional}")
    return ",".join(names) or "none"


def _options(settings: ResolvedConfig) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for backend, entries in settings.option_sources.items():
        for name, (value, layer, _) in entries.items():
            is_doubtful = layer == "file" and settings.unvouched is not None
            if layer == "bundle" or (is_doubtful and not _is_harmless(backend, name)):
                continue
            found.setdefault(backend, {})[name] = plain_json(value, f"option {backend}.{name}")
    return found


def _is_harmless(backend: str, name: str) -> bool:
    """Say whether it is known that an option names no code and widens nothing that is trusted."""
    mine = [option for option in declared_options(backend) if option.name == name]
    return bool(mine) and not any(option.needs_trust for option in mine)


def _settings(
    settings: ResolvedConfig, told: Mapping[str, Any], without: Collection[str]
) -> dict[str, Any]:
    found = {}
    for name, (layer, _) in settings.sources.items():
        if name in _APART or name in without or layer == "default":
            continue
        if layer == "call" and name in _OF_THE_PLACE & told.keys():
            found[name] = plain_json(told[name], name)  # "~" is the home of the user who opens
        elif layer == "call" or name not in _OF_THE_PLACE:
            value = getattr(settings, name)
            found[name] = sorted(value) if isinstance(value, frozenset) else plain_value(value)
    return found


def _demands(settings: ResolvedConfig, constraints: Constraints | None) -> dict[str, Any]:
    if (demands := all_demands(settings, constraints)) is None:
        return {}
    excluded = demands.exclusions.items()
    kept_off = [(node, one) for one, several in excluded for node in listed_selectors(several)]
    pairs: dict[str, list[Any]] = {"pin": [*demands.pins.items()], "keep_off": kept_off}
    for node, backend in (*pairs["pin"], *pairs["keep_off"]):
        if not isinstance(node, str | int):
            problem = f"constraints say by a function which nodes backend {backend!r} may take"
            raise no_spec(problem, "Name the nodes, or their operators or places.")
    return {key: [str(Pin(*one)) for one in found] for key, found in pairs.items() if found}


def plain_json(value: Any, what: str, depth: int = 0) -> Any:
    """Return a value as JSON can hold it; CallerError (SGK192) if it cannot, or not so deep."""
    if depth > _MOST_DEPTH:
        raise no_spec(f"{what} is nested deeper than {_MOST_DEPTH} levels", "Give it flatter.")
    inner = what, depth + 1
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()  # the scalar of a library
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case os.PathLike():
            return os.fspath(value)
        case Mapping():
            return {str(key): plain_json(one, *inner) for key, one in value.items()}
        case set() | frozenset() | list() | tuple():
            found = [plain_json(one, *inner) for one in value]
            return found if isinstance(value, list | tuple) else sorted(found)
        case _:
            fix = "Give it as text, numbers, lists or dicts, which is what a spec can hold."
            raise no_spec(f"{what} is a {type(value).__name__}", fix)


def path_from(path: str | os.PathLike[str], root: Path | None) -> str:
    """Return a path in the form of specs: from the root if it is below that, else as given."""
    for real in (os.path.abspath, os.path.realpath) if root is not None else ():
        below = PurePath(os.path.relpath(real(path), real(root or "")))
        if ".." not in below.parts and not below.is_absolute():
            return below.as_posix()
    return os.fspath(path)


def locate_file(name: str, root: Path | None) -> Path:
    """Return where the file of a spec is here: in the root, or else as it was given.

    A path that does not exist here is looked for in the root by its last name.
    """
    if root is None:
        return Path(name)
    by_last_name = root / PurePath(name).name
    is_moved = by_last_name.exists() and not (root / name).exists()
    return by_last_name if is_moved else root / name


def _unreadable(problem: str, fix: str = "") -> ConfigError:
    """Word that a spec cannot be read (SGK193)."""
    return ConfigError("SGK193", f"the spec cannot be read: {problem}", hint=fix)


def checked_members(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a spec, objects frozen.

    ConfigError (SGK193) for one of another kind; CallerError (SGK192) if nested too deep.
    """
    found = {}
    for name, value in members.items():
        kind, what = _KINDS[name]
        if not isinstance(value, kind) or value == "":
            raise _unreadable(f"its {name!r} is {reprlib.repr(value)}, expected {what}")
        found[name] = _frozen(plain_json(value, name))
    for name in sorted({"model", *_KINDS} & found["settings"].keys()):
        raise _unreadable(f"its setting {name!r} is none", _HOW)
    if not _DIGEST.fullmatch(found["digest"]):
        raise _unreadable(f"its 'digest' is {reprlib.repr(found['digest'])}, expected a SHA-256")
    return found


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return MappingProxyType({name: _frozen(one) for name, one in value.items()})
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def write_spec(members: Mapping[str, Any]) -> str:
    """Return a spec as JSON, empty members left out; CallerError (SGK192) if it is too large."""
    said = {name: plain_json(one, name) for name, one in members.items() if one}
    text = json.dumps({MARK: _SCHEMA, **said}, sort_keys=True, allow_nan=False)
    if len(text) > _MOST_BYTES:
        largest = max(said, key=lambda name: len(json.dumps(said[name])))
        raise no_spec(
            f"it would have {len(text)} bytes, {_MOST_BYTES} at most, most of them its {largest!r}",
            "Write it with session.export(): a bundle has options, shapes and pins in it.",
        )
    return text


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for name in members if [one for one, _ in pairs].count(name) > 1)
        raise _unreadable(f"its member {twice!r} is there more than once")
    return members


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and the like, which JSON has not


def read_members(text: str | bytes, known: Collection[str]) -> dict[str, Any]:
    """Read the members of a spec; ConfigError (SGK193) if it is none of this schema."""
    try:
        members = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    except ConfigError:
        raise
    except (ValueError, RecursionError):
        raise _unreadable("it is not JSON") from None
    if not isinstance(members, dict) or MARK not in members:
        raise _unreadable(f"it is no JSON object with a member {MARK!r}", _HOW)
    schema = members.pop(MARK)
    if type(schema) is not int or schema != _SCHEMA:
        raise _unreadable(
            f"it is of schema {schema!r}, and this version of subgraphkit reads {_SCHEMA}",
            "Use the version that wrote it, or make it again with this one.",
        )
    if unknown := sorted(members.keys() - set(known)):
        raise _unreadable(f"its member {unknown[0]!r} is unknown", f"Known: {', '.join(known)}.")
    if missing := {"source", "digest"} - members.keys():
        raise _unreadable(f"its member {max(missing)!r} is missing")
    return members
