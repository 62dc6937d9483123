"""Tables of Caffe's messages: BVLC's caffe.proto, and the layers that atc adds to it.

The prototxt is read by `NET` as text; of the weights only names and blobs are wanted, so `WEIGHTS` leaves the rest out and
keeps blobs as bytes, of which `BLOB` makes views.
"""

from __future__ import annotations

from softnpu.graph.wire import Message

_ENGINE = {"DEFAULT": 0, "CAFFE": 1, "CUDNN": 2}
_POOL = {"MAX": 0, "AVE": 1, "STOCHASTIC": 2}
_PHASE = {"TRAIN": 0, "TEST": 1}

SHAPE = Message("BlobShape").add(dim=(1, "int64", True))
_TEXT_BLOB = Message("BlobProto").add(
    num=(1, "int32"), channels=(2, "int32"), height=(3, "int32"), width=(4, "int32"), data=(5, "float", True), diff=(6, "float", True),
    shape=(7, SHAPE), double_data=(8, "double", True), double_diff=(9, "double", True),
)  # fmt: skip
_FILLER = Message("FillerParameter").add(
    type=(1, "string"), value=(2, "float"), min=(3, "float"), max=(4, "float"), mean=(5, "float"), std=(6, "float"), sparse=(7, "int32"),
    variance_norm=(8, {"FAN_IN": 0, "FAN_OUT": 1, "AVERAGE": 2}),
)  # fmt: skip
_STATE = Message("NetState").add(phase=(1, _PHASE), level=(2, "int32"), stage=(3, "string", True))
_RULE = Message("NetStateRule").add(
    phase=(1, _PHASE),
    min_level=(2, "int32"),
    max_level=(3, "int32"),
    stage=(4, "string", True),
    not_stage=(5, "string", True),
)
_PARAM = Message("ParamSpec").add(
    name=(1, "string"), share_mode=(2, {"STRICT": 0, "PERMISSIVE": 1}), lr_mult=(3, "float"), decay_mult=(4, "float")
)
LAYER = Message("LayerParameter").add(
    name=(1, "string"), type=(2, "string"), bottom=(3, "string", True), top=(4, "string", True), loss_weight=(5, "float", True),
    param=(6, _PARAM, True), blobs=(7, _TEXT_BLOB, True), include=(8, _RULE, True), exclude=(9, _RULE, True), phase=(10, _PHASE),
    propagate_down=(11, "bool", True),
)  # fmt: skip

# ---- layers that only training knows; they are read so that a training prototxt does not fail ----------------------------

LAYER.add(
    transform_param=(100, Message("TransformationParameter").add(
        scale=(1, "float"), mirror=(2, "bool"), crop_size=(3, "uint32"), mean_file=(4, "string"), mean_value=(5, "float", True),
        force_color=(6, "bool"), force_gray=(7, "bool"))),
    loss_param=(101, Message("LossParameter").add(
        ignore_label=(1, "int32"), normalize=(2, "bool"), normalization=(3, {"FULL": 0, "VALID": 1, "BATCH_SIZE": 2, "NONE": 3}))),
    accuracy_param=(102, Message("AccuracyParameter").add(top_k=(1, "uint32"), axis=(2, "int32"), ignore_label=(3, "int32"))),
    contrastive_loss_param=(105, Message("ContrastiveLossParameter").add(margin=(1, "float"), legacy_version=(2, "bool"))),
    data_param=(107, Message("DataParameter").add(
        source=(1, "string"), scale=(2, "float"), mean_file=(3, "string"), batch_size=(4, "uint32"), crop_size=(5, "uint32"), mirror=(6, "bool"),
        rand_skip=(7, "uint32"), backend=(8, {"LEVELDB": 0, "LMDB": 1}), force_encoded_color=(9, "bool"), prefetch=(10, "uint32"))),
    hdf5_data_param=(112, Message("HDF5DataParameter").add(source=(1, "string"), batch_size=(2, "uint32"), shuffle=(3, "bool"))),
    hdf5_output_param=(113, Message("HDF5OutputParameter").add(file_name=(1, "string"))),
    hinge_loss_param=(114, Message("HingeLossParameter").add(norm=(1, {"L1": 1, "L2": 2}))),
    image_data_param=(115, Message("ImageDataParameter").add(
        source=(1, "string"), scale=(2, "float"), mean_file=(3, "string"), batch_size=(4, "uint32"), crop_size=(5, "uint32"), mirror=(6, "bool"),
        rand_skip=(7, "uint32"), shuffle=(8, "bool"), new_height=(9, "uint32"), new_width=(10, "uint32"), is_color=(11, "bool"),
        root_folder=(12, "string"))),
    infogain_loss_param=(116, Message("InfogainLossParameter").add(source=(1, "string"), axis=(2, "int32"))),
    memory_data_param=(119, Message("MemoryDataParameter").add(
        batch_size=(1, "uint32"), channels=(2, "uint32"), height=(3, "uint32"), width=(4, "uint32"))),
    window_data_param=(129, Message("WindowDataParameter").add(
        source=(1, "string"), scale=(2, "float"), mean_file=(3, "string"), batch_size=(4, "uint32"), crop_size=(5, "uint32"), mirror=(6, "bool"),
        fg_threshold=(7, "float"), bg_threshold=(8, "float"), fg_fraction=(9, "float"), context_pad=(10, "uint32"), crop_mode=(11, "string"),
        cache_images=(12, "bool"), root_folder=(13, "string"))),
    python_param=(130, Message("PythonParameter").add(
        module=(1, "string"), layer=(2, "string"), param_str=(3, "string"), share_in_parallel=(4, "bool"))),
)  # fmt: skip

