"""How much work one path into the arguments can make: references to references multiply it with every step down.

Two alternatives that lead to the same schema below double what is held against a value there, the next two double it
again. A validator remembers what it has said only of a schema that is entered again from inside itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

EVERY_KEY, EVERY_ITEM = "every key", "every item"
Below = tuple[str | int | None, str, str]
"""A key or place below, None for every one; EVERY_KEY or EVERY_ITEM, whichever it is one of; the subschema there."""
Here = Mapping[str, Sequence[str]]


def growth(here: Here, below: Mapping[str, Sequence[Below]]) -> int:
    """How many subschemas one path from the root down can be held against.

    here: the subschemas for the same value by place, which never lead back to it. below: those for what lies below.
    """
    order, back = _walk(here, below)
    known: dict[str, int] = {}
    for place in order:
        applied, again = _applied(place, here, back)
        every, single = Counter[str](), Counter[tuple[str, str | int]]()
        for other, times in applied.items():
            for key, kind, target in below.get(other, ()):
                grown = times * (1 if (other, target) in back else known[target])
                if key is None:
                    every[kind] += grown
                else:
                    single[kind, key] += grown
        deepest = max(
            every[kind] + max((n for (of, _), n in single.items() if of == kind), default=0)
            for kind in (EVERY_KEY, EVERY_ITEM)
        )
        known[place] = sum(applied.values()) + again + deepest
    return known[""]


def _walk(here: Here, below: Mapping[str, Sequence[Below]]) -> tuple[list[str], set[tuple[str, str]]]:
    """Every place behind all that it leads to, and the steps that lead back to where the walk still is."""

    def following(place: str) -> Iterator[str]:
        yield from here.get(place, ())
        yield from (target for _, _, target in below.get(place, ()))

    order: list[str] = []
    back: set[tuple[str, str]] = set()
    active, seen = {""}, {""}
    stack = [("", following(""))]
    while stack:
        place, steps = stack[-1]
        target = next(steps, None)
        if target is None:
            stack.pop()
            active.discard(place)
            order.append(place)
        elif target in active:
            back.add((place, target))
        elif target not in seen:
            seen.add(target)
            active.add(target)
            stack.append((target, following(target)))
    return order, back


def _applied(place: str, here: Here, back: set[tuple[str, str]]) -> tuple[Counter[str], int]:
    """Every subschema for the same value with how often it is reached, and how many steps lead back."""
    found, again, todo = Counter[str](), 0, [place]
    while todo:
        one = todo.pop()
        found[one] += 1
        for other in here.get(one, ()):
            if (one, other) in back:
                again += 1
            else:
                todo.append(other)
    return found, again
