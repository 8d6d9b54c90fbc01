"""Random damage to files, before compression (IN_TEXT) and after it (IN_FILE)."""

import bz2
import gzip
import json
import lzma
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mhgrn.io.checksums import CHECKSUMS, SEALED

Dice = random.Random

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def flipped(content: bytes, dice: Dice, most: int = 20) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.randint(1, most) if content else 0):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def cut(content: bytes, dice: Dice) -> bytes:
    return content[: dice.randrange(len(content) + 1)]


def without_a_piece(content: bytes, dice: Dice) -> bytes:
    start, end = sorted(dice.choices(range(len(content) + 1), k=2))
    return content[:start] + content[end:]


def with_junk(content: bytes, dice: Dice) -> bytes:
    place = dice.randrange(len(content) + 1)
    return content[:place] + dice.randbytes(dice.randint(1, 300)) + content[place:]


def with_long_line(content: bytes, dice: Dice) -> bytes:
    place = dice.randrange(len(content) + 1)
    return (
        content[:place] + dice.choice([b"a", b'"', b"\t", b" ", b"\\", b"_:"]) * dice.choice([200_000, 1_200_000]) + content[place:]
    )


def with_odd_pieces(content: bytes, dice: Dice) -> bytes:
    odd = [
        b'"',
        b"\r",
        b"\0",
        b"\t",
        b"\t\t",
        b" ",
        b"\n\n",
        b",",
        b"*",
        b"\\",
        b"\xc2\x85",
        b"\xe2\x80\xa8",
        b"\xef\xbb\xbf",
        b"\x1f",
    ]
    for _ in range(dice.randint(1, 30)):
        place = dice.randrange(len(content) + 1)
        content = content[:place] + dice.choice(odd) + content[place + dice.randint(0, 2) :]
    return content


def with_swapped_columns(content: bytes, dice: Dice) -> bytes:
    mark = dice.choice([b"\t", b",", b" "])
    lines = [line.split(mark) for line in content.split(b"\n")]
    for cells in lines if dice.random() < 0.5 else dice.sample(lines, k=len(lines) // 10 + 1):
        dice.shuffle(cells)
    return b"\n".join(mark.join(cells) for cells in lines)


def in_another_encoding(content: bytes, dice: Dice) -> bytes:
    encoding = dice.choice(["latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp037", "utf-8-sig"])
    return content.decode("utf-8", "replace").encode(encoding, "replace")


def with_other_line_ends(content: bytes, dice: Dice) -> bytes:
    return content.replace(b"\n", dice.choice([b"\r", b"\r\n", b"\n\r", b"\x0b", b"\n\n", b" "]))


def with_odd_numbers(content: bytes, dice: Dice) -> bytes:
    odd = ["1" + "0" * 400, "1" * 5000, "1e300", "nan", "-1", "Infinity", "1e-400", "true", "", "0x10", "٣", "[" * 3000]
    lines = content.split(b"2.5")
    return b"".join(line + dice.choice(odd).encode() for line in lines)


IN_TEXT = [
    flipped,
    cut,
    without_a_piece,
    with_junk,
    with_long_line,
    with_odd_pieces,
    with_swapped_columns,
    in_another_encoding,
    with_other_line_ends,
    with_odd_numbers,
]


def with_trailing_garbage(content: bytes, dice: Dice) -> bytes:
    return content + dice.choice([b"\0" * 16, b"x", dice.randbytes(50), content[:10]])


def twice(content: bytes, dice: Dice) -> bytes:
    return content + content


def twice_then_cut(content: bytes, dice: Dice) -> bytes:
    return content + cut(content, dice)


def twice_the_second_flipped(content: bytes, dice: Dice) -> bytes:
    return content + flipped(content, dice, 3)


def with_flipped_end(content: bytes, dice: Dice) -> bytes:
    """Damage the checksum of gzip, the index of xz, the footer of Parquet."""
    return content[:-12] + flipped(content[-12:], dice, 3)


def with_flipped_start(content: bytes, dice: Dice) -> bytes:
    return flipped(content[:20], dice, 3) + content[20:]


def replaced(content: bytes, dice: Dice) -> bytes:
    return dice.choice([b"", b"\n", dice.randbytes(500), b"\0" * 500, b"PAR1", gzip.compress(b""), b"BZh9", bz2.compress(content)])


IN_FILE = [
    flipped,
    cut,
    without_a_piece,
    with_junk,
    with_trailing_garbage,
    twice,
    twice_then_cut,
    twice_the_second_flipped,
    with_flipped_end,
    with_flipped_start,
    replaced,
]


def unseal(folder: Path) -> None:
    """Make a folder one without checksums, as earlier versions wrote it."""
    (folder / CHECKSUMS).unlink()
    for marker in folder.glob("*.json"):
        with suppress(ValueError, RecursionError):
            about = json.loads(marker.read_text(encoding="utf-8"))
            if isinstance(about, dict) and about.pop(SEALED, None) is not None:
                marker.write_text(json.dumps(about), encoding="utf-8")
