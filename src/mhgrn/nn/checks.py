"""Checks of the arguments of layers."""

from collections.abc import Collection
from reprlib import repr as shown

from mhgrn.errors import UserError

LARGEST = 1_000_000  # of a size; memory ends much earlier


def check_sizes(least: int = 1, **sizes: int) -> None:
    """Raise a :class:`UserError` that names the first of ``sizes`` that is no integer of at least ``least``.

    >>> check_sizes(hops=0)
    Traceback (most recent call last):
    mhgrn.errors.UserError: hops is 0; it must be an integer of at least 1.
    >>> check_sizes(hops=10**9)
    Traceback (most recent call last):
    mhgrn.errors.UserError: hops is 1000000000; it must be at most 1,000,000.
    """
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < least:
            raise UserError(f"{name} is {shown(size)}; it must be an integer of at least {least}.")
        if size > LARGEST:
            raise UserError(f"{name} is {shown(size)}; it must be at most {LARGEST:,}.")


def check_choice(name: str, value: object, known: Collection[str]) -> None:
    """Raise a :class:`UserError` unless ``value`` is one of the ``known`` values of the argument ``name``."""
    if value not in known:
        raise UserError(f"{name} is {shown(value)}; it must be one of {', '.join(known)}.")


def check_dropout(dropout: float) -> None:
    """Raise a :class:`UserError` unless ``dropout`` is a probability below 1."""
    if not isinstance(dropout, float | int) or not 0 <= dropout < 1:
        raise UserError(f"dropout is {shown(dropout)}; it must be at least 0 and less than 1.")
