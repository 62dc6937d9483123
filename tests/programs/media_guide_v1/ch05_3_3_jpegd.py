"""Chapter 5.3.3: decoding a JPEG."""

import os
import tempfile

import cv2
import numpy as np

import acl

PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def make_jpeg(width, height):
    """A file with a soft grey gradient; returns its path and what it shows."""
    y, x = np.mgrid[0:height, 0:width]
    picture = (40 + x * 100 / width + y * 100 / height).astype(np.uint8)
    with tempfile.NamedTemporaryFile(suffix=".jpg", delete=False) as file:
        file.write(cv2.imencode(".jpg", cv2.merge([picture] * 3))[1].tobytes())
    return file.name, picture


class Jpegd:
    def __init__(self):
        self.path, self.picture = make_jpeg(320, 240)

    def run(self):
        w, h = 320, 240
        # 1. Initialise.
        check("init", acl.init())

        # 2. Device, context, stream.
        # manual slip: `context` and `stream` here, `self.context` and `self.stream` below
        self.device_id = 0
        check("set_device", acl.rt.set_device(self.device_id))
        self.context, ret = acl.rt.create_context(self.device_id)
        check("create_context", ret)
        self.stream, ret = acl.rt.create_stream()
        check("create_stream", ret)

        # 3. Describe a channel of the picture engines.
        self.dvpp_channel_desc = acl.media.dvpp_create_channel_desc()

        # 4. Open it.
        check("dvpp_create_channel", acl.media.dvpp_create_channel(self.dvpp_channel_desc))

        # 5. Memory of the input. manual slip: the comment there calls the file a YUV picture
        np_jpg = np.fromfile(self.path, dtype=np.byte)
        os.unlink(self.path)
        self.in_buffer_size = np_jpg.itemsize * np_jpg.size
        bytes_data = np_jpg.tobytes()
        np_jpg_ptr = acl.util.bytes_to_ptr(bytes_data)
        self.in_buffer_dev, ret = acl.media.dvpp_malloc(self.in_buffer_size)
        check("dvpp_malloc", ret)
        ret = acl.rt.memcpy(self.in_buffer_dev, self.in_buffer_size, np_jpg_ptr, self.in_buffer_size, 1)
        check("memcpy", ret)
        assert acl.media.dvpp_jpeg_get_image_info(np_jpg_ptr, self.in_buffer_size) == (w, h, 3, 0)

        # 6. Memory of the output, aligned to 16 and 2 as the guide does it; the chips write 64 or 128 and 16 by themselves.
        height_stride = ((h + 1) // 2) * 2
        width_stride = ((w + 15) // 16) * 16
        self.out_buffer_size = (width_stride * height_stride * 3) // 2
        self.out_buffer_dev, ret = acl.media.dvpp_malloc(self.out_buffer_size)
        check("dvpp_malloc", ret)

        # 7. Describe the output.
        self.pic_desc = acl.media.dvpp_create_pic_desc()
        check("set data", acl.media.dvpp_set_pic_desc_data(self.pic_desc, self.out_buffer_dev))
        check("set size", acl.media.dvpp_set_pic_desc_size(self.pic_desc, self.out_buffer_size))
        check("set format", acl.media.dvpp_set_pic_desc_format(self.pic_desc, PIXEL_FORMAT_YUV_SEMIPLANAR_420))
        check("set width", acl.media.dvpp_set_pic_desc_width(self.pic_desc, w))
        check("set height", acl.media.dvpp_set_pic_desc_height(self.pic_desc, h))
        check("set width stride", acl.media.dvpp_set_pic_desc_width_stride(self.pic_desc, width_stride))
        check("set height stride", acl.media.dvpp_set_pic_desc_height_stride(self.pic_desc, height_stride))

        # 8. Decode, and wait for it.
        ret = acl.media.dvpp_jpeg_decode_async(
            self.dvpp_channel_desc, self.in_buffer_dev, self.in_buffer_size, self.pic_desc, self.stream
        )
        check("dvpp_jpeg_decode_async", ret)
        check("synchronize_stream", acl.rt.synchronize_stream(self.stream))
        assert acl.media.dvpp_get_pic_desc_ret_code(self.pic_desc) == 0
        result = np.frombuffer(acl.util.ptr_to_bytes(self.out_buffer_dev, self.out_buffer_size), np.uint8)
        luma = result[: width_stride * h].reshape(h, width_stride)
        assert abs(luma[:, :w].astype(int) - self.picture).mean() < 2, "the picture differs"

        # 9. Give back the description, the memory and the channel.
        check("destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(self.pic_desc))
        check("dvpp_free", acl.media.dvpp_free(self.in_buffer_dev))
        check("dvpp_free", acl.media.dvpp_free(self.out_buffer_dev))
        check("dvpp_destroy_channel", acl.media.dvpp_destroy_channel(self.dvpp_channel_desc))
        check("dvpp_destroy_channel_desc", acl.media.dvpp_destroy_channel_desc(self.dvpp_channel_desc))

        # 10. and 11. Stream, context, device.
        check("destroy_stream", acl.rt.destroy_stream(self.stream))
        check("destroy_context", acl.rt.destroy_context(self.context))
        check("reset_device", acl.rt.reset_device(self.device_id))
        check("finalize", acl.finalize())


if __name__ == "__main__":
    Jpegd().run()
