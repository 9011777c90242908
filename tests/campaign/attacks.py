"""Every attack by its name."""

from collections.abc import Mapping
from typing import Final

from tests.campaign.graphs import Graphs
from tests.campaign.mutants import Isolated, Mutants
from tests.campaign.sessions import Scarce
from tests.campaign.trials import Attack
from tests.campaign.wire import Wire

ATTACKS: Final[Mapping[str, Attack]] = {
    one.name: one for one in (Graphs(), Mutants(), Isolated(), Scarce(), Wire())
}
