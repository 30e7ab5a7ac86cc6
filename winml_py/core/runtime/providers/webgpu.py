"""WebGPU, a plugin: any GPU with a Vulkan, Metal or Direct3D 12 driver."""

from .provider import Provider

WEBGPU = Provider(
    "WebGpuExecutionProvider",
    rank=3,
    option_keys="""preferredLayout enableGraphCapture dawnBackendType deviceId storageBufferCacheMode
        uniformBufferCacheMode queryResolveBufferCacheMode defaultBufferCacheMode validationMode forceCpuNodeNames
        preserveDevice powerPreference""",
    memory="webgpu",
    recording_option="enableGraphCapture",
    records_unasked=True,
    worth_trying=(("preferredLayout", "NCHW"), ("preferredLayout", "NHWC")),
    # The plugin records the commands, copies and allocations of all its sessions with one encoder; two threads in it
    # cause wrong results.
    shares_lock=True,
    is_sequential=True,
    is_software_on_cpu=True,
)
