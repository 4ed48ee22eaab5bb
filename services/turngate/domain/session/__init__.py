"""The session stream as its readers see it: which events are new to a reader of uncommitted records."""

from turngate.domain.session.events import StreamEvent, read_event
from turngate.domain.session.projection import Projection

__all__ = ["Projection", "StreamEvent", "read_event"]
