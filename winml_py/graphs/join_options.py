"""LearningModelJoinOptions: how a model is put after another."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..core.base.arguments import is_text, truth
from ..core.base.winrt_object import Object
from ..errors import InvalidArgumentError
from .values import require_name


class LearningModelJoinOptions(Object):
    """Which outputs of a first model become inputs of a second one, and what else is done.

    Example:
        >>> from winml_py.experimental import LearningModelJoinOptions
        >>> options = LearningModelJoinOptions()
        >>> options.link("scaled", "image")
        >>> options.joined_node_prefix = "classifier."
        >>> dict(options.links)
        {'image': 'scaled'}
    """

    def __init__(self) -> None:
        self._links: dict[str, str] = {}
        self._promotes, self._prefix, self._closes = True, "", False

    def link(self, first_model_output: str, second_model_input: str, /) -> None:
        """Connects an output of the first model to an input of the second; one output may go to several inputs.

        Raises:
            InvalidArgumentError: a name is empty, or the input is linked already.
        """
        source = require_name(first_model_output, "The output of the first model")
        target = require_name(second_model_input, "The input of the second model")
        if self._links.setdefault(target, source) != source:
            raise InvalidArgumentError(
                f"The input {target!r} is linked to {self._links[target]!r} already.", hint="Link each input once."
            )

    @property
    def links(self) -> Mapping[str, str]:
        """What was linked: inputs of the second model, and the outputs they come from."""
        return MappingProxyType(self._links)

    @property
    def promote_unlinked_outputs_to_fused_outputs(self) -> bool:
        """Whether outputs of the first model that nothing is linked to are outputs of the joined one. Default True.

        Linked outputs never are.
        """
        return self._promotes

    @promote_unlinked_outputs_to_fused_outputs.setter
    def promote_unlinked_outputs_to_fused_outputs(self, value: bool) -> None:
        self._promotes = truth(value, "promote_unlinked_outputs_to_fused_outputs")

    @property
    def joined_node_prefix(self) -> str:
        """What the names of the second model begin with in the joined one: nodes, weights, inputs and outputs.

        Default "": they keep their names, unless one is in the first model, too; then a prefix such as `joined1.` is
        chosen.
        """
        return self._prefix

    @joined_node_prefix.setter
    def joined_node_prefix(self, value: str) -> None:
        if not is_text(value):
            raise InvalidArgumentError(f"The prefix is {value!r}.", hint='It is text, "classifier." say.')
        self._prefix = value

    @property
    def close_model_on_join(self) -> bool:
        """Whether both models are disposed of once they are joined. Default False."""
        return self._closes

    @close_model_on_join.setter
    def close_model_on_join(self, value: bool) -> None:
        self._closes = truth(value, "close_model_on_join")
