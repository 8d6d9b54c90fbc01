"""Known answers: a planted model gets the ideal scores, random facts score at chance, shuffled attention is recognized."""

from pathlib import Path

import numpy as np
import pytest
import torch

from faithfulness_planted import WORTH, planted_run
from mhgrn.errors import UserError
from mhgrn.faithfulness import METHODS, Faithfulness, Interval, faithfulness
from mhgrn.faithfulness.gradients import integrated_gradients
from mhgrn.faithfulness.measuring import depends
from mhgrn.faithfulness.methods import chosen_methods, effects
from mhgrn.faithfulness.metrics import LEVELS
from mhgrn.faithfulness.report import report
from mhgrn.faithfulness.study import Study
from mhgrn.kg import KnowledgeGraph
from mhgrn.runs import Run
from mhgrn.starter import starter_run
from mhgrn.subgraphs.extract import ANSWER
from mhgrn.subgraphs.prepared import PreparedData, PrepareOptions, prepare

FAITHFUL = ("effect", "gradient", "integrated")
SPLIT = "train"


@pytest.fixture(scope="module")
def found(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path_factory: pytest.TempPathFactory) -> Faithfulness:
    run = planted_run(tmp_path_factory.mktemp("planted"), starter_graph, small_data)
    return faithfulness(run, small_data, SPLIT, limit=48, limits=48, perturbed=0)


@pytest.fixture(scope="module")
def starter(small_questions: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, PreparedData]:
    run = Run.load(starter_run())
    options = PrepareOptions(statement="fill-in-the-blank", workers=1)
    return run, prepare(small_questions, run.graph, tmp_path_factory.mktemp("starter") / "data", options)


def decisive(study: Study, q: int) -> list[np.ndarray]:
    """Of each choice: the decisive facts of its graph, by their numbers among the question's facts."""
    (masks,) = study.explained([q]).masks
    found = []
    for subgraph, number in zip(masks.facts.subgraphs, masks.facts.number, strict=True):
        types = np.asarray(subgraph.types)
        touches = (types[np.asarray(subgraph.head)] == ANSWER) | (types[np.asarray(subgraph.tail)] == ANSWER)
        found.append(np.unique(number[touches & (np.asarray(subgraph.relation) % 2 == 0)]))
    return found


def test_a_planted_model_gets_the_ideal_score(found: Faithfulness) -> None:
    for name in FAITHFUL:
        areas = found.methods[name]["aopc"]
        assert areas["comprehensiveness"]["sizes_normalized"].value == pytest.approx(1, abs=0.01), name
        assert areas["sufficiency"]["sizes_normalized"].value == pytest.approx(0, abs=0.02), name


def test_the_smallest_set_of_a_planted_model_is_ideal(found: Faithfulness) -> None:
    """In a model that adds up facts, those with the largest effects are the best set of any size."""
    sizes = []
    for row in filter(depends, found.rows):
        best, mine = row["methods"]["effect"], row["methods"]["smallest"]
        ideal = np.flatnonzero(np.array(best["sufficient"]) & np.array(best["necessary"]))
        if len(ideal):
            place = mine["size"] - 1
            assert mine["sufficient"][place]
            assert mine["necessary"][place]
            assert mine["size"] <= ideal[0] + 1
            sizes.append(mine["size"])
    assert len(sizes) > 30
    assert max(sizes) > 1
    assert found.methods["random-facts"]["shown"]["both"].high < 0.9


