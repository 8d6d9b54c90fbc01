"""The address that the service listens at. This module loads quickly."""

import socket

from mhgrn.errors import UserError

BACKLOG = 256  # connections that wait to be accepted


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound to an address."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"cannot listen at {host}, port {port}: {reason}. Choose another --port or --host.") from None
    return listening


def address(listening: socket.socket) -> str:
    """The address to open in a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
