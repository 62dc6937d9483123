"""Whether a real CANN is installed. Apart from `config`, so that `import acl` can ask without loading anything else."""

import os


def real_cann() -> str | None:
    """Where a real CANN with its own `acl` is installed, unless softnpu was asked for by name (`SOFTNPU_FACE`)."""
    if os.environ.get("SOFTNPU_FACE", "").strip() == "softnpu":
        return None
    for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"):
        home = os.environ.get(name, "").strip()
        if home and os.path.exists(os.path.join(home, "python", "site-packages", "acl", "acl.so")):
            return home
    return None
