"""Chapter 5.4.7: encoding a video (second media interface); a thread waits for the streams, as the guide says."""

import threading
import time

import av
import numpy as np

import acl

ACL_HOST = 1
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
HI_PT_H265 = 265
HI_VENC_MOD_H265 = 3
HI_VENC_RC_MODE_H265_VBR = 12
HI_VIDEO_FIELD_FRAME = 4
HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
HI_VIDEO_FORMAT_LINEAR = 0
HI_COMPRESS_MODE_NONE = 0
HI_DYNAMIC_RANGE_SDR8 = 0
HI_COLOR_GAMUT_BT709 = 1
HI_ID_VENC = 8
HI_DVPP_EPOLL_IN = 1
HI_DVPP_EPOLL_CTL_ADD, HI_DVPP_EPOLL_CTL_DEL = 1, 3
FRAMES = 40


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret:#x}, expected {want:#x}")


def make_picture(index):
    """A picture of 128x128 in NV12."""
    y, x = np.mgrid[0:192, 0:128]
    return (128 + 60 * np.sin((x + 3 * index) / 11) + 60 * np.cos((y - 2 * index) / 13)).astype(np.uint8)


def get_streams(context, channel_id, epoll_fd, fd, results, failures):
    """9. Takes the streams."""
    try:
        check("set_context", acl.rt.set_context(context))
        deadline = time.monotonic() + 40
        while len(results) < FRAMES and time.monotonic() < deadline:
            # 9.1 Wait for the end of an encoding.
            events, eventCount, ret = acl.himpi.sys_wait_epoll(epoll_fd, 3, 1000)
            check("sys_wait_epoll", ret)
            if eventCount == 0:
                continue
            assert events[0]["data"] == fd, events

            # 9.2 Take the result.
            status, ret = acl.himpi.venc_query_status(channel_id)
            check("venc_query_status", ret)
            stream = {"pack_cnt": status["cur_packs"]}
            # manual slip: `self.channel_id`
            stream, ret = acl.himpi.venc_get_stream(channel_id, stream, 1000)
            check("venc_get_stream", ret)

            # 9.3 Bring the stream to the host.
            # manual slip: `output_ize` is never set
            pack = stream["pack"][0]
            output_size = pack["len"] - pack["offset"]
            output_buffer, ret = acl.rt.malloc_host(output_size)
            check("malloc_host", ret)
            address = pack["addr"] + pack["offset"]
            check("memcpy", acl.rt.memcpy(output_buffer, output_size, address, output_size, ACL_MEMCPY_DEVICE_TO_HOST))
            results.append((pack["pts"], acl.util.ptr_to_bytes(output_buffer, output_size)))
            check("free_host", acl.rt.free_host(output_buffer))

            # 10. Give input and stream back.
            check("dvpp_free", acl.himpi.dvpp_free(pack["input_addr"]))
            check("venc_release_stream", acl.himpi.venc_release_stream(channel_id, stream))
    except BaseException as error:
        failures.append(error)


