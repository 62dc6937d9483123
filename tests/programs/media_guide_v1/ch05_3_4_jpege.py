"""Chapter 5.3.4: encoding a JPEG."""

import os
import tempfile

import cv2
import numpy as np

import acl

PIXEL_FORMAT_YUV_SEMIPLANAR_420 = 1


def check(what, ret, want=0):
    if ret != want:
        raise RuntimeError(f"{what}: returned {ret}, expected {want}")


def make_yuv(width, height):
    """A file with a soft grey gradient in NV12; returns its path and its luma."""
    y, x = np.mgrid[0:height, 0:width]
    luma = (40 + x * 100 / width + y * 100 / height).astype(np.uint8)
    chroma = np.full((height // 2, width), 128, np.uint8)
    with tempfile.NamedTemporaryFile(suffix=".yuv", delete=False) as file:
        file.write(luma.tobytes() + chroma.tobytes())
    return file.name, luma


class Jpege:
    def __init__(self):
        self.path, self.luma = make_yuv(320, 240)

    def run(self):
        w, h = 320, 240
        # 1. Initialise.
        check("init", acl.init())

        # 2. Device, context, stream.
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

        # 5. Memory of the input.
        # manual slip: memory for the output is allocated here and once more in 7, and the first never freed
        np_jpg = np.fromfile(self.path, dtype=np.byte)
        os.unlink(self.path)
        self.in_buffer_size = np_jpg.itemsize * np_jpg.size
        bytes_data = np_jpg.tobytes()
        np_jpg_ptr = acl.util.bytes_to_ptr(bytes_data)
        self.in_buffer_dev, ret = acl.media.dvpp_malloc(self.in_buffer_size)
        check("dvpp_malloc", ret)
        ret = acl.rt.memcpy(self.in_buffer_dev, self.in_buffer_size, np_jpg_ptr, self.in_buffer_size, 1)
        check("memcpy", ret)
        height_stride = ((h + 1) // 2) * 2
        width_stride = ((w + 15) // 16) * 16

        # 6. Describe the input.
        self.pic_desc = acl.media.dvpp_create_pic_desc()
        check("set data", acl.media.dvpp_set_pic_desc_data(self.pic_desc, self.in_buffer_dev))
        check("set size", acl.media.dvpp_set_pic_desc_size(self.pic_desc, self.in_buffer_size))
        check("set format", acl.media.dvpp_set_pic_desc_format(self.pic_desc, PIXEL_FORMAT_YUV_SEMIPLANAR_420))
        check("set width", acl.media.dvpp_set_pic_desc_width(self.pic_desc, w))
        check("set height", acl.media.dvpp_set_pic_desc_height(self.pic_desc, h))
        check("set width stride", acl.media.dvpp_set_pic_desc_width_stride(self.pic_desc, width_stride))
        check("set height stride", acl.media.dvpp_set_pic_desc_height_stride(self.pic_desc, height_stride))

        # 7. Choose the quality, predict the size and allocate it.
        self.jpege_config = acl.media.dvpp_create_jpege_config()
        check("set level", acl.media.dvpp_set_jpege_config_level(self.jpege_config, 100))
        self.out_buffer_size, ret = acl.media.dvpp_jpeg_predict_enc_size(self.pic_desc, self.jpege_config)
        check("dvpp_jpeg_predict_enc_size", ret)
        self.out_buffer_dev, ret = acl.media.dvpp_malloc(self.out_buffer_size)
        check("dvpp_malloc", ret)

        # 8. Encode, and wait for it.
        check("set_context", acl.rt.set_context(self.context))
        np_out_size = np.array([self.out_buffer_size], dtype=np.int32)
        bytes_data = np_out_size.tobytes()
        np_out_size_ptr = acl.util.bytes_to_ptr(bytes_data)
        ret = acl.media.dvpp_jpeg_encode_async(
            self.dvpp_channel_desc,
            self.pic_desc,
            self.out_buffer_dev,
            np_out_size_ptr,
            self.jpege_config,
            self.stream,
        )
        check("dvpp_jpeg_encode_async", ret)
        check("synchronize_stream", acl.rt.synchronize_stream(self.stream))

        # 9. Copy the file to the host.
        # manual slip: the size is read from np_out_size, of which bytes_data is a copy, and after it was used
        size = int(np.frombuffer(bytes_data, np.int32)[0])
        assert 0 < size < self.out_buffer_size, size
        np_output = np.zeros(size, dtype=np.byte)
        bytes_data = np_output.tobytes()
        np_output_ptr = acl.util.bytes_to_ptr(bytes_data)
        check("memcpy", acl.rt.memcpy(np_output_ptr, size, self.out_buffer_dev, size, 2))
        shown = cv2.imdecode(np.frombuffer(bytes_data, np.uint8), cv2.IMREAD_GRAYSCALE)
        assert shown.shape == (h, w) and abs(shown.astype(int) - self.luma).mean() < 2, "the picture differs"

        # 10. Give back the settings, the description, the memory and the channel.
        check("dvpp_destroy_jpege_config", acl.media.dvpp_destroy_jpege_config(self.jpege_config))
        check("destroy_pic_desc", acl.media.dvpp_destroy_pic_desc(self.pic_desc))
        check("dvpp_free", acl.media.dvpp_free(self.in_buffer_dev))
        check("dvpp_free", acl.media.dvpp_free(self.out_buffer_dev))
        check("dvpp_destroy_channel", acl.media.dvpp_destroy_channel(self.dvpp_channel_desc))
        check("dvpp_destroy_channel_desc", acl.media.dvpp_destroy_channel_desc(self.dvpp_channel_desc))

        # 11. and 12. Stream, context, device.
        check("destroy_stream", acl.rt.destroy_stream(self.stream))
        check("destroy_context", acl.rt.destroy_context(self.context))
        check("reset_device", acl.rt.reset_device(self.device_id))
        check("finalize", acl.finalize())


if __name__ == "__main__":
    Jpege().run()
