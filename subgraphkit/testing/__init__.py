"""The conformance kit: says whether a backend is right, case by case.

``subgraphkit author test NAME`` runs it, and so does ``pytest --pyargs subgraphkit.testing
--subgraph-backend=NAME``; ``check_backend`` is for people without either. Names are imported when
they are first used, so that the pytest plugin costs nothing in other tests.

Find a module by its question. ``levels``, ``sweep_cases``, ``run_checks`` and ``operator_checks``
have the cases. Models are in ``official_cases``, ``light_models``, ``small_models``, ``claimed``
and ``sweeps``; the lines of the last are in ``operators.txt`` and ``older.txt``. ``comparison``
judges results, and whose fault a wrong one is. ``children`` and ``process_checks`` have the
processes, and ``report`` writes the report. ``try_backend`` asks less: whether one small model
compiles, runs and computes rightly.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
