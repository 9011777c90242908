"""Names of ``subgraphkit.rewriting`` that ``subgraphkit.precision`` offers too."""

from subgraphkit.rewriting import *  # noqa: F403 (all that it lists)
