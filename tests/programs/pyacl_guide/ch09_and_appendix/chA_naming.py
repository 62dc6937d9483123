"""Appendix A: every category of calls is a module of its abbreviation; names say verb and object."""

import importlib
import re
import sys

import acl

# manual slip: the table also lists `aipp`; those calls live in acl.mdl
CATEGORIES = {
    "rt": "set_device",
    "media": "dvpp_malloc",
    "blas": "gemm_ex",
    "mdl": "load_from_file_with_mem",
    "op": "execute_v2",
    "fv": "init",
    "prof": "start",
}


def main():
    problems = []
    for category, known in CATEGORIES.items():
        module = getattr(acl, category, None)
        if module is None:
            problems.append(f"acl.{category} is missing")
            continue
        # The module can also be imported under its full name.
        if sys.modules.get(f"acl.{category}") is not module or importlib.import_module(f"acl.{category}") is not module:
            problems.append(f"acl.{category} is not importable by name")
        names = [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]
        if known not in names:
            problems.append(f"acl.{category}.{known} is missing")
        odd = [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_]*", name)]
        problems += [f"acl.{category}.{name}: not lower case" for name in odd]
    if not any("aipp" in name for name in dir(acl.mdl)):
        problems.append("acl.mdl has no AIPP calls")
    # Programs look for a function this way before they use it.
    if "bytes_to_ptr" not in dir(acl.util):
        problems.append("acl.util.bytes_to_ptr is missing")
    if problems:
        raise RuntimeError("; ".join(problems))


if __name__ == "__main__":
    main()
