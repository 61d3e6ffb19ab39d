"""Run by gdb, attached to a process: prints the pcs of all its threads, one line for each."""
import gdb


def pcs_of(frame):
    while frame is not None:
        if frame.type() != gdb.INLINE_FRAME:
            yield frame.pc()
        try:
            frame = frame.older()
        except gdb.error:
            return


for thread in gdb.selected_inferior().threads():
    thread.switch()
    print("frames %d %s" % (thread.ptid[1], " ".join(
        "%x" % pc for pc in pcs_of(gdb.newest_frame()))))
