"""Words of single-operator files: formats and data types, with the numbers that stand in file names."""

from __future__ import annotations

from softnpu.base.dtypes import DType, TensorFormat

FORMATS = (
    "NCHW", "NHWC", "ND", "NC1HWC0", "FRACTAL_Z", "NC1C0HWPAD", "NHWC1C0", "FSR_NCHW", "FRACTAL_DECONV", "C1HWNC0",
    "FRACTAL_DECONV_TRANSPOSE", "FRACTAL_DECONV_SP_STRIDE_TRANS", "NC1HWC0_C04", "FRACTAL_Z_C04", "CHWN",
    "FRACTAL_DECONV_SP_STRIDE8_TRANS", "HWCN", "NC1KHKWHWC0", "BN_WEIGHT", "FILTER_HWCK", "HASHTABLE_LOOKUP_LOOKUPS",
    "HASHTABLE_LOOKUP_KEYS", "HASHTABLE_LOOKUP_VALUE", "HASHTABLE_LOOKUP_OUTPUT", "HASHTABLE_LOOKUP_HITS", "C1HWNCOC0", "MD",
    "NDHWC", "FRACTAL_ZZ", "FRACTAL_NZ", "NCDHW", "DHWCN", "NDC1HWC0", "FRACTAL_Z_3D", "CN", "NC", "DHWNC",
    "FRACTAL_Z_3D_TRANSPOSE", "FRACTAL_ZN_LSTM", "FRACTAL_Z_G", "RESERVED", "ALL", "NULL", "ND_RNN_BIAS", "FRACTAL_ZN_RNN",
)  # fmt: skip
FORMAT_NUMBERS = {name: number for number, name in enumerate(FORMATS)}
ND, RESERVED = TensorFormat.ND, 40

UNDEFINED = DType.UNDEFINED  # the aclDataType of an absent input
UNDEFINED_IN_NAMES = 28  # what file names have for it
_BY_NUMBER = {
    0: ("float", "float32", "fp32"), 1: ("float16", "half", "fp16"), 2: ("int8",), 3: ("int32",), 4: ("uint8",), 6: ("int16",),
    7: ("uint16",), 8: ("uint32",), 9: ("int64",), 10: ("uint64",), 11: ("double", "float64"), 12: ("bool",), 13: ("string",),
    16: ("complex64",), 17: ("complex128",), 27: ("bfloat16", "bf16"), 29: ("int4",), 30: ("uint1",), 33: ("complex32",),
    34: ("hifloat8",), 35: ("float8_e5m2",), 36: ("float8_e4m3fn",), 37: ("float8_e8m0",), 38: ("float6_e3m2",),
    39: ("float6_e2m3",), 40: ("float4_e2m1",), 41: ("float4_e1m2",), UNDEFINED: ("undefined",),
}  # fmt: skip
DTYPE_NUMBERS = {name: number for number, words in _BY_NUMBER.items() for name in words}


def format_word(number: int) -> str:
    """The word of a format, ND where the number has none."""
    return FORMATS[number] if 0 <= number < len(FORMATS) else "ND"
