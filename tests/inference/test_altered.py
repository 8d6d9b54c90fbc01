"""Scores of masks equal those of questions asked with the facts really left out."""

import numpy as np
import pytest
import torch

from mhgrn.config import Config
from mhgrn.inference import Asked, FactMasks, QuestionAnswerer, altered, score_masks
from mhgrn.kg import KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.training.loop import train

QUESTIONS = [
    Question.asked("Where would a child sit at a desk?", ["schoolroom", "office", "classroom"]),
    Question.asked("Where do you keep milk?", ["refrigerator", "xyzzy"]),
    Question.asked("qwertz?", ["xyzzy", "plugh"]),
]


@pytest.fixture(scope="module", params=["mhgrn", "rgcn"])
def qa(
    request: pytest.FixtureRequest,
    small_data: PreparedData,
    starter_graph: KnowledgeGraph,
    tmp_path_factory: pytest.TempPathFactory,
) -> QuestionAnswerer:
    config = Config.of({"graph_encoder": request.param, "training": {"epochs": 1}, "features": "random"})
    run = train(small_data, config, tmp_path_factory.mktemp("run") / "run", starter_graph)
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in run.model.parameters():  # so that every fact matters
            weight.add_(torch.randn_like(weight), alpha=0.3 if request.param == "mhgrn" else 0.1)
    return QuestionAnswerer(run)


def test_scores_of_masks_equal_those_of_questions_without_the_facts(qa: QuestionAnswerer, monkeypatch: pytest.MonkeyPatch) -> None:
    read, graph = qa.read([Asked(question) for question in QUESTIONS]), qa.run.graph
    rng = np.random.default_rng(0)
    asked = [(masks := FactMasks(qa.scorer, read, q), rng.random((4, len(masks.facts))) < 0.7) for q in range(3)]
    for together in (1_000_000, 50):  # several parts give the same scores
        monkeypatch.setattr(altered, "AT_ONCE", together)
        fresh = [(FactMasks(qa.scorer, read, q), keep) for q, (_, keep) in enumerate(asked)]
        found = score_masks(fresh)
        for question, (masks, keep), scores in zip(QUESTIONS, fresh, found, strict=True):
            assert scores.shape == (4, len(question.choices))
            for mask, of_mask in zip(keep, scores, strict=True):
                names = [
                    (graph.name(h), graph.schema.relations[r].name, graph.name(t)) for h, r, t in masks.facts.facts[~mask].tolist()
                ]
                expected = qa.answer(question, without=names, effects=False).probabilities
                assert torch.softmax(of_mask, 0).tolist() == pytest.approx(list(expected.values()), abs=1e-5)
    shares = torch.softmax(found[0], 1)
    assert (shares[0] - shares[1:]).abs().max() > 0.01


def test_no_facts_and_no_graph_are_different(qa: QuestionAnswerer) -> None:
    read = qa.read([Asked(question) for question in QUESTIONS])
    for q, question in enumerate(QUESTIONS):
        masks = FactMasks(qa.scorer, read, q)
        off = qa.answer(question, graph=False, effects=False).probabilities
        assert torch.softmax(masks.without_graph, 0).tolist() == pytest.approx(list(off.values()), abs=1e-5)
    masks = FactMasks(qa.scorer, read, 0)
    no_facts = masks.scores(np.zeros((1, len(masks.facts)), dtype=bool))[0]
    if qa.run.config.graph_encoder == "rgcn":  # mhgrn reads only walks
        assert (no_facts - masks.without_graph).abs().max() > 1e-4


def test_a_graph_is_scored_once(qa: QuestionAnswerer, monkeypatch: pytest.MonkeyPatch) -> None:
    read = qa.read([Asked(question) for question in QUESTIONS])
    scored: list[int] = []
    score_graphs = altered.altered_scores

    def count(scorer: object, read: object, graphs: object) -> torch.Tensor:
        every = list(graphs)  # type: ignore[call-overload]
        scored.append(len(every))
        return score_graphs(scorer, read, every)  # type: ignore[arg-type]

    monkeypatch.setattr(altered, "altered_scores", count)
    masks = FactMasks(qa.scorer, read, 0)
    size = len(masks.facts)
    everything = np.ones((2, size), dtype=bool)
    assert masks.scores(everything).tolist() == [masks.score.tolist()] * 2
    assert scored == []
    with_fact = [int(fact in number) for fact in [0] for number in masks.facts.number]
    masks.scores(~np.array([masks.facts.mask([0])] * 2))
    masks.scores(~masks.facts.mask([0])[None])
    assert scored == [sum(with_fact)]