# ---- BVLC's layers -------------------------------------------------------------------------------------------------------

LAYER.add(
    argmax_param=(103, Message("ArgMaxParameter").add(out_max_val=(1, "bool"), top_k=(2, "uint32"), axis=(3, "int32"))),
    concat_param=(104, Message("ConcatParameter").add(concat_dim=(1, "uint32"), axis=(2, "int32"))),
    convolution_param=(106, Message("ConvolutionParameter").add(
        num_output=(1, "uint32"), bias_term=(2, "bool"), pad=(3, "uint32", True), kernel_size=(4, "uint32", True), group=(5, "uint32"),
        stride=(6, "uint32", True), weight_filler=(7, _FILLER), bias_filler=(8, _FILLER), pad_h=(9, "uint32"), pad_w=(10, "uint32"),
        kernel_h=(11, "uint32"), kernel_w=(12, "uint32"), stride_h=(13, "uint32"), stride_w=(14, "uint32"), engine=(15, _ENGINE),
        axis=(16, "int32"), force_nd_im2col=(17, "bool"), dilation=(18, "uint32", True))),
    dropout_param=(108, Message("DropoutParameter").add(dropout_ratio=(1, "float"), scale_train=(2, "bool"))),
    dummy_data_param=(109, Message("DummyDataParameter").add(
        data_filler=(1, _FILLER, True), num=(2, "uint32", True), channels=(3, "uint32", True), height=(4, "uint32", True),
        width=(5, "uint32", True), shape=(6, SHAPE, True))),
    eltwise_param=(110, Message("EltwiseParameter").add(
        operation=(1, {"PROD": 0, "SUM": 1, "MAX": 2}), coeff=(2, "float", True), stable_prod_grad=(3, "bool"))),
    exp_param=(111, Message("ExpParameter").add(base=(1, "float"), scale=(2, "float"), shift=(3, "float"))),
    inner_product_param=(117, Message("InnerProductParameter").add(
        num_output=(1, "uint32"), bias_term=(2, "bool"), weight_filler=(3, _FILLER), bias_filler=(4, _FILLER), axis=(5, "int32"),
        transpose=(6, "bool"))),
    lrn_param=(118, Message("LRNParameter").add(
        local_size=(1, "uint32"), alpha=(2, "float"), beta=(3, "float"), norm_region=(4, {"ACROSS_CHANNELS": 0, "WITHIN_CHANNEL": 1}),
        k=(5, "float"), engine=(6, _ENGINE))),
    mvn_param=(120, Message("MVNParameter").add(normalize_variance=(1, "bool"), across_channels=(2, "bool"), eps=(3, "float"))),
    pooling_param=(121, Message("PoolingParameter").add(
        pool=(1, _POOL), kernel_size=(2, "uint32"), stride=(3, "uint32"), pad=(4, "uint32"), kernel_h=(5, "uint32"), kernel_w=(6, "uint32"),
        stride_h=(7, "uint32"), stride_w=(8, "uint32"), pad_h=(9, "uint32"), pad_w=(10, "uint32"), engine=(11, _ENGINE),
        global_pooling=(12, "bool"), round_mode=(13, {"CEIL": 0, "FLOOR": 1}), ceil_mode=(14, "bool"))),
    power_param=(122, Message("PowerParameter").add(power=(1, "float"), scale=(2, "float"), shift=(3, "float"))),
    relu_param=(123, Message("ReLUParameter").add(negative_slope=(1, "float"), engine=(2, _ENGINE))),
    sigmoid_param=(124, Message("SigmoidParameter").add(engine=(1, _ENGINE))),
    softmax_param=(125, Message("SoftmaxParameter").add(engine=(1, _ENGINE), axis=(2, "int32"))),
    slice_param=(126, Message("SliceParameter").add(slice_dim=(1, "uint32"), slice_point=(2, "uint32", True), axis=(3, "int32"))),
    tanh_param=(127, Message("TanHParameter").add(engine=(1, _ENGINE))),
    threshold_param=(128, Message("ThresholdParameter").add(threshold=(1, "float"))),
    prelu_param=(131, Message("PReLUParameter").add(filler=(1, _FILLER), channel_shared=(2, "bool"))),
    spp_param=(132, Message("SPPParameter").add(pyramid_height=(1, "uint32"), pool=(2, _POOL), engine=(6, _ENGINE))),
    reshape_param=(133, Message("ReshapeParameter").add(shape=(1, SHAPE), axis=(2, "int32"), num_axes=(3, "int32"))),
    log_param=(134, Message("LogParameter").add(base=(1, "float"), scale=(2, "float"), shift=(3, "float"))),
    flatten_param=(135, Message("FlattenParameter").add(axis=(1, "int32"), end_axis=(2, "int32"))),
    reduction_param=(136, Message("ReductionParameter").add(
        operation=(1, {"SUM": 1, "ASUM": 2, "SUMSQ": 3, "MEAN": 4}), axis=(2, "int32"), coeff=(3, "float"))),
    embed_param=(137, Message("EmbedParameter").add(
        num_output=(1, "uint32"), input_dim=(2, "uint32"), bias_term=(3, "bool"), weight_filler=(4, _FILLER), bias_filler=(5, _FILLER))),
    tile_param=(138, Message("TileParameter").add(axis=(1, "int32"), tiles=(2, "int32"))),
    batch_norm_param=(139, Message("BatchNormParameter").add(
        use_global_stats=(1, "bool"), moving_average_fraction=(2, "float"), eps=(3, "float"))),
    elu_param=(140, Message("ELUParameter").add(alpha=(1, "float"))),
    bias_param=(141, Message("BiasParameter").add(axis=(1, "int32"), num_axes=(2, "int32"), filler=(3, _FILLER))),
    scale_param=(142, Message("ScaleParameter").add(
        axis=(1, "int32"), num_axes=(2, "int32"), filler=(3, _FILLER), bias_term=(4, "bool"), bias_filler=(5, _FILLER))),
    input_param=(143, Message("InputParameter").add(shape=(1, SHAPE, True))),
    crop_param=(144, Message("CropParameter").add(axis=(1, "int32"), offset=(2, "uint32", True))),
    parameter_param=(145, Message("ParameterParameter").add(shape=(1, SHAPE))),
    recurrent_param=(146, Message("RecurrentParameter").add(
        num_output=(1, "uint32"), weight_filler=(2, _FILLER), bias_filler=(3, _FILLER), debug_info=(4, "bool"), expose_hidden=(5, "bool"))),
    swish_param=(147, Message("SwishParameter").add(beta=(1, "float"))),
    clip_param=(148, Message("ClipParameter").add(min=(1, "float"), max=(2, "float"))),
)  # fmt: skip

