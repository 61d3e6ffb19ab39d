"""The torture programs: how each is built and run, and what its row of the pitfalls demands.

The name begins with the row. The source is NAME.c unless it is given. `checks` are functions of the
result of a recorded run (class Result in scripts/check-torture) that return what is wrong, or None.
"""

import collections
import os
import re
import shutil
import subprocess


here = os.path.dirname(os.path.abspath(__file__))


class Skip(Exception):
    """The machine or the user does not permit this one; the reason is the message."""


class Case:
    def __init__(self, name, source=None, flags=(), compiler="cc", arguments=(), checks=(),
                 burns=True, complete=0.999, status=0, notes=None, refused=None,
                 refused_status=1, more=(), prepare=None, command=None, launch=None,
                 record_options=(), recorded_env=None, noticed=None, timeout_s=None,
                 exact_not=None, exact_options=(), time_not=None):
        self.name, self.source, self.flags = name, source or name + ".c", list(flags)
        self.compiler, self.arguments, self.checks = compiler, list(arguments), list(checks)
        self.burns, self.complete, self.status = burns, complete, status
        self.notes, self.prepare = notes, prepare
        self.refused, self.refused_status = refused, refused_status
        self.more = list(more)  # (output, flags, files) of libraries and launchers, built first
        self.command, self.launch = command, launch
        self.record_options, self.recorded_env = list(record_options), recorded_env or {}
        self.noticed, self.timeout_s = noticed, timeout_s  # for what the suite must find wrong
        self.exact_not = exact_not  # why it is left out under engine exact
        self.time_not = time_not  # and with -m time
        self.exact_options = list(exact_options)
        self.is_first_way = True  # of those in which the program is built

    def builds(self):
        for out, flags, files in self.more:
            yield out, "cc", list(flags), list(files)
        if self.source != "-":
            yield self.name, self.compiler, self.flags, [self.source]

    def launcher(self, folder):
        """What stands in front of the command, plain or recorded."""
        return [word.replace("@", folder) for word in self.launch or ()]


# --- checks ----------------------------------------------------------------------------------------

def ms(function, least, most=None, **where):
    """CPU time in a function, in ms; half of what it burns is enough: some of it is the kernel's. At
    10 kHz that is a third of it on a busy virtual machine: then a third less is enough."""
    def check(result):
        got = result.ms_in(function, **where)
        enough = least * (2 / 3 if result.info["rate_asked_hz"] > 5000 else 1)
        if got < enough or (most is not None and got > most):
            return "%.0f ms in %s %s, not %s to %s" % (got, function, where or "", least, most)
    return check


def no_guess(result):
    """Every frame of every walk is known by tables."""
    if result.info["walks_guessed"]:
        return "%d walks with a frame that is a guess" % result.info["walks_guessed"]


def processes(least, most=None):
    def check(result):
        count = sum(p["attached"] for p in result.info["processes"])
        if count < least or count > (most or least):
            return "%d processes, not %d" % (count, least)
    return check


def commands(**wanted):
    """How many processes run each program, by the name of its file."""
    def check(result):
        for name, least in wanted.items():
            got = sum(p["command"].endswith("/" + name) for p in result.info["processes"])
            if got < least:
                return "%d processes that run %s, not %d" % (got, name, least)
    return check


def threads(least, *names):
    def check(result):
        found = [thread["name"] for thread in result.info["threads"]]
        missing = [name for name in names if name not in found]
        count = sum(thread.get("threads", 1) for thread in result.info["threads"])
        if count < least or missing:
            return "%d threads, not %d; without %s" % (count, least, missing or "a name missing")
    return check


def arena_bytes(most):
    """What all processes have left in their arenas."""
    def check(result):
        if result.info["arena_bytes"] > most:
            return "%d bytes of the arena are in use, not %d" % (result.info["arena_bytes"], most)
    return check


def module(name, least):
    def check(result):
        got = result.module_ms(name)
        if got < least:
            return "%.0f ms in %s, not %d" % (got, name, least)
    return check


def sampled_by(word):
    def check(result):
        found = [process.get("sampled_by", "nothing") for process in result.info["processes"]]
        if not all(word in text for text in found):
            return "sampled by %s, not by a %s" % (found, word)
    return check


def lost(least):
    def check(result):
        if result.info["lost"] < least:
            return "%d samples lost, not %d" % (result.info["lost"], least)
    return check


def few_lost(result):
    samples, lost = result.info["samples"], result.info["lost"]
    if lost > 0.05 * (samples + lost):
        return "%d samples lost, %d taken" % (lost, samples)


def gaps(least):
    """Walks that could not go on say why, in that many ms of the time."""
    def check(result):
        got = sum(value for _, _, stack, value in result.contexts
                  if any(owner == "gap" for owner, _ in stack)) / 1e6
        missing = result.info["walks_total"] - result.info["walks_complete"]
        if got < least or (missing == 0) != (got == 0):
            return "%.0f ms with a reason, not %d; %d walks incomplete" % (got, least, missing)
    return check


def seen_or_lost(function, least):
    """A walk that takes as long as many ticks: the time is there, or counted as lost."""
    def check(result):
        got, lost = result.ms_in(function), result.info["lost"] * 1000 / result.info["rate_asked_hz"]
        if got + lost < least:
            return "%.0f ms in %s and %.0f ms lost, not %d" % (got, function, lost, least)
    return check


