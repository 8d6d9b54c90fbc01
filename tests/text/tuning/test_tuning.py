"""Tuning: it learns, resumes with the same bits, writes folders that others can read, and refuses what cannot work."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

from mhgrn.config import Config
from mhgrn.errors import UserError
from mhgrn.io.checksums import seal, verify
from mhgrn.kg.graph import KnowledgeGraph
from mhgrn.questions.question import Question
from mhgrn.runs import Run
from mhgrn.subgraphs.prepared import PreparedData
from mhgrn.text.encoder import Pretrained, TextEncoder
from mhgrn.text.hugging_face import load_pretrained
from mhgrn.text.loading import load_text_encoder
from mhgrn.text.settings import TextEncoderSettings
from mhgrn.text.tuning import Tuned, TuneOptions, tune, tuning
from mhgrn.text.tuning.pairs import PairOptions
from mhgrn.text.tuning.tuning import CHECKPOINT, MARKER, MEASURED, rate_factor
from mhgrn.training.loop import train
from tiny_encoder import letter_encoder

TEXTS = ["a desk", "where do children sit", "sea"]
STEPS = 8
PARTS = [("all", "separate"), ("lora", "separate"), ("linear", "separate"), ("all", "pair"), ("lora", "pair")]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = letter_encoder(tmp_path_factory.mktemp("base"), width=16, dropout=0.0)
    (folder / "README.md").write_text("about the base", encoding="utf-8")
    (folder / "data_config.json").write_text("[]", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _few_held_out_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "HELD_OUT_BATCHES", 1)
    monkeypatch.setattr(tuning, "HELD_OUT_SIZE", 16)


@pytest.fixture(scope="module")
def graph() -> KnowledgeGraph:
    """Facts that a model of letters can learn: a concept lives where its first letter says."""
    random = np.random.default_rng(0)
    places = {letter: f"{letter}{letter}{letter}" for letter in "abcdefgh"}
    names = ["".join(random.choice(list("abcdefgh"), 4)) for _ in range(120)]
    return KnowledgeGraph.from_facts(sorted({(name, "lives in", places[name[0]]) for name in names}))


def options(base: Path, **changes: Any) -> TuneOptions:
    settled = {"encoder": str(base), "encoding": "separate", "steps": STEPS, "batch_size": 8, "learning_rate": 1e-2, "keep": 0.0}
    return TuneOptions(**settled | {"precision": "float32"} | changes)


def load(place: Path, **settings: Any) -> TextEncoder:
    return load_text_encoder(TextEncoderSettings(encoder=str(place), **settings))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    (file,) = (path for path in folder.glob("*.safetensors") if path.name != CHECKPOINT)
    return load_file(file)


def same(one: Path, other: Path) -> bool:
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def stopped(after: int, number: int, run: Callable[[], Tuned]) -> None:
    """Tune, with a signal in the middle of a step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning._Tuning, "_take_step", _signalling(after, number))
        with pytest.raises(KeyboardInterrupt):
            run()


def _signalling(after: int, number: int) -> Callable[[Any], float]:
    take = tuning._Tuning._take_step

    def step(self: Any) -> float:
        if self.step == after - 1:
            os.kill(os.getpid(), number)
        return take(self)

    return step


def refusal(*args: Any, **named: Any) -> str:
    with pytest.raises(UserError) as error:
        tune(*args, **named)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(("part", "encoding"), PARTS)