# ---- layers of other Caffes that atc knows ---------------------------------------------------------------------------------

_NMS = Message("NonMaximumSuppressionParameter").add(nms_threshold=(1, "float"), top_k=(2, "int32"), eta=(3, "float"))
_CODE = {"CORNER": 1, "CENTER_SIZE": 2, "CORNER_SIZE": 3}
_YOLO_OUT: dict[str, tuple[int, str] | tuple[int, str, bool]] = {
    "boxes": (1, "uint32"), "classes": (2, "uint32"), "relative": (3, "bool"), "obj_threshold": (4, "float"), "score_threshold": (5, "float"),
    "iou_threshold": (6, "float"), "pre_nms_topn": (7, "uint32"), "post_nms_topn": (8, "uint32"), "coords": (12, "uint32"),
}  # fmt: skip
LAYER.add(
    detection_output_param=(150, Message("DetectionOutputParameter").add(
        num_classes=(1, "uint32"), share_location=(2, "bool"), background_label_id=(3, "int32"), nms_param=(4, _NMS), code_type=(6, _CODE),
        keep_top_k=(7, "int32"), variance_encoded_in_target=(8, "bool"), confidence_threshold=(9, "float"))),
    roi_align_param=(154, Message("ROIAlignParameter").add(
        pooled_h=(1, "int32"), pooled_w=(2, "int32"), spatial_scale=(3, "float"), sampling_ratio=(4, "int32"), roi_end_mode=(5, "int32"))),
    reorg_param=(155, Message("ReorgParameter").add(reverse=(1, "bool"), stride=(2, "uint32"))),
    reverse_param=(157, Message("ReverseParameter").add(axis=(1, "int32", True))),
    interp_param=(158, Message("InterpParameter").add(
        height=(1, "int32"), width=(2, "int32"), zoom_factor=(3, "int32"), shrink_factor=(4, "int32"), pad_beg=(5, "int32"), pad_end=(6, "int32"))),
    shuffle_channel_param=(159, Message("ShuffleChannelParameter").add(group=(1, "uint32"))),
    upsample_param=(160, Message("UpsampleParameter").add(
        scale=(1, "float"), stride=(2, "int32"), stride_h=(3, "int32"), stride_w=(4, "int32"))),
    roi_pooling_param=(161, Message("ROIPoolingParameter").add(
        pooled_h=(1, "int32"), pooled_w=(2, "int32"), spatial_scale=(3, "float"), spatial_scale_h=(4, "float"), spatial_scale_w=(5, "float"))),
    yolo_param=(199, Message("YoloParameter").add(
        boxes=(1, "int32"), coords=(2, "int32"), classes=(3, "int32"), yolo_version=(4, "string"), softmax=(5, "bool"), background=(6, "bool"),
        softmaxtree=(7, "bool"))),
    yolov3_detection_output_param=(200, Message("YoloV3DetectionOutputParameter").add(
        **_YOLO_OUT, biases_high=(9, "float", True), biases_mid=(10, "float", True), biases_low=(11, "float", True),
        resize_origin_img_to_net=(13, "bool"))),
    proposal_param=(201, Message("ProposalParameter").add(
        feat_stride=(1, "float"), base_size=(2, "float"), min_size=(3, "float"), ratio=(4, "float", True), scale=(5, "float", True),
        pre_nms_topn=(6, "int32"), post_nms_topn=(7, "int32"), iou_threshold=(8, "float"), output_actual_rois_num=(9, "bool"))),
    permute_param=(202, Message("PermuteParameter").add(order=(1, "uint32", True))),
    prior_box_param=(203, Message("PriorBoxParameter").add(
        min_size=(1, "float", True), max_size=(2, "float", True), aspect_ratio=(3, "float", True), flip=(4, "bool"), clip=(5, "bool"),
        variance=(6, "float", True), img_size=(7, "uint32"), img_h=(8, "uint32"), img_w=(9, "uint32"), step=(10, "float"), step_h=(11, "float"),
        step_w=(12, "float"), offset=(13, "float"))),
    yolov2_detection_output_param=(204, Message("YoloV2DetectionOutputParameter").add(**_YOLO_OUT, biases=(9, "float", True))),
    norm_param=(206, Message("NormalizeParameter").add(
        across_spatial=(1, "bool"), scale_filler=(2, _FILLER), channel_shared=(3, "bool"), eps=(4, "float"))),
    psroi_pooling_param=(207, Message("PSROIPoolingParameter").add(spatial_scale=(1, "float"), output_dim=(2, "int32"), group_size=(3, "int32"))),
    matrix_inverse_param=(210, Message("MatrixInverseParameter").add(adjoint=(1, "bool"))),
    ssddetectionoutput_param=(232, Message("SSDDetectionOutputParameter").add(
        num_classes=(1, "int32"), share_location=(2, "bool"), background_label_id=(3, "int32"), iou_threshold=(4, "float"), top_k=(5, "int32"),
        eta=(6, "float"), variance_encoded_in_target=(7, "bool"), code_type=(8, "int32"), keep_top_k=(9, "int32"),
        confidence_threshold=(10, "float"))),
    batch_matmul_param=(235, Message("BatchMatMulParameter").add(adj_x1=(1, "bool"), adj_x2=(2, "bool"))),
    continuation_indicator_param=(5002, Message("ContinuationIndicatorParameter").add(time_step=(1, "int32"), batch_size=(2, "int32"))),
)  # fmt: skip

