import numpy as np

from mhgrn.compiled import buffers
from mhgrn.compiled.buffers import Buffers


def test_memory_is_used_again_only_when_its_holder_is_gone() -> None:
    first = Buffers()
    a = first.empty((1000, 10), np.float32)
    a[:] = 1
    place = a.ctypes.data
    second = Buffers()
    b = second.empty((1000, 10), np.float32)
    b[:] = 2
    assert (a == 1).all()
    del a, first
    third = Buffers()
    c = third.empty((500, 10), np.float64)
    assert (c.shape, c.dtype) == ((500, 10), np.float64)
    assert c.ctypes.data == place
    assert (b == 2).all()


def test_no_more_is_kept_than_the_pool_may_hold() -> None:
    for size in (buffers.MOST // 8 * 7, buffers.MOST // 8 * 3):
        Buffers().empty((size,), np.uint8)  # never touched, so it takes no memory
    Buffers().empty((1,), np.uint8)
    assert sum(array.size for array in buffers._free) <= buffers.MOST
