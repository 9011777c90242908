"""The bound model, and the step of the road that makes it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self, Unpack

import numpy.typing as npt

from subgraphkit.backend.messages import did_you_mean
from subgraphkit.binding.computed import BoundFolding
from subgraphkit.binding.edits import edit_model
from subgraphkit.binding.folding import fold
from subgraphkit.binding.model_process import ModelProcess
from subgraphkit.binding.shapes import Shapes, given_shapes, require_bounded, size_fed_nodes
from subgraphkit.boundary import walking
from subgraphkit.configuration.config import ResolvedConfig, resolve
from subgraphkit.configuration.selection import strip_number
from subgraphkit.configuration.settings import OtherSettings
from subgraphkit.errors import BindError, InvalidModelError
from subgraphkit.finding.extensions import ExtensionManager
from subgraphkit.ir import BoundGraph, Node, Subgraph, make_subgraph
from subgraphkit.ir.structure import NoKeyError, structure_digest
from subgraphkit.lazy import cached_property, collector_paused
from subgraphkit.loading import load
from subgraphkit.logs import show_log
from subgraphkit.onnx_io import Inferred, Model, ModelSource, infer, with_branches
from subgraphkit.storing.folders import kept_folder
from subgraphkit.types import Shape, ValueType

# How often branches are taken in a row: as often as bodies may be nested.
_MOST_BRANCHES: Final = 32


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundModel(BoundGraph):
    """A model with shapes given, every value typed, and backends chosen.

    Attributes:
        settings: The configuration when the model was bound, with the origin of every value.
        extensions: The listeners to later events of the model.
        inlined: ``model`` with the nodes that extensions replaced, and with the branch in place of
            each If whose condition is known.
        folding: The results of folding, and how to compute them again; None without folding.

    Thread-safety: immutable, safe.
    """

    settings: ResolvedConfig
    extensions: ExtensionManager
    model: Model
    inlined: Model
    input_shapes: Mapping[str, Shape]
    folding: BoundFolding | None = None

    @cached_property
    def digest(self) -> str:
        """The digest of structure, names and types; the data of weights is left out.

        Computed when first asked for: it goes through all nodes. ``ir.structure.NoKeyError`` is
        raised if something in the model has no canonical form, or it has no nodes.
        """
        if not self.order:
            raise NoKeyError("there are no nodes")
        return structure_digest(make_subgraph(self, self.order, "model"), with_names=True)

    @cached_property
    def fed_sizes(self) -> Mapping[int, Node]:
        """The nodes that make as much as fed numbers say, each with itself or a node in it."""
        return dict(size_fed_nodes(self, (*self.inputs, *self.defaults)))

    @cached_property
    def process(self) -> ModelProcess:
        """The child process in which isolated backends compile and run; not started yet."""
        return ModelProcess(self)

    def reshape(
        self, sizes: Mapping[str, int], shapes: Mapping[str, Shape]
    ) -> Mapping[str, ValueType]:
        """Infer the types for other shapes, on top of those given at bind; else SGK222."""
        return self.inferred(sizes, shapes).types

    def inferred(
        self,
        sizes: Mapping[str, int] = MappingProxyType({}),
        shapes: Mapping[str, Shape] = MappingProxyType({}),
        constants: Mapping[str, npt.NDArray[Any]] = MappingProxyType({}),
    ) -> Inferred:
        """Infer types for other shapes, on top of those given at bind, and values of constants.

        InvalidModelError (SGK222): they contradict the model, or a decision of the bind.
        """
        return infer(
            self.inlined,
            {**self.symbols, **sizes},
            {**self.input_shapes, **shapes},
            replaced=constants,
            limits=self.settings.limits,
            types_of=self.extensions.types_of,
        )

    def with_outputs(self, outputs: Sequence[str]) -> Self:
        """Return the model with other outputs, each once; BindError (SGK220) for no value."""
        if unknown := [name for name in outputs if name not in self.types]:
            raise BindError(
                "SGK220",
                f"model {self.name!r} has no value {unknown[0]!r} to be an output"
                f"{did_you_mean(unknown[0], self.types)}",
            )
        if self.folding is None:
            return replace(self, outputs=tuple(outputs))
        source = replace(self.folding.source, outputs=tuple(outputs))
        graph, folding = fold(source, self.folding.values, self.settings)
        kept = {field.name: getattr(graph, field.name) for field in fields(BoundGraph)}
        return replace(self, **kept, folding=folding)

    def kept_folder(self, backend: str) -> Path | None:
        """Return the folder that a backend keeps from bind to bind; None if nothing is kept."""
        folder = self.settings.cache_dir
        return kept_folder(folder, strip_number(backend)) if self.settings.cache else None


def bind(
    model: ModelSource | Model | Subgraph,
    shapes: Shapes | None = None,
    *,
    backend: Any = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    **settings: Unpack[OtherSettings],
) -> BoundModel:
    """Fix shapes, type every value, compute known values, and choose backends.

    The configuration is read now: environment, files and context managers as they are. Arguments
    here win.

    Args:
        model: A loaded model, or a source that ``load`` takes. A subgraph is run on the backend
            that claimed it, unless ``backend`` says otherwise.
        shapes: Values of named dimensions, shapes of inputs, and sizes of single axes of them
            (``"x[0]"``). Other dimensions stay symbolic. In an input's shape, None leaves a
            dimension as it is, and a name renames it.
        backend: Backends in order, as for ``SUBGRAPH_BACKEND`` or as a list; None for the
            configured ones.
        options: Options by backend name.
        **settings: Other settings, such as ``strict=True``; see the page on configuration.

    Returns:
        The model's graph with a type for every value.

    Raises:
        BindError: A name that the model does not have (SGK220), or a shape that contradicts it
            (SGK221).
        InvalidModelError: Types or shapes of the model contradict each other (SGK222).
        BackendError: What an extension says of types, or edits, cannot be (SGK223, SGK224).
        UnsupportedModelError: The model asks for more than the limits allow (SGK216).
        ConfigError: A setting cannot be read (SGK107 to SGK109).
        SubgraphkitError: As ``load``.
    """
    if isinstance(model, Subgraph) and backend is None:
        backend = model.backend
    resolved = resolve(backend=backend, options=options, **settings)
    if resolved.verbose:
        show_log(resolved.verbose)
    loaded = load(model, data_roots=settings.get("data_roots"), limits=settings.get("limits"))
    with walking("bind", loaded.name):
        bound = _bound_as_told(loaded, shapes or {}, resolved)
        return bound.with_outputs(resolved.outputs) if resolved.outputs else bound


@collector_paused()
def _bound_as_told(model: Model, shapes: Shapes, resolved: ResolvedConfig) -> BoundModel:
    resolved.limits.require_all(model.asks)
    symbols, input_shapes = (
        given_shapes(model.graph, shapes, strict=resolved.strict) if shapes else ({}, {})
    )
    extensions = ExtensionManager(resolved, model.name)
    of_sizes = partial(infer, symbols=symbols, input_shapes=input_shapes, limits=resolved.limits)
    typed = partial(of_sizes, types_of=extensions.types_of)
    try:
        inlined, inferred = model, typed(model)
    except InvalidModelError as error:
        if (fault := extensions.typing_fault(error, model.graph)) is None:
            raise
        raise fault from error
    if resolved.fold and inferred.conditions:
        inlined, inferred = _with_branches(model, inferred, typed)
    bound = _graph(inlined, inferred, model.name, symbols)
    for extension, ask in () if model.is_edited else extensions.each("subgraphkit_edits"):
        if edited := edit_model(inlined, bound, extension, ask, typed):
            inlined, inferred = edited
            bound = _graph(inlined, inferred, model.name, symbols)
    require_bounded(bound, resolved.limits)
    folding = None
    if resolved.fold:
        bound, folding = fold(bound, inferred.values, resolved)
    return BoundModel(
        **{field.name: getattr(bound, field.name) for field in fields(BoundGraph)},
        settings=resolved,
        extensions=extensions,
        model=model,
        inlined=inlined,
        input_shapes=input_shapes,
        folding=folding,
    )


def _with_branches(
    model: Model, inferred: Inferred, typed: Callable[[Model], Inferred]
) -> tuple[Model, Inferred]:
    """Take branches until no more is known of conditions; one branch may decide another."""
    for _ in range(_MOST_BRANCHES):
        if not inferred.conditions:
            break
        try:
            further = with_branches(model, inferred.conditions)
            model, inferred = further, typed(further)
        except InvalidModelError:
            # What contradicts itself in a branch is said when it runs, as without folding.
            break
    return model, inferred


def _graph(model: Model, inferred: Inferred, name: str, symbols: Mapping[str, int]) -> BoundGraph:
    graph, table, replaced = model.graph, model.graph.table, model.replaced
    if inferred.bodies:
        table = replace(table, bodies=inferred.bodies)
    kept = {field.name: getattr(graph, field.name) for field in fields(graph)}
    kept |= {"types": inferred.types, "name": name}
    if replaced:
        slots = {table.outputs[node][0] for node in replaced}
        op_types = list(table.op_types)
        for node, (op_type, _) in replaced.items():
            op_types[node] = op_type
        table = replace(table, op_types=op_types)
        kept["constants"] = {n: one for n, one in graph.constants.items() if n not in slots}
        kept["order"] = [node for node in graph.order if node not in replaced]
    left_out = {node: became for node, (_, became) in replaced.items()}
    return BoundGraph(**{**kept, "table": table}, symbols=symbols, left_out=left_out)
