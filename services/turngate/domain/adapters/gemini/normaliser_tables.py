"""The words of the Gemini stream, as data. Everything else in it is unknown."""

from __future__ import annotations

from collections.abc import Mapping

from turngate.domain.stream.operations import BlockKind, DeltaField, ErrorClass, StopClass

UNSPECIFIED = frozenset[object]({None, "", 0, "FINISH_REASON_UNSPECIFIED"})
"""The default of the enumeration: no reason has been given."""

STOPS: Mapping[str, StopClass] = {
    "STOP": "complete",
    "MAX_TOKENS": "truncated",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "LANGUAGE": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "IMAGE_SAFETY": "filtered",
    "IMAGE_PROHIBITED_CONTENT": "filtered",
    "IMAGE_RECITATION": "filtered",
    "ESCALATION": "filtered",
    "MODEL_ARMOR": "filtered",
    "CONTINUATION": "paused",
    "OTHER": "error",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
    "MALFORMED_RESPONSE": "error",
    "IMAGE_OTHER": "error",
    "NO_IMAGE": "error",
    "PUP_LIMITED_DISABLED": "error",
}
"""There is no word for tool calls: STOP beside a functionCall is class tool_calls."""

STOP_NUMBERS: Mapping[int, StopClass] = {
    1: "complete",
    2: "truncated",
    3: "filtered",
    4: "filtered",
    5: "error",
    6: "filtered",
    7: "filtered",
    8: "filtered",
    11: "filtered",
}
"""With `enum-encoding=int`. The Developer API and Vertex number differently from 6 on; only numbers of one class in
both are here, and every other one is class unknown."""

BLOCK_REASONS: Mapping[object, StopClass] = {
    "SAFETY": "filtered",
    "OTHER": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "IMAGE_SAFETY": "filtered",
    "MODEL_ARMOR": "filtered",
    "JAILBREAK": "filtered",
    1: "filtered",
    2: "filtered",
    3: "filtered",
    4: "filtered",
    5: "filtered",
    6: "filtered",
}
"""`promptFeedback.blockReason`, as word and as number."""

REQUEST_DEFECTS = frozenset({"MISSING_THOUGHT_SIGNATURE"})
"""Error stops that the same bytes would meet again."""

ERROR_CLASSES: Mapping[object, ErrorClass] = {
    "INVALID_ARGUMENT": "invalid_request",
    "FAILED_PRECONDITION": "invalid_request",
    "OUT_OF_RANGE": "invalid_request",
    "NOT_FOUND": "invalid_request",
    "UNAUTHENTICATED": "auth",
    "PERMISSION_DENIED": "auth",
    400: "invalid_request",
    404: "invalid_request",
    401: "auth",
    403: "auth",
}
"""In-stream errors by `status`, else by `code`; all others may be retried."""

CHUNK_KEYS = frozenset(
    {"candidates", "usageMetadata", "modelVersion", "responseId", "createTime", "promptFeedback", "modelStatus"}
)

CANDIDATE_KEYS = frozenset({"content", "finishReason", "index"})
CANDIDATE_IGNORABLE = frozenset({"safetyRatings", "finishMessage", "tokenCount", "avgLogprobs"})

CANDIDATE_KEPT: Mapping[str, DeltaField] = {
    "citationMetadata": "citation",
    "groundingMetadata": "citation",
    "groundingAttributions": "citation",
    "urlContextMetadata": "citation",
    "logprobsResult": "part",
    "continuationToken": "part",
}
"""Kept verbatim, each as an object of its own key: with the text it belongs to, else as a block of its own."""

CONTENT_KEYS = frozenset({"parts", "role"})

PART_KINDS: Mapping[str, BlockKind] = {
    "executableCode": "server_tool_call",
    "codeExecutionResult": "server_tool_result",
    "toolCall": "server_tool_call",
    "toolResponse": "server_tool_result",
    "inlineData": "image",
    "fileData": "image",
}
"""Parts kept verbatim as a block. Data that is no image becomes a document."""

PART_BESIDE = frozenset(
    {
        "thought",
        "thoughtSignature",
        "partMetadata",
        "mediaResolution",
        "videoMetadata",
        "audioTranscription",
        "mediaProcessing",
        "speechMetadata",
        "documentMetadata",
        "spreadsheetMetadata",
        "audioMetadata",
    }
)
"""Fields beside the one that says what a part is."""

CALL_KEYS = frozenset({"name", "id", "args", "partialArgs", "willContinue"})

MINTED = "minted-"
"""Begins the id of a call that came without one: `minted-<responseId>-<n>`, n counting the calls of the response from
0. The API pairs such calls by order; the id is never sent back."""
