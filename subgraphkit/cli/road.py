"""The steps of the road as the options of a command ask for them."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from subgraphkit.binding import BoundModel, bind
from subgraphkit.binding.samples import Feed
from subgraphkit.cli.reporting import CommandReport, in_flags, usage_error
from subgraphkit.comparing.stored_values import make_feeds
from subgraphkit.configuration.config import ResolvedConfig, resolve
from subgraphkit.configuration.selection import AUTO, NONE, parse_selection
from subgraphkit.errors import SubgraphkitError
from subgraphkit.finding.registry import find_record
from subgraphkit.loading import load
from subgraphkit.onnx_io import Model
from subgraphkit.partitioning.plan_files import read_placement
from subgraphkit.placing import SessionSpec


def load_as_told(arguments: Namespace) -> Model:
    """Load the model of a command line."""
    return load(arguments.model, data_roots=arguments.data_root)


def bind_as_told(
    arguments: Namespace, model: Model | None = None, *, require: str | None = None
) -> BoundModel:
    """Bind a model with the shapes, backends and options of a command line."""
    bound = bind(
        model or load_as_told(arguments),
        shapes=arguments.shapes or _planned_sizes(arguments.backend),
        backend=arguments.backend,
        options=arguments.options,
        strict=arguments.strict,
        fold=arguments.fold,
        pin=arguments.pin,
        keep_off=arguments.keep_off,
        require=require,
        max_error=arguments.max_error,
    )
    check_names(bound.settings)
    return bound


def bind_and_feed(
    arguments: Namespace, report: CommandReport, *selections: str | None
) -> tuple[Model, dict[str, Any]]:
    """Load a model, look at the names of backends, and read feeds or make them up."""
    model = load_as_told(arguments)
    bound = bind(model, arguments.shapes, backend="none")
    check_names(bound.settings, *selections)
    feeds = feeds_as_told(bound, arguments, report)
    return model, {name: feed.array for name, feed in feeds.items()}


def check_names(settings: ResolvedConfig, *selections: str | None) -> None:
    """Refuse unknown names (BackendNotFoundError) and selections (ConfigError) before any work."""
    given = [one for it in selections if it for one in parse_selection(it, f"--backend {it}")]
    for one in given or settings.backends:
        is_a_name = one.plan is None and one.target is None and one.name not in {AUTO, NONE}
        if is_a_name and not one.optional and settings.on_missing != "warn":
            find_record(one, settings)


def _planned_sizes(backend: str | None) -> Mapping[str, int]:
    """Return the sizes that a plan file was measured with, if one is selected."""
    choice = resolve(backend=backend).auto
    plan = choice.plan if choice is not None else None
    return {} if plan is None else read_placement(plan).figures.get("sizes", {})


def chosen_backends(bound: BoundModel) -> str:
    """Return the backends chosen, with the source of the choice."""
    settings = bound.settings
    names = ",".join(map(str, settings.backends)) or "none"
    return in_flags(f"{names} (from {settings.sources['backend'][1]})")


def is_spec(place: str) -> bool:
    """Say whether a file is a spec, by its name."""
    return Path(place).suffix == ".json"


def spec_as_told(place: str, backend: str | None) -> SessionSpec:
    """Read a spec, or make one; CallerError (SGK301) if unreadable, or with backends beside it."""
    if not is_spec(place):
        return SessionSpec.of(place, backend=backend)
    if backend is not None:
        raise usage_error(f"--backend is given, and {place!r} says backends already")
    return read_spec(place)


def read_spec(file: str) -> SessionSpec:
    """Read a spec; CallerError (SGK301) if the file cannot be read."""
    try:
        text = Path(file).read_bytes()
    except (OSError, ValueError) as error:
        raise usage_error(f"cannot read the spec {file!r}: {error}") from error
    try:
        return SessionSpec.from_json(text)
    except SubgraphkitError as error:
        error.add_note(f"This was {file!r}.")
        raise


def feeds_as_told(
    bound: BoundModel, arguments: Namespace, report: CommandReport
) -> dict[str, Feed]:
    """Read the feeds of a command line, and make up the rest."""
    feeds = make_feeds(bound, arguments.input or {}, arguments.seed)
    tell_feeds(feeds, arguments.seed, report)
    return feeds


def tell_feeds(feeds: Mapping[str, Feed], seed: int, report: CommandReport) -> None:
    """Say which inputs are made up and which sizes were assumed, also if something fails later."""
    made_up = [name for name, feed in feeds.items() if feed.source == "random"]
    if made_up:
        report.note(f"random values, seed {seed}: {', '.join(made_up)}")
    dims: dict[int, dict[str, None]] = {}
    for feed in feeds.values():
        for dim, size in feed.assumed.items():
            dims.setdefault(size, {})[dim] = None
    if dims:
        taken = "; ".join(f"taken to be {size}: {', '.join(dims[size])}" for size in sorted(dims))
        report.assumption = f"{taken} (give --shape or --symbol to change it)"
        report.note(report.assumption)
