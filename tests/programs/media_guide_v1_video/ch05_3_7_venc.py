"""Chapter 5.3.7: video encoding. One NV12 picture is sent sixteen times; the H.265 stream is collected in callbacks."""

import os
import tempfile

import av
import numpy as np

import acl

memcpy_kind = {"ACL_MEMCPY_HOST_TO_DEVICE": 1, "ACL_MEMCPY_DEVICE_TO_HOST": 2}


def check_ret(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def make_picture(path, width, height):
    """A file with an NV12 picture; returns its rows."""
    y, x = np.mgrid[0:height, 0:width]
    luma = (60 + x * 100 / width + 40 * np.sin(y / 20)).astype(np.uint8)
    chroma = np.full((height // 2, width), 128, np.uint8)
    chroma[:, ::2] = 90
    picture = np.concatenate([luma, chroma])
    picture.tofile(path)
    return picture


class AclVenc:
    def __init__(self, output):
        self.output = output
        # 1. Resources.
        # 1.1 Initialise.
        check_ret("init", acl.init())
        # 1.2 Device and context.
        self.device_id = 0
        check_ret("set_device", acl.rt.set_device(self.device_id))
        self.context, ret = acl.rt.create_context(self.device_id)
        check_ret("create_context", ret)
        # The run mode decides how memory is allocated.
        runMode, ret = acl.rt.get_run_mode()
        check_ret("get_run_mode", ret)

    # 2. The thread that runs the callbacks.
    def cb_thread_func(self, args_list):
        ctx = args_list[0]
        timeout = args_list[1]
        # manual slip: self.ctx and self.context, self.g_callbackRunFlag and g_callbackRunFlag stand for the same
        print("[info] thread args_list = ", ctx, timeout, self.g_callbackRunFlag, "\n")
        ret = acl.rt.set_context(ctx)
        assert ret == 0
        while self.g_callbackRunFlag is True:
            acl.rt.process_report(timeout)

    # 3. The callback.
    # 3.1 The coded picture.
    def get_stream_data(self, stream_desc):
        stream_data = acl.media.dvpp_get_stream_desc_data(stream_desc)
        assert stream_data is not None
        stream_data_size = acl.media.dvpp_get_stream_desc_size(stream_desc)
        print("[info] stream_data size", stream_data_size)
        # stream memcpy d2h
        np_data = np.zeros(stream_data_size, dtype=np.byte)
        bytes_data = np_data.tobytes()
        np_data_ptr = acl.util.bytes_to_ptr(bytes_data)
        ret = acl.rt.memcpy(
            np_data_ptr, stream_data_size, stream_data, stream_data_size, memcpy_kind.get("ACL_MEMCPY_DEVICE_TO_HOST")
        )
        assert ret == 0
        # manual slip: returns np_data, which tobytes() has copied: zeros
        return bytes_data

    # 3.2 It goes into a file.
    def callback_func(self, input_pic_desc, output_stream_desc, user_data):
        output_numpy = self.get_stream_data(output_stream_desc)
        with open(self.output, "ab") as f:
            f.write(output_numpy)
        # manual slip: a parenthesis is missing
        print("[INFO] [callback_func] stream size =", acl.media.dvpp_get_stream_desc_size(output_stream_desc))

    def venc_init(self, input_width, input_height):
        timeout = 1000
        self.g_callbackRunFlag = True
        self.cb_thread_id, ret = acl.util.start_thread(self.cb_thread_func, [self.context, timeout])
        check_ret("start_thread", ret)

        # 4. The description of the channel.
        self.venc_channel_desc = acl.media.venc_create_channel_desc()

        # 5. What it holds; thread and callback exist before it.
        venc_format = 1
        venc_entype = 0
        desc = self.venc_channel_desc
        check_ret("thread_id", acl.media.venc_set_channel_desc_thread_id(desc, self.cb_thread_id))
        check_ret("callback", acl.media.venc_set_channel_desc_callback(desc, self.callback_func))
        check_ret("entype", acl.media.venc_set_channel_desc_entype(desc, venc_entype))
        check_ret("pic_format", acl.media.venc_set_channel_desc_pic_format(desc, venc_format))
        check_ret("interval", acl.media.venc_set_channel_desc_key_frame_interval(desc, 16))
        check_ret("pic_height", acl.media.venc_set_channel_desc_pic_height(desc, input_height))
        check_ret("pic_width", acl.media.venc_set_channel_desc_pic_width(desc, input_width))

        # 6. The channel, and the settings of a picture.
        check_ret("venc_create_channel", acl.media.venc_create_channel(self.venc_channel_desc))
        self.frame_config = acl.media.venc_create_frame_config()

    # 8. Encode.
    def venc_set_frame_config(self, frame_config, eos, iframe):
        ret = acl.media.venc_set_frame_config_eos(frame_config, eos)
        assert ret == 0
        ret = acl.media.venc_set_frame_config_force_i_frame(frame_config, iframe)
        assert ret == 0

    # manual slip: test_get_frame_config is called and not shown
    def test_get_frame_config(self, frame_config):
        assert acl.media.venc_get_frame_config_eos(frame_config) == 0
        assert acl.media.venc_get_frame_config_force_i_frame(frame_config) == 0

    def venc_process(self, venc_channel_desc, input_mem, input_size, frame_config):
        # Not the end.
        self.venc_set_frame_config(frame_config, 0, 0)
        print("[INFO] set frame config")
        self.test_get_frame_config(frame_config)

        # set picture description
        dvpp_pic_desc = acl.media.dvpp_create_pic_desc()
        assert dvpp_pic_desc is not None
        ret = acl.media.dvpp_set_pic_desc_data(dvpp_pic_desc, input_mem)
        assert ret == 0
        ret = acl.media.dvpp_set_pic_desc_size(dvpp_pic_desc, input_size)
        assert ret == 0
        print("[INFO] set pic desc")

        # The same picture sixteen times.
        venc_cnt = 16
        while venc_cnt:
            ret = acl.media.venc_send_frame(venc_channel_desc, dvpp_pic_desc, 0, frame_config, 0)
            assert ret == 0
            print("[INFO] venc send frame")
            venc_cnt -= 1
        # An empty picture with eos 1 ends the stream.
        self.venc_set_frame_config(frame_config, 1, 0)
        ret = acl.media.venc_send_frame(venc_channel_desc, 0, 0, frame_config, 0)
        assert ret == 0
        # manual slip: the description of the picture is left behind
        check_ret("dvpp_destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(dvpp_pic_desc))

    def run(self, venc_file_path, input_width, input_height):
        self.venc_init(input_width, input_height)

        # 7. Device memory with the picture.
        file_context = np.fromfile(venc_file_path, dtype=np.byte)
        file_size = file_context.size
        bytes_data = file_context.tobytes()
        file_mem = acl.util.bytes_to_ptr(bytes_data)
        input_size = file_size
        input_mem, ret = acl.media.dvpp_malloc(input_size)
        assert ret == 0
        ret = acl.rt.memcpy(input_mem, input_size, file_mem, file_size, memcpy_kind.get("ACL_MEMCPY_HOST_TO_DEVICE"))
        assert ret == 0
        self.venc_process(self.venc_channel_desc, input_mem, input_size, self.frame_config)

        # 9. Everything goes.
        check_ret("dvpp_free", acl.media.dvpp_free(input_mem))
        check_ret("venc_destroy_frame_config", acl.media.venc_destroy_frame_config(self.frame_config))
        print("[INFO] free resources")
        # manual slip: the channel and its description are left behind; they go before the thread
        check_ret("venc_destroy_channel", acl.media.venc_destroy_channel(self.venc_channel_desc))
        check_ret("venc_destroy_channel_desc", acl.media.venc_destroy_channel_desc(self.venc_channel_desc))
        self.g_callbackRunFlag = False
        check_ret("stop_thread", acl.util.stop_thread(self.cb_thread_id))
        print("[INFO] thread join")

        # 10. The device.
        # manual slip: destroys self.stream, which was never made
        check_ret("destroy_context", acl.rt.destroy_context(self.context))
        check_ret("reset_device", acl.rt.reset_device(self.device_id))
        check_ret("finalize", acl.finalize())


def main():
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "picture.yuv"), os.path.join(folder, "output.h265")
        picture = make_picture(source, 1280, 720)
        AclVenc(target).run(source, 1280, 720)
        with av.open(target, format="hevc") as container:
            frames = list(container.decode(video=0))
    assert len(frames) == 16, f"{len(frames)} pictures"
    assert [frame.key_frame for frame in frames] == [True] + [False] * 15, "key pictures"
    for frame in frames:
        error = np.mean((frame.reformat(format="nv12").to_ndarray().astype(float) - picture) ** 2)
        assert error < 20, f"mean square error {error}"


if __name__ == "__main__":
    main()