def succession(result):
    """Row 8: what each of the threads asked for is there, whosever record it is in."""
    calls = collections.Counter()
    for stack, value in result.stacks_of("malloc_calls"):
        calls.update({name: value for name in {name for _, name in stack}})
    wrong = {name: calls[name] for name in ("take_kept", "take_and_free") if calls[name] != 6000}
    return "calls of malloc below: %s, not 6000" % wrong if wrong else None


def part_of(name):
    """A function that the compiler has split is one function."""
    return re.sub(r"\.(cold|part|isra|constprop|llvm)\b.*", "", name)


def truth(result, only=None):
    """Calls as the program has counted them itself (truth.h), all of them and in their contexts; or
    only those of some functions."""
    if "calls" not in result.info:
        return None
    contexts, counts = collections.Counter(), {}
    for line in result.run.stdout.decode().split("\n"):
        match = re.match(r"(context|calls) (\S+) (\d+)$", line)
        if match and match.group(1) == "context":
            contexts[match.group(2)] += int(match.group(3))
        elif match:
            counts[match.group(2)] = int(match.group(3))
    if not contexts and not counts:
        return "the program says nothing of its calls"
    known = {name for context in contexts for name in context.split(";")}
    called, found = collections.Counter(), collections.Counter()
    contexts_of = []  # of each node, its known functions; a parent comes before its children
    for parent, name, calls in result.calls():
        name, context = part_of(name), contexts_of[parent] if parent >= 0 else ""
        if name in known:
            context += ";" * bool(context) + name
        contexts_of.append(context)
        if calls:
            called[name] += calls
            if name in known:
                found[context] += calls
    if only is not None:
        counts = {}
    wrong = ["%s: %d calls, not %d" % (context, found[context], contexts[context])
             for context in sorted(set(contexts) | set(found)) if contexts[context] != found[context]
             and (only is None or context.split(";")[-1] in only)]
    for names, count in counts.items():
        got = sum(called[name] for name in names.split("|"))
        if got != count:
            wrong.append("%s: %d calls, not %d" % (names, got, count))
    if wrong:
        return "%d of %d counts differ (%d uncounted): %s" % (
            len(wrong), len(set(contexts) | set(found)) + len(counts),
            result.info["slow_uncounted"], "; ".join(wrong[:4]))


PLUGINS = [("plugin_%s.so" % name, ["-shared", "-fPIC", "-DNAME=" + name], ["plugin.c"])
           for name in ("a", "b")]


def children(way, count, **more):
    """Row 7: one way to make a child; `count` processes in all."""
    return Case("r07_" + way, "r07_children.c", arguments=[way],
                checks=[processes(count), ms("burn_in_parent", 80), ms("burn_in_child", 45)], **more)


def life(what, count, *names, **more):
    """Row 8: one kind of threads."""
    return Case("r08_" + what, "r08_threads.c", arguments=[what], checks=[threads(count, *names)],
                **more)


BITS32 = ["-m32", "-nostdlib", "-pie", "-Wl,-dynamic-linker,/lib/ld-linux.so.2"]


def starts(way, count, **more):
    """Row 48: one of libc's ways to start programs; `count` processes in all."""
    return Case("r48_" + way, "r48_starts.c", arguments=[way], burns=False,
                checks=[processes(*count)] + more.pop("checks", []), **more)


BASES = [("base_%s.so" % name, ["-shared", "-fPIC", "-DNAME=" + name, "-Wl,-Ttext-segment=0x7000000"],
          ["plugin.c"]) for name in ("a", "b")]
NO_HOSTS = [("musl", "musl-gcc", []), ("asan", "gcc", ["-fsanitize=address"]),
            ("tsan", "gcc", ["-fsanitize=thread"]), ("lsan", "gcc", ["-fsanitize=leak"]),
            ("asan_inside", "clang", ["-fsanitize=address"]),
            ("tsan_inside", "clang", ["-fsanitize=thread"]),
            ("msan_inside", "clang", ["-fsanitize=memory"])]


def insiders(wanted):
    """How many processes have the runtime; the others are seen from outside, or not at all."""
    def check(result):
        count = sum(p["attached"] and "outside" not in p.get("sampled_by", "") for p in result.info["processes"])
        if count != wanted:
            return "%d processes have the runtime, not %d" % (count, wanted)
    return check


def hosts(name, count, compiler=None, flags=()):
    """Row 55: the program and a child of this kind; `count` of them have the runtime."""
    child = "child_" + name
    return Case("r55_" + name, "r55_children.c", arguments=["linker" if not compiler else child],
                burns=not compiler, complete=0 if compiler else 0.999, notes="higher than the window",
                prepare=compiler and (lambda folder: built(
                    [compiler, "-O1", "-I" + here, "-o", child, *flags, "r55_children.c"], "r55_children.c", folder)),
                checks=[insiders(count), ms("burn_in_parent", 40)] +
                ([] if compiler else [ms("burn_in_child", 40)]))


