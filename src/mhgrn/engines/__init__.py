"""Engines: where the parts of long work are computed. Without one, in the processes of this machine."""

from mhgrn.engines.engine import Engine, Session, engine_named

__all__ = ["Engine", "Session", "engine_named"]
