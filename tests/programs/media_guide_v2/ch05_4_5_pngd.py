"""Chapter 5.4.5: decoding a PNG (second media interface)."""

import os
import tempfile

import cv2
import numpy as np

import acl

ACL_HOST = 1
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
HI_PT_PNG = 268
HI_PIXEL_FORMAT_UNKNOWN = 10000
HI_PIXEL_FORMAT_RGB_888 = 12
STREAM_QUE_CNT = 16


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret:#x}, expected {want:#x}")


def main():
    picture = np.random.default_rng(545).integers(0, 256, (240, 320, 3), np.uint8)
    png_file_path = os.path.join(tempfile.mkdtemp(), "test.png")
    with open(png_file_path, "wb") as file:
        file.write(cv2.imencode(".png", picture[:, :, ::-1])[1].tobytes())

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
    attr = {"stream_que_cnt": STREAM_QUE_CNT}
    channel_id = 0
    check("pngd_create_chn", acl.himpi.pngd_create_chn(channel_id, attr))

    # 6.1 Memory of the input, and the file into it.
    # manual slip: the file is read as `jpege_file`, from `jpege_filee_path`; `input_size` is never set
    png_file = np.fromfile(png_file_path, dtype=np.byte)
    input_size = png_file.itemsize * png_file.size
    input_addr, ret = acl.himpi.dvpp_malloc(0, input_size)
    check("dvpp_malloc", ret)
    bytes_data = png_file.tobytes()
    png_file_ptr = acl.util.bytes_to_ptr(bytes_data)
    kind = ACL_MEMCPY_HOST_TO_DEVICE if run_mode == ACL_HOST else ACL_MEMCPY_DEVICE_TO_DEVICE
    check("memcpy", acl.rt.memcpy(input_addr, input_size, png_file_ptr, input_size, kind))

    # 6.2 Describe the input. The guide's spelling of the call stays.
    stream = {"type": HI_PT_PNG, "addr": input_addr, "len": input_size, "pts": 0}
    img_info, ret = acl.himpi.pngd_get_image_info(stream)
    check("pngd_get_image_info", ret)
    assert (img_info["width"], img_info["height"]) == (320, 240), img_info

    # 6.3 Describe the output.
    output_size = img_info["img_buf_size"]
    output_addr, ret = acl.himpi.dvpp_malloc(0, output_size)
    check("dvpp_malloc", ret)
    out_pic_info = {
        "picture_address": output_addr,
        "picture_buffer_size": img_info["img_buf_size"],
        "picture_width": img_info["width"],
        "picture_height": img_info["height"],
        "picture_width_stride": img_info["width_stride"],
        "picture_height_stride": img_info["height_stride"],
        "picture_format": HI_PIXEL_FORMAT_UNKNOWN,
    }
    check("pngd_send_stream", acl.himpi.pngd_send_stream(channel_id, stream, out_pic_info, 0))

    # 7.1 Wait for the result.
    pic_info, get_stream, ret = acl.himpi.pngd_get_image_data(channel_id, -1)
    check("pngd_get_image_data", ret)
    assert pic_info["picture_format"] == HI_PIXEL_FORMAT_RGB_888, pic_info
    assert get_stream["addr"] == input_addr, get_stream

    # 7.2 Bring the picture to the host.
    # manual slip: copies from `stream['pack'][0]['addr']`, which this stream does not have
    output_buffer, ret = acl.rt.malloc_host(output_size)
    check("malloc_host", ret)
    ret = acl.rt.memcpy(output_buffer, output_size, pic_info["picture_address"], output_size, ACL_MEMCPY_DEVICE_TO_HOST)
    check("memcpy", ret)
    rows = np.frombuffer(acl.util.ptr_to_bytes(output_buffer, output_size), np.uint8)
    rows = rows.reshape(pic_info["picture_height_stride"], pic_info["picture_width_stride"])
    assert (rows[:240, : 320 * 3].reshape(240, 320, 3) == picture).all(), "the picture differs"
    check("free_host", acl.rt.free_host(output_buffer))

    # 7.3 Give the memory back.
    check("dvpp_free", acl.himpi.dvpp_free(input_addr))
    check("dvpp_free", acl.himpi.dvpp_free(output_addr))

    # 8. Close the channel.
    check("pngd_destroy_chn", acl.himpi.pngd_destroy_chn(channel_id))

    # 9. Stop the media system.
    check("sys_exit", acl.himpi.sys_exit())

    # 10. Context, device.
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(0))

    # 11. Finalise.
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
