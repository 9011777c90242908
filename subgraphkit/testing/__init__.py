"""The conformance kit: says whether a backend is right, case by case.

``subgraphkit author test NAME`` runs it, and so does ``pytest --pyargs subgraphkit.testing
--subgraph-backend=NAME``; ``check_backend`` is for people without either. Names are imported when
they are first used, so that pytest may load the plugin at no cost to those who test something else.

Who looks for something finds it by the question: what is tried in ``levels``, ``sweep_cases``,
``run_checks`` and ``operator_checks``; on what models in ``official_cases``, ``light_models``,
``small_models``, ``claimed`` and ``sweeps``, whose lines are in ``operators.txt`` and
``older.txt``; when it is right, and whose fault it is if not, in ``comparison``; in which process
in ``children`` and ``process_checks``; what is said of it in ``report``.
``try_backend`` asks less: whether one small model compiles, runs and computes rightly.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
