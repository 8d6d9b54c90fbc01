"""Random damage to stored folders: a use of a damaged folder gives the right answer, or is refused with one clear message.

    python tests/hostile/mutations.py --count 5000 --seed 0
    python tests/hostile/mutations.py --only 137          # repeat one attack, with its traceback

Attack number n with seed s is always the same one. To add an attack, write a function that takes a :class:`Victim` and damages
its file or folder, and put it into the list of the files that it fits. It returns nothing and may leave the folder as it was.
"""

import argparse
import functools
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
import yaml

from forking import hush_compiler
from hostile.folders import KINDS, Folders, comparable
from hostile.judging import judge
from mhgrn.io.checksums import seal

CHECKSUMS = "checksums.json"

Dice = random.Random


@dataclass(frozen=True)
class Victim:
    """What an attack gets: a file, the copied folder it is in, the unchanged folders, and dice."""

    path: Path
    folder: Path
    folders: Folders
    dice: Dice

    def array(self) -> "np.ndarray[Any, Any]":
        return np.array(np.load(self.path))

    def save(self, array: "np.ndarray[Any, Any]") -> None:
        with self.path.open("wb") as file:
            np.save(file, array)

    def edit(self, change: Callable[[bytearray], object]) -> None:
        content = bytearray(self.path.read_bytes())
        change(content)
        self.path.write_bytes(content)

    def place(self, content: bytes | bytearray) -> int:
        return self.dice.randrange(len(content)) if content else 0


Attack = Callable[[Victim], object]

# Any file.


def flip_a_bit(victim: Victim) -> None:
    def change(content: bytearray) -> None:
        if content:
            content[victim.place(content)] ^= 1 << victim.dice.randrange(8)

    victim.edit(change)


def flip_bits(victim: Victim) -> None:
    for _ in range(victim.dice.randint(2, 30)):
        flip_a_bit(victim)


def overwrite(victim: Victim) -> None:
    def change(content: bytearray) -> None:
        start, size = victim.place(content), victim.dice.choice([1, 4, 8, 64])
        content[start : start + size] = victim.dice.choice([b"\0", b"\xff", b"\x7f", victim.dice.randbytes(1)]) * size

    victim.edit(change)


def truncate(victim: Victim) -> None:
    victim.path.write_bytes(victim.path.read_bytes()[: victim.place(victim.path.read_bytes())])


def extend(victim: Victim) -> None:
    victim.edit(lambda content: content.extend(victim.dice.choice([b"\0", b"x", b"\n", victim.dice.randbytes(9)]) * 100))


def zero_a_range(victim: Victim) -> None:
    def change(content: bytearray) -> None:
        start, end = sorted((victim.place(content), victim.place(content)))
        content[start:end] = bytes(end - start)

    victim.edit(change)


def empty(victim: Victim) -> None:
    victim.path.write_bytes(b"")


def remove(victim: Victim) -> None:
    victim.path.unlink()


def make_a_folder(victim: Victim) -> None:
    victim.path.unlink()
    victim.path.mkdir()


def make_a_fifo(victim: Victim) -> None:
    victim.path.unlink()
    os.mkfifo(victim.path)


def make_a_link(victim: Victim) -> None:
    """A link to nothing, to itself, to an endless device, or to a file of another kind."""
    victim.path.unlink()
    others = [str(victim.path), "nowhere", "/dev/zero", "/dev/null", "/proc/self/mem", str(victim.folders.root / "facts.tsv"), "."]
    victim.path.symlink_to(victim.dice.choice(others))


def make_unreadable(victim: Victim) -> None:
    victim.path.chmod(0)


def swap(victim: Victim) -> None:
    """Put another file of the same ending here, of this folder or of another one."""
    others = [path for path in sorted(victim.folders.root.rglob(f"*{victim.path.suffix}")) if path.is_file()]
    shutil.copyfile(victim.dice.choice(others), victim.path)


def add_another_file(victim: Victim) -> None:
    (victim.path.parent / victim.dice.choice(["other.npy", "a\nb", "\x1b[31m", ".hidden", "x" * 200])).write_bytes(b"x")


ANY_FILE: list[Attack] = [
    *(flip_a_bit, flip_a_bit, flip_a_bit, flip_bits, overwrite, truncate, extend, zero_a_range, empty, remove),
    *(make_a_folder, make_a_fifo, make_a_link, make_unreadable, swap, add_another_file),
]

# Arrays.


