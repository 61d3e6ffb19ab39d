"""No room: for the profile, and for the arenas."""

import os
import re
import signal
import subprocess

from recording import Board, Failed, Profile, Recording, compare, wait_for


def run_at(place, size, inside, command, env):
    """Runs a command in a mount namespace of its own, with a small tmpfs at a place."""
    script = 'mount -t tmpfs -o size=%s tmpfs "$0" || exit 125; %s; exec "$@"' % (size, inside)
    return subprocess.run(["unshare", "-m", "sh", "-c", script, place, *command], env=env,
                          capture_output=True, text=True, timeout=120)


def may_mount():
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


def wants_mounts(test):
    def with_mounts(suite, folder, chance):
        return test(suite, folder, chance) if may_mount() else "no mount namespaces for this user"
    return with_mounts


def full_disk(blocks_left, command):
    """
    The disk for the profile is full from the start, or gets full by the profile itself: one line,
    no half file, and the folder that the line names still has every sample.
    """
    def test(suite, folder, chance):
        disk = os.path.join(folder, "disk")
        os.mkdir(disk)
        program = [suite.path(command[0]) if command[0] == "contexts" else command[0], *command[1:]]
        script = '"$@"; echo "status $?"; ls -A "%s"' % disk
        fill = "dd if=/dev/zero of=%s/rest bs=4k count=%d status=none" % (disk, 16 - blocks_left)
        done = run_at(disk, "64k", fill, ["sh", "-c", script, "sh", suite.calltrail, "record", "-F",
                                          "9999", "-o", disk + "/p.ctp", *program], suite.env)
        plain = subprocess.run(program, env=suite.env, capture_output=True, text=True)
        if done.stdout != plain.stdout + "status 1\nrest\n":
            raise Failed("printed %r" % done.stdout)
        said = re.fullmatch(r"calltrail: \S+/p.ctp: cannot be written: No space left on device; "
                            r"nothing is lost: 'calltrail recover -o FILE (\S+)' makes the "
                            r"profile\n", done.stderr)
        if not said:
            raise Failed("stderr %r" % done.stderr)
        check_recover(suite, folder, said.group(1))
    return wants_mounts(test)


def check_recover(suite, folder, place):
    arena = subprocess.run([suite.arena_dump, place + "/0.arena"], capture_output=True, text=True)
    counted = sum(int(line.split()[2]) for line in arena.stdout.splitlines()
                  if line.startswith("thread"))
    path = os.path.join(folder, "recovered.ctp")
    done = subprocess.run([suite.calltrail, "recover", "-o", path, place], env=suite.env,
                          capture_output=True, text=True)
    if done.returncode or done.stderr or os.path.exists(place):
        raise Failed("recover: %d, %r" % (done.returncode, done.stderr))
    got = Profile(suite.calltrail, path).info["samples"]
    if got != counted or not counted:
        raise Failed("%d samples recovered of %d" % (got, counted))
    suite.count_samples(counted)


def small_shared_memory(size, least_recorded):
    """The arenas find no room: the program is as it is, and what is missing is said."""
    def test(suite, folder, chance):
        path = os.path.join(folder, "p.ctp")
        burn = "for my $k (1..4) { if (!fork) { my $s = 0; $s += $_ % 7 for 1..1000000; " \
               "print qq($s\\n); exit $k } } wait for 1..4; print qq(done\\n)"
        done = run_at("/dev/shm", size, "true", [suite.calltrail, "record", "-o", path, "perl", "-e",
                                                burn], {**suite.env, "TMPDIR": "/dev/shm"})
        plain = subprocess.run(["perl", "-e", burn], capture_output=True, text=True)
        if done.stdout != plain.stdout or done.returncode != plain.returncode:
            raise Failed("status %d, stdout %r" % (done.returncode, done.stdout))
        recorded = sum(process["attached"] for process in
                       Profile(suite.calltrail, path).info["processes"])
        said = re.search(r"calltrail: (\d) process(?: was|es were) not recorded: no room in "
                         r"/dev/shm/calltrail-......: No space left on device\n", done.stderr)
        missing = int(said.group(1)) if said else 0
        if recorded + missing != 5 or recorded < least_recorded or not missing:
            raise Failed("%d processes recorded, stderr %r" % (recorded, done.stderr))
    return wants_mounts(test)


