"""A bundle runs on its own backends alone, and says so where one of them is missing."""

from pathlib import Path
from typing import Any

import pytest

import subgraphkit as sk
from subgraphkit.configuration.selection import BackendChoice
from subgraphkit.errors import BackendUnavailableError
from tests.storing import Storing


class Gone(Storing):
    """The backend of the bundle, on a machine without its device."""

    @classmethod
    def probe(cls, *, deep: bool = False) -> sk.ProbeResult:
        return sk.ProbeResult(available=False, problems=("there is no device",), hint="Plug it in.")


@pytest.mark.parametrize(
    ("chosen", "settings"),
    [
        ([Gone], {}),
        ([Gone], {"on_missing": "warn"}),
        ([BackendChoice("storing", optional=True, target=Gone)], {}),
    ],
)
def test_a_bundle_says_which_backend_it_cannot_run_without(
    bundle: Path, chosen: Any, settings: dict[str, Any]
) -> None:
    with pytest.raises(
        BackendUnavailableError, match=r"2 of its 3 .*'storing'.*no device"
    ) as caught:
        sk.InferenceSession(bundle, backend=chosen, **settings)
    assert (caught.value.code, caught.value.backend) == ("SGK104", "storing")
    assert caught.value.hint.startswith("Plug it in.\nA bundle runs on its own backends alone")
    assert "SUBGRAPH_ON_MISSING" not in caught.value.hint
