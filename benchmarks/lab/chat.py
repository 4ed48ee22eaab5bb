"""Cases of Chat Completions that the fixtures of the project do not hold."""

from __future__ import annotations

from benchmarks.lab.cases import (
    DONE,
    FINISH,
    ROLE,
    bad,
    calling,
    chunk,
    good,
    one_call,
    piece,
    text,
)

OSLO = '{"city":"Oslo"}'
BODO = '{"city":"Bodo"}'
FORECAST_OSLO = ("forecast", {"city": "Oslo"})
FORECAST_BODO = ("forecast", {"city": "Bodo"})
USAGE = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
ERROR = text({"error": {"message": "x", "type": "server_error", "code": None}})


def whole(index: int | None, id: str, arguments: str = OSLO, name: str = "forecast") -> str:
    return calling(piece(index, arguments, id=id, name=name))


GOOD = (
    good(
        "chat-calls-in-one-chunk",
        "openai",
        [
            ROLE,
            calling(piece(0, OSLO, id="call_a", name="forecast"), piece(1, BODO, id="call_b", name="forecast")),
            FINISH,
            DONE,
        ],
        [FORECAST_OSLO, FORECAST_BODO],
        "two whole calls in one chunk",
    ),
    good(
        "chat-usage-after-finish",
        "openai",
        one_call(
            "forecast",
            OSLO,
            end=(FINISH, text({"id": "chatcmpl-lab", "object": "chat.completion.chunk", "created": 1, "model": "m",
                               "choices": [], "usage": USAGE}), DONE),
        ),
        [FORECAST_OSLO],
        "a last chunk without choices that counts tokens",
    ),
    good(
        "chat-text-then-call",
        "openai",
        [
            chunk({"role": "assistant", "content": "Let me "}),
            *one_call("forecast", OSLO, first=chunk({"content": "see."})),
        ],
        [FORECAST_OSLO],
        "text before the call",
    ),
    good(
        "chat-escape-divided",
        "openai",
        one_call("transfer", '{"to":"a\\', '"b\\\\', '","cents":1,"memo":"\\u00', 'f8\\', 'n"}'),
        [("transfer", {"to": 'a"b\\', "cents": 1, "memo": "ø\n"})],
        "escapes that are divided between fragments",
    ),
    good(
        "chat-integer-beyond-2-53",
        "openai",
        one_call("transfer", '{"to":"x","cents":90071992', "54740993}"),
        [("transfer", {"to": "x", "cents": 9007199254740993})],
        "an integer that no double holds exactly",
    ),
    good(
        "chat-null-fields",
        "openai",
        [
            chunk({"role": "assistant", "content": None, "refusal": None, "tool_calls": None}),
            *one_call("forecast", OSLO, first=chunk({"content": None, "function_call": None})),
        ],
        [FORECAST_OSLO],
        "every field a delta may have, as null",
    ),
    good(
        "compat-identity-repeated",
        "openai-compat",
        [
            ROLE,
            calling(piece(0, '{"city":', id="call_a", name="forecast")),
            calling(piece(0, '"Oslo"}', id="call_a", name="forecast")),
            FINISH,
            DONE,
        ],
        [FORECAST_OSLO],
        "a server that repeats id and name in every fragment",
    ),
    good(
        "compat-identity-empty",
        "openai-compat",
        [
            ROLE,
            calling(piece(0, '{"city":', id="call_a", name="forecast")),
            calling(piece(0, '"Oslo"}', id="", name="")),
            FINISH,
            DONE,
        ],
        [FORECAST_OSLO],
        "a server that sends empty id and name after the first fragment",
    ),
    good(
        "compat-no-argument-text",
        "openai-compat",
        one_call("now"),
        [("now", {})],
        "a tool without arguments, whose call has no argument text",
    ),
    good(
        "compat-one-index-whole-calls",
        "openai-compat",
        [ROLE, whole(0, "call_a"), whole(0, "call_b", BODO), FINISH, DONE],
        [FORECAST_OSLO, FORECAST_BODO],
        "a server that sends whole calls, all under index 0, each with its own id",
    ),
    good(
        "compat-stop-label",
        "openai-compat",
        [ROLE, whole(0, "call_a"), chunk({}, "stop"), DONE],
        [FORECAST_OSLO],
        "a server that says stop beside a whole call",
    ),
    good(
        "compat-reasoning",
        "openai-compat",
        [chunk({"role": "assistant", "content": "", "reasoning_content": "Hm."}), *one_call("forecast", OSLO)],
        [FORECAST_OSLO],
        "reasoning text before the call",
    ),
)  # fmt: skip

