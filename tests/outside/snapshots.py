"""Snapshots of a recording that goes on."""
import os
import select
import signal
import time

from harness import facts, must, profile


def take_snapshot(recorder):
    """Until there are samples in it; how many."""
    samples = 0
    while not samples:
        if os.path.exists(profile):
            os.unlink(profile)
        recorder.process.send_signal(signal.SIGUSR2)
        while not os.path.exists(profile) and recorder.process.poll() is None:
            select.select([], [], [], 0.001)
        must(recorder.process.poll() is None, "it has ended")
        samples = facts()["samples"]
    return samples


def until(recorder, holds):
    """Snapshots, until this holds for one."""
    deadline = time.monotonic() + 100
    while take_snapshot(recorder) and not holds(facts()):
        must(time.monotonic() < deadline, str(facts()))