def main():
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

    # 5. Parameters of the whole encoder.
    param = {"mod_type": HI_VENC_MOD_H265}
    param, ret = acl.himpi.venc_get_mod_param(param)
    check("venc_get_mod_param", ret)
    # manual slip: jpeg_mod_param has no say in the H.265 module; kept, and the right one beside it
    param["jpeg_mod_param"]["one_stream_buf"] = 1
    param["h265_mod_param"]["one_stream_buf"] = 1
    check("venc_set_mod_param", acl.himpi.venc_set_mod_param(param))

    # 6. Open a channel.
    channel_id = 0
    # manual slip: type is printed as HI_VENC_MOD_H265, the number of the module
    venc_attr = {
        "type": HI_PT_H265, "profile": 0, "max_pic_width": 128, "pic_width": 128, "max_pic_height": 128, "pic_height": 128,
        "buf_size": 1024 * 1024 * 2, "is_by_frame": 1,
    }  # fmt: skip
    rc_attr = {
        "rc_mode": HI_VENC_RC_MODE_H265_VBR,
        "h265_vbr": {"gop": 30, "stats_time": 1, "src_frame_rate": 30, "dst_frame_rate": 30, "max_bit_rate": 4000},
    }
    gop_attr = {"gop_mode": 0, "normal_p": {"ip_qp_delta": 3}}
    attr = {"venc_attr": venc_attr, "rc_attr": rc_attr, "gop_attr": gop_attr}
    check("venc_create_chn", acl.himpi.venc_create_chn(channel_id, attr))

    # 9.1 The descriptor of the channel, and the thread that waits for it.
    fd = acl.himpi.venc_get_fd(channel_id)
    assert fd >= 0
    epoll_fd, ret = acl.himpi.sys_create_epoll(10)
    check("sys_create_epoll", ret)
    event = {}  # manual slip: never made
    event["data"] = fd
    event["events"] = HI_DVPP_EPOLL_IN
    check("sys_ctl_epoll", acl.himpi.sys_ctl_epoll(epoll_fd, HI_DVPP_EPOLL_CTL_ADD, fd, event))
    results, failures = [], []
    taker = threading.Thread(target=get_streams, args=(context, channel_id, epoll_fd, fd, results, failures))
    taker.start()

    # 7. Let it take pictures.
    recv_param = {"recv_pic_num": -1}
    check("venc_start_chn", acl.himpi.venc_start_chn(channel_id, recv_param))

    # 8. Send them.
    input_size = 128 * 128 * 3 // 2
    kind = ACL_MEMCPY_HOST_TO_DEVICE if run_mode == ACL_HOST else ACL_MEMCPY_DEVICE_TO_DEVICE
    for index in range(FRAMES):
        # 8.1 Memory of the input, and a picture into it.
        input_addr, ret = acl.himpi.dvpp_malloc(0, input_size)
        check("dvpp_malloc", ret)
        bytes_data = make_picture(index).tobytes()
        check("memcpy", acl.rt.memcpy(input_addr, input_size, acl.util.bytes_to_ptr(bytes_data), input_size, kind))

        # 8.2 Send the picture.
        cur_time = index * 33333  # manual slip: never set
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
        frame = {"v_frame": v_frame, "pool_id": 0, "mod_id": HI_ID_VENC}
        check("venc_send_frame", acl.himpi.venc_send_frame(channel_id, frame, 1000))

    taker.join(60)
    if failures:
        raise failures[0]
    compare(results)

    # 11. No more pictures.
    check("venc_stop_chn", acl.himpi.venc_stop_chn(channel_id))
    check("sys_ctl_epoll", acl.himpi.sys_ctl_epoll(epoll_fd, HI_DVPP_EPOLL_CTL_DEL, fd, event))
    check("sys_close_epoll", acl.himpi.sys_close_epoll(epoll_fd))

    # 12. Close the channel.
    check("venc_destroy_chn", acl.himpi.venc_destroy_chn(channel_id))

    # 13. Stop the media system.
    check("sys_exit", acl.himpi.sys_exit())

    # 14. Context, device. The guide breaks off here.
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(0))

    # 15. Finalise.
    check("finalize", acl.finalize())


def compare(results):
    """FFmpeg must find the pictures in the stream."""
    assert [pts for pts, _ in results] == [index * 33333 for index in range(FRAMES)], "streams missing or out of order"
    decoder = av.CodecContext.create("hevc", "r")
    frames = [frame for _, data in results for frame in decoder.decode(av.Packet(data))] + decoder.decode(None)
    assert len(frames) == FRAMES and [frame.key_frame for frame in frames].count(True) == 2
    for index, frame in enumerate(frames):
        found = frame.to_ndarray()[:128].astype(float)
        assert ((found - make_picture(index)[:128]) ** 2).mean() < 25, f"picture {index} differs"


if __name__ == "__main__":
    main()