LAUNCHER = ("launch_limits", [], ["launch_limits.c"])
PRELOADED = [("preloaded.so", ["-shared", "-fPIC"], ["preloaded.c"])]
# Without unwind information, and without a name for its functions.
WITHOUT_RULES = [("without_rules.so", ["-s", "-shared", "-fPIC", "-nostdlib", "-fno-asynchronous-unwind-tables",
                                       "-Wl,--no-ld-generated-unwind-info"], ["without_rules.c"])]
TLS_LIBRARY = [("tls_library.so", ["-shared", "-fPIC"], ["tls_library.c"])]


def end(how, status, **more):
    """Row 16: one way to end without warning."""
    return Case("r16_" + how, "r16_ends.c", arguments=[how], status=status,
                checks=[ms("before_the_end", 200), ms("beside", 60)] + more.pop("checks", []), **more)


def ways(name, source, *built, **more):
    """One program, built in several ways: (ending, compiler, flags)."""
    flags = more.pop("flags", [])
    found = [Case(name + "_" + ending, source, compiler=compiler, flags=flags_ + flags, burns=False,
                  **{"checks": [truth], **more}) for ending, compiler, flags_ in built]
    for case in found[1:]:
        case.is_first_way = False
    return found


LEVELS = [("gcc_O2", "cc", ["-O2"]), ("gcc_O0", "cc", ["-O0"]), ("gcc_O3", "cc", ["-O3"]),
          ("gcc_Os", "cc", ["-Os"]), ("gcc_frame", "cc", ["-O2", "-fno-omit-frame-pointer"]),
          ("clang_O2", "clang", ["-O2"]), ("clang_O0", "clang", ["-O0"]),
          ("clang_Os", "clang", ["-Os"])]
FIXED = ["-fno-pie", "-no-pie"]
LIBRARY = [("r26_library.so", ["-shared", "-fPIC", "-fcf-protection=full"], ["r26_library.c"])]
FOLDED = ["-O2", "-ffunction-sections", "-Wl,--icf=all"]
PLUGIN_C = [("plugin_c.so", ["-shared", "-fPIC", "-DNAME=c"], ["plugin.c"])]


def limit(what, function, **more):
    """Row 19: something is taken away by the program itself."""
    return Case("r19_" + what, "r19_limits.c", arguments=[what], checks=[ms(function, 100)], **more)


def surroundings(what, **more):
    """Row 45: one change of the surroundings."""
    return Case("r45_" + what, "r45_roots.c", arguments=[what], prepare=permitted(what),
                checks=[processes(3 if what in ("session", "pid") else 2), threads(3),
                        ms("inside", 75), ms("in_thread", 50), ms("in_child", 50)], **more)


def broken(what, noticed, **more):
    """The suite itself: what goes wrong in the recorded run only must be noticed."""
    return Case("suite_" + what, "broken.c", arguments=[what], recorded_env={"BROKEN": "1"},
                noticed=noticed, checks=[ms("expected_function", 20)], **more)


def said_or_measured(result):
    """Nothing was measured, and no message said so."""
    if not result.info["samples"] and b"calltrail: " not in result.run.stderr:
        return "no samples, and not a word about it"


def permitted(what):
    def prepare(folder):
        done = subprocess.run([os.path.join(folder, "r45_" + what), what], cwd=folder,
                              capture_output=True, text=True)
        shutil.rmtree(os.path.join(folder, "empty"), ignore_errors=True)
        return done.stderr.strip() if done.returncode == 125 else None
    return prepare


def make_setuid(folder):
    if os.geteuid() != 0:
        return "only root can make a setuid program of another user"
    path = os.path.join(folder, "r18_setuid")
    os.chown(path, 65534, 65534)
    os.chmod(path, 0o4755)


def only_root(folder):
    return None if os.geteuid() == 0 else "only root can change its root folder"


def make_script(folder):
    """A script whose interpreter is a program of ours."""
    path = os.path.join(folder, "script")
    with open(path, "w") as file:
        file.write("#!%s/r18_script argument\n" % folder)
    os.chmod(path, 0o755)


def make_unexecutable(folder):
    os.chmod(os.path.join(folder, "r18_not_executable"), 0o644)


def built(command, source, folder, env=None):
    """Builds from a copy, since compilers leave files next to the source. None: it is there."""
    if not shutil.which(command[0]):
        return "there is no " + command[0]
    shutil.copy(os.path.join(here, source), folder)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True,
                          env={**os.environ, **(env or {})})
    return "does not build: " + done.stderr.strip() if done.returncode else None


def with_ocaml(source, out, *flags):
    return lambda folder: built(["ocamlopt", "-g", *flags, source, "-o", out], source, folder)


def with_go(source, out):
    return lambda folder: built(["go", "build", "-o", out, source], source, folder,
                                {"CGO_ENABLED": "1", "GOFLAGS": "-mod=mod",
                                 "GOCACHE": os.path.join(folder, "go-cache")})


def restricted(word):
    def check(result):
        said = result.info["processes"][0].get("restricted", "nothing")
        if word not in said:
            return "restricted: %s, not a word of %s" % (said, word)
    return check


def no_marks(result):
    if result.info.get("marks_set"):
        return "%d marks were set" % result.info["marks_set"]


def has_gdb(folder):
    return None if shutil.which("gdb") else "there is no gdb"