def edit_header(victim: Victim) -> None:
    array = victim.array()
    dice, content = victim.dice, victim.path.read_bytes()
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    types = [
        "<i4",
        "<i8",
        "<u8",
        ">i4",
        "<f4",
        "<f8",
        "|O",
        "<U9",
        "|V8",
        "<M8[s]",
        "|b1",
        "<c16",
        [("a", "<i4")],
        "",
        "nonsense",
        3,
    ]
    shapes = [(), (0,), (2**62,), (-1,), (2**31, 2**31), (10**30,), (1, *array.shape), (len(array), 1), (1.5,), [3], None, (True,)]
    change = dice.choice(["descr", "fortran_order", "shape", "text", "version", "length", "key"])
    if change == "descr":
        header["descr"] = dice.choice(types)
    elif change == "fortran_order":
        header["fortran_order"] = dice.choice([True, 1, None, "no"])
    elif change == "shape":
        header["shape"] = dice.choice(shapes)
    elif change == "key":
        header.pop(dice.choice(list(header)))
    text = repr(header)
    if change == "text":
        odd = [
            "(" * 5000,
            "{'descr': " * 300,
            "9" * 5000,
            "\0",
            "'",
            "lambda: 0",
            "__import__('os')",
            "é",
            "{",
            "1 if 1 else 2",
            "{}",
        ]
        text = dice.choice([dice.choice(odd), text[: dice.randrange(len(text))], text + dice.choice(odd), text.replace(",", "")])
    encoded = text.encode() + b" " * (-(len(text.encode()) + 11) % 64) + b"\n"
    version = dice.choice([b"\0\0", b"\x02\0", b"\x03\0", b"\xff\xff"]) if change == "version" else b"\x01\0"
    length = dice.choice([0, 1, 2**16 - 1]) if change == "length" else min(len(encoded), 2**16 - 1)
    victim.path.write_bytes(b"\x93NUMPY" + version + length.to_bytes(2, "little") + encoded + content[128:])


def change_type(victim: Victim) -> None:
    array = victim.array()
    kinds = [
        "int8",
        "uint8",
        "int16",
        "int32",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "float32",
        "float64",
        "complex64",
        ">i4",
        "bool",
    ]
    with np.errstate(all="ignore"):
        victim.save(array.astype(victim.dice.choice(kinds)))


def change_shape(victim: Victim) -> None:
    array = victim.array()
    longer = np.concatenate([array, array])
    victim.save(victim.dice.choice([array[:-1], array[:0], longer, array[None], array[:, None], array.reshape(-1), array[1:]]))