def test_a_stopped_tuning_ends_with_the_same_bits(
    part: Any, encoding: Any, base: Path, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    chosen = options(base, train=part, encoding=encoding, keep=0.3)
    whole = tune(graph, tmp_path / "whole", chosen)
    stopped(2, signal.SIGTERM, lambda: tune(graph, tmp_path / "broken", chosen))
    assert (tmp_path / "broken" / CHECKPOINT).is_file()
    stopped(5, signal.SIGINT, lambda: tune(graph, tmp_path / "broken", chosen))
    again = tune(graph, tmp_path / "broken", options(base, train=part, encoding=encoding, keep=0.3, steps=None, budget=1))
    assert again.steps == STEPS  # the number of steps is stored
    assert same(tmp_path / "whole", tmp_path / "broken")
    assert (again.held_out, again.questions) == (whole.held_out, whole.questions)
    assert not (tmp_path / "broken" / CHECKPOINT).exists()


@pytest.mark.parametrize(("part", "encoding"), PARTS)
def test_the_folder_is_whole_and_loads_as_it_was_tuned(
    part: Any, encoding: Any, base: Path, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    folder = tmp_path / "tuned"
    before = os.umask(0o027)
    try:
        tune(graph, folder, options(base, train=part, encoding=encoding))
    finally:
        os.umask(before)
    assert {oct(path.stat().st_mode & 0o777) for path in folder.rglob("*") if path.is_file()} == {"0o640"}
    assert not any(problem for _, problem in verify(folder))
    assert {path for path in folder.rglob("*") if path.is_file()} <= {path for path, _ in verify(folder)}
    assert not {"README.md", "data_config.json", CHECKPOINT} & {path.name for path in folder.iterdir()}
    encoder, untuned = load(folder), load(base, encoding=encoding)
    assert (encoder.encoding, encoder.pooling) == (untuned.encoding, untuned.pooling)
    assert encoder.checksum() != untuned.checksum()
    assert list(tmp_path.iterdir()) == [folder]  # no lock and no partial folder is left


def test_the_base_stays_where_it_is(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    before = load(base, encoding="separate").checksum()
    for part in ("lora", "linear"):
        tune(graph, tmp_path / part, options(base, train=part))
        assert sum(path.stat().st_size for path in (tmp_path / part).iterdir()) < 20_000
    about = json.loads((tmp_path / "lora" / "adapter_config.json").read_text(encoding="utf-8"))
    assert about["base_model_name_or_path"] == str(base)
    assert load(base, encoding="separate").checksum() == before


@pytest.mark.parametrize(("part", "encoding"), PARTS)
def test_the_loss_falls(part: Any, encoding: Any, base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    losses: list[float] = []
    take = tuning._Tuning._take_step

    def recorded(self: Any) -> float:
        losses.append(take(self))
        return losses[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning._Tuning, "_take_step", recorded)
        tuned = tune(graph, tmp_path / "tuned", options(base, train=part, encoding=encoding, steps=60))
    assert len(losses) == tuned.steps == 60
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.05
    assert tuned.held_out is not None
    before, after = tuned.held_out
    assert 0 <= after <= 1
    assert (before is None) == (encoding == "pair")


def test_keeping_all_of_the_untuned_weights(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    expected = load(base, encoding="separate").embed(TEXTS)
    for part in ("all", "lora", "linear"):
        tuned = tune(graph, tmp_path / part, options(base, train=part, keep=1.0))
        torch.testing.assert_close(load(tmp_path / part).embed(TEXTS), expected)
        assert tuned.held_out is not None
        assert tuned.held_out[0] == tuned.held_out[1]


def test_a_lora_is_what_peft_reads(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    tune(graph, tmp_path / "lora", options(base, train="lora"))
    plain = load(base, encoding="separate")
    plain.model = peft.PeftModel.from_pretrained(plain.model, tmp_path / "lora").eval()
    torch.testing.assert_close(load(tmp_path / "lora").embed(TEXTS), plain.embed(TEXTS))


@pytest.mark.parametrize("layers", ["attention", "all"])
def test_the_layers_and_the_rank_of_a_lora(layers: Any, base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    plain = load(base, encoding="separate")
    linear = {name for name, module in plain.model.named_modules() if isinstance(module, torch.nn.Linear)} - {"pooler.dense"}
    attention = {name for name in linear if name.rpartition(".")[2] in ("query", "key", "value")}
    assert attention < linear
    tune(graph, tmp_path / "lora", options(base, train="lora", lora_layers=layers, lora_rank=3, steps=20))
    tensors = load_file(tmp_path / "lora" / "adapter_model.safetensors")
    changed = {name.removeprefix("base_model.model.").partition(".lora_")[0] for name in tensors}
    assert changed == (linear if layers == "all" else attention)
    for name, tensor in tensors.items():
        assert tensor.dtype == torch.float16
        assert tensor.shape[0 if "lora_A" in name else 1] == 3
        assert tensor.any(), name  # trained
    before = plain.embed(TEXTS)
    plain.model = peft.PeftModel.from_pretrained(plain.model, tmp_path / "lora").eval()
    torch.testing.assert_close(load(tmp_path / "lora").embed(TEXTS), plain.embed(TEXTS))
    assert (plain.embed(TEXTS) - before).norm() > 0.01


def test_options_of_a_lora_that_cannot_count(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    for wrong in ({"lora_layers": "all"}, {"lora_rank": 3}):
        with pytest.raises(UserError, match="need train=lora"):
            options(base, **wrong)
    assert "use at most 16" in refusal(graph, tmp_path / "large", options(base, train="lora", lora_rank=17))


def test_sentence_transformers_gives_the_same_vectors(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    tune(graph, tmp_path / "tuned", options(base))
    vectors = library.SentenceTransformer(str(tmp_path / "tuned"), device="cpu").encode(TEXTS, convert_to_tensor=True)
    torch.testing.assert_close(vectors, functional.normalize(load(tmp_path / "tuned").embed(TEXTS), dim=1))


class PackagedEncoder(TextEncoder):
    """An encoder of another package, which pools its first token."""

    name = "packaged"
    place: Path | None = None

    def load(self) -> Pretrained:
        return load_pretrained(str(self.place), self.name)._replace(is_sentence_encoder=True, pooling="cls")

    @property
    def files(self) -> Path | None:
        return self.place


def test_an_encoder_of_another_package(base: Path, graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PackagedEncoder, "place", base)
    monkeypatch.setattr(tuning, "load_text_encoder", lambda settings, *rest: PackagedEncoder(settings))
    tune(graph, tmp_path / "tuned", options(base, encoder="packaged", encoding="auto", keep=1.0))
    encoder = load(tmp_path / "tuned")
    assert (encoder.encoding, encoder.pooling) == ("separate", "cls")
    torch.testing.assert_close(encoder.embed(TEXTS), load(base, encoding="separate", pooling="cls").embed(TEXTS))
    monkeypatch.setattr(PackagedEncoder, "files", None)
    assert "train an adapter" in refusal(graph, tmp_path / "other", options(base, encoder="packaged", encoding="auto"))


@pytest.mark.parametrize("part", ["all", "lora", "linear"])
def test_distillation(part: Any, base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    moved = {}
    before = load(base, encoding="separate").embed(TEXTS)
    for name, weight in {"none": 0.0, "some": 1.0, "much": 1000.0}.items():
        tune(graph, tmp_path / name, options(base, train=part, distill=weight, steps=12))
        moved[name] = (load(tmp_path / name).embed(TEXTS) - before).norm().item()
    tune(graph, tmp_path / "default", options(base, train=part, steps=12))
    assert same(tmp_path / "none", tmp_path / "default")
    assert not same(tmp_path / "none", tmp_path / "some")
    assert moved["much"] < moved["none"]


def test_distillation_is_the_divergence_from_the_untuned_encoder(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    terms = []
    contrast = tuning._Tuning._contrast

    def recorded(self: Any, batch: Any) -> torch.Tensor:
        loss = contrast(self, batch)
        with torch.no_grad():
            tuned = self._similarity(batch)
            with self.tunable.untuned():
                untuned = self._similarity(batch)
            plain = functional.cross_entropy(tuned, torch.from_numpy(batch.answer))
            p, q, used = untuned.softmax(1), tuned.softmax(1), torch.from_numpy(~batch.masked)
            divergence = torch.stack([(a[u] * (a[u] / b[u]).log()).sum() for a, b, u in zip(p, q, used, strict=True)]).mean()
        terms.append((loss.item(), float(plain + 3 * divergence), float(divergence)))
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning._Tuning, "_contrast", recorded)
        tune(graph, tmp_path / "tuned", options(base, distill=3.0))
    for loss, expected, _ in terms:
        assert loss == pytest.approx(expected, rel=1e-4)
    assert terms[0][2] == pytest.approx(0, abs=1e-6)
    assert terms[-1][2] > 1e-6


@pytest.mark.parametrize("steps", [1, 5, 6, 7, 12, 13, 20, 100, 1000, 100_000])
def test_the_learning_rate_changes_gradually(steps: int) -> None:
    shown = range(steps) if steps <= 1000 else [*range(10), *range(4990, 5010), *range(steps - 10, steps)]
    factors = {step: rate_factor(step, steps) for step in shown}
    assert all(0 < factor <= 1 for factor in factors.values())
    assert all(factors[step] == rate_factor(step, None) for step in shown if step < MEASURED)
    assert all(abs(factors[step + 1] - factor) < 0.15 for step, factor in factors.items() if step + 1 in factors)
    rising = [step for step in factors if step < max(2 * MEASURED, 0.05 * steps)]
    assert [factors[step] for step in rising] == sorted(factors[step] for step in rising)
    if steps >= 100:
        assert factors[int(max(2 * MEASURED, 0.05 * steps))] == 1
        assert factors[steps - 1] < 0.02


def test_the_budget_decides_the_number_of_steps_once(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    def clock(seconds: float) -> Any:
        now = iter(np.arange(0, 1e6, seconds / 2).tolist())  # time is read twice in a measured step
        return type("Clock", (), {"monotonic": lambda: next(now)})

    chosen = options(base, steps=None, budget=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "time", clock(2.0))  # a second from the beginning of a step to its end
        stopped(10, signal.SIGTERM, lambda: tune(graph, tmp_path / "tuned", chosen))
        assert json.loads((tmp_path / "tuned" / MARKER).read_text(encoding="utf-8"))["steps"] == 20
        patch.setattr(tuning, "time", clock(50.0))
        assert tune(graph, tmp_path / "tuned", chosen).steps == 20
    tune(graph, tmp_path / "fixed", options(base, steps=20))
    assert same(tmp_path / "tuned", tmp_path / "fixed")  # the same schedule, however the number of steps was decided


def test_a_tuning_that_is_stopped_before_its_steps_are_counted(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    chosen = options(base, steps=None, budget=0.001)
    stopped(3, signal.SIGTERM, lambda: tune(graph, tmp_path / "tuned", chosen))
    assert tune(graph, tmp_path / "tuned", chosen).steps == MEASURED


def unfinished(base: Path, graph: KnowledgeGraph, folder: Path) -> TuneOptions:
    stopped(3, signal.SIGTERM, lambda: tune(graph, folder, options(base)))
    return options(base)


def test_an_unfinished_folder_is_no_text_encoder(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    unfinished(base, graph, tmp_path / "tuned")
    with pytest.raises(UserError, match="unfinished tuning"):
        load(tmp_path / "tuned")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"keep": 0.5}, "another option keep"),
        ({"train": "linear"}, "another option train"),
        ({"pairs": PairOptions(seed=1)}, "another option pairs"),
        ({"steps": 9}, "8 steps"),
        ({"distill": 1.0}, "another option distill"),
    ],
    ids=str,
)
def test_resuming_with_other_options(changes: dict[str, Any], says: str, base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    unfinished(base, graph, tmp_path / "tuned")
    assert says in refusal(graph, tmp_path / "tuned", options(base, **changes))
    tune(graph, tmp_path / "tuned", options(base, **changes), force=True)


def test_resuming_with_another_graph_or_encoder(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    chosen = unfinished(base, graph, tmp_path / "tuned")
    assert "another graph" in refusal(KnowledgeGraph.from_facts([("a", "r", "b"), ("c", "r", "d")]), tmp_path / "tuned", chosen)
    other = letter_encoder(tmp_path / "other", width=16, dropout=0.0, seed=1)
    assert "another base checksum" in refusal(graph, tmp_path / "tuned", options(other))


def test_a_finished_folder_is_not_replaced(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    tune(graph, tmp_path / "tuned", options(base))
    assert "--force" in refusal(graph, tmp_path / "tuned", options(base))
    (tmp_path / "tuned" / "notes.md").write_text("mine", encoding="utf-8")
    assert "notes.md" in refusal(graph, tmp_path / "tuned", options(base), force=True)


@pytest.mark.parametrize("damage", ["half", "empty", "other", "step", "sealed"])
def test_a_damaged_checkpoint(damage: str, base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    folder = tmp_path / "tuned"
    chosen = unfinished(base, graph, folder)
    path = folder / CHECKPOINT
    content = path.read_bytes()
    if damage == "other":
        stopped(3, signal.SIGTERM, lambda: tune(graph, tmp_path / "linear", options(base, train="linear")))
        shutil.copyfile(tmp_path / "linear" / CHECKPOINT, path)
    elif damage == "step":
        tensors = load_file(path)
        tuning.save_tensors(path, tensors, {"step": 99})
    else:
        path.write_bytes({"half": content[: len(content) // 2], "empty": b""}.get(damage, content[:-1] + b"x"))
    if damage != "sealed":
        seal(folder)
    assert str(path) in refusal(graph, folder, chosen)
    tune(graph, folder, chosen, force=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.clear(),
        lambda about: about.pop("before"),
        lambda about: about.update(before={"held_out": 5}),
        lambda about: about.update(steps=-1),
        lambda about: about.update(steps="8"),
        lambda about: about.update(format=99),
        lambda about: about.update(encoding="other"),
        lambda about: about.update(finished="no"),
    ],
)
def test_a_damaged_marker(change: Callable[[Any], object], base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    chosen = unfinished(base, graph, tmp_path / "tuned")
    path = tmp_path / "tuned" / MARKER
    about = json.loads(path.read_text(encoding="utf-8"))
    change(about)
    path.write_text(json.dumps(about), encoding="utf-8")
    seal(tmp_path / "tuned")
    assert MARKER in refusal(graph, tmp_path / "tuned", chosen)
    with pytest.raises(UserError, match=MARKER):
        load(tmp_path / "tuned")


def test_a_small_graph_holds_nothing_out(base: Path, tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_facts([("desk", "at", "school"), ("fish", "at", "sea")])
    assert tune(graph, tmp_path / "tuned", options(base)).held_out is None
    assert tune(graph, tmp_path / "pair", options(base, encoding="pair")).held_out is None


def test_names_in_other_scripts(base: Path, tmp_path: Path) -> None:
    graph = KnowledgeGraph.from_facts([("猫", "在", "房子"), ("собака", "живёт", "дом"), ("سمك", "في", "بحر")])
    assert tune(graph, tmp_path / "tuned", options(base)).steps == STEPS


def test_questions_are_left_out_and_measured(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    names = list(graph)
    first = next((h, t) for h, t in zip(graph.heads().tolist(), graph.tail.tolist(), strict=True))
    question = Question("1", f"Where does {names[first[0]]} live?", (names[first[1]], "nowhere"), 0)
    tuned = tune(graph, tmp_path / "tuned", options(base), without=[question], measure=[question])
    about = json.loads((tmp_path / "tuned" / MARKER).read_text(encoding="utf-8"))
    assert about["left_out"] >= 1
    assert tuned.questions is not None
    assert set(tuned.questions) <= {0.0, 1.0}
    stopped(3, signal.SIGTERM, lambda: tune(graph, tmp_path / "later", options(base), without=[question]))
    resumed = tune(graph, tmp_path / "later", options(base), without=[question], measure=[question])
    assert resumed.questions == tuned.questions  # also if the questions are given only later
    assert "separate" in refusal(graph, tmp_path / "pair", options(base, encoding="pair"), measure=[question])
    unanswered = Question("1", "Where?", ("a", "b"))
    assert "answer" in refusal(graph, tmp_path / "other", options(base), measure=[unanswered])


def test_encoders_that_cannot_be_tuned(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    own = shutil.copytree(base, tmp_path / "own")
    tune(graph, tmp_path / "lora", options(base, train="lora"))
    assert "is an adapter" in refusal(graph, tmp_path / "new", options(tmp_path / "lora"))
    (own / MARKER).write_text(json.dumps({"format": 1}), encoding="utf-8")
    for name in ("README.md", "data_config.json"):
        (own / name).unlink()
    assert MARKER in refusal(graph, own, options(own), force=True)
    assert "linear map" in refusal(graph, tmp_path / "new", options(base, train="linear", encoding="pair"))
    assert "--distill" in refusal(graph, tmp_path / "new", options(base, distill=1, encoding="pair"))
    assert not (tmp_path / "new").exists()


def test_an_encoder_is_not_replaced_by_its_own_tuning(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    tune(graph, tmp_path / "tuned", options(base))
    before = weights(tmp_path / "tuned")
    assert "would be replaced" in refusal(graph, tmp_path / "tuned", options(tmp_path / "tuned"), force=True)
    assert weights(tmp_path / "tuned").keys() == before.keys()
    tune(graph, tmp_path / "again", options(tmp_path / "tuned"))  # a tuned encoder can be tuned further
    assert load(tmp_path / "again").encoding == "separate"


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"budget": 0}, {"batch_size": 1}, {"keep": 2}, {"distill": -1}, {"scale": 0}])
def test_impossible_options(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        TuneOptions(**wrong)


def test_the_random_numbers_of_the_caller_stay(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    before = torch.get_rng_state()
    tune(graph, tmp_path / "tuned", options(base, train="lora", encoding="pair"))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("part", ["all", "lora", "linear"])
def test_adapters_find_their_base_again(part: Any, base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "here" / "base")
    tune(graph, tmp_path / "here" / "tuned", options(tmp_path / "here" / "base", train=part))
    expected = load(tmp_path / "here" / "tuned").embed(TEXTS)
    (tmp_path / "here").rename(tmp_path / "there")
    assert torch.equal(load(tmp_path / "there" / "tuned").embed(TEXTS), expected)
    if part != "all":
        shutil.rmtree(tmp_path / "there" / "base")
        letter_encoder(tmp_path / "there" / "base", width=16, seed=5)
        with pytest.raises(UserError, match="adapts"):
            load(tmp_path / "there" / "tuned")


@pytest.mark.parametrize("part", ["all", "lora", "linear"])
def test_a_run_with_a_tuned_encoder_can_be_moved(
    part: Any, base: Path, small_data: PreparedData, starter_graph: KnowledgeGraph, graph: KnowledgeGraph, tmp_path: Path
) -> None:
    shutil.copytree(base, tmp_path / "here" / "base")
    tune(graph, tmp_path / "here" / "tuned", options(tmp_path / "here" / "base", train=part))
    settings = {"text": {"encoder": str(tmp_path / "here" / "tuned")}, "features": "random", "training": {"epochs": 1}}
    train(small_data, Config.of(settings), tmp_path / "here" / "run", starter_graph)
    checksum = Run.load(tmp_path / "here" / "run").encoder.checksum()
    (tmp_path / "here").rename(tmp_path / "there")
    run = Run.load(tmp_path / "there" / "run", kg=starter_graph.folder)
    assert run.encoder.folder == (tmp_path / "there" / "tuned")
    assert run.encoder.checksum() == checksum


@pytest.mark.parametrize("encoding", ["separate", "pair"])
def test_questions_with_answers_are_learned(base: Path, graph: KnowledgeGraph, tmp_path: Path, encoding: Any) -> None:
    """The answer begins with the last letter of the question, which no fact says."""
    asked = [
        Question(
            f"{a}{b}", f"what follows {a} {b}", tuple(f"{letter}{letter}" for letter in "abcdefgh"), answer="abcdefgh".index(b)
        )
        for a in "abcdefgh"
        for b in "abcdefgh"
    ]
    chosen = options(base, encoding=encoding, steps=40, batch_size=8, learning_rate=0.02, keep=0.0)
    measure = asked if encoding == "separate" else []
    with_questions = tune(graph, tmp_path / "with", chosen, measure=measure, questions=asked)
    assert json.loads((tmp_path / "with" / MARKER).read_text(encoding="utf-8"))["questions"] == len(asked)
    if encoding == "separate":
        without = tune(graph, tmp_path / "without", chosen, measure=measure)
        assert with_questions.questions is not None
        assert without.questions is not None
        assert with_questions.questions[1] > without.questions[1] + 0.3


def test_other_questions_with_answers_are_another_tuning(base: Path, graph: KnowledgeGraph, tmp_path: Path) -> None:
    asked = [Question("q", "where", ("a", "b"), answer=0)]
    stopped(3, signal.SIGTERM, lambda: tune(graph, tmp_path / "encoder", options(base), questions=asked))
    with pytest.raises(UserError, match="another questions checksum"):
        tune(graph, tmp_path / "encoder", options(base), questions=[Question("q", "where", ("a", "b"), answer=1)])
    assert tune(graph, tmp_path / "encoder", options(base), questions=asked).steps == STEPS
