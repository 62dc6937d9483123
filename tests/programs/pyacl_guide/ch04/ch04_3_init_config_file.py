"""Chapter 4.3: start with a configuration file given by a relative path, and stop."""

import os
import tempfile

import acl

REPEAT_INITIALIZE = 100002
REPEAT_FINALIZE = 100037


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    # The manual's project layout: the program runs in one folder, the file lies in its neighbour `src`.
    start = os.getcwd()
    with tempfile.TemporaryDirectory() as project:
        os.mkdir(os.path.join(project, "out"))
        os.mkdir(os.path.join(project, "src"))
        with open(os.path.join(project, "src", "acl.json"), "w", encoding="utf-8") as config:
            config.write("{}")
        os.chdir(os.path.join(project, "out"))
        try:
            # Initialise.
            acl_config_path = "../src/acl.json"
            ret = acl.init(acl_config_path)
            check("init", ret)
        finally:
            os.chdir(start)

    check("init twice", acl.init(), REPEAT_INITIALIZE)
    check("set_device", acl.rt.set_device(0))
    device_id, ret = acl.rt.get_device()
    check("get_device", ret)
    assert device_id == 0
    check("reset_device", acl.rt.reset_device(0))

    # Finalise.
    ret = acl.finalize()
    check("finalize", ret)
    check("finalize twice", acl.finalize(), REPEAT_FINALIZE)


if __name__ == "__main__":
    main()
