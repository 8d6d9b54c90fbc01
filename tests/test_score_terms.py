"""The terms of the score: the cosine of question and choice, and a score that reads no text."""

from pathlib import Path

import pytest
import torch

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.features.sources.constant import ConstantFeatures
from mhgrn.kg import KnowledgeGraph
from mhgrn.model import build_model
from mhgrn.runs import Run, describe
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.zero_shot import cosine_scores
from mhgrn.training.examples import Examples


def examples(data: PreparedData, graph: KnowledgeGraph, folder: Path, **settings: object) -> Examples:
    config = Config.of({"features": "constant", **settings})
    encoder, features = load_text_encoder(config.text), ConstantFeatures()
    model = build_model(config, encoder, features.dim, 2 * len(graph.schema)).eval()
    return Examples(data, Run(folder, describe(config, graph, encoder, features, {}), config, graph, encoder, features, model))


@pytest.mark.parametrize("encoder", ["mhgrn", "none"])
@pytest.mark.parametrize("reads_text", [True, False])
def test_an_untrained_model_answers_by_cosine(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path, encoder: str, reads_text: bool
) -> None:
    made = examples(
        small_data, starter_graph, tmp_path, graph_encoder=encoder, score_similarity=10.0, score_text=reads_text
    )  # the last layer starts at 0
    asked = list(small_data.split("dev"))[:3]
    with torch.inference_mode():
        found = made.scores(made.batch(asked), live_text=True)
    questions = [small_data.questions[q] for q in asked]
    expected = [score for scores in cosine_scores(made.run.encoder, questions) for score in scores]
    torch.testing.assert_close(found, 10 * torch.tensor(expected), rtol=1e-4, atol=1e-4)


def test_the_weight_of_the_cosine_is_learned(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    made = examples(small_data, starter_graph, tmp_path, score_similarity=10.0)
    made.scores(made.batch(list(small_data.split("dev"))[:2]), live_text=False).sum().backward()
    similarity = made.run.model.similarity
    assert similarity is not None
    assert similarity.grad is not None
    assert float(similarity.grad) != 0


def test_impossible_scores_are_refused(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leaves nothing to score with"):
        examples(small_data, starter_graph, tmp_path, graph_encoder="none", score_text=False)
    with pytest.raises(UserError, match=r"needs text\.encoding=separate"):
        examples(small_data, starter_graph, tmp_path, score_similarity=1.0, text={"encoding": "pair", "pooling": "mean"})


def test_the_sign_of_the_score_is_learned_from_the_question(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    made = examples(small_data, starter_graph, tmp_path, score_similarity=10.0, score_negation=True)
    model, batch = made.run.model, made.batch(list(small_data.split("dev"))[:2])
    assert model.negation is not None
    usual = made.scores(batch, live_text=False)
    usual.square().sum().backward()
    assert model.negation.weight.grad is not None
    assert bool(model.negation.weight.grad.abs().sum() > 0)
    model.negation.bias.data.neg_()  # w is still 0: every question asks for what does not fit
    torch.testing.assert_close(made.scores(batch, live_text=False), -usual)
    with pytest.raises(UserError, match=r"score_negation needs text\.encoding=separate"):
        examples(small_data, starter_graph, tmp_path, score_negation=True, text={"encoding": "pair", "pooling": "mean"})
