"""The manifest for KServe: fields that its definitions have, words that our command takes."""

import json
import re
from importlib import import_module

import pytest

import subgraphkit as sk
from subgraphkit.cli.commands import PURPOSES
from subgraphkit.cli.words import Parser
from tests.house.tree import ROOT

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

MANIFEST = ROOT / "examples" / "serving" / "kserve.yaml"

TEXT, WHOLE, TRUTH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
TEXTS = {"type": "array", "items": TEXT}
_QUANTITY = r"^([0-9]+(\.[0-9]*)?)([KMGTPE]i|[numkMGTPE])?$"
QUANTITY = {"type": ["integer", "string"], "pattern": _QUANTITY}
QUANTITIES = {"type": "object", "additionalProperties": QUANTITY}


def _object(*required, **properties):
    """Return the schema of an object with these fields and no others, so that none is misspelt."""
    closed = {"properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "object", **closed}


def _list(item):
    return {"type": "array", "items": item, "minItems": 1}


def _document(version, **spec):
    stated = {"apiVersion": {"const": f"serving.kserve.io/{version}"}, "kind": TEXT}
    return _object(*stated, "metadata", "spec", **stated, metadata=_object("name", name=TEXT),
                   spec=_object(*list(spec)[:1], **spec))  # fmt: skip


# Fields and types are those of KServe's definitions of ServingRuntime and InferenceService, as many
# as the manifest has.
_PROBE = _object(
    httpGet=_object("port", path=TEXT, port={"type": ["integer", "string"]}),
    failureThreshold=WHOLE,
    periodSeconds=WHOLE,
    timeoutSeconds=WHOLE,
)
_SECURITY = _object(
    allowPrivilegeEscalation=TRUTH,
    capabilities=_object(drop=TEXTS),
    runAsNonRoot=TRUTH,
    runAsUser=WHOLE,
)
_CONTAINER = _object(
    "name",
    name=TEXT,
    image=TEXT,
    command=TEXTS,
    args=TEXTS,
    env=_list(_object("name", name=TEXT, value=TEXT)),
    ports=_list(_object("containerPort", containerPort=WHOLE, protocol=TEXT)),
    readinessProbe=_PROBE,
    startupProbe=_PROBE,
    resources=_object(limits=QUANTITIES, requests=QUANTITIES),
    securityContext=_SECURITY,
    volumeMounts=_list(_object("mountPath", "name", mountPath=TEXT, name=TEXT)),
)
_FORMAT = _object("name", autoSelect=TRUTH, name=TEXT, version=TEXT)
_VOLUME = _object("name", name=TEXT, emptyDir=_object(medium=TEXT, sizeLimit=QUANTITY))
_MODEL = _object("modelFormat", modelFormat=_FORMAT, protocolVersion=TEXT, runtime=TEXT,
                 storageUri=TEXT)  # fmt: skip
SCHEMAS = {
    "ServingRuntime": _document(
        "v1alpha1",
        containers=_list(_CONTAINER),
        protocolVersions=TEXTS,
        supportedModelFormats=_list(_FORMAT),
        volumes=_list(_VOLUME),
    ),
    "InferenceService": _document(
        "v1beta1", predictor=_object(minReplicas=WHOLE, maxReplicas=WHOLE, model=_MODEL)
    ),
}


@pytest.fixture
def manifest():
    documents = list(yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")))
    return {document["kind"]: document for document in documents}


def test_every_object_is_one_that_its_definition_allows(manifest):
    assert manifest.keys() == SCHEMAS.keys()
    for kind, document in manifest.items():
        jsonschema.validate(document, SCHEMAS[kind])


def test_a_field_that_is_misspelt_or_of_another_kind_would_be_found(manifest):
    container = manifest["ServingRuntime"]["spec"]["containers"][0]
    for wrong in ({"arg": []}, {"args": [8080]}, {"readinessProbe": {"httpGet": {"path": "/"}}}):
        spoiled = manifest["ServingRuntime"] | {"spec": {"containers": [container | wrong]}}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(spoiled, SCHEMAS["ServingRuntime"])


def test_the_service_names_the_runtime_and_a_format_that_it_has(manifest):
    runtime, model = manifest["ServingRuntime"], manifest["InferenceService"]
    asked = model["spec"]["predictor"]["model"]
    assert asked["runtime"] == runtime["metadata"]["name"]
    formats = [one["name"] for one in runtime["spec"]["supportedModelFormats"]]
    assert asked["modelFormat"]["name"] in formats
    assert asked["protocolVersion"] in runtime["spec"]["protocolVersions"]


def test_the_command_takes_every_word_and_listens_where_kserve_asks(manifest):
    (container,) = manifest["ServingRuntime"]["spec"]["containers"]
    program, group, command, *words = container["command"] + container["args"]
    assert (program, f"{group} {command}" in PURPOSES) == ("subgraphkit", True)
    parser = Parser()
    import_module(f"subgraphkit.cli.commands.{command}").add_words(parser)
    asked = parser.parse_args(words)
    assert (asked.host, asked.port) == ("0.0.0.0", container["ports"][0]["containerPort"])
    assert asked.replicas * asked.num_cpus == int(container["resources"]["limits"]["cpu"])
    for probe in ("readinessProbe", "startupProbe"):
        assert container[probe]["httpGet"]["port"] == asked.port
        assert re.fullmatch(r"/v2/.+", container[probe]["httpGet"]["path"])


def test_the_manifest_for_kuberay_names_an_application_and_words_that_it_takes():
    document = yaml.safe_load(MANIFEST.with_name("kuberay.yaml").read_text(encoding="utf-8"))
    (application,) = yaml.safe_load(document["spec"]["serveConfigV2"])["applications"]
    module, name = application["import_path"].split(":")
    source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    assert f"\n{name}: Final = serve.deployment(Replica" in source
    (deployment,) = application["deployments"]
    config = deployment["user_config"]
    source = (ROOT / "subgraphkit/serving/replica.py").read_text(encoding="utf-8")
    assert all(f'config.get("{word}"' in source for word in config.keys() - {"models"})
    for spec in config["models"].values():
        assert sk.SessionSpec.from_json(json.dumps(spec)).source == "bert"
    worker = document["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
    assert worker["terminationGracePeriodSeconds"] > deployment["graceful_shutdown_timeout_s"]
