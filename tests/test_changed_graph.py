"""Answers without some facts or without the graph, the question's part of the graph, and why one choice rather than another."""

import json
import math

import numpy as np
import pytest

import mhgrn
from batched_answers import assert_equal
from mhgrn.errors import UserError
from mhgrn.inference import Asked, FactMasks, QuestionAnswerer, WrongOption
from mhgrn.inference import view as view_module
from mhgrn.questions.question import Question

DESK = "Where would a child sit at a desk?", ["schoolroom", "patio", "furniture store", "library", "bus"]


@pytest.fixture(scope="module")
def qa() -> QuestionAnswerer:
    return mhgrn.load()


def test_an_answer_without_a_fact_equals_the_shown_effect(qa: QuestionAnswerer) -> None:
    answer = qa.ask(*DESK, by="attention")
    for path in answer.paths:
        assert path.without is not None
        for fact, after in zip(path.facts, path.without, strict=True):
            left = qa.ask(*DESK, without=[fact])
            assert left.probabilities[answer.choice] == pytest.approx(after, abs=1e-5)
            assert not any(fact in other.facts for other in left.paths)
            assert left.concepts == answer.concepts
        assert qa.ask(*DESK, without=path.facts).probabilities[answer.choice] == pytest.approx(path.without_path, abs=1e-5)


def test_an_answer_without_the_graph_equals_the_shown_effect(qa: QuestionAnswerer) -> None:
    answer = qa.ask(*DESK)
    left = qa.ask(*DESK, graph=False, subgraph=True, contrast="library")
    assert left.probabilities[answer.choice] == pytest.approx(answer.without_graph, abs=1e-5)
    assert left.paths == []
    assert left.concepts == answer.concepts
    assert left.notes == ["the graph is switched off."]
    assert left.subgraph == {"nodes": [], "edges": [], "left_out": {"nodes": 0, "edges": 0}}
    assert left.contrast is not None
    assert left.contrast.facts == []


def test_facts_to_leave_out_are_found_in_any_spelling_and_unknown_ones_are_named(qa: QuestionAnswerer) -> None:
    left = qa.ask(*DESK, without=[("desk", "AtLocation", "furniture_store")])
    assert_equal(left, qa.ask(*DESK, without=[(" Desk ", "atlocation", "Furniture store")]))
    added = [("desk", "AtLocation", "patio")]
    assert_equal(qa.ask(*DESK, added, without=added), qa.ask(*DESK))
    with pytest.raises(WrongOption, match="the fact desk, AtLocation, moon is not in the graph") as wrong:
        qa.ask(*DESK, without=[("desk", "AtLocation", "moon")])
    assert wrong.value.option == "without"
    with pytest.raises(UserError, match=r"'AtLocatio' is not a relation of the graph. Did you mean AtLocation"):
        qa.ask(*DESK, without=[("desk", "AtLocatio", "patio")])
    elsewhere = next(fact for fact in qa.run.graph.facts_of("whale"))
    assert any("nothing changes" in note for note in qa.ask(*DESK, without=[elsewhere]).notes)


def test_questions_with_different_options_are_answered_together(qa: QuestionAnswerer) -> None:
    question = Question.asked(*DESK)
    fact = qa.ask(*DESK).paths[0].facts[0]
    asked = [
        Asked(question),
        Asked(question, without=[fact], paths=1),
        Asked(question, graph=False, effects=False),
        Asked(question, facts=[("desk", "AtLocation", "patio")]),
        Asked(Question.asked("What do you drink?", ["water", "stone"]), effects=False, paths=2),
    ]
    for one, together in zip(asked, qa.answer_all(asked), strict=True):
        assert_equal(together, qa.answer_all([one])[0])


def test_a_contrast_is_the_difference_of_log_odds_without_each_fact(qa: QuestionAnswerer) -> None:
    def difference(**options: object) -> float:
        found = qa.ask(*DESK, effects=False, **options).probabilities  # type: ignore[arg-type]
        return math.log(found["schoolroom"]) - math.log(found["library"])

    contrast = qa.contrast(*DESK, "schoolroom", "library")
    assert contrast.difference == pytest.approx(difference(), abs=1e-4)
    assert 1 <= len(contrast.facts) <= 10
    for one in contrast.facts:
        assert one.difference_without == pytest.approx(difference(without=[one.fact]), abs=1e-4)
        assert one.sentence.endswith(".")
    changes = [abs(one.difference_without - contrast.difference) for one in contrast.facts]
    assert changes == sorted(changes, reverse=True)
    back = qa.contrast(*DESK, "library", "schoolroom")
    assert back.difference == pytest.approx(-contrast.difference)
    assert {one.fact for one in back.facts} == {one.fact for one in contrast.facts}
    with pytest.raises(UserError, match="'moon' is not one of the choices"):
        qa.contrast(*DESK, "schoolroom", "moon")


