"""Chapter 5.4.6: decoding a video (second media interface)."""

import time

import av
import numpy as np

import acl

ACL_HOST = 1
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
HI_TRUE, HI_FALSE = 1, 0
HI_PT_H264 = 96
HI_VDEC_SEND_MODE_FRAME = 1
HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
HI_COMPRESS_MODE_NONE, HI_COMPRESS_MODE_HFBC = 0, 3
HI_VIDEO_DEC_MODE_IPB = 0
HI_VIDEO_FORMAT_TILE_64x16 = 1
HI_VIDEO_OUT_ORDER_DISPLAY = 0
HI_ERR_VDEC_BUF_EMPTY = 0xA005800E
FRAMES = 8
WORDS = {
    0: "Decode Success",
    1: "Decode Fail",
    2: "No Picture",
    3: "RefFrame Num Error",
    4: "RefFrame Size Error",
}


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret:#x}, expected {want:#x}")


def make_video():
    """Packets of an H.264 video with B pictures, and what FFmpeg makes of them."""
    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.framerate = 1920, 1080, "yuv420p", 25
    encoder.options = {"preset": "ultrafast", "x264-params": "bframes=2:b-adapt=0:annexb=1:repeat-headers=1"}
    y, x = np.mgrid[0:1080, 0:1920]
    packets = []
    for index in range(FRAMES):
        picture = np.stack([(x + 9 * index) % 256, (y - 5 * index) % 256, (x + y) % 256], -1).astype(np.uint8)
        frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format="yuv420p")
        frame.pts = index
        packets += encoder.encode(frame)
    packets = [bytes(packet) for packet in [*packets, *encoder.encode(None)]]
    decoder = av.CodecContext.create("h264", "r")
    frames = [frame for data in packets for frame in decoder.decode(av.Packet(data))] + decoder.decode(None)
    return packets, [frame.reformat(format="nv12").to_ndarray() for frame in frames]


def get_frame(channel_id):
    """The next frame; None when there is none yet."""
    frame_info, supplement, stream, ret = acl.himpi.vdec_get_frame(channel_id, 0)
    if ret == HI_ERR_VDEC_BUF_EMPTY:
        return None
    check("vdec_get_frame", ret)
    dec_result = frame_info["v_frame"]["frame_flag"]
    print(f"Chn {channel_id} GetFrame Success, {WORDS[dec_result]}")
    check("frame_flag", dec_result)
    return frame_info, stream