def make_folder(folder):
    """Plugins where only the library that loads them looks."""
    os.mkdir(os.path.join(folder, "plugins"))
    for name in "plugin_a.so", "plugin_b.so":
        os.rename(os.path.join(folder, name), os.path.join(folder, "plugins", name))


def launches(*words):
    """Skips where the launcher cannot do what it is for."""
    def prepare(folder):
        done = subprocess.run([os.path.join(folder, "launch_limits"), *words, "true"],
                              capture_output=True, text=True)
        return done.stderr.strip() if done.returncode else None
    return dict(prepare=prepare, launch=["@/launch_limits", *words])


# What only --full runs: the others of its row show nearly as much.
LONG = """r38_contexts r40_exec_thread r06_masks r07_spawn r07_popen r07_clone r07_fork_tree r08_detached
r10_throw_clang r10_throw_static_unwinder r11_longjmp_chk r15_backtrace r16_segv r16_abort r16_term r16_exec
r17_tls_surplus r18_folder r18_not_in_path r19_files r19_memory r19_few_files r43_contexts
r43_small_shm r43_launched_fsize r45_user r45_pid r45_session r45_setuid r02_huge_fork
suite_signal suite_stderr suite_samples r25_tables_gcc_retpoline r33_split_stack_gcc r34_rust_O""".split()

WALL = ["-e", "wall"]

