"""Read the weights and the operations of an ONNX file, which is a protocol buffer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# numbers of the fields that are read; see onnx.proto
GRAPH = 7
NODE, INITIALIZER = 1, 5
INPUT, OUTPUT, OPERATION = 1, 2, 4
DIMS, DATA_TYPE, FLOATS, INTEGERS, LONGS, NAME, RAW_DATA = 1, 2, 4, 5, 7, 8, 9
DTYPES = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 10: "float16"}
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types


class Node(NamedTuple):
    """An operation with the names of its inputs and outputs."""

    operation: str
    inputs: list[str]
    outputs: list[str]


class OnnxGraph(NamedTuple):
    """The weights of a model by name, and its operations in order."""

    weights: dict[str, NDArray[Any]]
    nodes: list[Node]


def read_onnx(path: Path) -> OnnxGraph:
    """Read an ONNX file whose weights are in the file itself.

    Raises:
        ValueError: The file is no ONNX file, or has weights of another kind.
    """
    content = memoryview(path.read_bytes())
    weights: dict[str, NDArray[Any]] = {}
    nodes: list[Node] = []
    for number, graph in _fields(content):
        if number != GRAPH:
            continue
        for kind, part in _fields(_bytes(graph)):
            if kind == NODE:
                nodes.append(_node(_bytes(part)))
            elif kind == INITIALIZER:
                name, values = _tensor(_bytes(part))
                weights[name] = values
    if not weights:
        raise ValueError("no weights")
    return OnnxGraph(weights, nodes)


def _node(message: memoryview) -> Node:
    found: dict[int, list[str]] = {INPUT: [], OUTPUT: [], OPERATION: []}
    for number, value in _fields(message):
        if number in found:
            found[number].append(str(_bytes(value), "utf-8"))
    return Node("".join(found[OPERATION]), found[INPUT], found[OUTPUT])


def _tensor(message: memoryview) -> tuple[str, NDArray[Any]]:
    shape: list[int] = []
    listed: list[int] = []
    name, kind, raw = "", 0, b""
    for number, value in _fields(message):
        if number == DIMS:
            shape += [value] if isinstance(value, int) else list(_varints(value))
        elif number == DATA_TYPE and isinstance(value, int):
            kind = value
        elif number == NAME:
            name = str(_bytes(value), "utf-8")
        elif number in (RAW_DATA, FLOATS):
            raw += _bytes(value)
        elif number in (INTEGERS, LONGS):
            listed += [value] if isinstance(value, int) else list(_varints(value))
    if kind not in DTYPES:
        raise ValueError(f"the weight {name[:80]!r} is of type {kind}")
    if listed:
        signed = np.array(listed, np.uint64).view(np.int64)
        return name, signed.astype(DTYPES[kind]).reshape(shape)
    return name, np.frombuffer(raw, DTYPES[kind]).reshape(shape)


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number in place of bytes")
    return value


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The number and the value of each field of a message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(wire)
        if size is None:
            if wire != BYTES:
                raise ValueError(f"unknown wire type {wire}")
            size, at = _varint(message, at)
        if at + size > len(message):
            raise ValueError("truncated")
        yield key >> 3, message[at : at + size]
        at += size


def _varints(message: memoryview) -> Iterator[int]:
    at = 0
    while at < len(message):
        value, at = _varint(message, at)
        yield value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("truncated")
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number of more than ten bytes")
