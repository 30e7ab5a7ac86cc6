"""Written as C# programs are translated, with WinRT's names for vectors and maps: python translated.py MODEL."""

import sys

from winrt.windows.ai.machinelearning import (
    LearningModel,
    LearningModelBinding,
    LearningModelSession,
    SequenceFeatureDescriptor,
    TensorFeatureDescriptor,
    TensorFloat,
    TensorInt64Bit,
)


def main(path: str) -> None:
    model = LearningModel.load_from_file_path(path)
    features = model.input_features.first()
    source = features.current.as_(TensorFeatureDescriptor)
    print(source.name, source.shape.size, source.shape.get_at(0), source.shape.get_at(1), features.move_next())
    targets = model.output_features
    for i in range(targets.size):
        print(targets.get_at(i).name, targets.get_at(i).kind.name)
    assert isinstance(targets.get_at(1), SequenceFeatureDescriptor)

    session = LearningModelSession(model)
    binding = LearningModelBinding(session)
    tensor = TensorFloat.create_from_iterable([2, source.shape.get_at(1)], [0.5, 0.25, 0.125, 1.0, 3.0, 2.0])
    binding.bind(source.name, tensor)
    print(tensor.shape.get_at(0), tensor.shape.index_of(3), binding.first().current.key)
    outputs = session.evaluate(binding, "").outputs

    best = TensorInt64Bit._from(outputs.lookup("best")).get_as_vector_view()
    print(best.size, best.get_at(0), best.index_of(1), best.index_of(7))
    rows = outputs.lookup("scores")
    for i in range(rows.size):
        row = rows.get_at(i)
        pairs = row.first()
        found = []
        while pairs.has_current:
            pair = pairs.current
            found.append(f"{pair.key}={pair.value}")
            pairs.move_next()
        print(row.size, row.has_key("cat"), row.has_key("cow"), row.lookup("dog"), *found)
    try:
        rows.get_at(2)
    except OSError as error:
        print(hex(error.winerror & 0xFFFFFFFF))
    try:
        rows.get_at(0).lookup("cow")
    except OSError as error:
        print(hex(error.winerror & 0xFFFFFFFF))


main(sys.argv[1])
