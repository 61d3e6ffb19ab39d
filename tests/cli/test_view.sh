#!/bin/sh
# calltrail html and view as commands: what they write, what they answer, whom they refuse. What the page does in a
# browser is scripts/check-view's.
. "$(dirname "$0")/checks.sh"
needs CALLTRAIL GEN_PROFILE

"$GEN_PROFILE" --seed 1 --nodes 500 --threads 3 small.ctp
holds html-writes "$CALLTRAIL" html -o page.html small.ctp
holds html-is-one-file sh -c '! grep -qE "(src|href)=\"?(https?:)?//" page.html && grep -q "default-src .none." page.html'
holds html-to-a-stream sh -c '"$0" html -o - small.ctp | cmp - page.html' "$CALLTRAIL"
holds html-of-two "$CALLTRAIL" html -o two.html small.ctp small.ctp
holds html-of-two-has-both sh -c '[ "$(grep -c "class=\"data\"" two.html)" -eq 2 ]'
refused html-three-files 2 'at most two files' html a b c
refused html-bad-share 2 'is not from 0 to 100' html --min-share 101 small.ctp
refused html-no-file 1 'none.ctp' html none.ctp -o x.html
refused html-no-profile 1 'page.html' html -o x.html page.html
refused view-bad-port 2 'is not from 0 to 65535' view --port 65536 small.ctp
refused view-no-file 1 'none.ctp' view none.ctp

