"""The rules: a node is taken if it can be lowered, which is tried."""

from typing import ClassVar, Final

from subgraphkit.backend import (
    BindContext,
    Connectivity,
    NodeSelector,
    SubgraphProperty,
    SubgraphSelector,
)
from subgraphkit.errors import OptionError
from subgraphkit.ir import BoundGraph, Subgraph
from subgraphkit.types import DataType
from subgraphkit_onednn.backend_options import Options
from subgraphkit_onednn.handles import DnnlEngine
from subgraphkit_onednn.library import open_library
from subgraphkit_onednn.lowering import can_lower
from subgraphkit_onednn.operator import OnednnOperator
from subgraphkit_onednn.threads import Threads

EVERYWHERE: Final = frozenset({DataType.FLOAT})
"""The element types that every processor computes with."""


LOSES_NAN: Final = frozenset(
    {"Clip", "Exp", "Gelu", "GlobalMaxPool", "HardSigmoid", "LogSoftmax", "Max", "MaxPool"}
    | {"Min", "Relu", "Softmax"}
)
"""Operators that make a number of NaN, or NaN of a number, where ONNX does not."""


class OnednnClaims(SubgraphProperty):
    """Regions of nodes that oneDNN has operations for; claims need no library."""

    name: ClassVar[str] = "graph"
    connectivity: Connectivity = "connected"

    def __init__(self, dtypes: frozenset[DataType]) -> None:
        self._dtypes = dtypes

    def create_selector(self, graph: BoundGraph) -> SubgraphSelector:
        """Take every node that can be lowered, which is tried; the refusal says why one cannot."""
        return NodeSelector(lambda node: can_lower(graph, node, self._dtypes))


class OnednnProperty(OnednnClaims):
    """The same regions, compiled.

    Raises:
        LibraryError: oneDNN is missing or not the right one (SGK104).
        OptionError: A number of threads is given to a library that has no OpenMP (SGK112).
    """

    def __init__(self, options: Options) -> None:
        library = open_library(options.library)
        super().__init__(EVERYWHERE | ({DataType.BFLOAT16} if library.has_bfloat16 else set()))
        self._threads = options.threads
        if self._threads and not library.has_openmp:
            raise OptionError(
                "SGK112",
                f"option 'threads' of backend 'onednn' is {self._threads}, but {library.path} does "
                "not compute with OpenMP",
                hint="Leave the option out, or use the library of the wheel onednn-cpu-gomp.",
                backend="onednn",
                option="threads",
            )
        self.library = library
        self._engine = DnnlEngine(library)

    def create_operator(self, subgraph: Subgraph, context: BindContext) -> OnednnOperator:
        """Compile a region."""
        threads = Threads(
            self._engine.library, self._threads or context.threads, ends=context.shares_processors
        )
        return OnednnOperator(subgraph, self._engine, self._dtypes, threads)
