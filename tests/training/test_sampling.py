from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.config import TrainingConfig
from mhgrn.training.sampling import batches, length_buckets, share, shuffled, training_subset


@given(count=st.integers(1, 60), seed=st.integers(0, 5), parts=st.lists(st.floats(0.01, 1), min_size=2, max_size=4))
def test_smaller_subsets_are_part_of_larger_ones(count: int, seed: int, parts: list[float]) -> None:
    for subset in ("random", "first"):
        nested = [
            set(training_subset(range(10, 10 + count), TrainingConfig(train_fraction=part, subset=subset), seed).tolist())
            for part in sorted(parts)
        ]
        for smaller, larger in pairwise(nested):
            assert smaller <= larger <= set(range(10, 10 + count))
        assert [len(chosen) for chosen in nested] == [max(1, int(part * count + 1e-9)) for part in sorted(parts)]


def test_a_subset_is_the_first_or_drawn_by_the_seed_and_may_be_capped() -> None:
    half = TrainingConfig(train_fraction=0.5)
    assert training_subset(range(100), half.model_copy(update={"subset": "first"}), 3).tolist() == list(range(50))
    drawn = [training_subset(range(100), half, seed).tolist() for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[0] == sorted(drawn[0])
    seven = training_subset(range(100), TrainingConfig(train_fraction=0.5, max_questions=7), 3)
    assert len(seven) == 7
    assert set(seven.tolist()) <= set(drawn[0])
    assert training_subset(range(100), TrainingConfig(), 3).tolist() == list(range(100))
    assert training_subset(range(1000), TrainingConfig(train_fraction=0.29), 3).size == 290


def test_shuffling_can_be_taken_up_at_any_epoch() -> None:
    questions = np.arange(20)
    whole = shuffled(questions, seed=1)
    orders = [next(whole).tolist() for _ in range(4)]
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(20)) for order in orders)
    for epoch in range(4):
        assert next(shuffled(questions, 1, epoch)).tolist() == orders[epoch]


@given(
    lengths=st.lists(st.integers(1, 100), min_size=1, max_size=80),
    size=st.integers(1, 9),
    window=st.integers(1, 5),
    processes=st.integers(1, 4),
)
def test_length_buckets_hold_every_question_once_and_pad_no_more(
    lengths: list[int], size: int, window: int, processes: int
) -> None:
    order = np.random.default_rng(len(lengths)).permutation(len(lengths))
    long = np.array(lengths)
    made = length_buckets(order, size, long, window, (0, 1))
    assert sorted(q for batch in made for q in batch.tolist()) == list(range(len(lengths)))
    assert [len(batch) for batch in made] == [len(batch) for batch in batches(order, size)]

    def padded(cut: list[np.ndarray]) -> int:
        return sum(int(long[batch].max()) * len(batch) for batch in cut)

    if len(order) % size == 0:
        assert padded(made) <= padded(batches(order, size))
    again = length_buckets(order, size, long, window, (0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(made, again, strict=True))
    for batch in made:
        shares = [share(batch, process, processes) for process in range(processes)]
        assert np.concatenate(shares).tolist() == batch.tolist()
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
