"""Clients take turns: what one has had counts against it, and crowds do not keep the next client waiting."""

from interbed.catalog.server.thrift.edge.budgets import WeightBudget
from interbed.catalog.server.thrift.edge.pool import (
    BUSY_SECONDS,
    CROWD,
    RUNNING_MAX,
    ClientShare,
    FairQueue,
    JobKind,
)


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Queue:
    """A fair queue with clients by name; `serve` runs the next job, which takes so long."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.jobs = FairQueue(self.clock)
        self.clients: dict[str, ClientShare] = {}
        self.served: list[str] = []

    def put(self, name: str, host: str = "h", *, is_heavy: bool = False) -> None:
        if name not in self.clients:
            self.clients[name] = self.jobs.client(host)
        self.jobs.put(lambda: self.served.append(name), self.clients[name], is_heavy=is_heavy)

    def serve(self, seconds: float = 0.01) -> str:
        job = self.jobs.take()
        assert job is not None
        job.run()
        self.clock.now += seconds
        self.jobs.ended(job)
        return self.served[-1]


def test_a_client_that_was_served_for_long_comes_after_one_that_was_not() -> None:
    queue = Queue()
    for name in ("a", "b"):
        queue.put(name)
    assert queue.serve(5.0) == "a"
    assert queue.serve(0.1) == "b"
    for name in ("a", "b"):
        queue.put(name)
    assert queue.serve(0.1) == "b"
    queue.put("b")
    assert queue.serve(0.1) == "b"


def test_addresses_take_turns_however_many_connections_each_has() -> None:
    queue = Queue()
    for number in range(100):
        queue.put(f"many {number}", "10.0.0.1")
    for number in range(3):
        queue.put(f"few {number}", "10.0.0.2")
    first = [queue.serve() for _ in range(8)]
    assert sum(name.startswith("few") for name in first) == 3


def test_a_newcomer_is_served_soon_though_a_crowd_came_before() -> None:
    queue = Queue()
    for number in range(500):
        queue.put(f"crowd {number}")
    queue.put("newcomer")
    assert "newcomer" in [queue.serve() for _ in range(2)]
    # And the crowd goes on from both ends.
    first = [queue.serve() for _ in range(6)]
    assert any(int(name.split()[1]) < CROWD for name in first)


def test_all_are_served_at_last() -> None:
    queue = Queue()
    for number in range(200):
        queue.put(f"c {number}", f"10.0.0.{number % 7}", is_heavy=number % 3 == 0)
    while len(queue.jobs):
        queue.serve()
    assert sorted(queue.served) == sorted(queue.clients)


def test_only_some_heavy_ones_run_at_once_unless_they_wait() -> None:
    queue = Queue()
    for number in range(10):
        queue.put(f"heavy {number}", is_heavy=True)
    running = [queue.jobs.take() for _ in range(RUNNING_MAX[JobKind.HEAVY])]
    assert all(running)
    assert queue.jobs.take() is None
    queue.put("light")
    assert queue.serve() == "light"
    first = running[0]
    assert first is not None
    # Its end lets the next one run.
    assert queue.jobs.ended(first)
    assert queue.jobs.take() is not None
    assert queue.jobs.take() is None
    queue.clock.now += 2 * BUSY_SECONDS
    assert queue.jobs.take() is not None


def test_a_budget_gives_everybody_a_turn() -> None:
    budget = WeightBudget(100)
    got: list[str] = []
    assert budget.take(60, lambda: got.append("never"))
    assert not budget.take(1000, lambda: got.append("all"))
    # What fits comes behind what does not, which would otherwise wait for ever.
    assert not budget.take(10, lambda: got.append("small"))
    budget.release(60)
    assert (got, budget.taken) == (["all"], 100)
    budget.release(1000)
    assert (got, budget.taken) == (["all", "small"], 10)
    budget.release(10)
    assert budget.taken == 0
