"""Chapter 5.4.4: encoding a JPEG into memory of the program, as the guide describes it (second media interface)."""

import select

import av
import numpy as np

import acl

ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
HI_PT_JPEG = 26
HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret:#x}, expected {want:#x}")


def main():
    y, x = np.mgrid[0:192, 0:128]
    picture = (128 + 60 * np.sin(x / 11) + 60 * np.cos(y / 13)).astype(np.uint8)  # NV12

    check("init", acl.init())
    check("set_device", acl.rt.set_device(0))
    check("sys_init", acl.himpi.sys_init())

    # The stream buffer of the channel has no size: each picture brings its own output memory.
    channel_id = 0
    venc_attr = {
        "type": HI_PT_JPEG, "max_pic_width": 128, "pic_width": 128, "max_pic_height": 128, "pic_height": 128, "buf_size": 0,
        "is_by_frame": 1,
    }  # fmt: skip
    check("venc_create_chn", acl.himpi.venc_create_chn(channel_id, {"venc_attr": venc_attr}))
    check("venc_start_chn", acl.himpi.venc_start_chn(channel_id, {"recv_pic_num": -1}))

    input_addr, ret = acl.himpi.dvpp_malloc(0, picture.size)
    check("dvpp_malloc", ret)
    bytes_data = picture.tobytes()
    ret = acl.rt.memcpy(
        input_addr, picture.size, acl.util.bytes_to_ptr(bytes_data), picture.size, ACL_MEMCPY_HOST_TO_DEVICE
    )
    check("memcpy", ret)
    v_frame = {
        "width": 128, "height": 128, "pixel_format": HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420, "width_stride": [128, 0, 0],
        "height_stride": [128, 0, 0], "virt_addr": [input_addr, 0, 0], "pts": 7,
    }  # fmt: skip
    frame = {"v_frame": v_frame}

    # How much the output needs at the most, and its memory.
    jpeg_param, ret = acl.himpi.venc_get_jpeg_param(channel_id)
    check("venc_get_jpeg_param", ret)
    output_size, ret = acl.himpi.venc_get_jpege_predicted_size(frame, jpeg_param)
    check("venc_get_jpege_predicted_size", ret)
    output_addr, ret = acl.himpi.dvpp_malloc(0, output_size)
    check("dvpp_malloc", ret)

    img_stream = {"type": HI_PT_JPEG, "addr": output_addr, "len": output_size, "pts": 7}
    check("venc_send_jpege_frame", acl.himpi.venc_send_jpege_frame(channel_id, frame, img_stream, 1000))

    # Wait with select, as the guide says one can.
    fd = acl.himpi.venc_get_fd(channel_id)
    assert select.select([fd], [], [], 20)[0] == [fd], "nothing was encoded"
    stream, ret = acl.himpi.venc_get_stream(channel_id, {"pack_cnt": 1}, 0)
    check("venc_get_stream", ret)
    pack = stream["pack"][0]
    assert pack["addr"] == output_addr and 0 < pack["len"] <= output_size, pack

    file = bytes(pack["len"])
    ret = acl.rt.memcpy(acl.util.bytes_to_ptr(file), len(file), pack["addr"], len(file), ACL_MEMCPY_DEVICE_TO_HOST)
    check("memcpy", ret)
    (shown,) = av.CodecContext.create("mjpeg", "r").decode(av.Packet(file))
    found = shown.reformat(format="yuvj420p").to_ndarray().reshape(-1)[: 128 * 128]
    assert np.abs(found.astype(int) - picture.reshape(-1)[: 128 * 128]).max() <= 6, "the picture differs"

    check("venc_release_stream", acl.himpi.venc_release_stream(channel_id, stream))
    check("dvpp_free", acl.himpi.dvpp_free(output_addr))
    check("dvpp_free", acl.himpi.dvpp_free(input_addr))
    check("venc_stop_chn", acl.himpi.venc_stop_chn(channel_id))
    check("venc_close_fd", acl.himpi.venc_close_fd(channel_id))
    check("venc_destroy_chn", acl.himpi.venc_destroy_chn(channel_id))
    check("sys_exit", acl.himpi.sys_exit())
    check("reset_device", acl.rt.reset_device(0))
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