NET = Message("NetParameter").add(
    name=(1, "string"), input=(3, "string", True), input_dim=(4, "int32", True), force_backward=(5, "bool"), state=(6, _STATE),
    debug_info=(7, "bool"), input_shape=(8, SHAPE, True), layer=(100, LAYER, True),
)  # fmt: skip
# Enough of a net to see whether it is written in the old manner.
OLD_NET = Message("NetParameter").add(layers=(2, Message("V1LayerParameter"), True))

# ---- the weights -----------------------------------------------------------------------------------------------------------

WEIGHTS = Message("NetParameter").add(layers=(2, "bytes", True), layer=(100, "bytes", True))
WEIGHTS_LAYER = Message("LayerParameter").add(name=(1, "string"), type=(2, "string"), blobs=(7, "bytes", True))
_BLOB_DIMS = {
    "num": (1, "int32"), "channels": (2, "int32"), "height": (3, "int32"), "width": (4, "int32"), "shape": (7, SHAPE),
    "raw_data_type": (10, "enum"), "raw_data": (12, "bytes"),
}  # fmt: skip
BLOB = Message("BlobProto").add(**_BLOB_DIMS, data=(5, "bytes", True), double_data=(8, "bytes", True))
# For writers that do not pack: a field a number.
BLOB_UNPACKED = Message("BlobProto").add(**_BLOB_DIMS, data=(5, "float", True), double_data=(8, "double", True))
