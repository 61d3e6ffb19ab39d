"""
Run by gdb, attached to a process: prints the pcs of all its threads, one line for each. Frames that
are not on the stack, but inferred from debug information, are left out.
"""
import gdb


def pcs_of(frame):
    while frame is not None:
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):
            yield frame.pc()
        try:
            frame = frame.older()
        except gdb.error:
            return


for thread in gdb.selected_inferior().threads():
    thread.switch()
    print("frames %d %s" % (thread.ptid[1], " ".join(
        "%x" % pc for pc in pcs_of(gdb.newest_frame()))))
