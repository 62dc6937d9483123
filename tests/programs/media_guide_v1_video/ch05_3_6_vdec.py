"""Chapter 5.3.6: video decoding. One H.265 picture is sent ten times; ten NV12 pictures come back in callbacks."""

import os
import tempfile

import av
import numpy as np

import acl

ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST = 1, 2
PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
H265_MAIN_LEVEL = 0


def check_ret(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def make_video(width, height):
    """A file with one H.265 picture; returns its path and what FFmpeg decodes from it, as NV12."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([x % 256, y % 256, (x + y) % 256], -1).astype(np.uint8)
    encoder = av.CodecContext.create("libx265", "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.framerate = width, height, "yuv420p", 25
    encoder.options = {"preset": "ultrafast", "x265-params": "log-level=none"}
    frame = av.VideoFrame.from_ndarray(pixels, "rgb24").reformat(format="yuv420p")
    data = b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])
    decoder = av.CodecContext.create("hevc", "r")
    (decoded,) = [*decoder.decode(av.Packet(data)), *decoder.decode(None)]
    with tempfile.NamedTemporaryFile(suffix=".h265", delete=False) as file:
        file.write(data)
    return file.name, decoded.reformat(format="nv12").to_ndarray().tobytes()


class Vdec:
    def __init__(self, width, height):
        self.device_id, self.channel_id, self.rest_len = 0, 10, 10
        self.en_type, self._format = H265_MAIN_LEVEL, PIXEL_FORMAT_YUV_SEMIPLANAR_420
        self.input_width, self.input_height, self.dtype = width, height, np.uint8
        self.images_buffer, self.output_count, self.running, self.ret_codes = [], 0, True, []

    # 3. The callback.
    # manual slip: `def callback(self, …)` is meant, since `self.callback` is registered; the guide calls it `_callback`
    def callback(self, input_stream_desc, output_pic_desc, user_data):
        # The description of the packet.
        if input_stream_desc:
            ret = acl.media.dvpp_destroy_stream_desc(input_stream_desc)
            if ret != 0:
                print("acl.media.dvpp_destroy_stream_desc failed")
        # The description of the picture.
        if output_pic_desc:
            vdec_out_buffer = acl.media.dvpp_get_pic_desc_data(output_pic_desc)
            ret_code = acl.media.dvpp_get_pic_desc_ret_code(output_pic_desc)
            data_size = acl.media.dvpp_get_pic_desc_size(output_pic_desc)
            self.images_buffer.append(dict({"buffer": vdec_out_buffer, "size": data_size}))
            self.ret_codes.append(ret_code)
            ret = acl.media.dvpp_destroy_pic_desc(output_pic_desc)
            if ret != 0:
                print("acl.media.dvpp_destroy_pic_desc failed")
        self.output_count += 1
        print("[Vdec] [_callback] _callback exit success")
        # vdec_out_buffer is freed after all decoding.

    # manual slip: the function of the thread is not shown
    def _thread_func(self, args_list):
        timeout = args_list[0]
        check_ret("set_context", acl.rt.set_context(self.context))
        while self.running:
            acl.rt.process_report(timeout)
        print("[Vdec] [_thread_func] _thread_func out")

    # 5. The description of the channel; thread and callback exist before it.
    def init_resource(self, cb_thread_id):
        print("[Vdec] class Vdec init resource stage:")
        self.vdec_channel_desc = acl.media.vdec_create_channel_desc()
        acl.media.vdec_set_channel_desc_channel_id(self.vdec_channel_desc, self.channel_id)
        acl.media.vdec_set_channel_desc_thread_id(self.vdec_channel_desc, cb_thread_id)
        acl.media.vdec_set_channel_desc_callback(self.vdec_channel_desc, self.callback)
        acl.media.vdec_set_channel_desc_entype(self.vdec_channel_desc, self.en_type)
        acl.media.vdec_set_channel_desc_out_pic_format(self.vdec_channel_desc, self._format)
        # manual slip: vdec_create_channel stands here and again as step 6; a description has one channel
        print("[Vdec] class Vdec init resource stage success")

    # manual slip: _set_input and _set_pic_output are not shown
    def _set_input(self, input_stream_size):
        self.dvpp_stream_desc = acl.media.dvpp_create_stream_desc()
        check_ret("data", acl.media.dvpp_set_stream_desc_data(self.dvpp_stream_desc, self.input_stream_mem))
        check_ret("size", acl.media.dvpp_set_stream_desc_size(self.dvpp_stream_desc, input_stream_size))
        print("[Vdec] create input stream desc success")

    def _set_pic_output(self, output_pic_size):
        vdec_out_buffer, ret = acl.media.dvpp_malloc(output_pic_size)
        check_ret("dvpp_malloc", ret)
        # Only memory, size and format are set: the picture has the size of the video.
        self.dvpp_pic_desc = acl.media.dvpp_create_pic_desc()
        check_ret("data", acl.media.dvpp_set_pic_desc_data(self.dvpp_pic_desc, vdec_out_buffer))
        check_ret("size", acl.media.dvpp_set_pic_desc_size(self.dvpp_pic_desc, output_pic_size))
        check_ret("format", acl.media.dvpp_set_pic_desc_format(self.dvpp_pic_desc, self._format))
        print("[Vdec] create output pic desc success")

    # 8. Decode ten times: ten NV12 pictures.
    def forward(self, output_pic_size, input_stream_size):
        self.frame_config = acl.media.vdec_create_frame_config()
        for i in range(self.rest_len):
            print(f"[Vdec] forward index:{i}")
            # 8.1 The packet.
            self._set_input(input_stream_size)
            # 8.2 The picture.
            self._set_pic_output(output_pic_size)
            # 8.3 Decode; the callback is called for each.
            ret = acl.media.vdec_send_frame(
                self.vdec_channel_desc, self.dvpp_stream_desc, self.dvpp_pic_desc, self.frame_config, None
            )
            check_ret("acl.media.vdec_send_frame", ret)
            print("[Vdec] vdec_send_frame stage success")

    def run(self, img_path):
        # 1. Initialise.
        check_ret("init", acl.init())

        # 2. Device, context, stream.
        check_ret("set_device", acl.rt.set_device(self.device_id))
        self.context, ret = acl.rt.create_context(self.device_id)
        check_ret("create_context", ret)
        self.stream, ret = acl.rt.create_stream()
        check_ret("create_stream", ret)

        # 4. The thread that runs the callbacks.
        timeout = 100
        cb_thread_id, ret = acl.util.start_thread(self._thread_func, [timeout])
        check_ret("start_thread", ret)
        check_ret("subscribe_report", acl.rt.subscribe_report(cb_thread_id, self.stream))
        self.init_resource(cb_thread_id)

        # 6. The channel.
        check_ret("vdec_create_channel", acl.media.vdec_create_channel(self.vdec_channel_desc))

        # 7. Device memory with the video.
        output_pic_size = (self.input_width * self.input_height * 3) // 2
        img = np.fromfile(img_path, dtype=self.dtype)
        input_stream_size = img.size
        bytes_data = img.tobytes()
        img_ptr = acl.util.bytes_to_ptr(bytes_data)
        self.input_stream_mem, ret = acl.media.dvpp_malloc(input_stream_size)
        check_ret("dvpp_malloc", ret)
        ret = acl.rt.memcpy(
            self.input_stream_mem, input_stream_size, img_ptr, input_stream_size, ACL_MEMCPY_HOST_TO_DEVICE
        )
        check_ret("memcpy", ret)
        self.forward(output_pic_size, input_stream_size)

        # 9. The channel and its description go: all callbacks have run then.
        check_ret("vdec_destroy_channel", acl.media.vdec_destroy_channel(self.vdec_channel_desc))
        check_ret("vdec_destroy_channel_desc", acl.media.vdec_destroy_channel_desc(self.vdec_channel_desc))
        pictures = self.take_pictures()

        # 10. The rest.
        # manual slip: frame configuration, memory and thread are left behind
        check_ret("vdec_destroy_frame_config", acl.media.vdec_destroy_frame_config(self.frame_config))
        check_ret("dvpp_free", acl.media.dvpp_free(self.input_stream_mem))
        check_ret("unsubscribe_report", acl.rt.unsubscribe_report(cb_thread_id, self.stream))
        self.running = False
        check_ret("stop_thread", acl.util.stop_thread(cb_thread_id))
        # manual slip: acl.rt.destroy_dstream
        check_ret("destroy_stream", acl.rt.destroy_stream(self.stream))
        check_ret("destroy_context", acl.rt.destroy_context(self.context))
        check_ret("reset_device", acl.rt.reset_device(self.device_id))
        check_ret("finalize", acl.finalize())
        return pictures

    def take_pictures(self):
        found = []
        for image in self.images_buffer:
            data = bytes(image["size"])
            ret = acl.rt.memcpy(
                acl.util.bytes_to_ptr(data), len(data), image["buffer"], len(data), ACL_MEMCPY_DEVICE_TO_HOST
            )
            check_ret("memcpy", ret)
            check_ret("dvpp_free", acl.media.dvpp_free(image["buffer"]))
            found.append(data)
        return found


def main():
    path, picture = make_video(1280, 720)
    vdec = Vdec(1280, 720)
    pictures = vdec.run(path)
    os.unlink(path)
    assert vdec.output_count == 10, f"{vdec.output_count} callbacks"
    assert vdec.ret_codes == [0] * 10, f"ret_codes {vdec.ret_codes}"
    assert pictures == [picture] * 10, "the pictures are not those of FFmpeg"


if __name__ == "__main__":
    main()
