"""Chapter 5.3.2: cutting one region out of one picture."""

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


class Crop:
    def __init__(self):
        self.dev_buffer = {}

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

        # 3. The region: counted from the upper left corner, right and bottom included.
        w, h = 320, 240
        self.crop_area = acl.media.dvpp_create_roi_config(w // 2, w - 1, h // 2, h - 1)
        assert self.crop_area

        # 4. Describe a channel of the picture engines.
        self.dvpp_channel_desc = acl.media.dvpp_create_channel_desc()
        assert self.dvpp_channel_desc, "no channel description"

        # 5. Open it.
        check("dvpp_create_channel", acl.media.dvpp_create_channel(self.dvpp_channel_desc))

        # 6. Describe the input and the output picture.
        self.input_desc = acl.media.dvpp_create_pic_desc()
        assert self.input_desc
        in_buffer_size = self.set_picture_desc(self.input_desc, w, h, "input", 0)
        picture = make_picture(w, h)
        self.to_device("input_0", picture)
        self.output_desc = acl.media.dvpp_create_pic_desc()
        assert self.output_desc
        out_buffer_size = self.set_picture_desc(self.output_desc, w // 2, h // 2, "output", 0)

        # 7. Cut, and wait for it.
        ret = acl.media.dvpp_vpc_crop_async(
            self.dvpp_channel_desc, self.input_desc, self.output_desc, self.crop_area, self.stream
        )
        check("dvpp_vpc_crop_async", ret)
        check("synchronize_stream", acl.rt.synchronize_stream(self.stream))
        result = self.to_host("output_0", out_buffer_size).reshape(h // 2 * 3 // 2, w // 2)
        assert (result[: h // 2] == picture[h // 2 : h, w // 2 :]).all(), "the luma differs"
        assert (result[h // 2 :] == picture[h + h // 4 :, w // 2 :]).all(), "the chroma differs"

        # 8. Give back the descriptions, the memory and the channel.
        # manual slip: the region is never given back
        check("dvpp_destroy_roi_config", acl.media.dvpp_destroy_roi_config(self.crop_area))
        check("destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(self.input_desc))
        check("destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(self.output_desc))
        for key in self.dev_buffer:
            if self.dev_buffer[key]:
                check("dvpp_free", acl.media.dvpp_free(self.dev_buffer[key]))
        if self.dvpp_channel_desc:
            check("dvpp_destroy_channel", acl.media.dvpp_destroy_channel(self.dvpp_channel_desc))
            check("dvpp_destroy_channel_desc", acl.media.dvpp_destroy_channel_desc(self.dvpp_channel_desc))

        # 9. Stream, context, device.
        check("destroy_stream", acl.rt.destroy_stream(self.stream))
        check("destroy_context", acl.rt.destroy_context(self.context))
        check("reset_device", acl.rt.reset_device(self.device_id))

        # 10. Finalise.
        check("finalize", acl.finalize())


if __name__ == "__main__":
    Crop().run()
