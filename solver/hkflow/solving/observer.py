"""What can watch a run: progress bars, memories, run folders."""


class Observer:
    """Called by `integrate`; every method may be left as it is.

    method : the method with its accepted state;  clock : time, step and the running budgets;  record : dict of numbers
    """

    def start(self, method, clock, save_times):
        """Before the first step of this session."""

    def record(self, method, clock, record):
        """After accepted steps, as often as records are wanted."""

    def step(self, method, clock):
        """After every accepted step."""

    def save(self, method, clock):
        """At every save time, and where the run ends before its time."""

    def stop(self):
        """A sentence that ends the run after this step, or None."""

    def finish(self, method, clock, status):
        """After the last step, also if an exception ended the run."""
