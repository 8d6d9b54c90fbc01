"""Sparse patterns against lists of pairs."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mhgrn.nn.segments import SparsePattern


@given(pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=20))
def test_a_pattern_is_a_sparse_matrix_and_its_transpose(pairs: list[tuple[int, int]]) -> None:
    source, target = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T
    found = SparsePattern.of(source, target, 5, 7)
    assert sorted(zip(found.source.tolist(), found.target.tolist(), strict=True)) == sorted(pairs)
    assert found.target.tolist() == sorted(t for _, t in pairs)
    for t in range(7):
        mine = found.source[found.pointer[t] : found.pointer[t + 1]]
        assert sorted(mine.tolist()) == sorted(s for s, other in pairs if other == t)
    for s in range(5):
        rows = found.by_source[found.source_pointer[s] : found.source_pointer[s + 1]]
        assert sorted(found.target[rows].tolist()) == sorted(t for other, t in pairs if other == s)
