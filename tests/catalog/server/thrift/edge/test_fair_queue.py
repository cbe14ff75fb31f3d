"""Scheduling of clients: service time counts against a client, and many clients do not delay the next one for long."""

from interbed.catalog.server.thrift.edge.pool import (
    BUSY_SECONDS,
    CROWD,
    RUNNING_MAX,
    ClientShare,
    FairQueue,
    JobKind,
    WeightBudget,
)


class FixedClock:
    """Clock that is set by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class TimedQueue:
    """Fair queue with named clients; `serve` runs the next job, which takes the given time."""

    def __init__(self) -> None:
        self.clock = FixedClock()
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


def test_a_client_with_more_service_time_is_served_later() -> None:
    queue = TimedQueue()
    for name in ("a", "b"):
        queue.put(name)
    assert queue.serve(5.0) == "a"
    assert queue.serve(0.1) == "b"
    for name in ("a", "b"):
        queue.put(name)
    assert queue.serve(0.1) == "b"
    queue.put("b")
    assert queue.serve(0.1) == "b"


def test_addresses_are_served_in_turn_whatever_the_number_of_their_connections() -> None:
    queue = TimedQueue()
    for number in range(100):
        queue.put(f"many {number}", "10.0.0.1")
    for number in range(3):
        queue.put(f"few {number}", "10.0.0.2")
    first = [queue.serve() for _ in range(8)]
    assert sum(name.startswith("few") for name in first) == 3


def test_a_new_client_is_served_soon_after_a_crowd_of_others() -> None:
    queue = TimedQueue()
    for number in range(500):
        queue.put(f"crowd {number}")
    queue.put("newcomer")
    assert "newcomer" in [queue.serve() for _ in range(2)]
    # The crowd is served from both ends of the queue.
    first = [queue.serve() for _ in range(6)]
    assert any(int(name.split()[1]) < CROWD for name in first)


def test_every_client_is_served_eventually() -> None:
    queue = TimedQueue()
    for number in range(200):
        queue.put(f"c {number}", f"10.0.0.{number % 7}", is_heavy=number % 3 == 0)
    while len(queue.jobs):
        queue.serve()
    assert sorted(queue.served) == sorted(queue.clients)


def test_few_heavy_jobs_run_at_once_unless_they_have_waited_long() -> None:
    queue = TimedQueue()
    for number in range(10):
        queue.put(f"heavy {number}", is_heavy=True)
    running = [queue.jobs.take() for _ in range(RUNNING_MAX[JobKind.HEAVY])]
    assert all(running)
    assert queue.jobs.take() is None
    queue.put("light")
    assert queue.serve() == "light"
    first = running[0]
    assert first is not None
    # When a heavy job ends, the next one may run.
    assert queue.jobs.ended(first)
    assert queue.jobs.take() is not None
    assert queue.jobs.take() is None
    queue.clock.now += 2 * BUSY_SECONDS
    assert queue.jobs.take() is not None


def test_a_weight_budget_is_granted_in_order_of_arrival() -> None:
    budget = WeightBudget(100)
    got: list[str] = []
    assert budget.take(60, lambda: got.append("never"))
    assert not budget.take(1000, lambda: got.append("all"))
    # A small request waits behind a large one, which would otherwise never be granted.
    assert not budget.take(10, lambda: got.append("small"))
    budget.release(60)
    assert (got, budget.taken) == (["all"], 100)
    budget.release(1000)
    assert (got, budget.taken) == (["all", "small"], 10)
    budget.release(10)
    assert budget.taken == 0