CASES = [
    # 44: the program's view of itself
    Case("r44_environment", checks=[commands(r44_environment=7), commands(env=1)]),
    Case("r44_arguments"),
    Case("r44_closefrom", checks=[processes(2), threads(3, "after-close"),
                                  ms("after_close_range", 75), ms("in_child", 50),
                                  ms("in_thread", 50)]),
    # 40: exec while a sample is pending
    Case("r40_exec_pending", checks=[processes(151)]),
    Case("r40_exec_thread", checks=[processes(21)]),
    # 39: blocked signals and no room in the queue
    Case("r39_sigpending"),
    # 42: forks without handlers
    Case("r42_raw_fork", checks=[processes(6, 8), ms("only_in_parent", 200, 480),
                                 ms("only_in_child", 250, 600)]),
    Case("r42_fork_in_dlopen", more=PLUGINS, timeout_s=30,
         checks=[processes(2), ms("only_in_child", 50)]),
    Case("r42_fork_in_dlclose", checks=[processes(2), ms("only_in_child", 50)]),
    # 6: signals of the program's own
    Case("r06_own_sigprof", checks=[ms("with_timer", 150), ms("all_blocked", 100), threads(3),
                                    ms("on_profile", 0)]),
    Case("r06_reset", checks=[ms("after_reset", 300)]),
    Case("r06_masks", checks=[ms("in_handler", 250), ms("inherits", 50), ms("after_jump", 100)]),
    # 7: children
    children("vfork", 2),
    children("fork", 3),
    children("spawn", 3),
    children("system", 7),
    children("popen", 5),
    children("daemon", 3),
    children("clone", 2),
    children("fork_tree", 4),
    # 8: threads
    life("many", 1001, "many-0", "many-999"),
    life("short", 3001),
    life("detached", 201, "detached"),
    life("exit", 2, "outlives-main"),
    Case("r08_succession", record_options=["-e", "malloc/1,heap/1,wall,cpu"], burns=False,
         checks=[threads(6001), arena_bytes(24 << 20), succession]),
    Case("r08_succession_exact", "r08_succession.c", record_options=["--engine", "exact", "-e", "cpu"],
         burns=False,
         checks=[threads(6001), arena_bytes(24 << 20), truth]),
    # 1: system calls that must not be interrupted
    Case("r01_eintr", checks=[ms("timeouts", 20), ms("ping_pong", 10)]),
    # 3, 4: modules that come and go
    Case("r03_dlopen_threads", more=PLUGINS, checks=[ms("burner", 50)]),
    Case("r03_detached", more=[("hops.so", ["-shared", "-fPIC"], ["hops.c"])], burns=False,
         time_not="--duration cannot be combined with it",
         exact_options=["--duration", "0.3"]),
    Case("r04_same_address", more=PLUGINS,
         checks=[ms("work_of_a", 150, 330, module="plugin_a.so"),
                 ms("work_of_b", 50, 115, module="plugin_b.so")]),
    # 5: handlers on small stacks
    Case("r05_altstack", checks=[ms("in_handler", 90, below="called_main_stack"),
                                 ms("on_user", 100, below="main")]),
    Case("r05_forked", checks=[processes(3), ms("in_handler", 150)]),
    # 48: stacks without room for a signal frame
    Case("r48_small_stacks", complete=0.3, checks=[ms("at_the_end", 20)]),
    Case("r48_at_once"),
    Case("r48_unseen", burns=False),
    # What the handlers interrupted in which its coroutines began is gone: their walks end there.
    Case("r48_uses", complete=0.5, checks=[processes(3)]),
    Case("r48_own_altstack", checks=[ms("in_handler", 500), processes(2)]),
    # 49: runtimes that find their frames by return address
    Case("r49_ocaml", source="-", prepare=with_ocaml("r49_ocaml.ml", "r49_ocaml"), complete=0.9,
         checks=[restricted("OCaml"), no_marks]),
    Case("r49_loaded", prepare=with_ocaml("r49_library.ml", "r49_library.so", "-output-complete-obj",
                                          "-runtime-variant", "_pic"), complete=0.9,
         checks=[restricted("OCaml"), ms("before", 50)]),
    Case("r49_go", source="-", prepare=with_go("r49_go.go", "r49_go"), burns=False,
         notes="from outside|higher than the window", complete=0, checks=[no_marks, sampled_by("outside")],
         exact_not="r49_go_inside is run"),
    Case("r49_go_inside", source="-", prepare=with_go("r49_go.go", "r49_go_inside"), burns=False,
         record_options=WALL, checks=[restricted("Go"), no_marks]),
    # 50: thread pointers that are not libc's
    Case("r50_thread_pointer", complete=0.9, exact_not="stubs count in thread-local memory: a limit of the engine",
         checks=[ms("burn_ms", 30)]),
    # 51: calls and instructions that the program forbids. From there on there are no samples.
    *[Case("r51_" + what, "r51_filters.c", arguments=[what], complete=0.9, burns=False,
           checks=[ms("before_filter", 40), restricted("filter")])
      for what in ("sigreturn", "mask", "errno", "strict", "all")],
    Case("r51_inherited", "r51_filters.c", arguments=["inherited"], complete=0.9,
         exact_not="a call that is new needs a system call, which a filter that was not seen forbids",
         checks=[ms("before_filter", 40)]),
    Case("r51_child_limits"),
    Case("r51_dispatch", checks=[ms("burn_ms", 30)]),
    Case("r51_tsc", checks=[ms("without_stamps", 100)]),
    # 52: the signal that a profiler has taken
    Case("r52_own_signals", checks=[ms("in_between", 150), processes(5)]),
    # 53: debuggers
    Case("r53_own", "r53_debugger.c", arguments=["own"], burns=False, checks=[ms("debugged", 75), processes(3)]),
    Case("r53_gdb", "r53_debugger.c", arguments=["gdb"], complete=0.9, prepare=has_gdb,
         exact_not="the plan of gdb itself is not what this is about", checks=[ms("debugged", 100)]),
    # 9, 10: unwinding
    Case("r09_cancel", "r09_cancel.cpp", compiler="cxx"),
    Case("r09_anywhere", "r09_anywhere.cpp", compiler="cxx", burns=False),
    # While the unwinder installs the context of a landing pad, the saved registers in its frame are
    # already the landing pad's: there is no way on from there, and no unwinder finds one.
    Case("r10_throw_gcc", "r10_throw.cpp", compiler="cxx", complete=0.95),
    Case("r10_throw_clang", "r10_throw.cpp", compiler="clangxx", complete=0.95),
    Case("r10_throw_static_unwinder", "r10_throw.cpp", compiler="cxx", complete=0.95,
         flags=["-static-libgcc", "-static-libstdc++", "-O2"]),
    Case("r10_uncaught", "r10_uncaught.cpp", compiler="cxx", status=134,
         checks=[ms("_ZL7throwerv", 100)]),
    # 11, 12: jumps and contexts
    Case("r11_longjmp", checks=[ms("after_jump", 10, below="jumps"),
                                ms("after_handler", 50, below="from_handler")]),
    Case("r11_longjmp_chk", "r11_longjmp.c", flags=["-O2", "-D_FORTIFY_SOURCE=2"]),
    Case("r11_async", checks=[ms("afterwards", 100), few_lost]),
    Case("r12_coroutines", checks=[ms("in_coroutine", 50, below="body")]),
    Case("r12_ends_at_zero", checks=[ms("in_first", 60, below="first"), ms("in_first", 0, 0, below="main")]),
    Case("r12_bare_coroutines", checks=[ms("in_coroutine", 50, below="body")]),
    *ways("r12_reused_stacks", "r12_reused_stacks.c", *LEVELS[:2]),
    *ways("r12_copied_stacks", "r12_copied_stacks.c", *LEVELS[:2],
          exact_not="contexts of stacks that are copied may be those of another: a limit of the engine"),
    # 13: a way of a million frames, which takes room that is not there at once
    Case("r13_deep", checks=[seen_or_lost("recurse", 20), seen_or_lost("without_end", 20)]),
    Case("r13_in_handler", checks=[ms("in_handler", 120, below="shifted")]),
    Case("r13_overflow", checks=[seen_or_lost("without_end", 20)]),
    # 14: unknown ways; the walk ends with a reason
    Case("r14_no_cfi", complete=0.1, checks=[gaps(1), ms("burn_ms", 50, below="main")]),
    Case("r14_jit", flags=["-fno-omit-frame-pointer"], complete=0.3,
         checks=[ms("in_framed", 75, below="calls_framed"), gaps(75),
                 ms("in_framed", 75, below="main"), ms("calls_leaf", 75, below="main"),
                 ms("in_frameless", 75), ms("in_frameless", 0, 0, below="main")]),
    # 15: others who walk the stack
    Case("r15_backtrace", flags=["-rdynamic"], time_not="each frame has one entry more: a limit of -m time"),
    # 16: ends without warning
    end("kill", 137),
    end("segv", 139),
    end("abort", 134),
    end("term", 143),
    end("_exit", 33),
    end("exec", 0, checks=[processes(2)]),
    # 17: static TLS, and LD_PRELOAD in use by the program
    Case("r17_tls", more=PRELOADED, checks=[processes(7)]),
    Case("r17_audit", more=[("audit.so", ["-shared", "-fPIC"], ["audit.c"])], burns=False,
         checks=[processes(3), ms("burn_ms", 60)]),
    Case("r17_tls_surplus", more=TLS_LIBRARY),
    # 18: targets that the runtime cannot get into, which time on the wall needs; and scripts
    Case("r18_static", "r18_burn.c", flags=["-static"], record_options=WALL, refused="static"),
    Case("r18_setuid", "r18_burn.c", prepare=make_setuid, record_options=WALL, refused="setuid"),
    Case("r18_32bit", "r18_32bit.S", record_options=WALL, refused="32-bit",
         flags=BITS32),
    Case("r18_missing", "r18_burn.c", command="/nonexistent/program", refused="No such file"),
    Case("r18_not_in_path", "r18_burn.c", command="no-such-program-anywhere",
         refused="no such program in PATH"),
    Case("r18_folder", "r18_burn.c", command="/", refused="directory"),
    Case("r18_not_executable", "r18_burn.c", prepare=make_unexecutable,
         refused="Permission denied"),
    Case("r18_script", "r18_burn.c", prepare=make_script, command="../script",
         checks=[ms("burn_ms", 100)]),
    # 19: nothing left for a guest
    limit("seccomp", "with_filter"),
    limit("files", "without_files"),
    limit("memory", "without_memory"),
    Case("r19_small_as", "r20_burn.c", more=[LAUNCHER], notes="memory|address space", burns=False,
         checks=[said_or_measured],
         **launches("as", str(1 << 30))),
    Case("r19_few_files", "r20_burn.c", more=[LAUNCHER], **launches("nofile", "24")),
    # 20: no perf events
    Case("r20_no_perf", "r20_burn.c", more=[LAUNCHER], notes="timer",
         checks=[ms("in_thread", 100), ms("in_main", 100),
                 sampled_by("timer")],
         **launches("noperf")),
    # 21: who the caller of dlopen is
    Case("r21_origin", checks=[module("plugin_a.so", 150)], prepare=make_folder,
         more=PLUGINS + [("loader.so", ["-shared", "-fPIC", "-Wl,-rpath,$ORIGIN/plugins"],
                          ["loader.c"])]),
    # 22: malloc from everywhere
    Case("r22_malloc", checks=[processes(41)]),
    # 41: functions that know their caller
    Case("r41_callers"),
    # 23 to 35, 46, 47: what an editor of code may break. Most programs count their own calls.
    Case("r23_registers", burns=False),
    Case("r23_without_rules", burns=False, flags=["-L.", "-l:without_rules.so", "-Wl,-rpath,$ORIGIN"],
         more=WITHOUT_RULES),
    Case("r24_entries", burns=False, checks=[truth]),
    *ways("r25_tables", "r25_tables.c",
          ("gcc_O2", "cc", ["-O2"]), ("gcc_fixed", "cc", ["-O2"] + FIXED), ("gcc_O0", "cc", ["-O0"]),
          ("clang_O2", "clang", ["-O2"]), ("clang_fixed", "clang", ["-O2"] + FIXED),
          ("clang_retpoline", "clang", ["-O2", "-mretpoline"])),
    # The compiler says nothing of how the stack lies inside its thunks.
    *ways("r25_tables", "r25_tables.c", complete=0.1, *[
          ("gcc_retpoline", "cc", ["-O2", "-mindirect-branch=thunk", "-mfunction-return=thunk"])]),
    *ways("r26_links", "r26_links.c",
          ("gcc_O2", "cc", ["-O2"]), ("gcc_copied", "cc", ["-O2"] + FIXED),
          ("gcc_no_plt", "cc", ["-O2", "-fno-plt"]),
          ("gcc_ibt", "cc", ["-O2", "-fcf-protection=full", "-Wl,-z,ibtplt,-z,lazy"]),
          ("gcc_ibt_now", "cc", ["-O2", "-fcf-protection=full", "-Wl,-z,now"]),
          ("gcc_folded", "cc", FOLDED + ["-fuse-ld=gold"]), ("gcc_lto", "cc", ["-O2", "-flto"]),
          ("clang_no_plt", "clang", ["-O2", "-fno-plt"]),
          ("clang_folded", "clang", FOLDED + FIXED + ["-fuse-ld=lld"]),
          flags=["-L.", "-l:r26_library.so", "-Wl,-rpath,$ORIGIN"], more=LIBRARY),
    Case("r27_tails", flags=["-O2"], burns=False),
    *ways("r27_tables", "r27_tables.c", ("gcc_fixed", "cc", ["-O2"] + FIXED),
          ("gcc_register", "cc", ["-O2", "-mindirect-branch-register"] + FIXED),
          ("clang_fixed", "clang", ["-O2"] + FIXED), ("gcc_O2", "cc", ["-O2"])),
    Case("r27_middle", checks=[truth]),
    Case("r27_jump_returns", flags=["-O2"], burns=False, complete=0.5, checks=[truth]),
    *ways("r28_arguments", "r28_arguments.c", *LEVELS),
    Case("r29_in_stubs", burns=False, complete=0.95),
    Case("r29_faults", flags=["-O2"], burns=False, complete=0.5),
    Case("r29_handlers", flags=["-O2", "-fno-optimize-sibling-calls"], burns=False,
         checks=[no_guess]),
    Case("r29_unwinds", "r29_unwinds.cpp", compiler="cxx", burns=False, complete=0.9,
         flags=["-O2", "-fnon-call-exceptions"]),
    Case("r30_flags", complete=0.5),
    Case("r30_traps", burns=False),
    Case("r31_storm", burns=False, more=PLUGINS + PLUGIN_C, checks=[truth]),
    *ways("r32_callbacks", "r32_callbacks.c", *LEVELS[:2]),
    *ways("r32_only_own", "r32_callbacks.c", *LEVELS[:2], exact_options=["--modules", "*r32_*"],
          checks=[lambda result: truth(result, ("difference", "sorts", "left", "right"))]),
    *ways("r33_frames", "r33_frames.c", *LEVELS),
    Case("r33_frame_registers", flags=["-O1"], burns=False),
    # A function that needs a new piece of the stack is entered once more, by the call that gives it one.
    *ways("r33_split_stack", "r33_frames.c", ("gcc", "cc", ["-O2", "-fsplit-stack", "-fuse-ld=gold"]),
          checks=[lambda result: truth(result, ("leaf", "all", "many_times", "aligned", "realigned"))]),
    # Few samples, some of them in the unwinder, where there is no way on (see row 10).
    *ways("r34_objects", "r34_objects.cpp", complete=0.5, *[
          ("gcc_O2", "cxx", ["-O2"]), ("gcc_O0", "cxx", ["-O0"]), ("gcc_O3", "cxx", ["-O3"]),
          ("gcc_Os", "cxx", ["-Os"]), ("gcc_lto", "cxx", ["-O2", "-flto"]),
          ("gcc_no_frame", "cxx", ["-O1", "-fomit-frame-pointer"]),
          ("static_unwinder", "cxx", ["-O2", "-static-libgcc", "-static-libstdc++"]),
          ("clang_O3", "clangxx", ["-O3"]), ("clang_Os", "clangxx", ["-Os"]),
          ("clang_O0", "clangxx", ["-O0"]),
          ("clang_lto", "clangxx", ["-O2", "-flto", "-fuse-ld=lld"])]),
    *ways("r34_rust", "r34_rust.rs", complete=0.5, *[
          ("O", "rustc", ["-O"]), ("debug", "rustc", []),
          ("static_unwinder", "rustc", ["-O", "-C", "link-arg=-static-libgcc"]),
          ("lto", "rustc", ["-C", "opt-level=s", "-C", "lto=fat"])]),
    # A program that compares its code with its file finds the edits; --modules leaves it alone.
    Case("r35_same", "r35_own_code.c", arguments=["same"], burns=False,
         exact_options=["--modules", "lib*"]),
    Case("r35_changes", "r35_own_code.c", arguments=["changes"], burns=False, checks=[truth]),
    Case("r35_patches", "r35_own_code.c", arguments=["patches"], burns=False),
    Case("r35_image", burns=False, more=[("image.so", ["-shared", "-fPIC", "-O1", "-DLIBRARY"],
                                          ["r35_image.c"])],
         flags=["-L.", "-l:image.so", "-Wl,-rpath,$ORIGIN"]),
    *ways("r46_pushes", "r46_pushes.c", *LEVELS,
          ("gcc_push", "cc", ["-Os", "-mpush-args", "-mno-accumulate-outgoing-args"])),
    *ways("r47_cold", "r47_cold.c", *LEVELS,
          ("gcc_sections", "cc", ["-O2", "-freorder-functions", "-ffunction-sections"])),
    # 38: too many contexts
    Case("r38_contexts", flags=["-O1"], notes="contexts: what came later"),
    # 43: limits on files and shared memory
    Case("r43_contexts"),
    Case("r43_fsize", "r43_contexts.c", arguments=["fsize"]),
    Case("r43_launched_fsize", "r43_contexts.c", more=[LAUNCHER], notes="lost|room|size",
         burns=False, checks=[said_or_measured],
         exact_not="a profile of all calls is larger than the limit: it says so, and recovers",
         **launches("fsize", "262144")),
    Case("r43_small_shm", "r43_contexts.c", more=[LAUNCHER], notes="lost|room|space|contexts",
         **launches("shm", "4m")),
    Case("r43_full", more=[LAUNCHER], notes="samples are lost: no room", burns=False,
         exact_not="its own records fill it before the samples do",
         checks=[ms("has_room", 120, 330), lost(80)], **launches("shm", "1m")),
    Case("r43_tiny_shm", "r43_contexts.c", more=[LAUNCHER], notes="lost|room|space|contexts", burns=False,
         checks=[said_or_measured],
         **launches("shm", "512k")),
    # 48: what libc promises of the functions that start programs
    starts("system", (42,)),
    starts("cancelled", (3,)),
    starts("environ", (101,)),
    starts("small_stack", (24,), checks=[ms("burn_in_child", 90)]),
    starts("bad", (7,), checks=[ms("burn_in_child", 90)]),
    starts("no_shell", (2, 4), prepare=only_root),
    starts("32bit", (3, 5), notes="of 32-bit programs", more=[("child32", BITS32, ["r18_32bit.S"])]),
    starts("wordexp", (3, 4), checks=[ms("burn_in_child", 45)]),
    # 49: what libc promises of functions that others stand in for
    *[Case("r49_" + what, "r49_promises.c", arguments=[what], record_options=["-e", "wall,lock"],
           checks=[ms("burn_a_little", 45)]) for what in ("cancellation", "errors", "actions", "keys")],
    Case("r49_descriptors", "r49_promises.c", arguments=["descriptors"], prepare=only_root,
         burns=False, notes="timer", checks=[ms("burn_a_little", 45)]),
    # 50: threads that libc makes by itself
    Case("r50_other_threads", checks=[threads(4), ms("in_c_thread", 50), ms("on_timer", 100)]),
    # 51: memory at fixed places
    Case("r51_fixed_places"),
    *[Case("r51_low_" + what, "r51_low_places.c", flags=flags, arguments=[what], burns=False,
           notes="at a fixed place")
      for what, flags in (("fixed", []), ("noreplace", []), ("heap", FIXED), ("limit", []),
                          ("limit_threads", []))],
    Case("r51_low_forks", "r51_low_places.c", arguments=["forks"], burns=False,
         exact_not="what these engines have for the thread that forks stays mapped in the child"),
    # 54: modules that do not begin at 0, and those of other namespaces
    Case("r54_bases", more=BASES, flags=["-L.", "-l:base_a.so", "-l:base_b.so", "-Wl,-rpath,$ORIGIN"],
         checks=[ms("work_of_a", 40, module="base_a.so"), ms("work_of_b", 40, module="base_b.so")]),
    Case("r54_namespaces", more=PLUGINS, checks=[ms("work_of_a", 150, below="main", module="plugin_a.so")]),
    # 55: children that may not have a guest, or have the dynamic linker as their program
    hosts("linker", 2),
    Case("r55_valgrind", "r55_children.c", arguments=["valgrind"], burns=False, complete=0,
         notes="higher than the window",
         prepare=lambda folder: None if shutil.which("valgrind") else "there is no valgrind",
         checks=[ms("burn_in_parent", 40)]),
    *[hosts(name, 1, compiler, flags) for name, compiler, flags in NO_HOSTS],
    # 45: other surroundings
    surroundings("chroot"),
    surroundings("namespaces"),
    surroundings("user"),
    surroundings("pid"),
    surroundings("session"),
    surroundings("setuid"),
    # 2: fork of a large process
    Case("r02_huge_fork", checks=[processes(11)]),
    # the suite itself
    broken("stdout", "stdout: line 1"),
    broken("stderr", "stderr: line 1"),
    broken("status", "status 1, not 0"),
    broken("signal", "status 137, not 0"),
    broken("hang", "hung", timeout_s=3),
    broken("samples", "no samples"),
    broken("function", "ms in expected_function"),
    broken("left", "left behind"),
]
EDITING = re.compile(r"r(2[3-9]|3[0-5]|46|47)_|r12_reused")
# Of the others, what a selection with engine exact runs: threads, forks, jumps, ends.
ALSO_EXACT = """r03_detached r07_fork r07_vfork r08_short r09_anywhere r10_throw_gcc r11_longjmp r12_coroutines r16_kill
r42_raw_fork r42_fork_in_dlopen r44_closefrom r48_system r48_environ r48_small_stack
r48_small_stacks r50_other_threads
r17_audit r51_fixed_places r51_low_fixed r51_low_noreplace r51_low_heap r51_low_limit r51_low_limit_threads""".split()