def main():
    packets, pictures = make_video()

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

    # 5. Open a channel. The guide's temporal_mv_en is ignored, the binding calls it temporal_mvp_en.
    channel_id = 0
    # manual slip: a list that is not used, with the number of bits where the enumeration has 0
    buf_attr = {
        "width": 1920, "height": 1080, "align": 0, "bit_width": 0, "pixel_format": HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420,
        "compress_mode": HI_COMPRESS_MODE_NONE,
    }  # fmt: skip
    assert acl.himpi.vdec_get_pic_buf_size(HI_PT_H264, buf_attr) >= 1920 * 1080 * 3 // 2
    tmv_buf_size = acl.himpi.vdec_get_tmv_buf_size(HI_PT_H264, 1920, 1080)
    attr = {
        "type": HI_PT_H264, "mode": HI_VDEC_SEND_MODE_FRAME, "pic_width": 1920, "pic_height": 1080,
        "stream_buf_size": 1920 * 1080 * 3 // 2, "frame_buf_size": 0, "frame_buf_cnt": 16,
        "video_attr": {"ref_frame_num": 12, "temporal_mv_en": HI_TRUE, "tmv_buf_size": tmv_buf_size},
    }  # fmt: skip
    check("vdec_create_chn", acl.himpi.vdec_create_chn(channel_id, attr))

    # 6. Set its parameters.
    video_param_dict, ret = acl.himpi.vdec_get_chn_param(channel_id)
    check("vdec_get_chn_param", ret)
    video_param_dict["video_param"]["dec_mode"] = HI_VIDEO_DEC_MODE_IPB
    video_param_dict["video_param"]["compress_mode"] = HI_COMPRESS_MODE_HFBC
    video_param_dict["video_param"]["video_format"] = HI_VIDEO_FORMAT_TILE_64x16
    video_param_dict["video_param"]["out_order"] = HI_VIDEO_OUT_ORDER_DISPLAY
    video_param_dict["display_frame_num"] = 3
    # manual slip: `vdec_set_chn_param(i, …)`, there is no i
    check("vdec_set_chn_param", acl.himpi.vdec_set_chn_param(channel_id, video_param_dict))

    # 7. Let it take packets.
    check("vdec_start_rcv_stream", acl.himpi.vdec_start_rcv_stream(channel_id))

    # 8. Send the video.
    output_size = 1920 * 1080 * 3 // 2
    kind = ACL_MEMCPY_HOST_TO_DEVICE if run_mode == ACL_HOST else ACL_MEMCPY_DEVICE_TO_DEVICE
    for number, bytes_data in enumerate(packets):
        # 8.1 Memory of the input, and a packet into it.
        input_size = len(bytes_data)
        input_addr, ret = acl.himpi.dvpp_malloc(0, input_size)
        check("dvpp_malloc", ret)
        vdec_file_ptr = acl.util.bytes_to_ptr(bytes_data)
        check("memcpy", acl.rt.memcpy(input_addr, input_size, vdec_file_ptr, input_size, kind))

        # 8.2 Memory of the output.
        output_addr, ret = acl.himpi.dvpp_malloc(0, output_size)
        check("dvpp_malloc", ret)

        # 8.3, 8.4 Describe both, and send.
        stream = {
            "end_of_frame": HI_TRUE, "end_of_stream": HI_FALSE, "need_display": HI_TRUE, "pts": number, "len": input_size,
            "addr": input_addr,
        }  # fmt: skip
        out_pic_info = {
            "width": 1920,
            "height": 1080,
            "width_stride": 1920,
            "height_stride": 1080,
            "pixel_format": HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420,
            "vir_addr": output_addr,
            "buffer_size": output_size,
        }
        check("vdec_send_stream", acl.himpi.vdec_send_stream(channel_id, stream, out_pic_info, 1000))
    # manual slip: without the end of the stream the last pictures stay inside
    check("vdec_send_stream", acl.himpi.vdec_send_stream(channel_id, {"end_of_stream": HI_TRUE}, {}, 1000))

    # 9. Take the results.
    # manual slip: asks once; sending is asynchronous
    taken, deadline = 0, time.monotonic() + 40
    while taken < len(packets) and time.monotonic() < deadline:
        # 9.1 A frame.
        found = get_frame(channel_id)
        if found is None:
            time.sleep(0.001)
            continue
        frame_info, stream = found

        # 9.2 Bring the picture to the host.
        output_buffer, ret = acl.rt.malloc_host(output_size)
        check("malloc_host", ret)
        address = frame_info["v_frame"]["virt_addr"][0]
        check("memcpy", acl.rt.memcpy(output_buffer, output_size, address, output_size, ACL_MEMCPY_DEVICE_TO_HOST))
        data = np.frombuffer(acl.util.ptr_to_bytes(output_buffer, output_size), np.uint8)
        assert np.array_equal(data.reshape(1620, 1920), pictures[taken]), f"picture {taken} differs from FFmpeg's"
        check("free_host", acl.rt.free_host(output_buffer))

        # 9.3 Give the memory back.
        check("dvpp_free", acl.himpi.dvpp_free(frame_info["v_frame"]["virt_addr"][0]))
        check("dvpp_free", acl.himpi.dvpp_free(stream["addr"]))

        # 9.4 Give the frame back.
        check("vdec_release_frame", acl.himpi.vdec_release_frame(channel_id, frame_info))
        taken += 1
    assert taken == len(packets), f"{taken} of {len(packets)} pictures came"

    # 10. No more packets.
    check("vdec_stop_rcv_stream", acl.himpi.vdec_stop_rcv_stream(channel_id))

    # Close the channel, stop the media system.
    check("vdec_destroy_chn", acl.himpi.vdec_destroy_chn(channel_id))
    check("sys_exit", acl.himpi.sys_exit())

    # Context, device.
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(0))

    # Finalise.
    check("finalize", acl.finalize())


if __name__ == "__main__":
    main()
