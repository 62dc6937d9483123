"""Chapter 5.3.7, second part: the settings of an encoding channel by their numbers."""

import acl

ACL_VENC_THREAD_ID_UINT64 = 0  # thread of the callbacks
ACL_VENC_CALLBACK_PTR = 1  # callback
ACL_VENC_PIXEL_FORMAT_UINT32 = 2  # format of the pictures
ACL_VENC_ENCODE_TYPE_UINT32 = 3  # codec
ACL_VENC_PIC_WIDTH_UINT32 = 4
ACL_VENC_PIC_HEIGHT_UINT32 = 5
ACL_VENC_KEY_FRAME_INTERVAL_UINT32 = 6
ACL_VENC_BUF_ADDR_PTR = 7  # output buffer
ACL_VENC_BUF_SIZE_UINT32 = 8
ACL_VENC_RC_MODE_UINT32 = 9  # rate control
ACL_VENC_SRC_RATE_UINT32 = 10  # frame rate
ACL_VENC_MAX_BITRATE_UINT32 = 11
ACL_VENC_MAX_IP_PROP_UINT32 = 12  # bits of an I picture against those of a P picture


def check_ret(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


class AclVenc:
    def callback_func(self, input_pic_desc, output_stream_desc, user_data):
        raise AssertionError("nothing is encoded here")

    def run(self):
        check_ret("init", acl.init())
        check_ret("set_device", acl.rt.set_device(0))
        self.venc_channel_desc = acl.media.venc_create_channel_desc()

        # The callback.
        ret = acl.media.venc_set_channel_desc_param(self.venc_channel_desc, ACL_VENC_CALLBACK_PTR, self.callback_func)
        check_ret("callback", ret)
        get_cb_func, ret = acl.media.venc_get_channel_desc_param(self.venc_channel_desc, ACL_VENC_CALLBACK_PTR)
        check_ret("callback", ret)
        assert get_cb_func == self.callback_func

        # The format of the pictures.
        PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1
        ret = acl.media.venc_set_channel_desc_param(
            self.venc_channel_desc, ACL_VENC_PIXEL_FORMAT_UINT32, PIXEL_FORMAT_YUV_SEMIPLANAR_420
        )
        check_ret("format", ret)
        get_pic_format, ret = acl.media.venc_get_channel_desc_param(
            self.venc_channel_desc, ACL_VENC_PIXEL_FORMAT_UINT32
        )
        check_ret("format", ret)
        assert get_pic_format == PIXEL_FORMAT_YUV_SEMIPLANAR_420

        # Their width.
        width = 128
        ret = acl.media.venc_set_channel_desc_param(self.venc_channel_desc, ACL_VENC_PIC_WIDTH_UINT32, width)
        check_ret("width", ret)
        get_width, ret = acl.media.venc_get_channel_desc_param(self.venc_channel_desc, ACL_VENC_PIC_WIDTH_UINT32)
        check_ret("width", ret)
        assert get_width == width

        # Their height.
        height = 128
        ret = acl.media.venc_set_channel_desc_param(self.venc_channel_desc, ACL_VENC_PIC_HEIGHT_UINT32, height)
        check_ret("height", ret)
        get_height, ret = acl.media.venc_get_channel_desc_param(self.venc_channel_desc, ACL_VENC_PIC_HEIGHT_UINT32)
        check_ret("height", ret)
        assert get_height == height
        self.run_the_others()

        check_ret("venc_destroy_channel_desc", acl.media.venc_destroy_channel_desc(self.venc_channel_desc))
        check_ret("reset_device", acl.rt.reset_device(0))
        check_ret("finalize", acl.finalize())

    def run_the_others(self):
        """Every other number of the list, and a channel that is made with them."""
        running = [True]

        def thread(args):
            while running[0]:
                acl.rt.process_report(100)

        tid, ret = acl.util.start_thread(thread, [])
        check_ret("start_thread", ret)
        buffer, ret = acl.media.dvpp_malloc(8 << 20)
        check_ret("dvpp_malloc", ret)
        values = {
            ACL_VENC_THREAD_ID_UINT64: tid,
            ACL_VENC_ENCODE_TYPE_UINT32: 2,
            ACL_VENC_KEY_FRAME_INTERVAL_UINT32: 16,
            ACL_VENC_BUF_ADDR_PTR: buffer,
            ACL_VENC_BUF_SIZE_UINT32: 8 << 20,
            ACL_VENC_RC_MODE_UINT32: 2,
            ACL_VENC_SRC_RATE_UINT32: 25,
            ACL_VENC_MAX_BITRATE_UINT32: 1000,
        }
        for number, value in values.items():
            check_ret(f"set {number}", acl.media.venc_set_channel_desc_param(self.venc_channel_desc, number, value))
            found, ret = acl.media.venc_get_channel_desc_param(self.venc_channel_desc, number)
            check_ret(f"get {number}", ret)
            assert found == value, f"parameter {number} is {found}"
        check_ret("venc_create_channel", acl.media.venc_create_channel(self.venc_channel_desc))
        check_ret("venc_destroy_channel", acl.media.venc_destroy_channel(self.venc_channel_desc))
        running[0] = False
        check_ret("stop_thread", acl.util.stop_thread(tid))
        check_ret("dvpp_free", acl.media.dvpp_free(buffer))


if __name__ == "__main__":
    AclVenc().run()
