"""Chapter 5.4.2: scaling a picture (second media interface)."""

import os
import tempfile

import cv2
import numpy as np

import acl

ACL_HOST = 1
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret:#x}, expected {want:#x}")


def main():
    luma, chroma = (
        np.random.default_rng(542).integers(0, 256, shape, np.uint8) for shape in ((1080, 1920), (540, 960, 2))
    )
    vpc_file_path = os.path.join(tempfile.mkdtemp(), "dvpp_vpc_1920x1080_nv12.yuv")
    with open(vpc_file_path, "wb") as file:
        file.write(luma.tobytes() + chroma.tobytes())

    # 1. The run mode of the software stack.
    run_mode, ret = acl.rt.get_run_mode()
    check("get_run_mode", ret)

    # 2. Initialise.
    check("init", acl.init())

    # 3. Device, context.
    check("set_device", acl.rt.set_device(0))
    context, ret = acl.rt.create_context(0)
    check("create_context", ret)

    # 4. Start the media system.
    check("sys_init", acl.himpi.sys_init())

    # 5. Open a channel.
    channel_id = 0
    chn_attr = {"attr": 0, "pic_width": 0, "pic_height": 0}
    check("vpc_create_chn", acl.himpi.vpc_create_chn(channel_id, chn_attr))

    # 6.1 Describe the input.
    input_pic = {
        "picture_width": 1920,
        "picture_height": 1080,
        "picture_width_stride": 1920,
        "picture_height_stride": 1080,
        "picture_format": HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420,
    }
    input_pic["picture_buffer_size"] = input_pic["picture_width_stride"] * input_pic["picture_height_stride"] * 3 // 2
    picture_address, ret = acl.himpi.dvpp_malloc(0, input_pic["picture_buffer_size"])
    check("dvpp_malloc", ret)
    input_pic["picture_address"] = picture_address

    # Read the file, and bring it to the device.
    vpc_file = np.fromfile(vpc_file_path, dtype=np.byte)
    vpc_file_size = vpc_file.itemsize * vpc_file.size
    bytes_data = vpc_file.tobytes()
    vpc_file_ptr = acl.util.bytes_to_ptr(bytes_data)
    kind = ACL_MEMCPY_HOST_TO_DEVICE if run_mode == ACL_HOST else ACL_MEMCPY_DEVICE_TO_DEVICE
    ret = acl.rt.memcpy(
        input_pic["picture_address"], input_pic["picture_buffer_size"], vpc_file_ptr, vpc_file_size, kind
    )
    check("memcpy", ret)

    # 6.3 Describe the output, and clear its memory.
    output_pic = {
        "picture_width": 960,
        "picture_height": 540,
        "picture_width_stride": 960,
        "picture_height_stride": 540,
        "picture_format": HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420,
    }
    output_pic["picture_buffer_size"] = (
        output_pic["picture_width_stride"] * output_pic["picture_height_stride"] * 3 // 2
    )
    picture_address, ret = acl.himpi.dvpp_malloc(0, output_pic["picture_buffer_size"])
    check("dvpp_malloc", ret)
    output_pic["picture_address"] = picture_address
    ret = acl.rt.memset(
        output_pic["picture_address"], output_pic["picture_buffer_size"], 0, output_pic["picture_buffer_size"]
    )
    check("memset", ret)

    # 6.4 Scale.
    # manual slip: the task id is kept as `testid`, and `task_id` waited for
    task_id, ret = acl.himpi.vpc_resize(channel_id, input_pic, output_pic, 0, 0, 0, -1)
    check("vpc_resize", ret)

    # 6.5 Wait for the task.
    check("vpc_get_process_result", acl.himpi.vpc_get_process_result(channel_id, task_id, -1))

    # 6.6 Bring the result to the host.
    np_output = np.zeros(output_pic.get("picture_buffer_size"), dtype=np.byte)
    bytes_data = np_output.tobytes()
    np_output_ptr = acl.util.bytes_to_ptr(bytes_data)
    ret = acl.rt.memcpy(
        np_output_ptr,
        output_pic.get("picture_buffer_size"),
        output_pic.get("picture_address"),
        output_pic.get("picture_buffer_size"),
        ACL_MEMCPY_DEVICE_TO_HOST,
    )
    check("memcpy", ret)
    result = np.frombuffer(bytes_data, np.uint8)
    found_luma = result[: 960 * 540].reshape(540, 960)
    found_chroma = result[960 * 540 :].reshape(270, 480, 2)
    for found, plane in ((found_luma, luma), (found_chroma, chroma)):
        want = cv2.resize(plane, (plane.shape[1] // 2, plane.shape[0] // 2))
        assert np.abs(found.astype(int) - want.astype(int)).max() <= 1, "the picture differs from OpenCV's"

    # 6.7 Give the memory back.
    check("dvpp_free", acl.himpi.dvpp_free(input_pic["picture_address"]))
    check("dvpp_free", acl.himpi.dvpp_free(output_pic["picture_address"]))

    # 7. Close the channel.
    check("vpc_destroy_chn", acl.himpi.vpc_destroy_chn(channel_id))

    # 8. Stop the media system.
    check("sys_exit", acl.himpi.sys_exit())

    # 9. Context, device.
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(0))

    # 10. Finalise.
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
