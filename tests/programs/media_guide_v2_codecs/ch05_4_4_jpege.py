"""Chapter 5.4.4: encoding a JPEG, its output in memory of the media system (second media interface)."""

import os
import tempfile
import time

import av
import numpy as np

import acl

ACL_HOST = 1
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
HI_PT_JPEG = 26
HI_VENC_PIC_RECV_SINGLE = 0
HI_VIDEO_FIELD_FRAME = 4
HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
HI_VIDEO_FORMAT_LINEAR = 0
HI_COMPRESS_MODE_NONE = 0
HI_DYNAMIC_RANGE_SDR8 = 0
HI_COLOR_GAMUT_BT709 = 1
HI_ID_VGS = 45
HI_DVPP_EPOLL_IN = 1
HI_DVPP_EPOLL_CTL_ADD, HI_DVPP_EPOLL_CTL_DEL = 1, 3


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret:#x}, expected {want:#x}")


def make_picture():
    y, x = np.mgrid[0:192, 0:128]
    picture = (128 + 60 * np.sin(x / 11) + 60 * np.cos(y / 13)).astype(np.uint8)  # NV12: 128 rows of luma, 64 of chroma
    path = os.path.join(tempfile.mkdtemp(), "test.yuv")
    picture.tofile(path)
    return path


