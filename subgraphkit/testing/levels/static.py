"""Level 0: facts on a backend without a run on it."""

import importlib.metadata
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from subgraphkit.backend.contract import Backend, option_class_of
from subgraphkit.backend.manifest import Manifest
from subgraphkit.backend.options import PlainOptions
from subgraphkit.backend.plugin_api import api_text, name_problem
from subgraphkit.errors import OptionError
from subgraphkit.finding.catalogue import CATALOGUE, BackendRecord
from subgraphkit.testing.cases import PASSED, Case, Finding, Outcome, Stopped, breach
from subgraphkit.testing.process_checks import Imported, call_in_subprocess, import_backend
from subgraphkit.testing.subject import Subject

_CHILD_SECONDS: Final = 45.0
_MOST_IMPORT_SECONDS: Final = 5.0
"""Of processor time, without the core's own imports and NumPy's."""
_MOST_PROBE_SECONDS: Final = 5.0
_UPPER_BOUND: Final = re.compile(r"<|==|~=")
_OUR_NAME: Final = re.compile(r"^subgraphkit(?![-_.\w])")


def cases(_: Subject) -> Iterator[Case]:
    """List the checks."""
    installed = (_name, _registration, _manifest, _dependency, _typed, _listing)
    for check in (_import, _probe, *installed, _side_effects, _output):
        run = partial(_if_installed, check) if check in installed else check
        yield Case(f"L0/{check.__name__[1:]}", run, offers=False)


def _if_installed(check: Callable[[Subject], Finding], subject: Subject) -> Finding:
    if subject.installed:
        return check(subject)
    return Finding(Outcome.SKIP, "the backend is tested without being installed")


def _passed_unless(problem: str) -> Finding:
    return breach(problem) if problem else PASSED


@lru_cache(maxsize=1)
def _looked_at(target: str, installed: str, distribution: str) -> Imported | Finding:
    subject = Subject(installed, distribution, target)
    try:
        found = call_in_subprocess(
            import_backend, subject, _CHILD_SECONDS, what="imports and probes it"
        )
    except Stopped as stop:
        return stop.finding
    return Imported(**found)


def _look_at_import(subject: Subject) -> Imported:
    """Return the effects of importing it; all checks of one process look at one import."""
    found = _looked_at(subject.target, subject.installed, subject.distribution)
    reason = found.detail if isinstance(found, Finding) else found.error
    if reason or isinstance(found, Finding):
        raise Stopped(Outcome.FAIL_PROBE, f"it could not be imported and probed: {reason}")
    return found


def _import(subject: Subject) -> Finding:
    """It can be imported, quickly, and the process ends well afterwards."""
    found = _looked_at(subject.target, subject.installed, subject.distribution)
    if isinstance(found, Finding):
        return found
    if found.error:
        return Finding(Outcome.FAIL_PROBE, found.error)
    if found.seconds > _MOST_IMPORT_SECONDS:
        text = f"importing it takes {found.seconds:.1f} s, expected {_MOST_IMPORT_SECONDS:g} s"
        return breach(f"{text}; import the library when it is first used")
    return PASSED


def _probe(subject: Subject) -> Finding:
    """Its probe answers, soon, and says that it can run here; it takes the options given."""
    found = _look_at_import(subject)
    if found.probe_error:
        return Finding(Outcome.FAIL_PROBE, found.probe_error)
    if found.problems:
        return Finding(Outcome.FAIL_PROBE, f"it cannot run here: {'; '.join(found.problems)}")
    if found.probe_seconds > _MOST_PROBE_SECONDS:
        return breach(f"the probe takes {found.probe_seconds:.1f} s")
    try:
        subject.build()
    except OptionError as error:
        return Finding(Outcome.FAIL_PROBE, str(error))
    except Exception as error:  # noqa: BLE001 (whatever a plugin raises)
        return Finding(Outcome.FAIL_PROBE, f"building it raised {type(error).__name__}: {error}")
    return PASSED


def _name(subject: Subject) -> Finding:
    """Its name is a name."""
    return _passed_unless(name_problem(subject.installed))


def _records(subject: Subject) -> list[BackendRecord]:
    return CATALOGUE.find(subject.installed, subject.distribution)


def _registration(subject: Subject) -> Finding:
    """One distribution provides it."""
    records = _records(subject)
    if len(records) != 1:
        providers = ", ".join(record.provider for record in records) or "no distribution"
        return breach(f"{providers} provides it, expected one")
    return _passed_unless(str(records[0].error or ""))


def _manifest(subject: Subject) -> Finding:
    """Its manifest agrees with the class, and options are declared in the manifest alone."""
    if (manifest := _records(subject)[0].manifest) is None:
        return breach("there is no subgraphkit-backend.toml beside the package's __init__.py")
    if not manifest.summary:
        return breach("the manifest has no summary")
    # a namespace of hooks has all of it from the manifest
    is_class = isinstance(subject.backend_class, type)
    problem = _second_declaration(subject.backend_class, manifest) if is_class else ""
    return _passed_unless(problem)


def _second_declaration(backend: type[Backend], manifest: Manifest) -> str:
    """Say where a class contradicts its manifest, or declares options beside it."""
    if api_text(manifest.api) != backend.api:
        return f"the manifest: api is {api_text(manifest.api)}, the class says {backend.api}"
    if (manifest.options or backend.options) and option_class_of(backend) is PlainOptions:
        return (
            "the class does not have its options from the manifest; declare them there, and "
            f"`subgraphkit author manifest write {manifest.name}` writes their types"
        )
    return ""


def _dependency(subject: Subject) -> Finding:
    """Its distribution depends on ours, up to a version that may differ."""
    name = _records(subject)[0].distribution
    needs = importlib.metadata.requires(name) or []
    ours = [need for need in needs if _OUR_NAME.match(need) and "extra ==" not in need]
    if not ours:
        return breach(f"{name} does not depend on subgraphkit")
    if not any(map(_UPPER_BOUND.search, ours)):
        return breach(f"{name} depends on {ours[0]!r}, expected an upper bound as well")
    return PASSED


def _typed(subject: Subject) -> Finding:
    """Its package tells type checkers that it has types."""
    package = _records(subject)[0].entry_point.partition(":")[0].partition(".")[0]
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not any(Path(place, "py.typed").exists() for place in places):
        return breach(f"package {package!r} has no file py.typed")
    return PASSED


def _listing(subject: Subject) -> Finding:
    """Listing the backends imports nothing of it."""
    found = _look_at_import(subject).listing
    return _passed_unless(f"list_backends() imported {', '.join(found)}" if found else "")


def _side_effects(subject: Subject) -> Finding:
    """Importing it changes nothing in the process."""
    found = _look_at_import(subject).changed
    return _passed_unless(f"importing it changes {', '.join(found)}" if found else "")


def _output(subject: Subject) -> Finding:
    """Importing it prints nothing."""
    found = _look_at_import(subject).printed
    return _passed_unless(f"importing it prints {found!r}" if found else "")
