"""Likelihoods of choices under a causal language model, against a computation one token at a time."""

import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from harness import Command

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.inference import QuestionAnswerer
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.runs import Run
from mhgrn.subgraphs.extract import ANSWER, OTHER, QUESTION, Subgraph
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text import likelihood as module
from mhgrn.text.evidence import evidence_text, facts_between
from mhgrn.text.likelihood import CausalModel, Likelihood, choice_likelihoods, is_language_model, standardized
from mhgrn.text.settings import LikelihoodSettings
from mhgrn.text.zero_shot import ZeroShot, zero_shot
from mhgrn.training.evaluation import evaluate
from mhgrn.training.loop import train
from tiny_decoder import letter_decoder
from tiny_encoder import letter_encoder

QUESTIONS = [
    Question("1", "where would a child sit at a desk?", ("school", "a park", "x", "at the far end of a long road"), 0),
    Question("2", "who?", ("y", "a"), 1),
    Question("3", "what is it", tuple(f"thing {'x' * number}" for number in range(40)), 3),
]
KINDS: tuple[Literal["llama", "gpt2"], ...] = ("llama", "gpt2")


def naive(model: CausalModel, prompt: str, choice: str) -> tuple[float, int]:
    """log p of a choice after a prompt, one token at a time, without padding and cache; and its number of tokens."""
    start = model.tokenizer(prompt)["input_ids"] if prompt else []
    ids = model.tokenizer(f"{prompt} {choice}" if prompt else choice)["input_ids"]
    assert ids[: len(start)] == start
    if not start:
        start, ids = [0], [0, *ids]
    total = 0.0
    for place in range(len(start), len(ids)):
        with torch.inference_mode():
            logits = model.model(input_ids=torch.tensor([ids[:place]])).logits[0, -1]
        total += float(torch.log_softmax(logits.double(), 0)[ids[place]])
    return total, len(ids) - len(start)


