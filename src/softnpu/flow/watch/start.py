"""What the settings ask for is set up when a graph starts, and ended with it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from softnpu.flow import settings
from softnpu.flow.watch.server import Server
from softnpu.flow.watch.timeline import Timeline


def attach(session: Any) -> None:
    """The timeline and the metrics that the options of a session ask for; they end when the session is closed."""
    chosen = settings.load(session.plan.options)
    endings: list[Callable[[], None]] = []
    if chosen.metrics_port:
        server = session.metrics_server = Server(session, chosen.metrics_port, chosen.metrics_token)
        endings.append(server.close)
        if not chosen.metrics_token:  # somebody asked for it, and cannot know the token otherwise
            sys.stderr.write(f"softnpu: metrics of graph {session.plan.name}: {server.url}\n")
    if chosen.timeline:
        endings.append(Timeline(session, chosen.timeline).close)
    if endings:
        close = session.close

        def closing() -> None:
            close()
            for ending in endings:
                ending()

        session.close = closing
