"""A model whose picture processing is set at run time (pyACL guide, 7.7): crop, colour conversion, normalisation.

The model takes YUV420SP pictures of any size up to a limit. Before each run the program fills an AIPP parameter set and
attaches it. A slip of the guide that is mended: `set_aipp_rbuw_swap_switch` (the function is called rbuv). The result is
compared with the formulas of the manual in numpy, followed by onnxruntime.
"""

from __future__ import annotations

import models
import numpy as np
from common import Dataset, Model, check, compare, device, work_folder

import acl

ACL_YUV420SP_U8 = 1
ACL_DYNAMIC_AIPP_NAME = "ascend_dynamic_aipp_data"
WIDTH, HEIGHT = 256, 240  # of the pictures
SIDE = 224  # of the model's input
MATRIX = ((256, 443, 0), (256, -86, -178), (256, 0, 350))  # the guide's, YUV to BGR
AIPP = f"""\
aipp_op {{
    aipp_mode: dynamic
    max_src_image_size: {WIDTH * HEIGHT * 3 // 2}
}}
"""


def set_dynamic_aipp(model: Model, inputs: Dataset, left: int, top: int, scale: float) -> None:
    """Say what is done with the next picture; the calls are the guide's."""
    index = check(acl.mdl.get_input_index_by_name(model.desc, ACL_DYNAMIC_AIPP_NAME))
    batch_number = 1
    settings = acl.mdl.create_aipp(batch_number)
    check(acl.mdl.set_aipp_src_image_size(settings, WIDTH, HEIGHT))
    check(acl.mdl.set_aipp_input_format(settings, ACL_YUV420SP_U8))
    check(acl.mdl.set_aipp_csc_params(settings, 1, *(factor for row in MATRIX for factor in row), 0, 0, 0, 0, 128, 128))
    check(acl.mdl.set_aipp_rbuv_swap_switch(settings, 0))
    check(acl.mdl.set_aipp_dtc_pixel_mean(settings, 128, 128, 128, 0, 0))
    check(acl.mdl.set_aipp_dtc_pixel_min(settings, 0.0, 0.0, 0.0, 0.0, 0))
    check(acl.mdl.set_aipp_pixel_var_reci(settings, scale, scale, scale, scale, 0))
    check(acl.mdl.set_aipp_crop_params(settings, 1, left, top, SIDE, SIDE, 0))
    check(acl.mdl.set_input_aipp(model.id, inputs.handle, index, settings))
    check(acl.mdl.destroy_aipp(settings))


def expected_input(picture: np.ndarray, left: int, top: int, scale: float) -> np.ndarray:
    """What AIPP makes of a picture, by the formulas: crop, (m · (yuv − bias)) >> 8, (pixel − mean) · scale."""
    luma = picture[:HEIGHT].astype(np.int64)
    chroma = picture[HEIGHT:].reshape(HEIGHT // 2, WIDTH // 2, 2).astype(np.int64).repeat(2, 0).repeat(2, 1)
    yuv = np.concatenate([luma[..., None], chroma - 128], axis=-1)[top : top + SIDE, left : left + SIDE]
    pixels = np.clip((yuv @ np.array(MATRIX).T) >> 8, 0, 255)
    return ((pixels - 128) * np.float32(scale)).transpose(2, 0, 1)[None].astype(np.float32)


def main() -> None:
    """Three settings, one model, one picture in memory."""
    picture = np.random.default_rng(5).integers(0, 256, (HEIGHT * 3 // 2, WIDTH), np.uint8)
    with work_folder() as folder, device():
        (folder / "aipp.cfg").write_text(AIPP, encoding="utf-8")
        onnx_path = models.classifier(folder / "classifier.onnx", [1, 3, SIDE, SIDE])
        options = (f"--input_shape=data:1,3,{SIDE},{SIDE}", "--insert_op_conf=aipp.cfg")
        model = Model(models.convert(onnx_path, folder / "classifier", *options))
        inputs, outputs = model.inputs(), model.outputs()
        inputs.write(0, picture)
        for left, top, scale in ((0, 0, 1 / 128), (32, 16, 1 / 128), (16, 8, 1 / 64)):
            set_dynamic_aipp(model, inputs, left, top, scale)
            check(acl.mdl.execute(model.id, inputs.handle, outputs.handle))
            wanted = models.reference(onnx_path, data=expected_input(picture, left, top, scale))
            compare(f"crop at {left},{top}, scale {scale:g}", outputs.read(0, (1, 10)), wanted, tolerance=1e-3)
        inputs.destroy()
        outputs.destroy()
        model.unload()


if __name__ == "__main__":
    main()
