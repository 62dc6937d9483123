"""Chapter 5.4.3: decoding a JPEG (second media interface)."""

import io
import os
import tempfile
import time

import av
import numpy as np
from PIL import Image

import acl

ACL_HOST = 1
ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
ACL_MEMCPY_DEVICE_TO_DEVICE = 3
HI_TRUE, HI_FALSE = 1, 0
HI_PT_JPEG = 26
HI_VDEC_SEND_MODE_FRAME = 1
HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
HI_PIXEL_FORMAT_YVU_SEMIPLANAR_420 = 2
HI_PIXEL_FORMAT_UNKNOWN = 10000


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret:#x}, expected {want:#x}")


def make_picture():
    y, x = np.mgrid[0:480, 0:640]
    picture = np.stack([x % 256, y % 256, (x + y) % 256], -1).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=90, subsampling="4:2:0")
    path = os.path.join(tempfile.mkdtemp(), "test.jpg")
    with open(path, "wb") as target:
        target.write(file.getvalue())
    return path


def main():
    vdec_file_path = make_picture()

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
    attr = {
        "type": HI_PT_JPEG, "mode": HI_VDEC_SEND_MODE_FRAME, "pic_width": 1920, "pic_height": 1080,
        "stream_buf_size": 1920 * 1080, "frame_buf_size": 0, "frame_buf_cnt": 9,
    }  # fmt: skip
    check("vdec_create_chn", acl.himpi.vdec_create_chn(channel_id, attr))

    # 6. Set its parameters.
    jpegd_param_dict, ret = acl.himpi.vdec_get_chn_param(channel_id)
    check("vdec_get_chn_param", ret)
    jpegd_param_dict["pic_param"]["pixel_format"] = HI_PIXEL_FORMAT_YUV_SEMIPLANAR_420
    jpegd_param_dict["pic_param"]["alpha"] = 255
    jpegd_param_dict["display_frame_num"] = 0
    # manual slip: `vdec_set_chn_param(i, …)`, there is no i
    check("vdec_set_chn_param", acl.himpi.vdec_set_chn_param(channel_id, jpegd_param_dict))

    # 7. Let it take packets.
    check("vdec_start_rcv_stream", acl.himpi.vdec_start_rcv_stream(channel_id))

    # 8.1 Memory of the input, and the file into it.
    # manual slip: 1024 bytes stand for the size of every file
    vdec_file = np.fromfile(vdec_file_path, dtype=np.byte)
    vdec_file_size = vdec_file.itemsize * vdec_file.size
    input_size = vdec_file_size
    input_addr, ret = acl.himpi.dvpp_malloc(0, input_size)
    check("dvpp_malloc", ret)
    if run_mode == ACL_HOST:
        input_buffer, ret = acl.rt.malloc_host(input_size)
        check("malloc_host", ret)
        kind = ACL_MEMCPY_HOST_TO_DEVICE
    else:
        kind = ACL_MEMCPY_DEVICE_TO_DEVICE
    bytes_data = vdec_file.tobytes()
    vdec_file_ptr = acl.util.bytes_to_ptr(bytes_data)
    check("memcpy", acl.rt.memcpy(input_addr, input_size, vdec_file_ptr, vdec_file_size, kind))

    # 8.2 Describe the input. The header is read on the host.
    stream = {
        "end_of_frame": HI_TRUE, "end_of_stream": HI_FALSE, "need_display": HI_TRUE, "pts": 0, "len": input_size,
        "addr": vdec_file_ptr,
    }  # fmt: skip
    img_info, ret = acl.himpi.dvpp_get_image_info(HI_PT_JPEG, stream)
    check("dvpp_get_image_info", ret)
    if run_mode == ACL_HOST:
        check("free_host", acl.rt.free_host(input_buffer))
    stream["addr"] = input_addr

    # 8.3 Describe the output, and its memory.
    out_pic_info = {
        "width": img_info["width"],
        "height": img_info["height"],
        "width_stride": img_info["width_stride"],
        "height_stride": img_info["height_stride"],
        "pixel_format": HI_PIXEL_FORMAT_UNKNOWN,
        "buffer_size": img_info["img_buf_size"],
    }
    out_buffer, ret = acl.himpi.dvpp_malloc(0, out_pic_info["buffer_size"])
    check("dvpp_malloc", ret)
    # manual slip: the key is printed with a blank, 'vir_addr '
    out_pic_info["vir_addr"] = out_buffer

    # 8.4 Send the picture.
    check("vdec_send_stream", acl.himpi.vdec_send_stream(channel_id, stream, out_pic_info, 0))

    # 9.1 Take the result.
    # manual slip: asks once; sending is asynchronous, so the result may come a little later
    deadline = time.monotonic() + 20
    while True:
        frame_info, supplement, stream, ret = acl.himpi.vdec_get_frame(channel_id, 0)
        if ret == 0 or time.monotonic() > deadline:
            break
        time.sleep(0.001)
    check("vdec_get_frame", ret)
    dec_result = frame_info["v_frame"]["frame_flag"]
    if dec_result == 0:
        print(f"Chn {channel_id} GetFrame Success, Decode Success")
    else:
        raise RuntimeError(f"Chn {channel_id} GetFrame Success, Decode Fail")

    # 9.2 Bring the picture to the host.
    size = out_pic_info["buffer_size"]
    output_buffer, ret = acl.rt.malloc_host(size)
    check("malloc_host", ret)
    address = frame_info["v_frame"]["virt_addr"][0]
    check("memcpy", acl.rt.memcpy(output_buffer, size, address, size, ACL_MEMCPY_DEVICE_TO_HOST))
    data = np.frombuffer(acl.util.ptr_to_bytes(output_buffer, size), np.uint8)
    compare(data, frame_info["v_frame"], vdec_file_path)
    check("free_host", acl.rt.free_host(output_buffer))

    # 9.3 Give the memory back.
    check("dvpp_free", acl.himpi.dvpp_free(frame_info["v_frame"]["virt_addr"][0]))
    check("dvpp_free", acl.himpi.dvpp_free(stream["addr"]))

    # 9.4 Give the frame back.
    check("vdec_release_frame", acl.himpi.vdec_release_frame(channel_id, frame_info))

    # 10. No more packets.
    check("vdec_stop_recv_stream", acl.himpi.vdec_stop_recv_stream(channel_id))

    # Close the channel, stop the media system.
    check("vdec_destroy_chn", acl.himpi.vdec_destroy_chn(channel_id))
    check("sys_exit", acl.himpi.sys_exit())

    # Context, device.
    check("destroy_context", acl.rt.destroy_context(context))
    check("reset_device", acl.rt.reset_device(0))

    # Finalise.
    check("finalize", acl.finalize())


def compare(data, v_frame, path):
    """The pixels must be those that FFmpeg decodes, V before U."""
    with open(path, "rb") as file:
        (frame,) = av.CodecContext.create("mjpeg", "r").decode(av.Packet(file.read()))
    y, u, v = (
        np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)[:, : plane.width]
        for plane in frame.planes
    )
    assert v_frame["pixel_format"] == HI_PIXEL_FORMAT_YVU_SEMIPLANAR_420, v_frame
    stride, rows = v_frame["width_stride"][0], v_frame["height_stride"][0]
    luma = data[: stride * rows].reshape(rows, stride)[:480, :640]
    chroma = data[stride * rows :].reshape(rows // 2, stride // 2, 2)[:240, :320]
    assert np.abs(luma.astype(int) - y).max() <= 1, "the luma differs"
    assert np.abs(chroma.astype(int) - np.stack([v, u], -1)).max() <= 1, "the chroma differs"


if __name__ == "__main__":
    main()
