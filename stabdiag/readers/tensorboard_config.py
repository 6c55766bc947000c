"""What event files tell of a run's configuration: hyper-parameters, and texts that hold some."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# Longer lines are prose or samples of the model, no setting.
_LONGEST_VALUE: Final = 200

_SUFFIX: Final = "/text_summary"
_CODE: Final = re.compile(r"\A\s*```\w*\n(.*)\n\s*```\s*\Z", re.DOTALL)


def told(value: Any) -> Mapping[str, object]:
    """Return the settings that a summary value of the plugins ``text`` or ``hparams`` tells."""
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
    """Read a JSON object of settings, or a text that is the value of one (``lr``: ``0.0003``)."""
    code = _CODE.match(text)
    text = (code.group(1) if code else text).strip()
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}
    return {name: text} if len(text) <= _LONGEST_VALUE and "\n" not in text else {}
