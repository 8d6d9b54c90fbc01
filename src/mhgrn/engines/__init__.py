"""Engines: where the parts of long work are computed. Without one, in the processes of this machine."""

from mhgrn.engines.engine import Engine, Session, Work, engine_named, session_of

__all__ = ["Engine", "Session", "Work", "engine_named", "session_of"]