def main():
    jpege_file_path = make_picture()

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

    # 5. Open a channel. The binding does not read jpeg_attr.
    channel_id = 0
    venc_attr = {
        "type": HI_PT_JPEG, "profile": 0, "max_pic_width": 128, "pic_width": 128, "max_pic_height": 128, "pic_height": 128,
        "buf_size": 1024 * 1024 * 2, "is_by_frame": 1,
    }  # fmt: skip
    # manual slip: HI_VENC_PIC_REC_SINGLE for HI_VENC_PIC_RECV_SINGLE
    jpeg_attr = {"recv_mode": HI_VENC_PIC_RECV_SINGLE, "mpf_cfg": {"large_thumbnail_num": 0}}
    attr = {"venc_attr": venc_attr, "jpeg_attr": jpeg_attr}
    check("venc_create_chn", acl.himpi.venc_create_chn(channel_id, attr))

    # 6. JPEG parameters.
    param, ret = acl.himpi.venc_get_jpeg_param(channel_id)
    check("venc_get_jpeg_param", ret)
    param["qfactor"] = 100
    check("venc_set_jpeg_param", acl.himpi.venc_set_jpeg_param(channel_id, param))

    # 7. Let it take pictures.
    recv_param = {"recv_pic_num": -1}
    check("venc_start_chn", acl.himpi.venc_start_chn(channel_id, recv_param))

    # 8.1 Memory of the input, and the picture into it.
    input_size = 128 * 128 * 3 // 2
    input_addr, ret = acl.himpi.dvpp_malloc(0, input_size)
    check("dvpp_malloc", ret)
    # manual slip: reads from `jpege_filee_path` in one branch
    jpege_file = np.fromfile(jpege_file_path, dtype=np.byte)
    jpege_file_size = jpege_file.itemsize * jpege_file.size
    bytes_data = jpege_file.tobytes()
    jpege_file_ptr = acl.util.bytes_to_ptr(bytes_data)
    kind = ACL_MEMCPY_HOST_TO_DEVICE if run_mode == ACL_HOST else ACL_MEMCPY_DEVICE_TO_DEVICE
    check("memcpy", acl.rt.memcpy(input_addr, input_size, jpege_file_ptr, jpege_file_size, kind))

    # 8.2 Send the picture.
    # manual slip: cur_time is never set
    cur_time = int(time.time() * 1000000)
    v_frame = {
        "width": 128,
        "height": 128,
        "field": HI_VIDEO_FIELD_FRAME,
        "pixel_format": HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420,
        "video_format": HI_VIDEO_FORMAT_LINEAR,
        "compress_mode": HI_COMPRESS_MODE_NONE,
        "dynamic_range": HI_DYNAMIC_RANGE_SDR8,
        "color_gamut": HI_COLOR_GAMUT_BT709,
        "header_stride": [0, 0, 0],
        "width_stride": [128, 0, 0],
        "height_stride": [0, 0, 0],
        "header_phys_addr": [0, 0, 0],
        "phys_addr": [0, 0, 0],
        "header_virt_addr": [0, 0, 0],
        "virt_addr": [input_addr, 0, 0],
        "time_ref": 0,
        "pts": cur_time,
    }
    frame = {"v_frame": v_frame, "pool_id": 0, "mod_id": HI_ID_VGS}
    check("venc_send_frame", acl.himpi.venc_send_frame(channel_id, frame, 0))

    # 9.1 Wait for the end of the encoding.
    fd = acl.himpi.venc_get_fd(channel_id)
    assert fd >= 0
    epoll_fd, ret = acl.himpi.sys_create_epoll(10)
    check("sys_create_epoll", ret)
    event = {}  # manual slip: never made
    event["data"] = fd
    event["events"] = HI_DVPP_EPOLL_IN
    check("sys_ctl_epoll", acl.himpi.sys_ctl_epoll(epoll_fd, HI_DVPP_EPOLL_CTL_ADD, fd, event))
    events, eventCount, ret = acl.himpi.sys_wait_epoll(epoll_fd, 3, 1000)
    check("sys_wait_epoll", ret)
    assert eventCount == 1 and events[0]["data"] == fd, events

    # 9.2 Take the result.
    status, ret = acl.himpi.venc_query_status(channel_id)
    check("venc_query_status", ret)
    stream = {"pack_cnt": status["cur_packs"]}
    # manual slip: `self.channel_id`
    stream, ret = acl.himpi.venc_get_stream(channel_id, stream, 1000)
    check("venc_get_stream", ret)

    # 9.3 Bring the file to the host.
    # manual slip: `output_ize` is never set
    output_size = stream["pack"][0]["len"]
    output_buffer, ret = acl.rt.malloc_host(output_size)
    check("malloc_host", ret)
    address = stream["pack"][0]["addr"]
    check("memcpy", acl.rt.memcpy(output_buffer, output_size, address, output_size, ACL_MEMCPY_DEVICE_TO_HOST))
    compare(acl.util.ptr_to_bytes(output_buffer, output_size), np.frombuffer(bytes_data, np.uint8))
    assert stream["pack"][0]["pts"] == cur_time and stream["pack"][0]["input_addr"] == input_addr, stream
    check("free_host", acl.rt.free_host(output_buffer))

    # 10. Give input and stream back.
    check("dvpp_free", acl.himpi.dvpp_free(input_addr))
    check("venc_release_stream", acl.himpi.venc_release_stream(channel_id, stream))

    # 11. No more pictures.
    check("venc_stop_chn", acl.himpi.venc_stop_chn(channel_id))
    check("sys_ctl_epoll", acl.himpi.sys_ctl_epoll(epoll_fd, HI_DVPP_EPOLL_CTL_DEL, fd, event))
    check("sys_close_epoll", acl.himpi.sys_close_epoll(epoll_fd))

    # 12. Close the channel.
    check("venc_destroy_chn", acl.himpi.venc_destroy_chn(channel_id))

    # 13. Stop the media system.
    check("sys_exit", acl.himpi.sys_exit())

    # 14. Context, device.
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(0))

    # 15. Finalise.
    check("finalize", acl.finalize())


def compare(file, picture):
    """The file must show the picture again, to within a few steps."""
    (frame,) = av.CodecContext.create("mjpeg", "r").decode(av.Packet(file))
    found = frame.reformat(format="yuvj420p").to_ndarray().reshape(-1)[: 128 * 128]
    assert (frame.width, frame.height) == (128, 128)
    assert np.abs(found.astype(int) - picture[: 128 * 128]).max() <= 4, "the picture differs"


if __name__ == "__main__":
    main()
