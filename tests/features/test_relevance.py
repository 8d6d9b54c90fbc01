"""The relevance of nodes is a cosine, the same in training, evaluation and answers, with any kind of text encoder."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from batched_answers import assert_batches_equal_single_answers
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.encoders.base import Dims
from mhgrn.encoders.mhgrn import MHGRN, MHGRNSettings
from mhgrn.errors import UserError
from mhgrn.features import NameFeatures, Relevance
from mhgrn.inference import Asked, QuestionAnswerer
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.runs import Run
from mhgrn.scoring import TextMemory
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.encoder import TextEncoder
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.training.evaluation import evaluate
from mhgrn.training.examples import Examples
from mhgrn.training.loop import train
from tiny_encoder import letter_encoder

USED = {"relevance_feature": True, "relevance_prior": True}


def cosine(encoder: TextEncoder, name: str, question: str) -> float:
    with torch.inference_mode():
        return float(torch.cosine_similarity(*encoder.embed([name.replace("_", " "), question]), dim=0))


def config(**more: Any) -> Config:
    return Config.of({"mhgrn": {"hidden_dim": 8, **USED}, "features": "random", "training": {"epochs": 1}} | more)


@pytest.fixture(scope="module")
def minilm() -> TextEncoder:
    return load_text_encoder(TextEncoderSettings())


def test_it_is_the_cosine_of_name_and_question(
    small_data: PreparedData, starter_graph: KnowledgeGraph, minilm: TextEncoder
) -> None:
    relevance = Relevance(NameFeatures(starter_graph, minilm))
    subgraphs = [subgraph for q in (0, 1) for subgraph in small_data.subgraphs(q)]
    stems = [small_data.questions[q].stem for q in (0, 1) for _ in small_data.subgraphs(q)]
    batch = GraphBatch.collate(subgraphs, len(starter_graph.schema))
    found = relevance(batch, stems)
    assert found.shape == (batch.num_nodes,)
    for node in range(0, batch.num_nodes, 37):
        wanted = cosine(minilm, starter_graph.name(int(batch.concepts[node])), stems[int(batch.batch[node])])
        assert float(found[node]) == pytest.approx(wanted, abs=2e-3)  # names are stored as float16
    with pytest.raises(UserError, match="the question of each of"):
        relevance(batch, stems[:1])


def test_vectors_of_questions_are_cached_with_the_data(
    small_data: PreparedData, starter_graph: KnowledgeGraph, minilm: TextEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stems = [question.stem for question in small_data.questions]
    relevance = Relevance(NameFeatures(starter_graph, minilm))
    batch = GraphBatch.collate(small_data.subgraphs(0), len(starter_graph.schema))
    asked = stems[:1] * batch.num_graphs
    before = relevance(batch, asked)
    relevance.require(small_data.used, stems, tmp_path)
    (file,) = tmp_path.iterdir()
    again = Relevance(NameFeatures(starter_graph, minilm))
    monkeypatch.setattr(TextEncoder, "embed", None)
    again.require(small_data.used, stems, tmp_path)
    torch.testing.assert_close(again(batch, asked), before, rtol=0, atol=1e-5)
    monkeypatch.undo()
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(UserError, match="questions-"):
        Relevance(NameFeatures(starter_graph, minilm)).require(small_data.used, stems, tmp_path)


def relevance_by_name(qa: QuestionAnswerer, stem: str, choices: list[str], facts: Any = ()) -> dict[str, float]:
    """ρ of the concepts in the graph of the first choice, as the model gets it."""
    read = qa._prepare([Asked(Question.asked(stem, choices))], qa._knowledge_with(facts), TextMemory(qa.scorer))
    batch = read.graphs.batch
    assert batch.relevance is not None
    first = (batch.batch == 0).nonzero()[:, 0].tolist()
    return {read.knowledge.graph.name(int(batch.concepts[node])): float(batch.relevance[node]) for node in first}


@pytest.mark.parametrize("kind", ["frozen", "pair", "tuned"])
def test_training_evaluation_and_answers_use_the_same_relevance(
    kind: str, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    folder = letter_encoder(tmp_path / "letters")
    text: dict[str, Any] = {"encoder": str(folder), "encoding": "pair" if kind == "pair" else "separate", "pooling": "mean"}
    if kind == "tuned":
        text |= {"frozen_epochs": 0, "learning_rate": 0.01}
    run = train(small_data, config(text=text, training={"epochs": 1, "max_questions": 40}), tmp_path / "run", starter_graph)
    graph_encoder = run.model.graph_encoder
    assert isinstance(graph_encoder, MHGRN)
    assert graph_encoder.relevance_vector is not None
    assert graph_encoder.relevance_scale is not None
    assert graph_encoder.relevance_vector.any()  # trained from 0
    assert graph_encoder.relevance_scale.any()
    assert evaluate(run, small_data, "dev")["accuracy"] == run.about["metrics"]["dev_accuracy"]
    # asked, and with a new concept: by the encoder as it was before the training
    untrained = load_text_encoder(TextEncoderSettings.model_validate(text | {"frozen_epochs": None}))
    qa = QuestionAnswerer(run)
    question, choices = "Where would a child sit at a desk?", ["schoolroom", "patio"]
    found = relevance_by_name(qa, question, choices, [("desk", "AtLocation", "blue_quokka"), ("blue_quokka", "IsA", "schoolroom")])
    assert "blue_quokka" in found
    for name, value in found.items():
        assert value == pytest.approx(cosine(untrained, name, question), abs=2e-3)
    examples = Examples(small_data, run)
    asked = small_data.questions[0]
    batch = examples.batch([0]).graph
    assert batch.relevance is not None
    of_first = relevance_by_name(qa, asked.stem, list(asked.choices))
    for node in (batch.batch == 0).nonzero()[:, 0].tolist():
        assert float(batch.relevance[node]) == pytest.approx(of_first[starter_graph.name(int(batch.concepts[node]))], abs=1e-4)


@pytest.fixture(scope="module")
def run(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(small_data, config(), tmp_path_factory.mktemp("relevance") / "run", starter_graph)


def test_answers_in_batches_equal_single_ones(run: Run, small_data: PreparedData) -> None:
    assert_batches_equal_single_answers(QuestionAnswerer(run), small_data.questions[:12])


def test_effects_keep_the_relevance_of_nodes(run: Run) -> None:
    """The effect of a fact equals that of a graph that never had it."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in run.model.parameters():
            parameter.normal_(std=0.5)
    qa = QuestionAnswerer(run)
    question, choices = "Where does a wug live?", ["schoolroom", "patio"]
    facts = {choice: ("wug", "AtLocation", choice) for choice in choices}  # one of them keeps the new concept in the graph
    asked = qa.ask(question, choices, list(facts.values()), paths=100, by="attention")
    effect = next(path.without_path for path in asked.paths if path.concepts == ["wug", asked.choice])
    rest = [fact for choice, fact in facts.items() if choice != asked.choice]
    after = qa.ask(question, choices, rest, effects=False)
    assert asked.probabilities[asked.choice] != pytest.approx(effect, abs=1e-6)
    assert effect == pytest.approx(after.probabilities[asked.choice], abs=1e-5)


def test_it_starts_as_the_model_without_relevance() -> None:
    made = []
    for settings in ({}, USED):
        torch.manual_seed(0)
        made.append(MHGRN(Dims(6, 5, 4), MHGRNSettings(hidden_dim=4, **settings)))  # type: ignore[arg-type]
    plain, relevant = made
    assert not plain.uses_relevance
    assert relevant.uses_relevance
    state: dict[str, Tensor] = relevant.state_dict()
    assert not state.pop("relevance_vector").any()
    assert not state.pop("relevance_scale").any()
    assert state.keys() == plain.state_dict().keys()
    assert all(torch.equal(value, plain.state_dict()[name]) for name, value in state.items())


def test_a_batch_without_relevance_is_refused() -> None:
    batch = GraphBatch.collate([], 2)
    with pytest.raises(UserError, match="which the batch lacks"):
        MHGRN(Dims(6, 5, 4), MHGRNSettings(hidden_dim=4, relevance_prior=True))(torch.zeros(0, 6), torch.zeros(0, 5), batch)