@wants_mounts
def arena_cannot_grow(suite, folder, chance):
    """Samples for which there was no room are counted, and said to be lost."""
    path = os.path.join(folder, "p.ctp")
    command = [suite.path("contexts")]
    done = run_at("/dev/shm", "2m", "true", [suite.calltrail, "record", "-F", "9999", "-o", path,
                                            *command], suite.env)
    plain = subprocess.run(command, capture_output=True, text=True, env=suite.env)
    if done.stdout != plain.stdout or done.returncode != plain.returncode:
        raise Failed("status %d, stdout %r" % (done.returncode, done.stdout))
    info = Profile(suite.calltrail, path).info
    said = re.fullmatch(r"calltrail: (\d+) samples are lost: no room in /dev/shm/calltrail-......\n",
                        done.stderr)
    if not said or int(said.group(1)) > info["lost"] or not info["samples"]:
        raise Failed("%d samples, %d lost, stderr %r" % (
            info["samples"], info["lost"], done.stderr))
    due = info["utime_s"] * info["rate_asked_hz"]
    if info["samples"] + info["lost"] < 0.5 * due:
        raise Failed("%d samples, %d lost, %.0f due" % (info["samples"], info["lost"], due))


def many_processes(suite, folder, chance):
    """More processes than descriptors: each is recorded, and what they took is given back."""
    path = os.path.join(folder, "p.ctp")
    script = "ulimit -n 64; exec \"$0\" record -o %s sh -c 'i=0; while [ $i -lt 200 ]; do " \
             "/bin/true; i=$((i+1)); done; " \
             "du -sk $(dirname $(grep -slx $PPID /dev/shm/calltrail-*/supervisor))'" % path
    done = subprocess.run(["sh", "-c", script, suite.calltrail], env=suite.env, capture_output=True,
                          text=True, timeout=120)
    if done.returncode or done.stderr:
        raise Failed("status %d, stderr %r" % (done.returncode, done.stderr))
    processes = sum(process["attached"] for process in
                    Profile(suite.calltrail, path).info["processes"])
    if processes < 201:
        raise Failed("%d processes recorded, not 201" % processes)
    # Those that ended in the last tenth of a second may still have all of their two megabytes.
    most = max(int(line.split()[0]) for line in done.stdout.splitlines())
    if most > 100 * 1024:
        raise Failed("the arenas of ended processes take %d KB" % most)


def recover_too_early(suite, folder, chance):
    """recover leaves a recording alone that goes on, and one whose program does."""
    board = Board(os.path.join(folder, "board"))
    run = Recording(suite, folder, [suite.path("ends"), "kill", board.path, "0"])
    try:
        wait_for(lambda: board.ready and run.look() and run.find_program(), "the program")
        command = [suite.calltrail, "recover", "-o", run.profile_path, run.place]
        done = subprocess.run(command, env=suite.env, capture_output=True, text=True)
        if done.returncode != 1 or "(process %d) is still at work" % run.pid not in done.stderr:
            raise Failed("of a living recording: %d, %r" % (done.returncode, done.stderr))
        run.process.kill()
        run.process.wait()
        done = subprocess.run(command, env=suite.env, capture_output=True, text=True)
        if done.returncode or "1 process goes on: this is what was measured so far" not in done.stderr:
            raise Failed("of a living program: %d, %r" % (done.returncode, done.stderr))
        early = run.profile().info["samples"]
        wait_for(lambda: sum(run.truth()[0].threads.values()) > early + 20, "more samples")
        os.kill(run.program, signal.SIGKILL)
        os.waitpid(run.program, 0)
        done = subprocess.run(command, env=suite.env, capture_output=True, text=True)
        if done.returncode or done.stderr or os.path.exists(run.place):
            raise Failed("at the end: %d, %r" % (done.returncode, done.stderr))
        compare(run.profile(), run.truth())
    finally:
        run.close()


def not_a_folder(suite, folder, chance):
    """recover of what is no folder of a recording: one line, and nothing is touched."""
    os.mkdir(os.path.join(folder, "empty"))
    for path in (folder + "/empty", folder + "/none", suite.calltrail):
        done = subprocess.run([suite.calltrail, "recover", "-o", folder + "/p.ctp", path],
                              env=suite.env, capture_output=True, text=True)
        if done.returncode != 1 or done.stderr.count("\n") != 1 or \
                "no recording found" not in done.stderr:
            raise Failed("%s: %d, %r" % (path, done.returncode, done.stderr))
    if not os.path.exists(folder + "/empty") or os.path.exists(folder + "/p.ctp"):
        raise Failed("something was removed or written")


def tests(full):
    small = ["perl", "-e", "my $s = 0; $s += $_ % 7 for 1..1000000; print qq($s\\n); exit 6"]
    large = ["contexts"]
    found = [("disk full from the start", full_disk(0, small)),
             ("disk full with the profile", full_disk(1, small)),
             ("recover too early", recover_too_early),
             ("recover of nothing", not_a_folder),
             ("more processes than descriptors", many_processes),
             ("shared memory for two arenas", small_shared_memory("800k", 2)),
             ("arena that cannot grow", arena_cannot_grow),
             ("shared memory for none", small_shared_memory("200k", 0))]
    if full:
        found += [("disk full with a large profile, %d KB left" % (4 * blocks),
                   full_disk(blocks, large)) for blocks in (1, 8, 15)]
    return found
