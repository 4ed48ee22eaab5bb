"""What the demo's providers answer. The words of each question choose the plan; faults are part of the plans."""

from __future__ import annotations

from turngate.devstack.provider_sim.script import Fault, Match, Plan, Rule, Script, ToolPlan

ASK_TOOLS = "How are Bergen and Oslo today?"
ASK_DISPATCHER = "Tell me slowly about fjords."
ASK_REASSEMBLER = "Tell me slowly about mountains."
ASK_REDIS = "And a word about rivers?"

SLOW_MS = 120

TWO_CALLS = (
    ToolPlan(id="call_weather", name="get_weather", arguments=('{"ci', 'ty":', '"Berg', 'en"}')),
    ToolPlan(id="call_population", name="get_population", arguments=('{"city"', ':"Oslo"}')),
)
FJORDS = (
    "Fjords ",
    "are ",
    "long ",
    "narrow ",
    "inlets ",
    "with ",
    "steep ",
    "sides, ",
    "cut ",
    "by ",
    "ice, ",
    "deep.",
)
MOUNTAINS = (
    "Mountains ",
    "rise ",
    "where ",
    "plates ",
    "meet. ",
    "Rain ",
    "and ",
    "frost ",
    "loosen ",
    "their ",
    "stones, ",
    "rivers ",
    "carry ",
    "them ",
    "off, ",
    "and ",
    "in ",
    "time ",
    "hills ",
    "remain.",
)


def script() -> Script:
    """The rules. Each question's first attempt may fail; the next one under the same bytes is answered whole."""
    tools = Plan(text=("Let me ", "look that up."), tools=TWO_CALLS)
    cut = tools.model_copy(update={"fault": Fault(kind="cut", after_events=6), "delay_ms": 20})
    slow = Plan(text=FJORDS, delay_ms=SLOW_MS)
    rules = [
        Rule(match=Match(tool_results=True), plan=Plan(text=("Bergen is mild; ", "Oslo is large."))),
        *_attempts("/openai", ASK_TOOLS, cut, tools),
        *_attempts("/anthropic", ASK_TOOLS, cut.model_copy(update={"fault": Fault(kind="cut", after_events=9)}), tools),
        *_attempts("/openai", ASK_DISPATCHER, slow.model_copy(update={"delay_ms": 4 * SLOW_MS}), slow),
        Rule(match=Match(contains=ASK_REASSEMBLER), plan=Plan(text=MOUNTAINS, delay_ms=SLOW_MS)),
        Rule(
            match=Match(contains=ASK_REDIS),
            plan=Plan(text=("Rivers ", "run ", "to ", "the ", "sea."), delay_ms=SLOW_MS),
        ),
    ]
    return Script(rules=tuple(rules))


def _attempts(prefix: str, question: str, first: Plan, then: Plan) -> list[Rule]:
    match = Match(prefix=prefix, contains=question, tool_results=False)
    return [
        Rule(match=match.model_copy(update={"request": number}), plan=plan)
        for number, plan in enumerate((first, then, then, then), start=1)
    ]
