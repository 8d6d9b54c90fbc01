from pathlib import Path

import pytest

from mhgrn.answering import Answer, QuestionAnswerer
from mhgrn.config import Config
from mhgrn.data.prepared import PreparedData
from mhgrn.errors import UserError
from mhgrn.kg import KnowledgeGraph
from mhgrn.training.loop import train
from mhgrn.training.run import Run


@pytest.fixture(scope="module")
def qa(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> QuestionAnswerer:
    config = Config.of({"training": {"epochs": 1}, "features": "random", "mhgrn": {"hops": 3}})
    return QuestionAnswerer(train(small_data, config, tmp_path_factory.mktemp("run") / "run", starter_graph))


CHOICES = ["schoolroom", "office", "classroom"]


def test_an_answer_has_probabilities_and_a_path_of_facts(qa: QuestionAnswerer, starter_graph: KnowledgeGraph) -> None:
    answer = qa.ask("Where would a child sit at a desk?", CHOICES)
    assert list(answer.probabilities) == CHOICES
    assert sum(answer.probabilities.values()) == pytest.approx(1)
    assert answer.probabilities[answer.choice] == max(answer.probabilities.values())
    (path,) = answer.paths
    assert path.facts
    assert path.entity in answer.concepts["choices"][answer.choice]
    assert path.concepts[-1] == path.entity
    for fact, here, there in zip(path.facts, path.concepts, path.concepts[1:], strict=False):
        assert starter_graph.holds(*fact)
        assert {fact.head, fact.tail} == {here, there}
    assert answer == qa.ask("Where would a child sit at a desk?", CHOICES)
    assert answer.to_dict()["paths"][0]["facts"] == [list(fact) for fact in path.facts]


def test_what_is_not_in_the_graph_is_answered_from_the_text_and_said(qa: QuestionAnswerer) -> None:
    answer = qa.ask("Qwzx vbnm?", ["school", "zzyzx qqq"])
    assert any("nothing in the question" in note for note in answer.notes)
    assert any("zzyzx qqq" in note for note in answer.notes)
    nothing = qa.ask("Qwzx vbnm?", ["zzyzx qqq", "xxkcd"])
    assert nothing.paths == []
    assert sum(nothing.probabilities.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("question", "choices", "message"),
    [
        ("", CHOICES, "question is empty"),
        ("  ", CHOICES, "question is empty"),
        ("Where?", [], "at least two choices, this one has 0"),
        ("Where?", ["school"], "at least two choices, this one has 1"),
        ("Where?", ["school", " "], "choice 2 is empty"),
        ("Where?", ["school", "school"], "'school' is given twice"),
    ],
)
def test_a_question_that_is_none_is_refused(qa: QuestionAnswerer, question: str, choices: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        qa.ask(question, choices)


def test_the_text_of_an_answer(qa: QuestionAnswerer) -> None:
    answer = Answer("Where?", "b", {"a": 0.25, "b": 0.75}, [], {"question": [], "choices": {}}, ["nothing was found."])
    assert str(answer).splitlines() == ["Where?", "  → b   75.0%", "    a   25.0%", "    note: nothing was found."]


def test_a_run_may_use_another_graph_of_the_same_relations(qa: QuestionAnswerer, tmp_path: Path) -> None:
    run = qa.run
    other = KnowledgeGraph.from_facts([("child", "AtLocation", "moon"), ("moon", "IsA", "place")], run.graph.schema)
    other.save(tmp_path / "graph")
    answer = QuestionAnswerer(Run.load(run.folder, kg=tmp_path / "graph")).ask("Where is the child?", ["moon", "school"])
    assert answer.concepts["choices"]["moon"] == ["moon"]
    assert answer.concepts["choices"]["school"] == []
    different = KnowledgeGraph.from_facts([("child", "lives_on", "moon")])
    different.save(tmp_path / "different")
    with pytest.raises(UserError, match="other relations"):
        Run.load(run.folder, kg=tmp_path / "different")


def test_facts_can_be_added_for_one_answer(qa: QuestionAnswerer, starter_graph: KnowledgeGraph) -> None:
    asked = "Where does a quokka live?", ["desert", "fridge"]
    before = qa.ask(*asked)
    assert before.concepts["question"] == ["live"] * starter_graph.knows_word("live")
    facts = [("quokka", "AtLocation", "desert"), ("Quokka", "IsA", "animal")]
    answer = qa.ask(*asked, facts=facts)
    assert "quokka" in answer.concepts["question"]
    assert answer.probabilities != before.probabilities
    known = starter_graph.with_facts(facts)
    assert all(known.holds(*fact) for path in answer.paths for fact in path.facts)
    assert qa.ask(*asked) == before
    with pytest.raises(UserError, match=r"'IsAn' is no relation of the graph. Did you mean IsA\?"):
        qa.ask(*asked, facts=[("quokka", "IsAn", "animal")])