def odd_values(victim: Victim) -> None:
    """Values out of range, not finite, or not ascending, at one place or at many."""
    array = victim.array()
    dice = victim.dice
    if not array.size:
        return
    if array.dtype.kind == "f":
        values = [np.nan, np.inf, -np.inf, np.finfo(array.dtype).max, np.finfo(array.dtype).tiny, -1.0]
    else:
        limits = np.iinfo(array.dtype)
        most = int(array.max())
        values = [limits.max, limits.min, most + 1, most * 2 + 7, -1, -2, 0, limits.max // 2]
        values = [min(max(value, limits.min), limits.max) for value in values]
    flat = array.reshape(-1)
    places = dice.choice([[dice.randrange(array.size)], [0], [array.size - 1], dice.choices(range(array.size), k=array.size)])
    flat[places] = dice.choice(values)
    victim.save(array)


def shuffle_values(victim: Victim) -> None:
    array = victim.array()
    np.random.default_rng(victim.dice.randrange(2**32)).shuffle(array)
    victim.save(array)


def reverse_values(victim: Victim) -> None:
    victim.save(victim.array()[::-1])


def fill(victim: Victim) -> None:
    """One value everywhere: a hash table without a free slot, pointers that stand still."""
    array = victim.array()
    if array.size:
        array[...] = victim.dice.choice([array.reshape(-1)[0], array.max(), 0, 1])
    victim.save(array)


ARRAY: list[Attack] = [edit_header, edit_header, change_type, change_shape, odd_values, odd_values, odd_values, shuffle_values]
ARRAY += [reverse_values, fill]

# JSON and YAML.

ODD: list[Any] = [
    *(None, True, False, 0, -1, -5, 1, 2, 10**9, 10**30, 2**63, 1e308, -1e308, 0.5, float("nan"), float("inf"), 1e-320),
    *(
        "",
        "x",
        "x" * 100_000,
        "../../etc/passwd",
        "/dev/zero",
        "..",
        ".",
        "a\nb",
        "\x1b[31mred",
        "\u202e",
        "\ud800",
        "\0",
        "*",
        "%s{0}",
    ),
    *([], {}, [1], [[]], {"a": 1}, [None] * 1000, {"": ""}, ["x"] * 3, {"../x": 3}),
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys of every value in nested dictionaries and lists."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield (*path, key)
        yield from _places(child, (*path, key))


def _parent(tree: Any, path: Sequence[Any]) -> Any:
    return functools.reduce(lambda node, key: node[key], path[:-1], tree)


def _change_tree(tree: Any, dice: Dice) -> Any:
    places = list(_places(tree))
    if not places or dice.random() < 0.03:
        return dice.choice(ODD)
    # values near the root come first half of the time: there are more leaves than anything else
    place = dice.choice([p for p in places if len(p) == 1] if dice.random() < 0.5 else places) if () not in places else ()
    parent, key = _parent(tree, place), place[-1]
    value = parent[key]
    how = dice.random()
    if how < 0.15:
        del parent[key]
    elif how < 0.25 and isinstance(parent, dict):
        parent[dice.choice(["../x", "x", "", "/etc/passwd", "a\nb", "\x1b[2J", str(key).upper()])] = parent.pop(key)
    elif how < 0.35 and isinstance(value, int | float):
        parent[key] = dice.choice([value + 1, value - 1, -value, value * 10**9, str(value), [value], value + 0.5])
    elif how < 0.4 and isinstance(value, list):
        parent[key] = dice.choice([value * 1000, value[:-1], value + value[:1], value[::-1], dict(enumerate(map(str, value)))])
    elif how < 0.45 and isinstance(parent, dict):
        other = dice.choice(list(parent))
        parent[key], parent[other] = parent[other], parent[key]
    else:
        parent[key] = dice.choice(ODD)
    return tree


def _nested(tree: Any, dice: Dice) -> str:
    """JSON text nested too deeply for a recursive reader, as a whole or as one value."""
    open_, close = dice.choice([("[", "]"), ('{"a":', "}")])
    deep = open_ * 100_000 + "1" + close * 100_000
    if not isinstance(tree, dict) or not tree or dice.random() < 0.3:
        return deep
    return json.dumps(tree | {dice.choice(list(tree)): "HERE"}).replace('"HERE"', deep)


def edit_json(victim: Victim) -> None:
    tree = json.loads(victim.path.read_text(encoding="utf-8"))
    text = _nested(tree, victim.dice) if victim.dice.random() < 0.08 else json.dumps(_change_tree(tree, victim.dice))
    victim.path.write_text(text, encoding="utf-8")


def edit_json_line(victim: Victim) -> None:
    lines = victim.path.read_text(encoding="utf-8").splitlines()
    dice, number = victim.dice, victim.dice.randrange(len(lines))
    how = dice.random()
    if how < 0.1:
        lines[number] = dice.choice(["", "null", "[]", "{", "x" * 1_000_000, "{}", "\0", '"x"'])
    elif how < 0.2:
        lines = dice.choice([lines + lines, lines[:-1], lines[::-1], [*lines, ""]])
    elif how < 0.28:
        lines[number] = _nested(json.loads(lines[number]), dice)
    else:
        lines[number] = json.dumps(_change_tree(json.loads(lines[number]), dice))
    victim.path.write_text("\n".join(lines) + "\n", encoding="utf-8")


BOMB = "a0: &a0 [x]\n" + "".join(f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(9))


def edit_yaml(victim: Victim) -> None:
    tree = yaml.safe_load(victim.path.read_text(encoding="utf-8"))
    text = yaml.safe_dump(_change_tree(tree, victim.dice))
    if victim.dice.random() < 0.2:
        text = victim.dice.choice([BOMB, "[" * 10_000, "a: !!python/object/apply:os.system [true]", "a: *b", "\t", "? ? ?"])
    victim.path.write_text(text, encoding="utf-8")


def edit_tensors(victim: Victim) -> None:
    """Values that are not finite, other names, other types and shapes, an odd header."""
    from safetensors.torch import load_file, save_file

    dice = victim.dice
    tensors = dict(load_file(victim.path))
    name = dice.choice(list(tensors))
    tensor = tensors[name].clone()
    how = dice.randrange(6)
    if how == 0 and tensor.is_floating_point():
        tensor.view(-1)[dice.randrange(tensor.numel())] = dice.choice([float("nan"), float("inf"), float("-inf"), 1e38])
    elif how == 1:
        tensor = tensor.to(dice.choice([torch.float64, torch.int64, torch.uint8, torch.bfloat16, torch.bool, torch.complex64]))
    elif how == 2:
        tensor = dice.choice([tensor[None], tensor[..., :-1], tensor.reshape(-1), tensor[:0]]).contiguous()
    elif how == 3:
        tensors[dice.choice(["x", "text.x", name.upper(), "../x", ""])] = tensors.pop(name).clone()
    elif how == 4:
        del tensors[name]
    if name in tensors:
        tensors[name] = tensor
    save_file(tensors, victim.path)
    if how == 5:
        content = victim.path.read_bytes()
        size = int.from_bytes(content[:8], "little")
        header = json.dumps(_change_tree(json.loads(content[8 : 8 + size]), dice)).encode()
        length = dice.choice([len(header), len(header), 2**63, 2**40, 0, 7])
        victim.path.write_bytes(length.to_bytes(8, "little") + header + content[8 + size :])


BY_ENDING: dict[str, list[Attack]] = {
    ".npy": ARRAY,
    ".json": [edit_json] * 12,
    ".jsonl": [edit_json_line] * 8,
    ".yaml": [edit_yaml] * 4,
    ".safetensors": [edit_tensors] * 8,
}


class Outcome(NamedTuple):
    """How an attack ended: ``same`` answer, ``refused``, ``other`` answer of a folder whose checksums fit it, or a failure."""

    number: int
    kind: str
    file: str
    attack: str
    verdict: str
    detail: str = ""

    @property
    def is_right(self) -> bool:
        return self.verdict in ("same", "refused", "other")

    def __str__(self) -> str:
        return f"{self.number}: {self.kind}/{self.file}, {self.attack}: {self.verdict}: {self.detail}"


@dataclass
class Attacker:
    """Attacks copies of folders, each in a process of its own, and judges what their use does."""

    folders: Folders
    place: Path
    seed: int = 0
    kinds: tuple[str, ...] = tuple(KINDS)
    expected: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():  # also loads modules and kernels, which forked processes inherit
            self.expected[name] = comparable(kind.use(self.folders.root / kind.folder, self.folders))

    def attack(self, number: int, verbose: bool = False) -> Outcome:
        """Damage one file of a copy, and use the copy."""
        dice = Dice(f"{self.seed} {number}")
        name = dice.choice(self.kinds)
        kind = KINDS[name]
        copy = self.place / f"attack-{number}"
        shutil.copytree(self.folders.root / kind.folder, copy)
        part = copy / kind.part
        files = [path for path in sorted(part.rglob("*")) if path.is_file()]
        path = dice.choice([path for path in files if name == "index" or "index" not in path.relative_to(part).parts])
        attack = dice.choice(ANY_FILE + BY_ENDING.get(path.suffix, []))
        recomputed = (path.parent / CHECKSUMS).exists() and path.name != CHECKSUMS and dice.random() < 0.5

        def use() -> Any:
            attack(Victim(path, copy, self.folders, dice))
            if recomputed:
                recompute_checksums(path.parent)
            return comparable(kind.use(copy, self.folders))

        judged = judge(use, verbose=verbose)
        shutil.rmtree(copy)
        verdict, detail = judged.verdict, judged.detail
        if verdict == "done":
            wrong = [key for key, value in self.expected[name].items() if value != judged.value[key]]
            verdict = "same" if not wrong else "another answer" if kind.is_ours and not recomputed else "other"
            detail = ", ".join(wrong)
        how = f"{attack.__name__}{', checksums recomputed' if recomputed else ''}"
        return Outcome(number, name, path.name, how, verdict, detail)


def recompute_checksums(folder: Path) -> None:
    """Make the checksums of a folder fit its damaged files, as somebody who means harm would."""
    with suppress(OSError):  # of a link to something that cannot be read
        seal(folder)


def attack_many(root: Path, count: int, seed: int, first: int = 0, kinds: Sequence[str] = tuple(KINDS)) -> Iterator[Outcome]:
    """Make the folders, then the attacks ``first`` … ``first + count``."""
    torch.set_num_threads(1)
    hush_compiler()
    root.mkdir(exist_ok=True)
    (root / "folders").mkdir()
    attacker = Attacker(Folders.make(root / "folders"), root, seed, tuple(kinds))
    for number in range(first, first + count):
        yield attacker.attack(number, verbose=count == 1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Damage stored folders at random and use them.")
    parser.add_argument("--count", type=int, default=500, help="number of attacks")
    parser.add_argument("--seed", type=int, default=0, help="of all random choices")
    parser.add_argument("--kind", choices=list(KINDS), help="attack only this kind of folder")
    parser.add_argument("--only", type=int, help="repeat the attack of this number, and show its message or traceback")
    parser.add_argument("--json", type=Path, help="write every outcome to this file, one per line")
    options = parser.parse_args()
    first, count = (0, options.count) if options.only is None else (options.only, 1)
    kinds = [options.kind] if options.kind else list(KINDS)
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for outcome in attack_many(Path(folder) / "attacks", count, options.seed, first, kinds):
            outcomes.append(outcome)
            if not outcome.is_right or options.only is not None:
                print(outcome, flush=True)
    if options.json:
        options.json.write_text("".join(json.dumps(outcome._asdict()) + "\n" for outcome in outcomes), encoding="utf-8")
    for (kind, verdict), times in sorted(Counter((outcome.kind, outcome.verdict) for outcome in outcomes).items()):
        print(f"{kind:10} {verdict:24} {times:6}")
    wrong = sum(not outcome.is_right for outcome in outcomes)
    print(f"{len(outcomes)} attacks with seed {options.seed}, {wrong} failures")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
