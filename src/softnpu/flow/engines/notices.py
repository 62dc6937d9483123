"""What workers and the application tell each other beside messages, the same for all engines with processes."""

from __future__ import annotations

READY, FAILED, RAISED, CALLED = "ready", "failed", "raised", "called"
RESTARTED, TAP = "restarted", "tap"
