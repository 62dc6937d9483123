"""Chapter 9.5.2.7: a 128x128 NV12 picture is encoded n times (16 unless told) as an H.265 stream.

python ch09_5_2_7_venc_image.py [n]
"""

import os
import sys
import tempfile

import av
import numpy as np
from ch05_3_7_venc import AclVenc, make_picture

import acl


class VencImage(AclVenc):
    """The sample: n pictures; the end is sent with `None` as user data."""

    def __init__(self, output, venc_cnt):
        super().__init__(output)
        self.venc_cnt, self.sizes = venc_cnt, []

    def callback_func(self, input_pic_desc, output_stream_desc, user_data):
        data = self.get_stream_data(output_stream_desc)
        self.sizes.append(len(data))
        with open(self.output, "ab") as f:
            f.write(data)

    def venc_process(self, venc_channel_desc, input_mem, input_size, frame_config):
        dvpp_pic_desc = acl.media.dvpp_create_pic_desc()
        assert acl.media.dvpp_set_pic_desc_data(dvpp_pic_desc, input_mem) == 0
        assert acl.media.dvpp_set_pic_desc_size(dvpp_pic_desc, input_size) == 0
        print("[INFO] set pic desc size")
        self.venc_set_frame_config(frame_config, 0, 0)
        print("[INFO] set frame config")
        for _ in range(self.venc_cnt):
            assert acl.media.venc_send_frame(venc_channel_desc, dvpp_pic_desc, 0, frame_config, None) == 0
        self.venc_set_frame_config(frame_config, 1, 0)
        print("[INFO] venc send frame eos")
        ret = acl.media.venc_send_frame(venc_channel_desc, 0, 0, frame_config, None)
        print("[INFO] acl.media.venc_send_frame ret=", ret)
        assert ret == 0
        assert len(self.sizes) == self.venc_cnt, "the end waits for all callbacks"
        assert acl.media.dvpp_destroy_pic_desc(dvpp_pic_desc) == 0
        print("[INFO] venc process success")


def main():
    venc_cnt = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "dvpp_venc_128x128_nv12.yuv"), os.path.join(folder, "output.h265")
        picture = make_picture(source, 128, 128)
        venc = VencImage(target, venc_cnt)
        venc.run(source, 128, 128)
        assert sum(venc.sizes) == os.path.getsize(target)
        with av.open(target, format="hevc") as container:
            frames = list(container.decode(video=0))
    assert len(frames) == venc_cnt, f"{len(frames)} pictures"
    assert [index for index, frame in enumerate(frames) if frame.key_frame] == list(range(0, venc_cnt, 16))
    for frame in frames:
        error = np.mean((frame.reformat(format="nv12").to_ndarray().astype(float) - picture) ** 2)
        assert error < 20, f"mean square error {error}"


if __name__ == "__main__":
    main()
