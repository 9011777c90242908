"""``python -m subgraphkit`` is the command ``subgraphkit``."""

import sys

from subgraphkit.cli import main

sys.exit(main())
