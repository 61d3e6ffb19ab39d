"""Seeds for the reader of perf records: rings with one record of each kind."""
import os
import struct
import sys

SAMPLE, LOST, COMM, EXIT, FORK, MMAP2, LOST_SAMPLES = 9, 2, 3, 4, 7, 10, 13
TRAILER = struct.pack("<IIQQ", 7, 8, 1000, 55)


def record(kind, misc, body):
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def sample(abi, has_chain, misc):
    chain = struct.pack("<QqQQ", 3, -128, 0xffffffff81000010, 0xffffffff81000020)
    registers = struct.pack("<17Q", *range(17)) if abi else b""
    return record(SAMPLE, misc, struct.pack("<QQIIQ", 55, 0x401000, 7, 8, 999) +
                  (chain if has_chain else b"") + struct.pack("<Q", abi) + registers +
                  struct.pack("<Q", 64) + bytes(64) + struct.pack("<Q", 40))


for has_chain in (0, 1):
    records = [sample(abi, has_chain, misc) for abi in (0, 1, 2) for misc in (1, 2)]
    records += [
        record(MMAP2, 2, struct.pack("<IIQQQIIQQII", 7, 8, 0x400000, 4096, 0, 8, 1, 99, 0, 5, 2) +
               b"/bin/true\0\0\0\0\0\0\0" + TRAILER),
        record(COMM, 0x2000, struct.pack("<II", 7, 8) + b"true\0\0\0\0" + TRAILER),
        record(FORK, 0, struct.pack("<IIIIQ", 9, 7, 9, 7, 1001) + TRAILER),
        record(EXIT, 0, struct.pack("<IIIIQ", 9, 7, 9, 7, 1002) + TRAILER),
        record(LOST, 0, struct.pack("<QQ", 55, 3) + TRAILER),
        record(LOST_SAMPLES, 0, struct.pack("<Q", 3) + TRAILER)]
    for i, one in enumerate([b"".join(records)] + records):
        with open(os.path.join(sys.argv[1], "%d-%d" % (has_chain, i)), "wb") as file:
            file.write(bytes([has_chain]) + one)