# And with engine encode: what is not the editor's, but how contexts are followed.
ENCODE = """r07_fork r07_vfork r10_throw_gcc r11_longjmp r12_coroutines r12_reused_stacks_gcc_O2
r03_dlopen_threads r27_tails r29_unwinds r31_storm r32_callbacks_gcc_O2 r42_raw_fork r48_small_stack r48_small_stacks r50_other_threads
r51_low_limit r51_low_limit_threads r17_audit""".split()


# And with engine paths, which relocates functions.
PATHS = """r03_dlopen_threads r07_fork r07_vfork r08_short r09_anywhere r10_throw_gcc r11_longjmp r12_coroutines
r23_registers r24_entries r25_tables_gcc_O2 r26_links_gcc_O2 r26_links_clang_folded r27_tails r27_tables_gcc_fixed r28_arguments_gcc_O2 r29_faults r29_handlers r29_in_stubs
r29_unwinds r30_traps r31_storm r34_objects_gcc_O2 r35_same r35_changes r35_patches r42_raw_fork r42_fork_in_dlopen r46_pushes_gcc_O2
r47_cold_gcc_O2 r48_small_stack r50_other_threads""".split()


def is_selected(case, engine):
    """Part of the short run? What an editor may break is run by the engine that edits."""
    if engine == "encode":
        return case.name in ENCODE
    if engine == "paths":
        return case.name in PATHS
    if engine == "exact":
        return case.name in ALSO_EXACT or (
            bool(EDITING.match(case.name)) and case.is_first_way and case.name not in LONG)
    return case.name not in LONG and case.is_first_way and not EDITING.match(case.name)