# The page's data is all of the profile: the sums of what is in it are the totals.
cat >data.py <<'END'
import base64, gzip, json, re, struct, subprocess, sys
calltrail, profile, options = sys.argv[1], sys.argv[2], sys.argv[3:]
html = subprocess.run([calltrail, "html", "-o", "-", *options, profile], capture_output=True, check=True).stdout
data = gzip.decompress(base64.b64decode(re.search(rb'class="data">([^<]*)<', html)[1]))
(length,) = struct.unpack_from("<Q", data)
header, at, values, arrays = json.loads(data[8:8 + length]), 8 + -(-length // 8) * 8, [], {}
for name, kind, count in header["arrays"]:
    arrays[name] = struct.unpack_from(f"<{count}{'d' if kind == 'f64' else 'I'}", data, at)
    if name == "values":
        values.append(arrays[name])
    at += -(-count * (8 if kind == "f64" else 4) // 8) * 8
assert at == len(data), "bytes that no array has"

def total(*selection):
    report = subprocess.run([calltrail, "report", "--view", "flat", "--json", *selection, profile], capture_output=True, check=True)
    return int(json.loads(report.stdout)["total"])

for metric, array in zip(header["metrics"], values):
    assert total("--metric", metric["name"]) == sum(array), metric["name"]
first = arrays["rootFirst"]
for index, (_, number, _) in enumerate(header["threads"]):
    ranges = [(first[i], first[i + 1]) for i, thread in enumerate(arrays["rootThread"]) if thread == index]
    assert total("--thread", str(number)) == sum(sum(values[0][a:b]) for a, b in ranges), number
assert all(parent == 0xffffffff or parent < node for node, parent in enumerate(arrays["nodeParent"])), "parents come first"
print(len(arrays["nodeParent"]), header["cut"]["leftOut"])
END
"$GEN_PROFILE" --seed 2 --nodes 20000 --threads 5 --metrics 3 large.ctp
holds html-has-all sh -c 'set -- $(python3 data.py "$0" large.ctp --min-share 0) && [ "$1" = 20000 ] && [ "$2" = 0 ]' "$CALLTRAIL"
holds html-cut sh -c 'set -- $(python3 data.py "$0" large.ctp --min-share 0.5) && [ "$1" -lt 4000 ] && [ "$2" -gt 16000 ]' "$CALLTRAIL"

# ---- What report has of the page: a picture, and the structure of the program

cat >flame.py <<'END'
import subprocess, sys, xml.dom.minidom
calltrail, profile = sys.argv[1:3]
text = subprocess.run([calltrail, "report", "--view", "flame", profile], capture_output=True, check=True).stdout
picture = xml.dom.minidom.parseString(text)
groups, rows = picture.getElementsByTagName("g"), {}
for group in groups:
    rect = group.getElementsByTagName("rect")[0]
    x, y, width = (float(rect.getAttribute(key)) for key in ("x", "y", "width"))
    assert 9 <= x and x + width <= 1192, "outside of the picture"
    rows.setdefault(y, []).append((x, width))
assert len(groups) > 20 and len(rows) > 3
for row in rows.values():
    row.sort()
    assert all(a + width <= b + 0.02 for (a, width), (b, _) in zip(row, row[1:])), "frames lie upon each other"
assert {node.tagName for node in picture.getElementsByTagName("*")} == {"svg", "rect", "text", "title", "g"}, "a name has become an element"
END
"$GEN_PROFILE" --seed 4 --nodes 600 --hostile hostile.ctp
holds flame-is-a-picture python3 flame.py "$CALLTRAIL" small.ctp
holds flame-of-hostile-names python3 flame.py "$CALLTRAIL" hostile.ctp
refused flame-is-not-json 2 'is SVG' report --view flame --json small.ctp

cat >structure.py <<'END'
import json, subprocess, sys
answer = subprocess.run([sys.argv[1], "report", "--view", "structure", "--json", "--limit", "0", sys.argv[2]], capture_output=True, check=True)
report = json.loads(answer.stdout)
sums, path, kinds = {}, [], ["module", "file", "function", "line"]
for number, row in enumerate(report["rows"]):
    del path[row["depth"]:]
    assert row["kind"] == kinds[row["depth"]], row
    sums[path[-1] if path else None] = sums.get(path[-1] if path else None, 0) + int(row["self"])
    path.append(number)
assert sums[None] == int(report["total"]), "the modules are not the whole"
for number, value in sums.items():
    if number is not None:
        row = report["rows"][number]
        # Only a function can have cost of which the line is not known.
        assert value == int(row["self"]) or (row["kind"] == "function" and value < int(row["self"])), row
END
holds structure-adds-up python3 structure.py "$CALLTRAIL" large.ctp

# ---- The server

cat >server.py <<'END'
import concurrent.futures, os, random, re, signal, socket, subprocess, sys, urllib.request
server = subprocess.Popen([sys.argv[1], "view", "--no-browser", "--nodes", "100", "small.ctp"], stdout=subprocess.PIPE, text=True)
address = server.stdout.readline().strip()
port, token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/", address).groups()
port = int(port)

def send(raw, whole=True):
    """The status that is answered, 0 for none."""
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.settimeout(60)
        try:
            connection.sendall(raw)
            if not whole:
                return 0
            answer = b""
            while b"\r\n" not in answer:
                part = connection.recv(65536)
                if not part:
                    return 0
                answer += part
        except (ConnectionResetError, BrokenPipeError):
            return 0
    return int(answer.split()[1])

def get(path, host=f"127.0.0.1:{port}", method="GET", extra=""):
    return send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{extra}Connection: close\r\n\r\n".encode("utf-8", "surrogateescape"))

failures = 0

def check(name, got, *wanted):
    global failures
    failures += got not in wanted
    print(f"ok server-{name}" if got in wanted else f"FAIL server-{name}: {got}, not {wanted}")

for path in ("", "page.js", "page.css", "profiles", "data", "data?profile=0", "data?thread=1000", "data?zoom=1.2"):
    check(f"has-{path}", get(f"/{token}/{path}"), 200)
check("name-of-this-machine", get(f"/{token}/", f"localhost:{port}"), 200)
for path in ("/", "/data", "/page.js", f"/{token}", f"/{token[:-1]}/", f"/{token}x/", f"/{'0' * 32}/", f"/{token.upper()}x/data", "//", "/../", f"/{token[:16]}%00{token[17:]}/"):
    check(f"refuses-{path.replace(token, 'TOKEN')[:20]}", get(path), 403, 400)
check("other-host", get(f"/{token}/", "evil.example"), 403)
check("other-host-on-port", get(f"/{token}/", f"evil.example:{port}"), 403)
check("no-host", send(f"GET /{token}/ HTTP/1.0\r\n\r\n".encode()), 403)
check("post", get(f"/{token}/", method="POST", extra="Content-Length: 3\r\n"), 405)
check("delete", get(f"/{token}/data", method="DELETE"), 405)
check("nothing-there", get(f"/{token}/none"), 404)
check("climbing", get(f"/{token}/../../etc/passwd"), 404)
check("second-profile", get(f"/{token}/data?profile=1"), 404)
for path in ("data?zoom=!", "data?zoom=" + "1." * 20000, "data?thread=nobody", "data?phase=%ff%00", "data?zoom=zzzzzzzzzz"):
    check(f"bad-{path[:16]}", get(f"/{token}/{path}"), 400, 414, 431)
check("long-address", get(f"/{token}/" + "x" * 1000000), 0, 400, 413, 414, 431)
check("long-header", get(f"/{token}/", extra=f"X: {'y' * 1000000}\r\n"), 0, 400, 413, 431)

headers = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address).headers
policy = headers["Content-Security-Policy"]
check("policy", "default-src 'none'" in policy and "unsafe" not in policy and "script-src 'self'" in policy, True)
check("nosniff", headers["X-Content-Type-Options"], "nosniff")

# Only on the loopback address, whatever others the machine has.
sockets = {os.readlink(f"/proc/{server.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{server.pid}/fd")}

def listening(table):
    """Where the server listens, by a table of the kernel's, which may not be there."""
    if not os.path.exists(table):
        return []
    rows = [line.split() for line in open(table).readlines()[1:]]
    return [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]

check("loopback-only", listening("/proc/net/tcp"), [f"0100007F:{port:04X}"])
check("no-ipv6", listening("/proc/net/tcp6"), [])

# Many connections that say half of something, and nonsense: others are answered all the same.
half = []
for i in range(60):
    connection = socket.create_connection(("127.0.0.1", port), 60)
    connection.sendall(f"GET /{token}/da".encode() if i % 2 else b"")
    half.append(connection)
check("beside-half-requests", get(f"/{token}/"), 200)
# Far more than it takes at once: those that asked for nothing go first, and it does not wait for them to time out.
for i in range(600):
    connection = socket.create_connection(("127.0.0.1", port), 60)
    connection.sendall(f"GET /{token}/da".encode())
    half.append(connection)
check("beside-many-half-requests", get(f"/{token}/"), 200)
ended = 0
for connection in half[:500]:  # the oldest
    connection.settimeout(60)
    try:
        ended += connection.recv(1) == b""
    except ConnectionResetError:
        ended += 1
check("half-requests-end", ended, 500)
for connection in half:
    connection.close()
check("after-half-requests", get(f"/{token}/"), 200)
chance = random.Random(7)
request = f"GET /{token}/data?zoom=1.2&thread=1000 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
for _ in range(400):
    broken = bytearray(request)
    for _ in range(chance.randrange(1, 8)):
        kind, at = chance.randrange(3), chance.randrange(len(broken))
        if kind == 0:
            broken[at] = chance.randrange(256)
        elif kind == 1:
            del broken[at:at + chance.randrange(20)]
        else:
            broken[at:at] = bytes(chance.randrange(256) for _ in range(chance.randrange(40)))
        if not broken:
            broken = bytearray(b"\n")
    send(bytes(broken), whole=False)
check("after-nonsense", get(f"/{token}/data?zoom=1"), 200)

# Requests by chance, eight at once: all of what has the token is answered, what has not is refused, half ones are let go.
WORDS = {"thread": ("1000", "nobody", "%00", "%ff%fe", "", "x" * 3000), "process": ("1", "-1", "99999999999999999999", "%"), "phase": ("start-up", "%2e%2e", "+"),
         "zoom": ("1", "1.2", "0", "zz.zz", "." * 50, "1.%00", "-1", "7fffffff"), "profile": ("0", "1", "2", "-1", "x"),
         "from": ("0", "1.5", "1e9", "-1", "nan", "inf", "99999999999999999999999", "0x10", "1e400", "abc", "%00"),
         "to": ("0", "2", "0.000001", "1e308", "-0", "18446744073709551616", "5000", " ")}
KINDS = ("whole", "whole", "whole", "token", "cut", "method", "body", "header")

def any_request():
    """What is sent, and the answers that may come, 0 for none at all; None: it is not waited for."""
    words = [f"{key}={chance.choice(WORDS[key])}" for key in chance.choices(list(WORDS), k=chance.randrange(5))]
    kind, name = chance.choice(KINDS), chance.choice(("data", "flat", "profiles", "", "page.js", "none"))
    secret = chance.choice((token[:-1] + "g", token[::-1], "", token + "0", "%00" + token, token.upper() + "A")) if kind == "token" else token
    method = chance.choice(("PUT", "POST", "OPTIONS", "TRACE", "BREW", "get")) if kind == "method" else "GET"
    extra = {"body": f"Content-Length: {chance.choice(('5', '0', '99999999999', '-1', 'x'))}\r\n", "header": f"X-{'h' * chance.choice((1, 500, 40000))}: 1\r\n" * chance.choice((1, 50))}.get(kind, "")
    raw = f"{method} /{secret}/{name}?{'&'.join(words)} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{extra}Connection: close\r\n\r\n".encode()
    if kind == "cut":
        return raw[:chance.randrange(len(raw))], None
    refused = (400, 403, 414, 431)
    allowed = {"token": refused, "method": (0, 400, 403, 404, 405, 501), "body": None, "header": (0, 200, 400, 404, 413, 431)}
    return raw + (b"12" if kind == "body" else b""), allowed.get(kind, (200, 400, 404, 414, 431))

def answer_to(request):
    raw, allowed = request
    if allowed is None:
        return send(raw, whole=False)
    with socket.create_connection(("127.0.0.1", port), 180) as connection:
        connection.settimeout(180)
        answer = b""
        try:
            connection.sendall(raw)
            while part := connection.recv(1 << 16):
                answer += part
        except (ConnectionResetError, BrokenPipeError, OSError) as error:
            if isinstance(error, TimeoutError):
                return "no answer"
    found = re.match(rb"HTTP/1\.1 (\d+)", answer)
    return int(found[1]) if found else 0

requests = [any_request() for _ in range(400)]
with concurrent.futures.ThreadPoolExecutor(8) as senders:
    answers = list(senders.map(answer_to, requests))
wrong = [(raw[:300], got) for (raw, allowed), got in zip(requests, answers) if allowed and got not in allowed]
check("requests-by-chance", wrong[:2], [])
check("answers-of-all-kinds", {200, 400, 403, 404} <= set(answers), True)
check("after-chance", get(f"/{token}/data?zoom=1"), 200)
check("lives", server.poll(), None)
server.send_signal(signal.SIGINT)
check("ends-with-ctrl-c", server.wait(60), 0)
sys.exit(failures > 0)
END
python3 server.py "$CALLTRAIL" || failures=$((failures + 1))

[ $failures -eq 0 ]
