"""Questions are answered from text to paths and effects, one at a time or in batches."""

import gc
import json
import random
import tracemalloc
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import mhgrn
import mhgrn.scoring
from batched_answers import assert_batches_equal_single_answers
from mhgrn.batching.graph_batch import GraphBatch
from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.explain import ReasoningPath, to_path
from mhgrn.grounding.grounder import Grounder
from mhgrn.grounding.index import ConceptIndex
from mhgrn.inference import Answer, QuestionAnswerer
from mhgrn.inference.asked import distinct_names
from mhgrn.kg import KnowledgeGraph
from mhgrn.kg.graph import Fact
from mhgrn.model import build_model
from mhgrn.questions.question import Question
from mhgrn.runs import Run, describe, features_for
from mhgrn.subgraphs.extract import Extractor
from mhgrn.subgraphs.prepared import PreparedData, ground, statement_builder
from mhgrn.text.loading import load_text_encoder
from mhgrn.training.loop import train


@pytest.fixture(scope="module")
def qa(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> QuestionAnswerer:
    config = Config.of({"training": {"epochs": 1}, "features": "random", "mhgrn": {"hops": 3}})
    return QuestionAnswerer(train(small_data, config, tmp_path_factory.mktemp("run") / "run", starter_graph))


CHOICES = ["schoolroom", "office", "classroom"]


def test_an_answer_has_probabilities_and_a_path_of_facts(qa: QuestionAnswerer, starter_graph: KnowledgeGraph) -> None:
    answer = qa.ask("Where would a child sit at a desk?", CHOICES, paths=1)
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
    assert answer == qa.ask("Where would a child sit at a desk?", CHOICES, paths=1)
    assert answer.to_dict()["paths"][0]["facts"] == [list(fact) for fact in path.facts]


ASKED = "Where would a child sit at a desk?", CHOICES


def test_paths_come_best_first_with_their_probabilities(qa: QuestionAnswerer) -> None:
    answer = qa.ask(*ASKED, paths=5, effects=False)
    distribution = qa.walks(*ASKED)
    best = distribution.best_paths(5, simple=True).walks
    assert [(p.probability, p.ties) for p in answer.paths] == [(w.probability, w.ties) for w in best]
    assert answer.masses == distribution.masses
    assert sum(distribution.masses.values()) == pytest.approx(1)
    assert [path.without for path in answer.paths] == [None] * len(best)
    assert answer.without_graph is None
    with pytest.raises(UserError, match="paths is 0; it should be an integer of 1 or more"):
        qa.ask(*ASKED, paths=0)
    with pytest.raises(UserError, match=r"'offices' is not one of the choices. Did you mean office\?"):
        qa.walks(*ASKED, "offices")
    other = qa.walks(*ASKED, "office")
    assert {to_path(w, other.batch, qa.run.graph).entity for w in other.best_paths(9).walks} <= {"office"}


def test_effects_choose_among_paths_that_tie(qa: QuestionAnswerer, starter_graph: KnowledgeGraph) -> None:
    """The effect shown is what the model says of the graph without the fact; of tied paths the one that matters most is shown."""
    plain = qa.ask(*ASKED, paths=9, effects=False)
    answer = qa.ask(*ASKED, paths=1, by="attention")
    (path,) = answer.paths
    top = plain.paths[0].probability
    assert path.probability == pytest.approx(top)
    before = answer.probabilities[answer.choice]
    tied = qa.ask(*ASKED, paths=9, by="attention").paths
    tied = [p for p in tied if p.probability == pytest.approx(top, rel=1e-8)]
    drop = [round(sum(before - after for _, after in set(zip(p.facts, p.without, strict=True))), 6) for p in tied]
    assert path.facts == tied[drop.index(max(drop))].facts
    graph = qa.run.graph
    mentions = ground(Question.asked(*ASKED), Grounder(graph), statement_builder("auto", []))
    for fact, after in zip(path.facts, path.without or [], strict=True):
        subgraphs = []
        for one in map(Extractor(graph), mentions):
            names = [graph.name(int(c)) for c in one.concepts]
            relation = [graph.schema.relations[r].name for r in one.relation]
            kept = [(names[h], r, names[t]) != fact for h, r, t in zip(one.head.tolist(), relation, one.tail.tolist(), strict=True)]
            subgraphs.append(replace(one, head=one.head[kept], relation=one.relation[kept], tail=one.tail[kept]))
        batch = GraphBatch.collate(subgraphs, len(graph.schema))
        with torch.inference_mode():
            s = qa.run.encoder.sentences([ASKED[0]] * len(CHOICES), CHOICES)
            score = qa.run.model(s, qa.run.features.rows(batch.concepts), batch).score
        assert float(torch.softmax(score, 0)[CHOICES.index(answer.choice)]) == pytest.approx(after, abs=1e-5)
    assert answer.without_graph is not None
    assert answer.without_graph != pytest.approx(before, abs=1e-6)


def test_tied_paths_come_in_the_order_of_their_effects(qa: QuestionAnswerer) -> None:
    facts = [(a, "AtLocation", place) for a in ("quokka", "wombat", "numbat") for place in ("desert", "fridge")]
    question = "Where do the quokka, the wombat and the numbat live?"
    answer = qa.ask(question, ["desert", "fridge"], facts=facts, paths=40, by="attention")
    before = answer.probabilities[answer.choice]
    by_share: dict[str, list[float]] = {}
    for path in answer.paths:
        effects = dict(zip(path.facts, path.without or [], strict=True))
        by_share.setdefault(f"{path.probability:.8g}", []).append(sum(before - after for after in effects.values()))
    assert [float(share) for share in by_share] == sorted(map(float, by_share), reverse=True)
    assert all(a >= b - 2e-6 for drops in by_share.values() for a, b in pairwise(drops))
    assert any(max(drops) - min(drops) > 1e-5 for drops in by_share.values())  # there was something to choose


def test_attention_is_plain_data(qa: QuestionAnswerer) -> None:
    answer = qa.ask(*ASKED, attention=True)
    assert answer.attention is not None
    assert list(answer.attention["statements"]) == CHOICES
    assert json.loads(json.dumps(answer.to_dict(), allow_nan=False))["attention"] == answer.attention
    assert "attention" not in qa.ask(*ASKED).to_dict()


def test_names_of_repeated_choices_aredistinct_names() -> None:
    assert distinct_names(Question("", "?", ("bus", "bus", "car"))) == ["bus (A)", "bus (B)", "car"]
    assert distinct_names(Question("", "?", ("bus", "bus", "bus (A)"))) == ["bus (A)", "bus (B)", "bus (A) (C)"]


def test_a_model_without_a_graph_has_nothing_to_explain(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    config = Config.of({"training": {"epochs": 1}, "graph_encoder": "none"})
    text = QuestionAnswerer(train(small_data, config, tmp_path / "run", starter_graph))
    answer = text.ask(*ASKED, paths=3, attention=True)
    assert (answer.paths, answer.masses, answer.without_graph, answer.attention) == ([], None, None, None)
    assert answer.notes == ["this model does not use the graph, so it has no paths."]
    with pytest.raises(UserError, match="attends to no walks"):
        text.walks(*ASKED)


def test_several_layers_are_explained_too(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    config = Config.of({"training": {"epochs": 1}, "features": "random", "mhgrn": {"layers": 2}})
    answer = QuestionAnswerer(train(small_data, config, tmp_path / "run", starter_graph)).ask(*ASKED, paths=3, by="attention")
    assert answer.paths
    for path in answer.paths:
        assert len(path.facts) == len(path.concepts) - 1 == len(path.without or [])
        assert 0 < path.probability <= 1
        assert all(starter_graph.holds(*fact) for fact in path.facts)


def test_a_question_outside_the_graph_is_answered_from_the_text_with_a_note(qa: QuestionAnswerer) -> None:
    answer = qa.ask("Qwzx vbnm?", ["school", "zzyzx qqq"])
    assert any("the question contains no concept" in note for note in answer.notes)
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


def test_a_truncated_text_is_noted(qa: QuestionAnswerer) -> None:
    short, long = (qa.ask("Where is a desk? " * times, ["school", "patio"], effects=False) for times in (1, 40))
    assert not any("max_length" in note for note in short.notes)
    assert "the text was truncated to text.max_length=64 tokens." in long.notes


@pytest.mark.parametrize("choices", ["patio", 3], ids=str)
def test_choices_are_a_list(qa: QuestionAnswerer, choices: Any) -> None:
    with pytest.raises(UserError, match="give a list of"):
        qa.ask("Where?", choices)


def test_the_text_of_an_answer(qa: QuestionAnswerer) -> None:
    answer = Answer("Where?", "b", {"a": 0.25, "b": 0.75}, [], {"question": [], "choices": {}}, ["nothing was found."])
    assert str(answer).splitlines() == ["Where?", "  → b   75.0%", "    a   25.0%", "    note: nothing was found."]
    facts = [Fact("x_1", "IsA", "y"), Fact("b", "HasA", "y")]
    two = ReasoningPath("b", facts, ["x_1", "y", "b"], -1.0, 1200, 0.5, [0.7, 0.8], 0.6)
    one = ReasoningPath("b", [Fact("x_1", "IsA", "b")], ["x_1", "b"], -1.0, 1, 0.25, [0.75], 0.75)
    same = replace(two, ties=1, without=[0.4, 0.4], without_path=0.4)
    shown = replace(answer, paths=[two, one, same], without_graph=0.5, notes=[])
    assert str(shown).splitlines()[3:] == [
        "    because x 1 —IsA→ y ←HasA— b   (50% of attention, one of 1,200 such paths)",
        "      without x 1 —IsA→ y: 75.0% → 70.0%",
        "      without b —HasA→ y: 75.0% → 80.0%",
        "      without this path: 75.0% → 60.0%",
        "    looked at x 1 —IsA→ b   (25% of attention)",  # taking it away does no harm
        "      without this fact: 75.0% → 75.0%",
        "    because x 1 —IsA→ y ←HasA— b   (50% of attention)",
        "      without this path: 75.0% → 40.0%",
        "    without the graph: 75.0% → 50.0%",
    ]


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
    assert before.concepts["question"] == ["live"] * ConceptIndex.of(starter_graph).knows_word("live")
    facts = [("quokka", "AtLocation", "desert"), ("Quokka", "IsA", "animal")]
    answer = qa.ask(*asked, facts=facts)
    assert "quokka" in answer.concepts["question"]
    assert answer.probabilities != before.probabilities
    known = starter_graph.with_facts(facts)
    assert all(known.holds(*fact) for path in answer.paths for fact in path.facts)
    assert qa.ask(*asked) == before
    with pytest.raises(UserError, match=r"'IsAn' is not a relation of the graph. Did you mean IsA\?"):
        qa.ask(*asked, facts=[("quokka", "IsAn", "animal")])


MIXED = [
    Question("1", "Where would a child sit at a desk?", ("schoolroom", "patio", "office")),
    Question("2", "What would you use to cut a slice of bread?", ("knife", "plate", "butter", "oven", "baker")),
    Question("3", "Qwzx vbnm?", ("zzyzx qqq", "xxkcd")),  # no graph at all
    Question("4", "Qwzx vbnm?", ("school", "zzyzx qqq")),
    Question("5", "Where is a desk? " * 40, ("school", "patio", "kitchen", "bus")),  # truncated
    Question("6", "Where do you find water?", ("sea", "sea", "desert")),  # as files may have it
    Question("7", "Where would a child sit at a desk?", ("bus", "library")),
]


@pytest.mark.parametrize("options", [{}, {"effects": False, "paths": 1}, {"attention": True}], ids=["all", "quick", "attention"])
def test_batched_answers_equal_single_ones(qa: QuestionAnswerer, options: dict[str, Any]) -> None:
    assert_batches_equal_single_answers(qa, MIXED, **options)


def test_batched_answers_equal_single_ones_with_added_facts(qa: QuestionAnswerer) -> None:
    facts = [("quokka", "AtLocation", "desert"), ("quokka", "IsA", "animal")]
    asked = [Question("1", "Where does a quokka live?", ("desert", "sea", "fridge")), *MIXED[:3]]
    assert_batches_equal_single_answers(qa, asked, facts=facts)


@pytest.mark.parametrize(
    "settings",
    [
        {"graph_encoder": "rn"},
        {"graph_encoder": "kagnet"},
        {"graph_encoder": "gconattn"},
        {"graph_encoder": "rgcn"},
        {"graph_encoder": "none"},
        {"graph_encoder": "edge-types"},
        {"mhgrn": {"layers": 2}},
        {"text": {"encoding": "pair", "pooling": "mean"}},
        {"preset": "as_published", "text": {"pooling": "mean"}},
    ],
    ids=str,
)
def test_batched_answers_equal_single_ones_whatever_the_model(
    settings: dict[str, Any], starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    """Untrained models with random weights."""
    torch.manual_seed(0)
    config = Config.of({"features": "random"} | settings)
    text = load_text_encoder(config.text)
    features = features_for(config, starter_graph, text)
    model = build_model(config, text, features.dim, 2 * len(starter_graph.schema)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.1 * torch.randn_like(parameter))
    about = describe(config, starter_graph, text, features, {"statement": "fill-in-the-blank"})
    qa = QuestionAnswerer(Run(tmp_path, about, config, starter_graph, text, features, model))
    assert_batches_equal_single_answers(qa, MIXED)


def test_many_questions_come_in_any_form(qa: QuestionAnswerer) -> None:
    pandas, polars, datasets = (pytest.importorskip(name) for name in ("pandas", "polars", "datasets"))
    rows = [{"question": q.stem, "choices": list(q.choices)} for q in MIXED[:2]]
    expected = [qa.answer(q, effects=False).choice for q in MIXED[:2]]
    forms: Iterable[Any] = [rows, iter(rows), pandas.DataFrame(rows), polars.DataFrame(rows), datasets.Dataset.from_list(rows)]
    for form in forms:
        assert [answer.choice for answer in qa.ask_many(form, effects=False)] == expected
    assert list(qa.ask_many([])) == []
    with pytest.raises(UserError, match="row 2"):
        list(qa.ask_many([rows[0], {"question": "Where?"}]))
    with pytest.raises(UserError, match="batch_size is 0"):
        qa.ask_many(rows, batch_size=0)
    with pytest.raises(UserError, match="paths is 0"):
        qa.ask_many(rows, paths=0)


def test_answers_come_batch_by_batch(qa: QuestionAnswerer) -> None:
    """A stream without an end is answered as it comes."""
    taken = 0

    def stream() -> Iterable[Question]:
        nonlocal taken
        while True:
            taken += 1
            yield MIXED[0]

    answers = qa.ask_many(stream(), batch_size=4, effects=False)
    assert [next(answers).choice for _ in range(4)] == [qa.answer(MIXED[0], effects=False).choice] * 4
    assert taken == 4


@pytest.mark.parametrize(("device", "says"), [("cuda", "cuda is not available here"), ("abacus", "'abacus' is not a device")])
def test_a_device_that_is_not_there_is_refused(qa: QuestionAnswerer, device: str, says: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(UserError, match=says):
        mhgrn.load(qa.run.folder, device=device)


def test_texts_are_encoded_once(qa: QuestionAnswerer, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    embed = qa.run.encoder.embed
    monkeypatch.setattr(qa.run.encoder, "embed", lambda texts: encoded.extend(texts) or embed(texts))
    list(qa.ask_many(MIXED[:4] * 3, batch_size=3))
    assert sorted(encoded) == sorted({text for q in MIXED[:4] for text in (q.stem, *q.choices)})
    monkeypatch.setattr(mhgrn.scoring, "MEMORIZED", 8000)
    few = [answer.probabilities for answer in qa.ask_many(MIXED, batch_size=2)]
    assert few == [pytest.approx(qa.answer(q).probabilities, abs=1e-5) for q in MIXED]


def test_a_subgraph_that_a_default_limit_cuts_is_noted(
    qa: QuestionAnswerer, small_data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No question of the tests reaches the limit itself."""
    assert not any("concepts left out" in note for note in qa.ask(*ASKED).notes)
    monkeypatch.setattr("mhgrn.subgraphs.extract.DEFAULT_NODES", 4)
    (note,) = [note for note in qa.ask(*ASKED).notes if "concepts left out" in note]
    assert note.startswith("the subgraph of a choice is cut to 4 nodes and 250,000 facts; concepts left out: schoolroom (")


@pytest.mark.parametrize("limits", [{"max_nodes": -5}, {"max_degree": -1}, {"max_nodes": "200"}, {"max_facts": 10**30}])
def test_a_run_with_impossible_limits_is_refused(qa: QuestionAnswerer, limits: dict[str, Any]) -> None:
    run = replace(qa.run, about=qa.run.about | {"data": qa.run.about["data"] | limits})
    with pytest.raises(UserError, match="it should be an integer from"):
        QuestionAnswerer(run)


def test_memorized_texts_are_bounded_in_bytes(qa: QuestionAnswerer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mhgrn.scoring, "MEMORIZED", 30_000)
    memory, sizes = mhgrn.scoring.TextMemory(qa.scorer), []
    for number in range(9):
        with torch.inference_mode():
            memory.text([f"Where is {number}?"] * 2, [f"{number} " * 5000, "sea"])
        sizes.append(memory.bytes)
    assert 10_000 < max(sizes) <= 30_000


Asked = tuple[str, list[str], list[tuple[str, str, str]]]


def _questions_of(graph: KnowledgeGraph, count: int) -> list[Asked]:
    """Different questions, half of them with extra facts about concepts that the graph lacks."""
    names = list(graph.names)
    found: list[Asked] = []
    for number in range(count):
        rng = random.Random(number)
        one, other, *choices = (name.replace("_", " ") for name in rng.sample(names, 5))
        new = f"zork{number % 7}"
        facts = [(new, "IsA", rng.choice(names)), (rng.choice(names), "AtLocation", new)] if number % 2 else []
        found.append((f"Where would a {one} and a {other} find {new}?", choices, facts))
    return found


def _assert_threads_agree(run: Run, asked: list[Asked], threads: int) -> None:
    """Ask the questions in one thread, then in many, warm and cold, then in one again: the answers are equal bit for bit."""
    warm = QuestionAnswerer(run)
    alone = [warm.ask(*one) for one in asked]
    for qa in (warm, QuestionAnswerer(Run.load(run.folder))):
        with ThreadPoolExecutor(threads) as pool:
            together = list(pool.map(lambda one, qa=qa: qa.ask(*one), asked))  # type: ignore[misc]
        assert [number for number, (a, b) in enumerate(zip(alone, together, strict=True)) if a != b] == []
        assert [qa.ask(*one) for one in asked[:20]] == alone[:20]


@pytest.fixture(scope="module")
def run_with_names(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose node features a text encoder computes when a question needs them."""
    config = Config.of({"training": {"epochs": 1}, "features": "names"})
    return train(small_data, config, tmp_path_factory.mktemp("names") / "run", starter_graph)


def test_threads_ask_one_answerer(run_with_names: Run, eager_switching: None) -> None:
    _assert_threads_agree(run_with_names, _questions_of(run_with_names.graph, 48), threads=8)


@pytest.mark.long
def test_sixteen_threads_ask_eight_thousand_questions(run_with_names: Run, eager_switching: None) -> None:
    _assert_threads_agree(run_with_names, _questions_of(run_with_names.graph, 16 * 500), threads=16)


def test_paths_are_shown_that_visit_no_concept_twice(qa: QuestionAnswerer) -> None:
    """Walks of three hops often lead to the choice, away from it and back."""
    facts = [("codeine", "RelatedTo", "cough")]
    answer = qa.ask("What does codeine help against?", ["cough", "desert"], facts=facts, paths=40, by="attention")
    assert answer.masses is not None
    assert answer.masses["circles"] > 0
    assert answer.paths
    for path in answer.paths:
        assert len(set(path.concepts)) == len(path.concepts)
        assert len({frozenset((fact.head, fact.tail)) for fact in path.facts}) == len(path.facts)


def test_because_is_said_of_paths_without_which_the_answer_is_less_probable() -> None:
    def printed(without: float | None) -> str:
        fact = Fact("fish", "AtLocation", "sea")
        path = ReasoningPath("sea", [fact], ["fish", "sea"], 0.0, 1, 0.5, None if without is None else [without], without)
        answer = Answer("Where?", "sea", {"sea": 0.75, "tree": 0.25}, [path], {"question": [], "choices": {}})
        return str(answer).splitlines()[3].strip()

    chain = "fish —AtLocation→ sea   (50% of attention)"
    assert printed(0.7) == f"because {chain}"
    for without in (0.7496, 0.75, 0.9, None):  # less than is printed, no effect, the opposite effect, effects off
        assert printed(without) == f"looked at {chain}"


def test_control_characters_of_texts_are_escaped() -> None:
    path = ReasoningPath("s\x1b", [Fact("f\u202e", "AtLocation", "s\x1b")], ["f\u202e", "s\x1b"], 0.0, 1, 0.5, [0.1], 0.1)
    answer = Answer("Wh\x1b[2Jere?", "s\nea", {"s\nea": 1.0}, [path], {"question": [], "choices": {}}, ["no\x07te"])
    assert not any(ord(letter) < 32 and letter != "\n" for letter in str(answer))
    assert "\u202e" not in str(answer)
    assert "\x1b" not in repr(answer)


@pytest.mark.parametrize("part", ["weight", "features"])
def test_an_answer_is_never_nan(qa: QuestionAnswerer, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if part == "weight":
        broken = qa.run.model.graph_encoder.get_parameter("project.weight")
        before = broken.detach().clone()
        monkeypatch.setattr(broken, "data", torch.full_like(before, torch.nan))
        says = "the weight graph_encoder.project.weight of the model has values that are not finite"
    else:
        monkeypatch.setattr(qa.run.features, "rows", lambda concepts, _=None: torch.full((len(concepts), 32), torch.inf))
        says = r"the table of node features \(random\) has values that are not finite"
    with pytest.raises(UserError, match=says):
        qa.ask(*ASKED)


def test_a_question_may_be_a_dictionary(qa: QuestionAnswerer) -> None:
    stem, choices = ASKED
    expected = qa.ask(stem, choices)
    labels = [{"label": label, "text": text} for label, text in zip("ABC", choices, strict=True)]
    for question in ({"question": stem, "choices": choices}, {"question": {"stem": stem, "choices": labels}}):
        assert qa.ask(question) == expected
    assert qa.ask(Question.asked(*ASKED)) == expected
    assert qa.ask(stem, dict(zip("ABC", choices, strict=True))) == expected  # type: ignore[arg-type]
    with pytest.raises(UserError, match="the choices are given twice"):
        qa.ask({"question": stem, "choices": choices}, choices)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ("fish,AtLocation,sea", "give a list of tuples"),
        (3, "give a list of tuples"),
        ({"head": "fish"}, "give a list of tuples"),
        (["fish"], "fact 1, 'fish', is not a tuple of three texts"),
        ([("fish", "AtLocation", None)], "fact 1, .* is not a tuple of three texts"),
        ([{"head": "fish", "tail": "sea"}], "fact 1, .* is not a tuple of three texts"),
        ([("fish", "IsA", "x" * 1_000_000)], "fact 1, .* has a name of more than 1,000 characters"),
        ((("fish", "AtLocation", f"sea {n}") for n in range(10**9)), "more than 10,000 facts"),
    ],
)
def test_impossible_facts_are_refused(qa: QuestionAnswerer, facts: Any, says: str) -> None:
    with pytest.raises(UserError, match=says) as raised:
        qa.ask(*ASKED, facts=facts)
    assert len(str(raised.value)) < 500


def test_facts_may_be_dictionaries(qa: QuestionAnswerer) -> None:
    fact = {"head": "quokka", "relation": "AtLocation", "tail": "desert"}
    asked = "Where does a quokka live?", ["desert", "fridge"]
    assert qa.ask(*asked, facts=[fact]) == qa.ask(*asked, facts=[tuple(fact.values())])  # type: ignore[list-item, arg-type]


def test_an_answerer_and_an_answer_say_what_they_are(qa: QuestionAnswerer) -> None:
    assert repr(qa).startswith("QuestionAnswerer(run=")
    assert "graph_encoder='mhgrn', graph of 23,993 concepts" in repr(qa)
    answer = Answer("Where?", "sea", {"sea": 0.75, "tree": 0.25}, [], {"question": [], "choices": {}})
    assert repr(answer) == "Answer(question='Where?', choice='sea', probability=0.750)"


def _kept_after_asking(qa: QuestionAnswerer, questions: int, characters: int) -> tuple[int, int]:
    """The bytes that Python and NumPy hold after half of some questions of random words, and after all of them."""
    rng, letters = random.Random(0), "abcdefghijklmnopqrstuvwxyz"

    def text() -> str:
        return " ".join("".join(rng.choices(letters, k=rng.randint(2, 12))) for _ in range(characters // 8))

    kept = []
    tracemalloc.start()
    for _ in range(2):
        for _ in range(questions // 2):
            qa.ask(text(), [text(), text()], effects=False)
        gc.collect()
        kept.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return kept[0], kept[1]


def test_questions_leave_little_behind(qa: QuestionAnswerer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mhgrn.grounding.grounder.CACHED", 1 << 16)
    half, whole = _kept_after_asking(qa, 24, 600)
    assert whole < half + 1_000_000


@pytest.mark.long
def test_memory_stays_level_over_many_long_questions(qa: QuestionAnswerer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mhgrn.grounding.grounder.CACHED", 1 << 23)
    half, whole = _kept_after_asking(qa, 2000, 9000)
    assert whole < half + 10_000_000
