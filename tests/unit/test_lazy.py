"""Names that are imported when they are first used, and the collector meanwhile."""

import gc
import weakref

from subgraphkit.lazy import collector_paused


class Ring:
    """What only the collector finds."""

    def __init__(self):
        self.itself = self


def test_what_is_lost_before_an_import_is_not_kept_as_old():
    lost = weakref.ref(Ring())
    with collector_paused(importing=True):
        assert not gc.isenabled()
    assert lost() is None
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off_and_is_not_called():
    gc.disable()
    try:
        lost = weakref.ref(Ring())
        with collector_paused(importing=True):
            assert lost() is not None
        assert not gc.isenabled()
    finally:
        gc.enable()
