"""Chapter 3.4: what ASCEND_RT_VISIBLE_DEVICES leaves of the machine's devices.

The environment comes from outside; test_pyacl_guide.py runs this with the manual's values on eight devices, e.g.
    SOFTNPU_DEVICES=8 ASCEND_RT_VISIBLE_DEVICES=4,3,2 python ch03_4_visible_devices.py
"""

# manual slip: `export ASCEND_RT_VISIBLE_DEVICES = 1` has blanks around the equals sign, which no shell accepts

import acl

INVALID_DEVICE = 107001


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def physical_id(device_id):
    logic_id, ret = acl.rt.get_logic_dev_id_by_user_dev_id(device_id)
    check("get_logic_dev_id_by_user_dev_id", ret)
    phy_id, ret = acl.rt.get_phy_dev_id_by_logic_dev_id(logic_id)
    check("get_phy_dev_id_by_logic_dev_id", ret)
    return phy_id


def main():
    check("init", acl.init())
    count, ret = acl.rt.get_device_count()
    check("get_device_count", ret)
    print("count", count)
    for index in range(count):
        print("index", index, "device", physical_id(index))

        # The program itself only ever sees the index.
        ret = acl.rt.set_device(index)
        check("set_device", ret)
        current, ret = acl.rt.get_device()
        check("get_device", ret)
        assert current == index, f"set_device({index}) selected {current}"
        check("reset_device", acl.rt.reset_device(index))
    check("set_device behind the last index", acl.rt.set_device(count), INVALID_DEVICE)
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