@pytest.fixture(scope="module", params=KINDS)
def model(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> CausalModel:
    return CausalModel(letter_decoder(tmp_path_factory.mktemp("model"), request.param, begins_texts=request.param == "llama"))


def test_batches_and_shared_prompts_do_not_change_likelihoods(model: CausalModel) -> None:
    for question in QUESTIONS:
        found = model.log_likelihoods(question.stem, question.choices)
        for choice, one in zip(question.choices, found, strict=True):
            total, tokens = naive(model, question.stem, choice)
            assert one.tokens == tokens
            assert one.total == pytest.approx(total, abs=1e-3)


def test_prompts_that_are_read_together_do_not_change_likelihoods(model: CausalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROMPTS", 3)
    monkeypatch.setattr(module, "BATCH", 4)
    asked = [("who sits?", ("a child", "it", "x")), ("", ("a desk", "y")), ("who sat?", ("x",)), ("why?", ("a", "b c d e f"))]
    asked += [("who eats?"[:length], ("a cake", "x" * length)) for length in range(1, 9)] * 2
    for (prompt, choices), found in zip(asked, model.log_likelihoods_of(asked), strict=True):
        assert found == [(pytest.approx(total, abs=1e-3), tokens) for total, tokens in model.log_likelihoods(prompt, choices)]
        if prompt:
            assert found == [
                (pytest.approx(total, abs=1e-3), tokens) for total, tokens in (naive(model, prompt, c) for c in choices)
            ]


def test_an_empty_prompt(model: CausalModel) -> None:
    (one,) = model.log_likelihoods("", ["a desk"])
    total, tokens = naive(model, "", "a desk") if model.tokenizer("")["input_ids"] == [] else (one.total, one.tokens)
    assert (one.total, one.tokens) == (pytest.approx(total, abs=1e-3), tokens)


def test_a_model_without_a_cache_that_can_be_shared(model: CausalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = model.log_likelihoods("who sits?", ["a child", "it"])
    monkeypatch.setattr(module, "getattr", lambda *_: None, raising=False)
    assert model.log_likelihoods("who sits?", ["a child", "it"]) == [
        (pytest.approx(total, abs=1e-3), tokens) for total, tokens in expected
    ]


def test_the_measures(model: CausalModel) -> None:
    prompt = LikelihoodSettings().prompt
    by_length, by_pmi = (choice_likelihoods(model, QUESTIONS, LikelihoodSettings(measure=m)) for m in ("length", "pmi"))
    for question, length, pmi in zip(QUESTIONS, by_length, by_pmi, strict=True):
        for choice, one, other in zip(question.choices, length, pmi, strict=True):
            total, tokens = naive(model, prompt.replace("{question}", question.stem), choice)
            assert one == pytest.approx(total / tokens, abs=1e-3)
            assert other == pytest.approx(total - naive(model, "Answer:", choice)[0], abs=2e-3)


def test_the_beginning_of_a_long_prompt_is_cut_off(model: CausalModel) -> None:
    model.max_length, before = 16, model.max_length
    try:
        (one,) = model.log_likelihoods("z" * 1000 + "abcdefghijklmno", ["x"])
        first = model.tokenizer("")["input_ids"]
        (same,) = model.log_likelihoods("abcdefghijklmno"[-(14 - len(first)) :], ["x"])
        assert one.total == pytest.approx(same.total, abs=1e-4)
        (long,) = model.log_likelihoods("who?", ["y" * 1000])
        assert long.tokens == 8
    finally:
        model.max_length = before


def test_evidence_stands_before_the_prompt(model: CausalModel) -> None:
    settings = LikelihoodSettings(measure="length", prompt="{question}")
    evidence = ["a desk.", "", "a desk.", "b.", "", ""]
    found = choice_likelihoods(model, QUESTIONS[:2], settings, evidence)
    stem = QUESTIONS[0].stem
    for one, choice, text in zip(found[0], QUESTIONS[0].choices, evidence, strict=False):
        total, tokens = naive(model, f"{text}\n{stem}" if text else stem, choice)
        assert one == pytest.approx(total / tokens, abs=1e-3)


def test_standardized_likelihoods_ignore_scale_and_shift() -> None:
    values, sizes = torch.randn(9, generator=torch.Generator().manual_seed(0)), [4, 5]
    torch.testing.assert_close(standardized(values * 7 + 3, sizes), standardized(values, sizes))
    for part in torch.split(standardized(values, sizes), sizes):
        assert float(part.mean()) == pytest.approx(0, abs=1e-6)
        assert float(part.square().mean()) == pytest.approx(1, abs=1e-5)
    assert standardized(torch.zeros(0), []).shape == (0,)


def test_facts_become_sentences() -> None:
    graph = KnowledgeGraph.from_facts([("desk", "AtLocation", "class_room"), ("child", "IsA", "person")])
    head, tail = graph.id("desk"), graph.id("class_room")
    relation = [relation.name for relation in graph.schema.relations].index("AtLocation")
    made = Subgraph(*map(np.array, ([head, tail], [QUESTION, ANSWER], [0], [relation], [1])))
    assert evidence_text(made, graph, 1) in {f"Desk {words} class room." for words in ("is at location", "at location", "is at")}
    assert evidence_text(made, graph, 0) == ""


def test_facts_between_question_and_choice() -> None:
    #  0 – 1 direct; 0 – 3 – 2 by a middle node; 4 is elsewhere
    made = Subgraph(
        *map(
            np.array,
            ([0, 1, 2, 3, 4], [QUESTION, ANSWER, ANSWER, OTHER, OTHER], [3, 3, 0, 4, 0], [0, 0, 0, 0, 0], [2, 0, 1, 3, 0]),
        )
    )
    assert facts_between(made, 0) == []
    assert facts_between(made, 1) == [2]
    assert facts_between(made, 2) == [2]  # the path of two facts does not fit
    assert facts_between(made, 3) == [2, 1, 0]


def test_settings(tmp_path: Path) -> None:
    assert Config().identity() == {}
    assert Config.load(overrides=["likelihood.model=smollm2"]).identity() == {"likelihood.model": "smollm2"}
    with pytest.raises(UserError, match=r"likelihood\.prompt: input should contain \{question\} once"):
        Config.load(overrides=["likelihood.prompt=Answer"])
    bert = letter_encoder(tmp_path / "bert")
    with pytest.raises(UserError, match="is not a causal language model"):
        CausalModel(bert)
    with pytest.raises(UserError, match="minilm is not a causal language model"):
        CausalModel("minilm")
    llama = letter_decoder(tmp_path / "llama")
    with pytest.raises(UserError, match=r"likelihood\.max_length=1000: .* reads at most 512 tokens"):
        CausalModel(llama, max_length=1000)
    assert [is_language_model(str(name)) for name in (bert, llama, "minilm", "smollm2", tmp_path)] == [0, 1, 0, 1, 0]


def test_a_run_with_likelihoods(small_data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training caches the likelihoods; asking computes the same ones; a model at a new place is found."""
    place = letter_decoder(tmp_path / "model", begins_texts=True)
    config = {
        "graph_encoder": "none",
        "likelihood": {"model": str(place), "evidence": 2, "initial_weight": 2.0},
        "training": {"epochs": 1},
    }
    run = train(small_data, config, tmp_path / "run")
    weight = run.model.extra_weights
    assert weight is not None
    assert weight.shape == (1,)
    assert weight.item() != 2.0
    assert weight.item() == pytest.approx(2.0, abs=0.2)
    (cache,) = (small_data.folder / "cache").glob("likelihood-*.safetensors")

    asked = QuestionAnswerer(run)
    questions = [small_data.questions[q] for q in small_data.split("dev")]
    answers = list(asked.ask_many(questions, effects=False))
    right = [list(a.probabilities).index(a.choice) == q.answer for a, q in zip(answers, questions, strict=True)]
    monkeypatch.setattr(module, "CausalModel", None)  # the cache is enough
    measured = evaluate(Run.load(tmp_path / "run"), small_data, "dev")
    assert measured["accuracy"] == pytest.approx(sum(right) / len(right))
    monkeypatch.undo()

    one = asked.ask(questions[0])
    assert list(one.probabilities.values()) == pytest.approx(list(answers[0].probabilities.values()), abs=1e-4)
    cache.write_bytes(cache.read_bytes()[:-4])
    with pytest.raises(UserError, match="delete it"):
        evaluate(Run.load(tmp_path / "run"), small_data, "dev")
    cache.unlink()

    other = letter_decoder(tmp_path / "other", begins_texts=True, seed=1)
    place.rename(tmp_path / "gone")
    other.rename(place)
    with pytest.raises(UserError, match="trained with other weights of the language model"):
        QuestionAnswerer(Run.load(tmp_path / "run")).ask(questions[0])


def test_an_interrupted_computation_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = LikelihoodSettings(model=str(letter_decoder(tmp_path / "model")), measure="length")
    monkeypatch.setattr(module, "SAVED", 1)
    whole = Likelihood(settings).column(QUESTIONS, None)
    real, calls = choice_likelihoods, []

    def counted(model: CausalModel, questions: Any, *rest: Any) -> list[list[float]]:
        calls.append([question.id for question in questions])
        if calls == [["1"], ["2"]]:
            raise KeyboardInterrupt
        return real(model, questions, *rest)

    monkeypatch.setattr(module, "choice_likelihoods", counted)

    def stored() -> torch.Tensor:
        return Likelihood(settings).stored_column(QUESTIONS, lambda start, stop: None, "data", tmp_path / "cache")

    with pytest.raises(KeyboardInterrupt):
        stored()
    torch.testing.assert_close(stored(), whole)
    assert calls == [["1"], ["2"], ["2"], ["3"]]
    torch.testing.assert_close(stored(), whole)
    assert len(calls) == 4


def test_zero_shot(tmp_path: Path, here: Command) -> None:
    found = ZeroShot.of("pmi", [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], [*(Question(str(i), "a", ("b", "c"), 0) for i in range(3))])
    assert (found.right, found.answered) == (2, 3)
    assert found.standard_error == pytest.approx(math.sqrt(2 / 27))
    place = letter_decoder(tmp_path / "model")
    assert zero_shot(str(place), QUESTIONS).measure == "pmi"
    assert zero_shot("minilm", QUESTIONS).measure == "cosine"
    file = tmp_path / "questions.csv"
    file.write_text("question,choice_A,choice_B,answer\nwhere is a fish?,sea,tree,A\nwho sits?,child,desk,A\n", encoding="utf-8")
    outcome = here("text", "score", file, "--model", place, "--measure", "length", "-o", tmp_path / "scores", "--limit", "1")
    assert outcome.code == 0, outcome
    assert "length: accuracy" in outcome.out
    assert "of 1 questions" in outcome.out
    assert (tmp_path / "scores").read_text(encoding="utf-8").count("\n") == 1
    refused = here("text", "score", file, "--measure", "cosine", "--prompt", "x")
    assert refused.code == 2
    assert "--prompt is for --measure length or pmi" in refused.err
    refused = here("text", "score", file, "--model", place, "--prompt", "x")
    assert "should contain {question} once" in refused.err


def test_bfloat16_changes_likelihoods_little(tmp_path: Path) -> None:
    folder = letter_decoder(tmp_path, "llama")
    exact, rounded = (CausalModel(folder, precision=precision) for precision in ("float32", "bfloat16"))
    assert rounded.weights_fingerprint() == exact.weights_fingerprint()
    for question in QUESTIONS:
        for one, other in zip(*(m.log_likelihoods(question.stem, question.choices) for m in (exact, rounded)), strict=True):
            assert one.tokens == other.tokens
            assert other.total == pytest.approx(one.total, rel=0.03, abs=0.1)


def test_the_precision_is_part_of_the_identity_if_it_is_not_the_default(model: CausalModel) -> None:
    identities = [
        Likelihood(LikelihoodSettings(precision=precision), weights="w").identity() for precision in ("float32", "bfloat16")
    ]
    assert [one.get("precision") for one in identities] == [None, "bfloat16"]
