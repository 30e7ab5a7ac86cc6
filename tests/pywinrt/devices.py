"""Runs a model on each kind of device that pywinrt 2 names: python devices.py MODEL."""

import sys

import numpy as np
from winrt.windows.ai.machinelearning import (
    ILearningModelOperatorProvider,
    LearningModel,
    LearningModelBinding,
    LearningModelDevice,
    LearningModelDeviceKind,
    LearningModelSession,
    LearningModelSessionOptions,
    TensorFloat,
)


def direct3d_device():
    for kind in (LearningModelDeviceKind.DIRECT_X_HIGH_PERFORMANCE, LearningModelDeviceKind.CPU):
        try:
            return LearningModelDevice(kind).direct3_d11_device
        except OSError:
            pass
    return None


def main(path: str) -> None:
    model = LearningModel.load_from_file_path_with_operator_provider(path, None)
    options = LearningModelSessionOptions._from(LearningModelSessionOptions())
    options.as_(LearningModelSessionOptions).batch_size_override = 1
    values = np.arange(6, dtype=np.float32)
    kinds = (
        LearningModelDeviceKind.DEFAULT,
        LearningModelDeviceKind.CPU,
        LearningModelDeviceKind.DIRECT_X,
        LearningModelDeviceKind.DIRECT_X_HIGH_PERFORMANCE,
        LearningModelDeviceKind.DIRECT_X_MIN_POWER,
    )
    for kind in kinds:
        try:
            session = LearningModelSession(model, LearningModelDevice(kind), options)
        except OSError as error:
            print(kind.value, hex(error.winerror & 0xFFFFFFFF))
            continue
        binding = LearningModelBinding(session)
        binding.bind("x", TensorFloat.create_from_array([2, 3], values.flatten().tolist()))
        results = session.evaluate(binding, "")
        print(kind.value, list(TensorFloat._from(results.outputs.lookup("y")).get_as_vector_view()))
    print(direct3d_device())
    try:
        LearningModelDevice.create_from_direct3_d11_device(None)
    except OSError as error:
        print(hex(error.winerror & 0xFFFFFFFF))

    class Provider(ILearningModelOperatorProvider):
        pass

    try:
        LearningModel.load_from_file_path(path, Provider())
    except OSError as error:
        print(hex(error.winerror & 0xFFFFFFFF))


main(sys.argv[1])
