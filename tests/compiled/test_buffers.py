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
    Buffers().empty((buffers.SMALL,), np.uint8)
    assert sum(array.size for _, _, array in buffers._free) == buffers._held <= buffers.MOST


def test_the_smallest_free_array_that_is_large_enough_is_taken() -> None:
    buffers.clear()
    sizes = [buffers.SMALL * factor for factor in (1, 2, 4, 8)]
    holder = Buffers()
    places = {size: holder.empty((size,), np.uint8).ctypes.data for size in sizes}
    del holder
    again = Buffers()
    for size in sizes[::-1]:
        assert again.empty((size,), np.uint8).ctypes.data == places[size]
    assert buffers._held == 0
    other = Buffers()
    assert other.empty((sizes[0],), np.uint8).ctypes.data not in places.values()