CUT = (
    bad(
        "chat-cut-in-number",
        "openai",
        one_call("transfer", '{"to":"x","cents":12', end=()),
        "the stream ends inside a number: 12 may have become 1250, and no finish reason came",
    ),
    bad(
        "chat-cut-in-text",
        "openai",
        one_call("transfer", '{"to":"x","cents":100,"memo":"do not', end=()),
        "the stream ends inside a text, and no finish reason came",
    ),
    bad(
        "chat-cut-before-arguments",
        "openai",
        one_call("purge", end=()),
        "the stream ends before the first argument, and no finish reason came; every argument of the tool is optional",
    ),
    bad(
        "chat-cut-in-second-call",
        "openai",
        [ROLE, whole(0, "call_a"), calling(piece(1, '{"ci', id="call_b", name="forecast"))],
        "the stream ends in the second of two calls: the turn is not whole",
    ),
    bad(
        "chat-length-in-arguments",
        "openai",
        one_call("transfer", '{"to":"x","cents":12', end=(chunk({}, "length"), DONE)),
        "the token limit cut the arguments",
    ),
    bad(
        "chat-length-before-arguments",
        "openai",
        one_call("purge", end=(chunk({}, "length"), DONE)),
        "the token limit came before the first argument",
    ),
    bad(
        "chat-filter-in-arguments",
        "openai",
        one_call("transfer", '{"to":"x","cents":12', end=(chunk({}, "content_filter"), DONE)),
        "the content filter cut the arguments",
    ),
    bad(
        "chat-unclosed-number",
        "openai",
        one_call("transfer", '{"to":"x","cents":12'),
        "a proper finish, but the arguments end inside a number",
    ),
    bad(
        "chat-error-instead-of-finish",
        "openai",
        one_call("forecast", OSLO, end=(ERROR, DONE)),
        "the provider reports an error where the finish should be",
    ),
)

MIXED = (
    bad(
        "chat-id-changes",
        "openai",
        [ROLE, calling(piece(0, '{"city":"Os', id="call_a", name="forecast")),
         calling({**piece(0, 'lo"}'), "id": "call_b"}), FINISH, DONE],
        "the id of a call changes between its fragments: pieces of two calls",
    ),
    bad(
        "chat-name-changes",
        "openai",
        [ROLE, calling(piece(0, '{"folder":', id="call_a", name="now")),
         calling(piece(0, '"/tmp"}', name="purge")), FINISH, DONE],
        "the name of a call changes between its fragments",
    ),
    bad(
        "chat-call-after-finish",
        "openai",
        [ROLE, whole(0, "call_a"), FINISH, whole(1, "call_b", BODO), DONE],
        "a second call begins after the finish reason",
    ),
    bad(
        "chat-fragment-of-unopened-call",
        "openai",
        [ROLE, whole(0, "call_a"), calling(piece(1, BODO)), FINISH, DONE],
        "arguments for a call that was never opened: its beginning is lost",
    ),
    bad(
        "chat-spliced-responses",
        "openai",
        [ROLE, calling(piece(0, '{"to":"x","cents":12', id="call_a", name="transfer")),
         chunk({"tool_calls": [piece(0, "50}")]}, response="chatcmpl-other"),
         chunk({}, "tool_calls", response="chatcmpl-other"), DONE],
        "the response id changes inside the arguments: the beginning of one response, the end of another",
    ),
)  # fmt: skip

ARGUMENTS = (
    bad("chat-double-encoded", "openai", one_call("forecast", '"{\\"city\\":\\"Oslo\\"}"'),
        "arguments that are a text which holds JSON, not an object"),
    bad("chat-null-arguments", "openai", one_call("purge", "null"), "arguments that are null, not an object"),
    bad("chat-trailing-comma", "openai", one_call("transfer", '{"to":"x","cents":12,', "}"),
        "a comma before the closing brace: no JSON; something may be missing"),
    bad("chat-extra-brace", "openai", one_call("forecast", OSLO, "}"), "one closing brace too many"),
    bad("chat-control-character", "openai", one_call("transfer", '{"to":"x","cents":1,"memo":"a\nb"}'),
        "a bare line break inside a JSON text"),
    bad("chat-number-as-text", "openai", one_call("transfer", '{"to":"x","cents":"12"}'),
        "schema: text where an integer is declared"),
    bad("chat-truth-as-number", "openai", one_call("transfer", '{"to":"x","cents":true}'),
        "schema: true where an integer is declared"),
    bad("chat-missing-required", "openai", one_call("transfer", '{"to":"x"}'),
        "schema: a required property is missing"),
    bad("chat-extra-property", "openai", one_call("purge", '{"folder":"/tmp","dry_run":true}'),
        "schema: a property the tool does not have, which it would ignore"),
    bad("chat-below-minimum", "openai", one_call("forecast", '{"city":"Oslo","days":0}'),
        "schema: an integer below its minimum"),
)  # fmt: skip

CASES = (*GOOD, *CUT, *MIXED, *ARGUMENTS)
