"""Metrics over HTTP: on this machine only, and only for who knows the token."""

from __future__ import annotations

import hmac
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from softnpu.flow import codes, log
from softnpu.flow.errors import DfException
from softnpu.flow.watch.metrics import Metrics
from softnpu.flow.watch.prometheus import CONTENT_TYPE, render

HOST = "127.0.0.1"
_PATHS = ("/", "/metrics")


class Server:
    """Answers until it is closed. `url` is the address with the token in it."""

    def __init__(self, session: Any, port: int, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(16)
        self._metrics = Metrics(session)
        self._reading = threading.Lock()
        try:
            self._http = ThreadingHTTPServer((HOST, port), _handler(self))
        except OSError as problem:
            raise DfException(
                f"Metrics cannot be offered on port {port}: {problem.strerror}; choose another "
                "softnpu.flow.metrics_port, every graph needs its own.",
                codes.PARAM_INVALID,
            ) from problem
        self._http.daemon_threads = True
        self.port = int(self._http.server_address[1])
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True, name="metrics")
        self._thread.start()
        log.info("metrics of graph %s: %s", session.plan.name, self.url)

    @property
    def url(self) -> str:
        """Where the metrics are."""
        return f"http://{HOST}:{self.port}/metrics?token={self.token}"

    def allows(self, token: str) -> bool:
        """Whether this is the token; the comparison takes the same time for every wrong one."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def text(self) -> bytes:
        """The answer."""
        with self._reading:
            return render(self._metrics, self._metrics.rows()).encode()

    def close(self) -> None:
        """Stop listening."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(owner: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One request."""

        server_version = "softnpu"
        sys_version = ""
        timeout = 10

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            bearer = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
            token = bearer or parse_qs(address.query).get("token", [""])[0]
            if not owner.allows(token):
                self._answer(401, b"The token is missing or wrong: Authorization: Bearer <token>, or ?token=<token>.\n")
            elif address.path not in _PATHS:
                self._answer(404, b"Metrics are at /metrics.\n")
            else:
                self._answer(200, owner.text(), CONTENT_TYPE)

        def _answer(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            if status == 401:
                self.send_header("WWW-Authenticate", 'Bearer realm="softnpu"')
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """The token is part of a request line, so requests are not written down."""

    return Handler


def serve(session: Any, port: int, token: str = "") -> Server:
    """Offer the metrics of a session at a port of 127.0.0.1 (0: any free one); without a token one is made up."""
    return Server(session, port, token)
