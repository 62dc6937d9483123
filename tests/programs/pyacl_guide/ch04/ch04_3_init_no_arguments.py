"""Chapter 4.3: start with the default configuration, stop, and start again."""

import acl

ACL_HOST = 1


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def main():
    for _ in range(2):
        ret = acl.init()
        check("init", ret)

        run_mode, ret = acl.rt.get_run_mode()
        check("get_run_mode", ret)
        assert run_mode == ACL_HOST, f"run mode {run_mode}"
        count, ret = acl.rt.get_device_count()
        check("get_device_count", ret)
        assert count >= 1, "no device"
        check("set_device", acl.rt.set_device(count - 1))
        device_id, ret = acl.rt.get_device()
        check("get_device", ret)
        assert device_id == count - 1
        check("reset_device", acl.rt.reset_device(count - 1))

        ret = acl.finalize()
        check("finalize", ret)


if __name__ == "__main__":
    main()
