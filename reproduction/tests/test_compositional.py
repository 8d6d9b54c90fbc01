"""Which tasks each system can solve, with random weights and after training."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mhgrn.errors import UserError
from mhgrn_reproduction import compositional
from mhgrn_reproduction.compositional import SYSTEMS, System, TaskBatch, batches, judged, run, scores, trained, untrained
from mhgrn_reproduction.tasks import ASKED, TASKS, Bundle, Task

BY_NAME = {system.name: system for system in SYSTEMS}
ALL = pytest.mark.parametrize("system", SYSTEMS, ids=BY_NAME)


def systems(*names: str) -> list[System]:
    return [BY_NAME[name] for name in names]


def accuracy(system: System, task: Task) -> float:
    return judged(trained(system, batches(task, 256, 0), 0), batches(task, 128, 0, split=1))[0]


@pytest.fixture(scope="module")
def some() -> dict[str, list[TaskBatch]]:
    """A few questions of each task."""
    return {name: batches(task, 16, seed=5) for name, task in TASKS.items()}


@ALL
@pytest.mark.parametrize("weights", [0, 1])
def test_who_cannot_tell_right_from_wrong_cannot_with_any_weights(
    system: System, weights: int, some: dict[str, list[TaskBatch]]
) -> None:
    """With random weights, a system gives the choices different scores if and only if it should solve the task."""
    model = untrained(system, weights).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
        for task, (batch,) in some.items():
            found = scores(model, replace(batch, features=batch.features.double()))
            apart = float((found[:, 0] - found[:, 1]).abs().max() / found.abs().max().clamp(min=1))
            assert apart > 1e-7 if task in system.solves else apart < 1e-12, task


def test_composition_and_order_are_learned_or_not() -> None:
    """MHGRN learns both tasks, the K-hop relation network (a commutative product) only the first, and one hop neither."""
    found = run(["order", "composition"], 1, systems("khop-rn, K = 2", "mhgrn, K = 1", "mhgrn, K = 2"))
    assert found.tasks == ("composition", "order")
    assert [found.cells["mhgrn, K = 2", task].mean >= 0.95 for task in found.tasks] == [True, True]
    assert [found.cells["khop-rn, K = 2", task].mean >= 0.95 for task in found.tasks] == [True, False]
    assert found.cells["khop-rn, K = 2", "order"].accuracy == [0.5]
    assert all(found.cells["mhgrn, K = 1", task].blind for task in found.tasks)
    assert all(cell.came_out for cell in found.cells.values())
    assert "!" not in str(found).partition("! differs from the expected outcome: 0 of 6")[0]


def test_unexpected_outcomes_are_marked() -> None:
    wrong = [replace(BY_NAME["edge-types"], solves=frozenset(TASKS)), replace(BY_NAME["khop-rn, K = 2"], solves=frozenset())]
    found = run(["composition"], 1, wrong)
    assert not any(cell.came_out for cell in found.cells.values())
    assert all(line.endswith("!") for line in str(found).splitlines() if line.startswith(("edge-types", "khop-rn")))
    assert "! differs from the expected outcome: 2 of 2." in str(found)


def test_the_number_of_threads_makes_no_difference_and_the_callers_settings_stay() -> None:
    which = systems("rgcn, 2 layers", "mhgrn, K = 2")
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            torch.manual_seed(threads)
            state = torch.get_rng_state()
            result = run(["composition"], 1, which)
            assert torch.get_num_threads() == threads
            assert torch.equal(torch.get_rng_state(), state)
            found.append(result.to_dict())
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_relation_weights_that_are_fixed_stay_so(some: dict[str, list[TaskBatch]]) -> None:
    model = trained(BY_NAME["mhgrn, K = 2, W = 1"], some["composition"], 0)
    layer = model.graph_encoder.layers[0]  # type: ignore[union-attr, index]
    assert all(bool((weights == 1).all()) for weights in layer.messages.parameters())
    assert bool(layer.tau.any())


@pytest.mark.parametrize(("only", "seeds", "says"), [(["ordre"], 1, "Did you mean order"), ([], 0, "should be 1 or more")])
def test_wrong_input_is_refused(only: list[str], seeds: int, says: str) -> None:
    with pytest.raises(UserError, match=says):
        run(only, seeds)


def test_pictures_are_the_same_each_time_and_a_file_is_no_folder(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = run(["type"], 1, systems("none", "most-edges"))
    images = [found.plot(tmp_path / name).read_bytes() for name in ("new/one", "two")]
    assert images[0] == images[1]
    assert images[0].count(b">cannot<") == 2
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="is a file"):
            compositional.check_plots(place)


def test_the_order_of_one_pair_follows_from_its_last_relation() -> None:
    """The task needs three pairs: with only (1,2) and (2,1), counts of single relations suffice."""
    pair = Task("one pair", "", (Bundle(ASKED, ((1, 2),)),), (Bundle(ASKED, ((2, 1),)),))
    assert accuracy(BY_NAME["edge-types"], pair) >= 0.95


def test_features_that_encode_the_type_replace_type_attention_and_typed_transform() -> None:
    """The task `type` needs constant features: otherwise systems without node types solve it."""
    informed = replace(TASKS["type"], features=True)
    for name in ("mhgrn, K = 2, without type_attention, typed_transform", "rgcn, 2 layers"):
        assert accuracy(BY_NAME[name], informed) >= 0.95


@pytest.mark.long
def test_everything_comes_out_as_expected() -> None:
    found = run(seeds=2)
    assert len(found.cells) == len(SYSTEMS) * len(TASKS)
    others = {(cell.system, cell.task) for cell in found.cells.values() if not cell.came_out}
    # it can solve these tasks, but some seeds do not reach 95 %: docs/expressiveness.md
    assert others <= {("mhgrn, K = 2, W = 1", "order")}
