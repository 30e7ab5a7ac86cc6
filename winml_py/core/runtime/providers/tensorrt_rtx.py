"""TensorRT for RTX, a plugin. It takes only the host's memory."""

from .provider import Provider

TENSORRT_RTX = Provider(
    "NvTensorRTRTXExecutionProvider",
    rank=1,
    option_keys="""device_id nv_max_workspace_size nv_max_shared_mem_size nv_dump_subgraphs nv_detailed_build_log
        nv_profile_min_shapes nv_profile_max_shapes nv_profile_opt_shapes nv_multi_profile_enable
        enable_cuda_graph nv_runtime_cache_path user_compute_stream""",
    cache_options=lambda folder: {"nv_runtime_cache_path": folder},
)
