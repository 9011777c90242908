"""Ray Serve: models behind handles, and behind the Open Inference Protocol over HTTP.

``serve.run(deployment(spec).bind())`` serves a model. The same call with another spec updates it in
place. Each replica opens the new session, exchanges it, and closes the old one when its requests
are over. A handle takes feeds, ``await handle.remote({"x": array})``.

Serve bounds queues, and restarts replicas that do not pass ``check_health``. It does not repeat a
request that ended with its replica. A client may, since inference changes nothing.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ray import serve

import subgraphkit as sk
from subgraphkit.serving.live_model import refuse
from subgraphkit.serving.models import MOST_BYTES, MOST_JSON_BYTES, with_threads
from subgraphkit.serving.replica import SECONDS, Replica


def deployment(  # noqa: PLR0913 (those of Serve's that matter here)
    spec: sk.SessionSpec | Mapping[str, sk.SessionSpec],
    *,
    name: str = "model",
    max_batch: int = 1,
    max_wait_s: float = 0.002,
    replicas: int | tuple[int, int] = 1,
    num_cpus: float = 1,
    num_gpus: float = 0,
    max_ongoing_requests: int | None = None,
    max_queued_requests: int = 100,
    max_body_bytes: int = MOST_BYTES,
    max_json_bytes: int = MOST_JSON_BYTES,
    timeout_s: float | None = SECONDS,
    draining: bool = False,
    repository: str | os.PathLike[str] | None = None,
) -> serve.Deployment:
    """Return a deployment of Serve; ``bind`` makes an application of it.

    ``num_cpus``: Processors of a replica; a session has as many threads, unless its spec says.
    ``timeout_s``: Seconds that a request may take, its body's arrival apart; None for no limit.
    ``draining``: Whether replicas finish their present requests, and refuse all others with 503.
    ``repository``: A folder of models that may be loaded by name, where there is one replica.
    ``max_ongoing_requests``: How many requests are in a replica; None for two batches or 256.

    For all else there is ``Deployment.options``.
    """
    specs = {name: spec} if isinstance(spec, sk.SessionSpec) else spec
    config = {
        "models": {one: with_threads(said, num_cpus).to_json() for one, said in specs.items()},
        "max_body_bytes": max_body_bytes,
        "max_json_bytes": max_json_bytes,
        "repository": None if repository is None else str(Path(repository).absolute()),
        "processors": num_cpus,
        "timeout_s": timeout_s,
        "draining": draining,
        "batching": {"max_batch": max_batch, "max_wait_s": max_wait_s} if max_batch > 1 else {},
    }
    if repository is not None and replicas != 1:
        refuse(400, f"a repository is for one replica, not for {replicas}")
    least, most = replicas if isinstance(replicas, tuple) else (replicas, replicas)
    scaling: dict[str, Any] = {"num_replicas": least}
    if least != most:
        scaling = {"autoscaling_config": {"min_replicas": least, "max_replicas": most}}
    return serve.deployment(Replica, name="models").options(
        user_config=config,
        max_ongoing_requests=max_ongoing_requests or max(2 * max_batch, 256),
        max_queued_requests=max_queued_requests,
        ray_actor_options={"num_cpus": num_cpus, "num_gpus": num_gpus},
        max_surge_percent=100,
        # With the same version, Serve updates replicas in place. Its only public way to say so is a
        # config file, which keeps the version as well.
        version=sk.__version__,
        _internal=True,
        **scaling,
    )


application: Final = serve.deployment(Replica, name="models").bind()
"""For config files: without models, which ``user_config`` names as ``Replica.reconfigure`` says."""
