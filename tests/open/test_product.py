"""What users see of a run of open questions: evidence, changes of the graph, calibration, faithfulness."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.open.test_commands import run

import mhgrn
from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.inference.open import OpenAnswerer
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.open.model import OpenModel
from mhgrn.open.run import OpenRun

ASKED = "who directed the films of [Actor 3]"


@pytest.fixture(scope="module")
def qa(film_run):
    return mhgrn.load(film_run)


def test_effects_of_facts_are_those_of_leaving_them_out(qa):
    answer = qa.ask(ASKED, n=3)
    for concept, probability, paths in answer.ranking:
        for path in paths:
            assert len(path.without) == len(path.facts) == len(path.sentences)
            for fact, without in zip(path.facts, path.without, strict=True):
                again = qa.ask(ASKED, n=10_000, without=[tuple(fact)], effects=False, paths=0)
                assert again.probabilities.get(concept, 0.0) == pytest.approx(without, abs=1e-9)
            whole = qa.ask(ASKED, n=10_000, without=[tuple(fact) for fact in path.facts], effects=False, paths=0)
            assert whole.probabilities.get(concept, 0.0) == pytest.approx(path.without_path, abs=1e-9)
            assert path.without_path < probability


def test_the_first_answer_cannot_do_without_its_evidence(qa):
    answer = qa.ask(ASKED)
    evidence = answer.evidence
    assert evidence.facts
    assert all(qa.graph.holds(*one.fact) for one in evidence.facts)
    again = qa.ask(ASKED, without=[tuple(one.fact) for one in evidence.facts], n=10_000)
    assert again.probabilities.get(answer.choice, 0.0) == pytest.approx(evidence.without, abs=1e-9)
    assert evidence.necessary
    assert answer.choice not in again.ranking.full
    assert "cannot do without" in str(answer)


def test_added_facts_change_the_answers_of_one_question(qa):
    before = qa.ask(ASKED)
    facts = [("New Film", "stars", "Actor 3"), ("New Film", "directed_by", "New Director")]
    changed = qa.ask(ASKED, facts=facts)
    assert "new_director" in changed.ranking.full
    assert set(changed.ranking.full) == {*before.ranking.full, "new_director"}
    assert qa.ask(ASKED).probabilities == before.probabilities
    with pytest.raises(UserError, match="not a relation"):
        qa.ask(ASKED, facts=[("a", "b", "c")])
    with pytest.raises(UserError, match="not in the graph"):
        qa.ask(ASKED, without=[("Film 1", "directed_by", "nobody")])


def test_a_set_of_answers_shares_a_relation_path(qa):
    answer = qa.ask(ASKED)
    assert len(answer.ranking.full) > 1
    count = len(answer.ranking.full)
    assert answer.ranking.shared == f"stars (backwards), then directed by: {count} of {count} answers"


def test_nothing_reachable_is_an_error_that_says_so(qa):
    facts = [tuple(fact) for fact in qa.graph.facts_of("film 3")]
    with pytest.raises(UserError, match="no concept can be reached"):
        qa.ask("who directed [Film 3]", without=facts)


def star_run(film_run, leaves, **settings):
    """An untrained run on a graph of one concept with many neighbors."""
    base = OpenRun.load(film_run)
    graph = KnowledgeGraph.from_facts([("hub", "has", f"leaf {i}") for i in range(leaves)])
    config = Config.of({"task": "open", "open": {"hops": 2, **settings}})
    torch.manual_seed(0)
    model = OpenModel(config.open, base.encoder.width, 2 * len(graph.schema)).eval()
    return replace(base, config=config, graph=graph, model=model)


def test_ten_thousand_candidates(film_run):
    qa = OpenAnswerer(star_run(film_run, 10_000))
    answer = qa.ask("what does [hub] have", n=10)
    assert answer.ranking.candidates == 10_000
    assert len(answer.ranking) == 10
    assert all(probability == pytest.approx(1e-4, rel=1e-6) for _, probability, _ in answer.ranking)
    assert answer.evidence.facts[0].fact.tail == answer.choice
    assert "10,000 candidates" in str(answer)
    everything = qa.ask("what does [hub] have", n=10_000, paths=0, effects=False)
    assert sum(everything.probabilities.values()) == pytest.approx(1.0)


def test_the_answer_may_be_the_topic_itself(film_run):
    found = [OpenAnswerer(star_run(film_run, 3, returns=returns)).ask("what is [hub]", n=9) for returns in (False, True)]
    assert "hub" not in found[0].probabilities
    assert "hub" in found[1].probabilities  # hub → leaf → hub
    (paths,) = [paths for concept, _, paths in found[1].ranking if concept == "hub"]
    assert paths == []  # a walk that visits a concept twice is no path


def test_options_for_choices_are_refused(qa):
    with pytest.raises(UserError, match="without choices"):
        qa.ask("who directed [Film 3]", ["a", "b"])
    for used in (lambda: qa.contrast("a?", ["a", "b"], "a", "b"), lambda: qa.walks("a?", ["a", "b"]), lambda: qa.run):
        with pytest.raises(UserError, match="without choices"):
            used()


def test_evidence_gathers_the_facts_of_the_best_paths(qa):
    found = qa.evidence("who directed [Film 3]")
    assert any(item.facts[0].fact == fact for item in found.items for fact in qa.graph.facts_of("film 3"))
    assert found.question == "who directed Film 3"
    assert found.tokens <= 300


def test_notebooks_show_rankings(qa):
    html = qa.ask(ASKED, n=4)._repr_html_()
    assert "<svg" in html
    assert "Path to the answers: stars (backwards), then directed by" in html
    assert "<script" not in html
    starter = mhgrn.load().ask("Where would a child sit at a desk?", n=3, effects=False)
    assert starter._repr_html_().count("<li>") >= 3


def test_a_run_is_calibrated_measured_and_gives_sets_with_coverage(film_run, films):
    own = film_run.with_name("own-film-run")  # calibrating changes it
    shutil.copytree(film_run, own)
    with pytest.raises(UserError, match="not calibrated"):
        mhgrn.load(own).ask(ASKED, coverage=0.9)
    made = json.loads(run("calibrate", own, "--json"))
    assert made["questions"] == 48
    assert made["temperature"] == 1.0  # fewer than 50 questions
    assert made["reached"] == 1.0
    found = json.loads(run("eval", own, "--split", "test", "--json"))
    assert set(found["calibration"]) >= {"expected_calibration_error", "brier_score", "prediction_sets", "risk_coverage"}
    assert all(one["contains_answer"] >= one["coverage"] for one in found["calibration"]["prediction_sets"])
    text = run("eval", own, "--split", "test")
    assert "sets with 90% coverage" in text
    qa = mhgrn.load(own)
    answer = qa.ask(ASKED, coverage=0.9, abstain_below=0.999)
    assert set(answer.prediction_set) >= set(answer.ranking.full)
    assert answer.abstained == (answer.confidence < 0.999)
    said = run("ask", own, ASKED, "--coverage", "0.9", "--abstain-below", "0.9999999")
    assert "90% coverage: all right answers are among" in said
    assert "not sure enough" in said
    run("predict", own, films / "train.txt", "--dataset", "metaqa", "-o", films / "sure.jsonl", "--abstain-below", "0.5")
    rows = [json.loads(line) for line in (films / "sure.jsonl").read_text().splitlines()]
    assert all(row["abstained"] == (row["confidence"] < 0.5) for row in rows)


def test_a_run_trained_on_choices_predicts_questions_without_them(tmp_path):
    rows = [{"question": "Where do you keep milk cold?", "answers": ["refrigerator"]}, {"question": "zzqx?", "answers": ["x"]}]
    (tmp_path / "open.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("predict", "starter", tmp_path / "open.jsonl", "-o", tmp_path / "out.jsonl")
    first, second = (json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())
    assert first["right"]
    assert all(one["paths"] for one in first["ranking"]["answers"])
    assert "trained on choices" in first["notes"][0]
    assert second["ranking"]["answers"] == []
    assert "names no concept" in second["notes"][0]


def test_faithfulness_tells_needed_facts_from_random_ones(film_run, films, tmp_path):
    command = ("faithfulness", film_run, "--limit", "12", "-o", tmp_path / "found.json")
    text = run(*command)
    assert "Answers that are lost without the first facts" in text
    found = json.loads((tmp_path / "found.json").read_text())
    lost = {name: [one["value"] for one in of["lost"]] for name, of in found["methods"].items()}
    assert lost["needed"][-1] == 1.0
    assert lost["needed"][0] >= lost["on a path"][0] > lost["random"][0]
    assert found["shown"]["needed facts"]["both"]["value"] == 1.0
    assert found["shown"]["best path"]["sufficient"]["value"] == 1.0
    assert not (tmp_path / "found.json.partial").exists()
    again = json.loads(run("faithfulness", film_run, "--limit", "12", "--json"))
    assert again["rows"] == found["rows"]
    assert np.isfinite([row["probability"] for row in found["rows"]]).all()
