from .compilation import compile_elsewhere as compile_elsewhere
from .compilation import compile_subgraph as compile_subgraph
from .compilation import compile_subgraphs as compile_subgraphs
from .compilation import compile_unproven as compile_unproven
from .composition import CompiledSubgraphs as CompiledSubgraphs
from .isolation import IsolatedOperator as IsolatedOperator
from .outcomes import close_all as close_all
