"""Device times on the host's clock, with events whose times are given."""

from __future__ import annotations

import pytest

from dflash_viz.hooks import clock
from dflash_viz.hooks.clock import CudaClock, HostClock, clock_for


class Device:
    """Its events happen at ``now`` (s of its own clock); the host sees them ``late`` seconds after."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.late = 0.0
        self.offset = -900.0
        self.events = self.waits = 0
        # What another thread does while a time is told.
        self.asked = lambda: None

    def event(self, **options: bool) -> Event:
        assert options == {"enable_timing": True}
        self.events += 1
        return Event(self)

    def monotonic(self) -> float:
        return self.now + self.offset + self.late


class Event:
    def __init__(self, device: Device) -> None:
        self.device = device
        self.time = 0.0

    def record(self, stream: str) -> None:
        assert stream == "the runner's"
        self.time = self.device.now

    def query(self) -> bool:
        return self.device.late > 0

    def synchronize(self) -> None:
        self.device.waits += 1

    def elapsed_time(self, other: Event) -> float:
        self.device.asked()
        return (other.time - self.time) * 1000.0


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    monkeypatch.setattr(clock.torch.cuda, "Event", made.event)
    monkeypatch.setattr(clock.torch.cuda, "current_stream", lambda: "the runner's")
    monkeypatch.setattr(clock.time, "monotonic", made.monotonic)
    return made


def step(device: Device, ours: CudaClock, seconds: float, late: float) -> float:
    """A moment so much later that the host sees late: its time by our clock, which then anchors."""
    device.now += seconds
    mark = ours.mark()
    device.late = late
    ours.wait(mark)
    at = ours.anchor(mark)
    device.late = 0.0
    return at


def test_a_host_that_sees_late_moves_nothing(device: Device) -> None:
    ours = CudaClock()
    times = [step(device, ours, 0.003, late) for late in (0.0, 0.05, 0.001, 0.2)]
    assert times == pytest.approx([100.003, 100.006, 100.009, 100.012], abs=1e-5)


def test_an_anchor_seen_late_is_put_right(device: Device) -> None:
    device.late = 0.5
    ours = CudaClock()
    device.late = 0.0
    step(device, ours, 1.0, 0.0)
    assert step(device, ours, 1.0, 0.0) == pytest.approx(102.0, abs=1e-5)


def test_clocks_that_drift_apart_are_followed(device: Device) -> None:
    """The host's clock runs ahead by 50 millionths."""
    ours = CudaClock()
    for _ in range(1000):
        device.offset += 0.1 * 5e-5
        last = step(device, ours, 0.1, 0.0)
    assert last == pytest.approx(device.monotonic(), abs=1e-4)


def test_after_a_long_rest_the_host_is_believed(device: Device) -> None:
    ours = CudaClock()
    device.offset += 3.0
    step(device, ours, 7200.0, 0.0)
    assert step(device, ours, 1.0, 0.0) == pytest.approx(device.monotonic(), abs=1e-5)


def test_the_cpu_has_the_hosts_time() -> None:
    host = clock_for(clock.torch.device("cpu"))
    assert isinstance(host, HostClock)
    first, second = host.mark(), host.mark()
    host.wait(second)
    assert host.tell(first) == first <= second == host.anchor(second) <= host.host()


def test_events_are_used_again_and_none_is_waited_for_that_has_happened(device: Device) -> None:
    ours = CudaClock()
    for _ in range(100):
        first = ours.mark()
        step(device, ours, 0.003, 0.001)
        assert ours.tell(first) == pytest.approx(device.monotonic() - 0.003, abs=1e-4)
    assert device.events == 3
    assert device.waits == 1, "when the clock was made"
    step(device, ours, 0.003, 0.0)
    assert device.waits == 2


def test_an_event_whose_time_is_told_is_nobody_elses_yet(device: Device) -> None:
    ours = CudaClock()
    mark, taken = ours.mark(), []
    device.asked = lambda: taken.append(ours.mark())
    ours.tell(mark)
    device.asked = lambda: None
    assert taken[0] is not mark
    assert ours.mark() is mark, "now it is used again"
