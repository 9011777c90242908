"""Make property tests the same on every run: fixed seeds, no deadline, no stored examples.

Loaded by pytest as a plugin. ``--hypothesis-profile=explore`` looks for new examples instead.
"""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady",
    database=None,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a loaded machine is not a wrong result
)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile("steady")