def test_a_contrast_shows_the_facts_that_change_most_of_all_facts(qa: QuestionAnswerer) -> None:
    """Remove every fact of the question in turn: none changes the difference more than those that are shown first."""
    masks = FactMasks(qa.scorer, qa.read([Asked(Question.asked(*DESK))]), 0)
    answer = qa.ask(*DESK, contrast="library", effects=False)
    this, other = DESK[1].index(answer.choice), DESK[1].index("library")
    scores = masks.scores(~np.eye(len(masks.facts), dtype=bool))
    difference = float(masks.score[this] - masks.score[other])
    changes = (scores[:, this] - scores[:, other] - difference).abs().sort(descending=True).values[:3]
    shown = answer.contrast
    assert shown is not None
    assert [abs(one.difference_without - difference) for one in shown.facts[:3]] == pytest.approx(changes.tolist(), abs=1e-4)
    lines = str(answer).splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith(f"    {answer.choice} rather than library: "))
    assert lines[first + 1].strip().startswith(shown.facts[0].sentence)
    assert "times as probable" in lines[first + 1]
    same = qa.ask(*DESK, contrast=answer.choice, effects=False)
    assert f"    {answer.choice} is the answer itself; nothing to compare it with." in str(same).splitlines()


def test_the_shown_subgraph_has_the_paths_and_says_what_is_left_out(qa: QuestionAnswerer, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = qa.ask(*DESK, facts=[("desk", "AtLocation", "patio")], subgraph=True)
    shown = answer.subgraph
    assert shown is not None
    names = [node["name"] for node in shown["nodes"]]
    edges = {(names[edge["head"]], edge["relation"], names[edge["tail"]]) for edge in shown["edges"]}
    assert {tuple(fact) for path in answer.paths for fact in path.facts} <= edges
    assert [edge for edge in shown["edges"] if edge["added"]] == [
        edge
        for edge in shown["edges"]
        if (names[edge["head"]], edge["relation"], names[edge["tail"]]) == ("desk", "AtLocation", "patio")
    ]
    roles = {node["name"]: (node["role"], node["choices"]) for node in shown["nodes"]}
    assert roles["desk"][0] == "question"
    assert roles["furniture_store"] == ("choice", [2])
    assert all(qa.run.graph.holds(*edge) or edge == ("desk", "AtLocation", "patio") for edge in edges)
    json.dumps(shown)
    monkeypatch.setattr(view_module, "MOST_NODES", 8)
    few = qa.ask(*DESK, facts=[("desk", "AtLocation", "patio")], subgraph=True).subgraph
    assert few is not None
    assert len(few["nodes"]) == 8
    assert few["left_out"]["nodes"] == len(names) - 8
    assert few["left_out"]["edges"] == len(edges) - len(few["edges"])
    assert {name for path in answer.paths for name in path.concepts} <= {node["name"] for node in few["nodes"]} or len(
        {name for path in answer.paths for name in path.concepts}
    ) > 8


def test_texts_are_encoded_once_across_calls(qa: QuestionAnswerer, monkeypatch: pytest.MonkeyPatch) -> None:
    keeping = QuestionAnswerer(qa.run, text_memory=1 << 20)
    encoded: list[str] = []
    embed = keeping.run.encoder.embed
    monkeypatch.setattr(keeping.run.encoder, "embed", lambda texts: encoded.extend(texts) or embed(texts))
    first = keeping.ask(*DESK)
    assert_equal(first, keeping.ask(*DESK))
    keeping.ask("What is on a patio?", ["bus", "chair"])
    assert sorted(encoded) == sorted({DESK[0], *DESK[1], "What is on a patio?", "chair"})
    assert keeping.memory is not None
    assert 0 < keeping.memory.bytes < 1 << 20
