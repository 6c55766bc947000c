"""The configuration in event files: hyper-parameters, and texts with settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from stabdiag.readers.nested import record_in

if TYPE_CHECKING:
    from collections.abc import Mapping

# A longer text is prose or a sample from the model, no setting.
_LONGEST_VALUE: Final = 200

_SUFFIX: Final = "/text_summary"
_CODE: Final = re.compile(r"\A\s*```\w*\n(.*)\n\s*```\s*\Z", re.DOTALL)


def told(value: Any) -> Mapping[str, object]:
    """Return the settings in a summary value of the plugin ``text`` or ``hparams``."""
    content = value.metadata.plugin_data.content
    if value.metadata.plugin_data.plugin_name == "hparams":
        return _hyper_parameters(content)
    if len(value.tensor.string_val) != 1:
        return {}
    text = value.tensor.string_val[0].decode("utf-8", "replace")
    return _of_text(value.tag.removesuffix(_SUFFIX), text)


def _hyper_parameters(content: bytes) -> Mapping[str, object]:
    from google.protobuf.message import DecodeError
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    try:
        started = HParamsPluginData.FromString(content).session_start_info
    except DecodeError:
        return {}
    return {
        name: getattr(one, kind)
        for name, one in started.hparams.items()
        if (kind := one.WhichOneof("kind")) in ("number_value", "string_value", "bool_value")
    }


def _of_text(name: str, text: str) -> Mapping[str, object]:
    """Read a JSON object of settings, or a text that is the value of one setting."""
    code = _CODE.match(text)
    text = (code.group(1) if code else text).strip()
    if text.startswith("{"):
        return record_in(text)
    return {name: text} if len(text) <= _LONGEST_VALUE and "\n" not in text else {}
