"""Every attack by its name."""

from collections.abc import Mapping
from typing import Final

from tests.campaign.extremes import Extremes
from tests.campaign.folders import BundleDamage, Damage, FullDisk, Kills, Scarce
from tests.campaign.graphs import Graphs
from tests.campaign.mutants import Isolated, Mutants
from tests.campaign.names import Names
from tests.campaign.outside import External
from tests.campaign.plugins import Plugins
from tests.campaign.sessions import Flat, Forks, Interrupts, Threads
from tests.campaign.trials import Attack

_ALL: Final = (
    *(Graphs(), Mutants(), Extremes(), Isolated(), External(), Damage(), BundleDamage(), Kills()),
    *(FullDisk(), Scarce(), Threads(), Forks(), Interrupts(), Flat(), Plugins(), Names()),
)

ATTACKS: Final[Mapping[str, Attack]] = {one.name: one for one in _ALL}

_WEIGHTS: Final = {
    **{("graphs", backend): 6 for backend in Graphs.backends},
    ("mutants", "numpy"): 20,
    ("mutants", "onnxruntime"): 10,
    ("mutants", "onednn"): 10,
    ("mutants", "openvino"): 12,
    ("mutants", "tvm"): 4,
    ("mutants", "iree"): 4,
    ("extremes", "numpy"): 4,
    ("extremes", "onnxruntime"): 4,
    ("extremes", "onednn"): 3,
    ("extremes", "openvino"): 3,
    ("isolated", "onnxruntime"): 4,
    ("isolated", "onednn"): 4,
    ("isolated", "openvino"): 4,
    ("external", "numpy"): 6,
    ("cache", "storing"): 5,
    ("bundle", "storing"): 4,
    ("kills", "storing"): 8,
    ("disk", "storing"): 3,
    ("scarce", "storing"): 3,
    ("plugins", "numpy"): 5,
    ("names", "numpy"): 5,
    ("flat", "numpy"): 1,
}
SHARES: Final[Mapping[tuple[str, str], float]] = {
    **_WEIGHTS,
    **{
        (name, backend): share
        for name, share in (("threads", 2.0), ("forks", 1.0), ("interrupts", 1.0))
        for backend in ATTACKS[name].backends
        if backend not in {"tvm", "iree"}
    },
}
"""The share of the time that each attack gets on each backend."""