def test_faithful_methods_rank_the_decisive_facts_first(
    small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    study = Study(planted_run(tmp_path, starter_graph, small_data), small_data, SPLIT)
    checked = 0
    for q in study.questions[:20]:
        explained = study.explained([q])
        of_choice, answer = decisive(study, q), explained.read.best[0]
        mine = np.setdiff1d(
            of_choice[answer], np.concatenate([np.zeros(0, int), *(f for c, f in enumerate(of_choice) if c != answer)])
        )
        for name in FAITHFUL:
            (order,) = METHODS[name].order(explained)
            assert set(order[: len(mine)].tolist()) == set(mine.tolist()), (q, name)
        checked += len(mine)
    assert checked > 20


def test_random_facts_score_at_chance(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    study = Study(planted_run(tmp_path, starter_graph, small_data), small_data, SPLIT)
    hits = expected = variance = 0.0
    for q in study.questions:
        explained = study.explained([q])
        mine, facts = decisive(study, q)[explained.read.best[0]], len(explained.masks[0].facts)
        (order,) = METHODS["random-facts"].order(explained)
        first, share = len(order) // 4, len(mine) / max(facts, 1)
        hits += np.isin(order[:first], mine).sum()
        expected += first * share
        variance += first * share * (1 - share)
    assert abs(hits - expected) < 3 * variance**0.5


def test_random_facts_are_worse_than_the_faithful_methods(found: Faithfulness) -> None:
    chance = found.methods["random-facts"]["aopc"]["comprehensiveness"]["sizes"]
    for name in FAITHFUL:
        assert found.methods[name]["aopc"]["comprehensiveness"]["sizes"].low > chance.high


def test_shuffled_attention_is_recognized(
    found: Faithfulness, small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path
) -> None:
    run = planted_run(tmp_path, starter_graph, small_data, "shuffled")
    other = faithfulness(run, small_data, SPLIT, ["attention", "marginals", "random-paths"], 48, 0, perturbed=0)

    def fall(of: Faithfulness, name: str) -> Interval:
        return of.methods[name]["comprehensiveness"][0]  # type: ignore[no-any-return]

    chance, ideal = fall(other, "random-paths"), fall(found, "effect")
    for name in ("attention", "marginals"):
        assert fall(found, name).value > ideal.value - 0.02, name  # honest
        assert fall(other, name).low < chance.value < fall(other, name).high, name  # no better than chance
        assert fall(other, name).high < ideal.value, name


def test_the_effect_of_a_decisive_fact_is_exact(small_data: PreparedData, starter_graph: KnowledgeGraph, tmp_path: Path) -> None:
    study = Study(planted_run(tmp_path, starter_graph, small_data), small_data, SPLIT)
    explained = study.explained(study.questions[:8])
    for q, fall in enumerate(effects(explained)):
        score, answer = explained.masks[q].score, explained.read.best[q]
        counts = np.zeros((len(fall), len(score)))
        for choice, facts in enumerate(decisive(study, study.questions[q])):
            counts[facts, choice] = WORTH
        without = torch.softmax(score[None] - torch.from_numpy(counts), 1)[:, answer].numpy()
        np.testing.assert_allclose(fall, float(torch.softmax(score, 0)[answer]) - without, atol=1e-6)


def test_integrated_gradients_are_complete(starter: tuple[Run, PreparedData]) -> None:
    run, data = starter
    study = Study(run, data, "dev")
    explained = study.explained(study.questions[:12])
    gap = {10: 0.2, 80: 0.01}
    for points, most in gap.items():
        by_fact = explained.by_fact(integrated_gradients(explained.scorer, explained.read, points).numpy())
        for q, masks in enumerate(explained.masks):
            none = masks.scores(np.zeros((1, len(masks.facts)), dtype=bool))[0]
            with_facts, without = (_logit(score, explained.read.best[q]) for score in (masks.score, none))
            assert by_fact[q].sum() == pytest.approx(with_facts - without, abs=most)
            assert explained.completeness_gap(q) < gap[10]
    assert max(float(np.abs(shares).sum()) for shares in by_fact) > 1  # the integral is not trivial


def _logit(score: torch.Tensor, answer: int) -> float:
    share = float(torch.softmax(score.double(), 0)[answer])
    return float(np.log(share / (1 - share)))


def test_results_depend_on_no_batch_and_follow_the_seed(starter: tuple[Run, PreparedData], monkeypatch: pytest.MonkeyPatch) -> None:
    run, data = starter

    def measure(seed: int) -> dict[str, object]:
        rows = faithfulness(run, data, "dev", limit=8, limits=2, perturbed=0, seed=seed).rows
        return {row["id"]: {name: np.round(of["removed"], 4).tolist() for name, of in row["methods"].items()} for row in rows}

    first = measure(0)
    monkeypatch.setattr("mhgrn.faithfulness.study.MOST_QUESTIONS", 3)
    assert measure(0) == first
    assert measure(1).keys() != first.keys()


def test_an_interrupted_measurement_resumes(
    starter: tuple[Run, PreparedData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, data = starter
    file = tmp_path / "result.json.partial"
    options = {"limit": 10, "limits": 2, "methods": ["attention", "effect", "random-facts"]}
    whole = faithfulness(run, data, "dev", **options).to_dict()
    monkeypatch.setattr("mhgrn.faithfulness.study.MOST_QUESTIONS", 4)
    asked: list[int] = []
    read = Study.explained

    def interrupted(self: Study, questions: list[int]) -> object:
        asked.extend(questions)
        if len(asked) > 6 and not file.with_suffix(".again").exists():
            raise KeyboardInterrupt
        return read(self, questions)

    monkeypatch.setattr(Study, "explained", interrupted)
    with pytest.raises(KeyboardInterrupt):
        faithfulness(run, data, "dev", **options, progress_file=file)
    with file.open("a") as text:
        text.write('{"name": "question 3", "val')  # a line that was cut
    file.with_suffix(".again").touch()
    before = len(set(asked[:4]))
    asked.clear()
    again = faithfulness(run, data, "dev", **options, progress_file=file).to_dict()
    assert before
    assert len(set(asked)) <= 10 - before
    assert not file.exists()
    assert again["methods"].keys() == whole["methods"].keys()
    for name, of in again["methods"].items():
        for key in ("comprehensiveness", "unfaithfulness"):
            values, wanted = ([one["value"] for one in part] for part in (of[key], whole["methods"][name][key]))
            assert values == pytest.approx(wanted, abs=1e-5)


def test_the_report_names_everything(found: Faithfulness, starter: tuple[Run, PreparedData]) -> None:
    run, data = starter
    whole = faithfulness(run, data, "dev", ["smallest", "attention"], 6, 1)
    text = report(whole)
    for words in ("Without the graph", "fidelity+", "relations swapped", "edges deleted", "sufficient", "unfaithfulness"):
        assert words in text
    assert len(whole.to_dict()["levels"]) == len(LEVELS)
    assert all(name in report(found) for name in found.methods)


def test_the_graph_off_equals_the_answers_without_the_graph(starter: tuple[Run, PreparedData]) -> None:
    from mhgrn.inference import QuestionAnswerer

    run, data = starter
    found = faithfulness(run, data, "dev", ["random-facts"], 20, 0, perturbed=0)
    qa = QuestionAnswerer(Run.load(starter_run()))
    for row in found.split_rows[:10]:
        question = data.questions[row["question"]]
        off = qa.answer(question, graph=False, effects=False)
        assert list(off.probabilities.values())[row["answer"]] == pytest.approx(row["without_graph"], abs=1e-4)
    for row, short in zip(found.split_rows, found.rows, strict=True):
        assert row["without_graph"] == pytest.approx(short["without_graph"], abs=1e-5)


def test_wrong_names_and_numbers_are_refused(starter: tuple[Run, PreparedData]) -> None:
    run, data = starter
    with pytest.raises(UserError, match="Did you mean attention"):
        chosen_methods(["atention"])
    with pytest.raises(UserError, match="at least"):
        faithfulness(run, data, limit=0)
