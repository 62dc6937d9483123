"""Chapter 5.3.2: cutting several regions out of pictures and pasting them."""

import numpy as np

import acl

ACL_MEMCPY_HOST_TO_DEVICE = 1
ACL_MEMCPY_DEVICE_TO_HOST = 2
PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def make_picture(width, height):
    """An NV12 picture whose rows and columns can be told apart."""
    y, x = np.mgrid[0 : height * 3 // 2, 0:width]
    return ((x * 3 + y * 5) % 251).astype(np.uint8)


class BatchCropPaste:
    def __init__(self):
        self.dev_buffer = {}
        self.in_batch_size, self.out_batch_size = 2, 5
        self.cropList, self.pasteList = [], []

    def set_picture_desc(self, desc, w, h, word, index):
        """Memory for a picture, by the formula of the guide, and all fields of its description."""
        width_stride = ((w + 15) // 16) * 16
        height_stride = ((h + 1) // 2) * 2
        buffer_size = (width_stride * height_stride * 3) // 2
        dev, ret = acl.media.dvpp_malloc(buffer_size)
        check("dvpp_malloc", ret)
        self.dev_buffer[f"{word}_{index}"] = dev
        check("set data", acl.media.dvpp_set_pic_desc_data(desc, dev))
        check("set format", acl.media.dvpp_set_pic_desc_format(desc, PIXEL_FORMAT_YUV_SEMIPLANAR_420))
        check("set width", acl.media.dvpp_set_pic_desc_width(desc, w))
        check("set height", acl.media.dvpp_set_pic_desc_height(desc, h))
        check("set width stride", acl.media.dvpp_set_pic_desc_width_stride(desc, width_stride))
        check("set height stride", acl.media.dvpp_set_pic_desc_height_stride(desc, height_stride))
        check("set size", acl.media.dvpp_set_pic_desc_size(desc, buffer_size))
        return buffer_size

    def to_device(self, key, data):
        bytes_data = data.tobytes()
        ptr = acl.util.bytes_to_ptr(bytes_data)
        ret = acl.rt.memcpy(self.dev_buffer[key], len(bytes_data), ptr, len(bytes_data), ACL_MEMCPY_HOST_TO_DEVICE)
        check("memcpy", ret)

    def to_host(self, key, size):
        bytes_data = bytes(size)
        ptr = acl.util.bytes_to_ptr(bytes_data)
        check("memcpy", acl.rt.memcpy(ptr, size, self.dev_buffer[key], size, ACL_MEMCPY_DEVICE_TO_HOST))
        return np.frombuffer(bytes_data, np.uint8)

    def free_pic_desc(self):
        check("destroy batch", acl.media.dvpp_destroy_batch_pic_desc(self.in_batch_pic_desc))
        check("destroy batch", acl.media.dvpp_destroy_batch_pic_desc(self.out_batch_pic_desc))

    def run(self):
        # 1. Initialise.
        check("init", acl.init())

        # 2. Device, context, stream.
        self.device_id = 0
        check("set_device", acl.rt.set_device(self.device_id))
        self.context, ret = acl.rt.create_context(self.device_id)
        check("create_context", ret)
        self.stream, ret = acl.rt.create_stream()
        check("create_stream", ret)

        # 3. Describe the batches.
        w, h = 320, 240
        self.out_batch_pic_desc = acl.media.dvpp_create_batch_pic_desc(self.out_batch_size)
        self.in_batch_pic_desc = acl.media.dvpp_create_batch_pic_desc(self.in_batch_size)
        assert self.out_batch_pic_desc and self.in_batch_pic_desc
        # manual slip: roiList, the picture and its pointer are never made
        roiList = []
        pictures = [make_picture(w, h), 250 - make_picture(w, h)]
        for i in range(self.in_batch_size):
            input_desc = acl.media.dvpp_get_pic_desc(self.in_batch_pic_desc, i)
            assert input_desc
            self.set_picture_desc(input_desc, w, h, "input", i)
            self.to_device("input" + "_" + str(i), pictures[i])
            # How many regions come from this picture.
            roiList.append(self.out_batch_size // self.in_batch_size)
        for i in range(self.out_batch_size):
            output_desc = acl.media.dvpp_get_pic_desc(self.out_batch_pic_desc, i)
            assert output_desc
            out_buffer_size = self.set_picture_desc(output_desc, w, h, "output", i)
            check("memset", acl.rt.memset(self.dev_buffer[f"output_{i}"], out_buffer_size, 0, out_buffer_size))
            if i == 0:
                crop_area = acl.media.dvpp_create_roi_config(w // 2, w - 1, h // 2, h - 1)
            else:
                crop_area = acl.media.dvpp_create_roi_config(0, w - 1, h // 2, h - 1)
            paste_area = acl.media.dvpp_create_roi_config(w // 2, w - 1, h // 2, h - 1)
            self.cropList.append(crop_area)
            self.pasteList.append(paste_area)
        # Outputs that are left over belong to the last input.
        total_num = 0
        for i in range(self.in_batch_size):
            total_num += roiList[i]
        if self.out_batch_size % self.in_batch_size != 0:
            roiList[-1] = self.out_batch_size - total_num + roiList[-1]

        # 4. Describe a channel of the picture engines.
        self.dvpp_channel_desc = acl.media.dvpp_create_channel_desc()
        assert self.dvpp_channel_desc, "no channel description"

        # 5. Open it.
        check("dvpp_create_channel", acl.media.dvpp_create_channel(self.dvpp_channel_desc))

        # 6. Cut and paste, and wait for it.
        # manual slip: the comment there speaks of scaling
        _, ret = acl.media.dvpp_vpc_batch_crop_and_paste_async(
            self.dvpp_channel_desc,
            self.in_batch_pic_desc,
            roiList,
            self.out_batch_pic_desc,
            self.cropList,
            self.pasteList,
            self.stream,
        )
        check("dvpp_vpc_batch_crop_and_paste_async", ret)
        check("synchronize_stream", acl.rt.synchronize_stream(self.stream))
        for i in range(self.out_batch_size):
            result = self.to_host(f"output_{i}", out_buffer_size).reshape(h * 3 // 2, w)
            picture = pictures[0 if i < roiList[0] else 1]
            assert not result[: h // 2].any() and not result[:h, : w // 2].any(), "more than the region was written"
            pasted = result[h // 2 : h, w // 2 :].astype(int)
            if i == 0:
                assert (pasted == picture[h // 2 : h, w // 2 :]).all(), "the region differs"
            else:  # twice as wide: the mean of two pixels
                region = picture[h // 2 : h].astype(int)
                assert abs(pasted - (region[:, ::2] + region[:, 1::2]) / 2).max() <= 1, "the scaled region differs"

        # 7. Give back the descriptions, the memory and the channel.
        self.free_pic_desc()
        for i in range(len(self.cropList)):
            check("dvpp_destroy_roi_config", acl.media.dvpp_destroy_roi_config(self.cropList[i]))
        for i in range(len(self.pasteList)):
            check("dvpp_destroy_roi_config", acl.media.dvpp_destroy_roi_config(self.pasteList[i]))
        for key in self.dev_buffer:
            if self.dev_buffer[key]:
                check("dvpp_free", acl.media.dvpp_free(self.dev_buffer[key]))
        if self.dvpp_channel_desc:
            check("dvpp_destroy_channel", acl.media.dvpp_destroy_channel(self.dvpp_channel_desc))
            check("dvpp_destroy_channel_desc", acl.media.dvpp_destroy_channel_desc(self.dvpp_channel_desc))

        # 8. Stream, context, device.
        check("destroy_stream", acl.rt.destroy_stream(self.stream))
        check("destroy_context", acl.rt.destroy_context(self.context))
        check("reset_device", acl.rt.reset_device(self.device_id))

        # 9. Finalise.
        check("finalize", acl.finalize())


if __name__ == "__main__":
    BatchCropPaste().run()
