"""Different values have different fingerprints."""

from pathlib import Path

import numpy as np

from mhgrn.io.fingerprint import file_fingerprint, fingerprint


def test_values_shapes_types_and_order_change_the_fingerprint(tmp_path: Path) -> None:
    x = np.arange(4)
    distinct = [
        (x,),
        (x.astype(np.int32),),
        (x.reshape(2, 2),),
        (x[::-1],),
        (x, x),
        (x[:0],),
        (b"a", b"b"),
        (b"b", b"a"),
        (b"ab",),
        ({"a": 1, "b": 2},),
        (),
    ]
    assert len({fingerprint(*parts) for parts in distinct}) == len(distinct)
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint(x[::2]) == fingerprint(np.array([0, 2]))
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    assert file_fingerprint(tmp_path / "a") != file_fingerprint(tmp_path / "b")
