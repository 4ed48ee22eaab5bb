"""Cases of Anthropic Messages that the fixtures of the project do not hold."""

from __future__ import annotations

from benchmarks.lab.cases import (
    END,
    MESSAGE,
    PING,
    START,
    STOP,
    Case,
    adds,
    bad,
    closes,
    event,
    good,
    opens,
    prose,
    stop_reason,
    use,
)

OSLO = '{"city":"Oslo"}'
BODO = '{"city":"Bodo"}'
FORECAST_OSLO = ("forecast", {"city": "Oslo"})
FORECAST_BODO = ("forecast", {"city": "Bodo"})
OVERLOADED = event("error", error={"type": "overloaded_error", "message": "x"})


def broken(name: str, arguments: str, why: str, tool: str = "forecast") -> Case:
    """A stream in order around arguments that are not."""
    return bad(name, "anthropic", [START, *use(0, tool, arguments), *END], why)


GOOD = (
    good("messages-text-only", "anthropic", [START, *prose(0, "Rain", " later."), stop_reason("end_turn"), STOP], [],
         "a turn without calls"),
    good("messages-text-then-call", "anthropic", [START, *prose(0, "Let me see."), *use(1, "forecast", OSLO), *END],
         [FORECAST_OSLO], "text before the call"),
    good("messages-two-calls", "anthropic",
         [START, *use(0, "forecast", "", '{"city":', '"Oslo"}'), *use(1, "forecast", BODO, id="toolu_b"), *END],
         [FORECAST_OSLO, FORECAST_BODO], "two calls, one after the other"),
    good("messages-pings", "anthropic",
         [START, PING, opens(0, "forecast"), PING, adds(0, OSLO), PING, closes(0), *END],
         [FORECAST_OSLO], "keepalives before, inside and after a block"),
    good("messages-one-character-each", "anthropic", [START, *use(0, "forecast", *OSLO), *END],
         [FORECAST_OSLO], "every character of the arguments in a delta of its own"),
    good("messages-escape-divided", "anthropic",
         [START, *use(0, "transfer", '{"to":"a\\', '"b","cents":1,"memo":"\\ud83d', '\\ude00"}'), *END],
         [("transfer", {"to": 'a"b', "cents": 1, "memo": "😀"})], "escapes that are divided between deltas"),
    good("messages-integer-beyond-2-53", "anthropic",
         [START, *use(0, "transfer", '{"to":"x","cents":90071992', "54740993}"), *END],
         [("transfer", {"to": "x", "cents": 9007199254740993})], "an integer that no double holds exactly"),
    good("messages-no-delta", "anthropic", [START, *use(0, "now"), *END], [("now", {})],
         "a tool without arguments: no delta at all"),
)  # fmt: skip

CUT = (
    bad("messages-cut-in-number", "anthropic", [START, opens(0, "transfer"), adds(0, '{"to":"x","cents":12')],
        "the stream ends inside a number"),
    bad("messages-cut-before-arguments", "anthropic", [START, opens(0, "purge")],
        "the stream ends before the first argument; every argument of the tool is optional"),
    bad("messages-cut-after-block", "anthropic", [START, *use(0, "forecast", OSLO)],
        "the stream ends after a whole block: no stop reason came"),
    bad("messages-cut-in-second-call", "anthropic",
        [START, *use(0, "forecast", OSLO), opens(1, "forecast", "toolu_b"), adds(1, '{"ci')],
        "the stream ends in the second of two calls"),
    bad("messages-no-block-stop", "anthropic", [START, opens(0, "transfer"), adds(0, '{"to":"x","cents":12'), *END],
        "the message stops, its block never did: the end of the arguments is lost"),
    bad("messages-no-block-stop-before-arguments", "anthropic", [START, opens(0, "purge"), *END],
        "the message stops, its block never did and has no arguments"),
    bad("messages-no-stop-reason", "anthropic", [START, *use(0, "forecast", OSLO), STOP],
        "message_stop without a stop reason"),
    bad("messages-max-tokens-in-arguments", "anthropic",
        [START, *use(0, "transfer", '{"to":"x","cents":12'), stop_reason("max_tokens"), STOP],
        "the token limit cut the arguments"),
    bad("messages-max-tokens-before-arguments", "anthropic",
        [START, *use(0, "purge"), stop_reason("max_tokens"), STOP],
        "the token limit came before the first argument"),
    bad("messages-max-tokens-after-whole-call", "anthropic",
        [START, *use(0, "forecast", OSLO), stop_reason("max_tokens"), STOP],
        "the token limit cut the turn after a call: what else the model wanted is unknown"),
    bad("messages-refusal-after-call", "anthropic",
        [START, *use(0, "forecast", OSLO), stop_reason("refusal"), STOP],
        "a refusal after a call: what came before it is void"),
    bad("messages-error-before-stop", "anthropic", [START, *use(0, "forecast", OSLO), OVERLOADED],
        "the provider reports an error where the stop reason should be"),
)  # fmt: skip

MIXED = (
    bad("messages-delta-without-block", "anthropic", [START, *use(0, "forecast", OSLO), adds(3, BODO), *END],
        "arguments for a block that was never opened: its beginning is lost"),
    bad("messages-second-message-start", "anthropic",
        [START, opens(0, "transfer"), adds(0, '{"to":"x","cents":12'),
         event("message_start", message={**MESSAGE, "id": "msg_other"}), adds(0, "50}"), closes(0), *END],
        "another message begins inside the arguments: the beginning of one response, the end of another"),
    bad("messages-repeated-call-id", "anthropic", [START, *use(0, "forecast", OSLO), *use(1, "forecast", BODO), *END],
        "two calls under one id: no result could say which it answers"),
    bad("messages-two-stop-reasons", "anthropic", [START, *use(0, "forecast", OSLO), stop_reason("max_tokens"), *END],
        "two stop reasons that contradict each other"),
    bad("messages-call-after-message-stop", "anthropic",
        [START, *use(0, "forecast", OSLO), *END, *use(1, "forecast", BODO, id="toolu_b")],
        "a second call after message_stop"),
)  # fmt: skip

ARGUMENTS = (
    broken("messages-unclosed-number", '{"to":"x","cents":12', "proper stops, but the arguments never close",
           "transfer"),
    broken("messages-trailing-comma", '{"to":"x","cents":12,}', "a comma before the closing brace", "transfer"),
    broken("messages-trailing-document", OSLO + BODO, "a second document after the arguments"),
    broken("messages-duplicate-key", '{"city":"Oslo","city":"Bodo"}', "a key named twice: two readers, two calls"),
    broken("messages-nan", '{"by":NaN}', "NaN is no JSON number", "scale"),
    broken("messages-number-beyond-double", '{"by":1e999}', "a number no double can hold", "scale"),
    broken("messages-non-object", '["Oslo"]', "arguments that are a list"),
    broken("messages-unknown-tool", OSLO, "a tool the request does not declare", "weather"),
    broken("messages-number-as-text", '{"to":"x","cents":"12"}', "schema: text where an integer is declared",
           "transfer"),
    broken("messages-extra-property", '{"folder":"/tmp","dry_run":true}',
           "schema: a property the tool does not have, which it would ignore", "purge"),
    broken("messages-below-minimum", '{"city":"Oslo","days":0}', "schema: an integer below its minimum"),
)  # fmt: skip

CASES = (*GOOD, *CUT, *MIXED, *ARGUMENTS)
