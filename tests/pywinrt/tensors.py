"""Tensors without pictures, several evaluations at once: python tensors.py MODEL."""

import array
import asyncio
import sys

from winrt.runtime import ApartmentType, init_apartment
from winrt.system import Array, Int64, Single
from winrt.windows.ai.machinelearning import (
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    TensorFeatureDescriptor,
    TensorFloat,
    TensorInt64Bit,
    TensorKind,
    TensorString,
)
from winrt.windows.storage.streams import (
    DataReader,
    DataWriter,
    InMemoryRandomAccessStream,
    RandomAccessStreamReference,
)


async def load(path: str) -> LearningModel:
    stream = InMemoryRandomAccessStream()
    writer = DataWriter(stream)
    with open(path, "rb") as file:
        writer.write_bytes(file.read())
    await writer.store_async()
    await writer.flush_async()
    writer.detach_stream()
    reader = DataReader(stream.get_input_stream_at(0))
    await reader.load_async(stream.size)
    copy = bytearray(reader.unconsumed_buffer_length)
    reader.read_bytes(copy)
    print(len(copy) == stream.size)
    return await LearningModel.load_from_stream_async(RandomAccessStreamReference.create_from_stream(stream))


async def main(path: str) -> None:
    model = await load(path)
    for feature in model.input_features:
        assert isinstance(feature, TensorFeatureDescriptor)
        print(feature.name, TensorKind(feature.tensor_kind).name, list(feature.shape), feature.is_required)
    session = LearningModelSession(model)

    async def double(values: list[float]) -> list[float]:
        binding = LearningModelBinding(session)
        binding.bind("x", TensorFloat.create_from_array([1, 3], Array(Single, values)))
        binding.bind("n", TensorInt64Bit.create_from_iterable([1], [2]))
        binding.bind("words", TensorString.create_from_iterable([2], ["a", "b"]))
        results = await session.evaluate_async(binding, "")
        product = results.outputs["product"]
        assert isinstance(product, TensorFloat)
        return list(product.get_as_vector_view())

    print(await asyncio.gather(*(double([i, i + 0.5, i + 1.0]) for i in range(4))))

    shared = array.array("f", [1, 2, 3])
    tensor = TensorFloat.create_from_buffer(Array(Int64, [1, 3]), shared)
    shared[0] = 10
    words = TensorString.create_from_iterable([2], ["c", "d"])
    results = session.evaluate_features_async(
        {"x": tensor, "n": TensorInt64Bit.create_from_array([1], array.array("q", [3])), "words": words}, "map"
    ).get()
    product, same = results.outputs["product"], results.outputs["same_words"]
    assert isinstance(product, TensorFloat)
    assert isinstance(same, TensorString)
    print(list(product.get_as_vector_view()), list(same.get_as_vector_view()), results.correlation_id)

    try:
        LearningModelBinding(session).bind("y", tensor)
    except OSError as error:
        print(hex(error.winerror & 0xFFFFFFFF))
    session.close()
    try:
        LearningModelBinding(session)
    except OSError as error:
        print(hex(error.winerror & 0xFFFFFFFF))


init_apartment(ApartmentType.MULTI_THREADED)
asyncio.run(main(sys.argv[1]))
