"""WebGPU, a plugin: any GPU with a Vulkan, Metal or Direct3D 12 driver."""

from .provider import Provider

WEBGPU = Provider(
    "WebGpuExecutionProvider",
    rank=2,
    # Without enableGraphCapture: version 0.4 leaves copies between buffers out of a captured graph, and the outputs
    # then keep their old contents.
    option_keys="""preferredLayout dawnBackendType deviceId storageBufferCacheMode uniformBufferCacheMode
        queryResolveBufferCacheMode defaultBufferCacheMode validationMode forceCpuNodeNames preserveDevice
        powerPreference""",
    memory="webgpu",
    worth_trying=(("preferredLayout", "NCHW"), ("preferredLayout", "NHWC")),
    # The plugin encodes the commands, copies and allocations of all its sessions with one encoder; two threads in it
    # cause wrong results.
    shares_lock=True,
    is_sequential=True,
    is_software_on_cpu=True,
)
