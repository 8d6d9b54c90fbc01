"""Experiments that anyone can run again: each is a function, a command of ``mhgrn experiments`` and a page of the documentation."""
