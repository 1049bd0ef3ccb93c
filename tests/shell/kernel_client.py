#!/usr/bin/env python3
"""The kernel of a notebook, seen by a client that is written here: kernel_client.py PROGRAM.

Prints a line per test, and `N passed, M failed` at the end. Waits end after HANG seconds, which only a
kernel that hangs needs.
"""
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

import zmq

HANG = 60
PORTS = ["shell_port", "control_port", "iopub_port", "stdin_port", "hb_port"]
program = sys.argv[1]
tests = []


def test(function):
    tests.append(function)
    return function


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def write_connection(directory, **other):
    info = {"transport": "tcp", "ip": "127.0.0.1", "key": "a secret", "signature_scheme": "hmac-sha256"}
    info.update(zip(PORTS, free_ports(5)))
    info.update(other)
    path = os.path.join(directory, "connection.json")
    with open(path, "w") as file:
        json.dump({k: v for k, v in info.items() if v is not None}, file)
    return path, info


class Kernel:
    """A kernel that runs, and one client of it."""

    def __init__(self, **other):
        self.directory = tempfile.TemporaryDirectory()
        self.log = open(os.path.join(self.directory.name, "log"), "w+")
        environment = dict(os.environ, HOME=self.directory.name, TERM="dumb")
        while True:  # another program may have taken one of the ports since they were free
            path, self.info = write_connection(self.directory.name, **other)
            self.process = subprocess.Popen([program, "kernel", "-f", path], stdin=subprocess.DEVNULL, stdout=self.log,
                                            stderr=self.log, env=environment, start_new_session=True)
            if self.listens():
                break
            self.log.seek(0)
            assert "is taken" in self.log.read()
        self.connect()

    def listens(self):
        while self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.info["hb_port"]), timeout=HANG).close()
                return True
            except ConnectionRefusedError:
                time.sleep(0.02)
        return False

    def connect(self):
        self.context = zmq.Context()
        self.session = uuid.uuid4().hex
        kinds = {"shell": zmq.DEALER, "control": zmq.DEALER, "iopub": zmq.SUB, "stdin": zmq.DEALER, "hb": zmq.REQ}
        self.sockets = {}
        for name, kind in kinds.items():
            s = self.sockets[name] = self.context.socket(kind)
            s.linger = 0
            if kind == zmq.SUB:
                s.subscribe(b"")
            elif name != "hb":
                s.identity = self.session.encode()
            s.connect("tcp://127.0.0.1:%d" % self.info[name + "_port"])
        while self.receive("iopub")["type"] != "iopub_welcome":
            pass  # what the kernel still says to somebody else

    def disconnect(self):
        self.context.destroy(linger=0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.disconnect()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()
        self.directory.cleanup()

    def sign(self, parts):
        return hmac.new(self.info["key"].encode(), b"".join(parts), hashlib.sha256).hexdigest().encode()

    def send(self, kind, channel="shell", key=None, **content):
        header = {"msg_id": uuid.uuid4().hex, "session": self.session, "username": "a \"name\"", "date": "2024-01-01T00:00:00Z",
                  "msg_type": kind, "version": "5.4"}
        parts = [json.dumps(p).encode() for p in (header, {}, {}, content)]
        signature = self.sign(parts) if key is None else key
        self.sockets[channel].send_multipart([b"<IDS|MSG>", signature] + parts)
        return header["msg_id"]

    def receive(self, channel="shell"):
        s = self.sockets[channel]
        assert s.poll(HANG * 1000), "nothing came on %s" % channel
        frames = s.recv_multipart()
        at = frames.index(b"<IDS|MSG>")
        parts = frames[at + 2:at + 6]
        assert frames[at + 1] == (self.sign(parts) if self.info["key"] else b""), "a wrong signature"
        header, parent, _, content = (json.loads(p) for p in parts)
        return {"type": header["msg_type"], "parent": parent.get("msg_id"), "version": header["version"], **content}

    def request(self, kind, channel="shell", **content):
        sent = self.send(kind, channel, **content)
        reply = self.receive(channel)
        assert reply["parent"] == sent, reply
        return reply

    def outputs(self, sent):
        """What listeners are told of a request, without its states."""
        found = []
        while True:
            m = self.receive("iopub")
            if m["parent"] != sent:
                continue
            if m["type"] == "status":
                if m["execution_state"] == "idle":
                    return found
            elif m["type"] != "execute_input":
                found.append(m)

    def begin(self, code, **other):
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False,
                   "stop_on_error": True}
        content.update(other)
        return self.send("execute_request", **content)

    def run(self, code, **other):
        sent = self.begin(code, **other)
        reply = self.receive()
        assert reply["parent"] == sent
        return reply, self.outputs(sent)

    def text(self, code):
        _, outputs = self.run(code)
        return "".join(m["text"] for m in outputs if m["type"] == "stream" and m["name"] == "stdout")

    def value(self, code):
        reply, outputs = self.run(code)
        assert reply["status"] == "ok", reply
        return [m["data"] for m in outputs if m["type"] in ("execute_result", "display_data")]

    def until_printed(self, word):
        """Waits for a word on standard output while the cell runs."""
        seen = ""
        while word not in seen:
            m = self.receive("iopub")
            if m["type"] == "stream":
                seen += m["text"]

    def end(self, restart=False):
        assert self.request("shutdown_request", "control", restart=restart)["restart"] == restart
        assert self.process.wait(HANG) == 0


@test
def a_cell_gives_its_value_as_text_and_table(k):
    assert k.value("x = torch.arange(6):view(2, 3)\nx")[0] == {
        "text/plain": "i64 [2, 3]  view\n 0  1  2\n 3  4  5",
        "text/html": k.value("x")[0]["text/html"]}
    assert "<td style=\"text-align:right\">5</td>" in k.value("x")[0]["text/html"]
    large = k.value("torch.randn(100, 100)")[0]["text/html"]
    assert "min -" in large.split("</caption>")[0] and large.count("<tr>") == 7 and "%full" in large.split("</table>")[1]
    assert "text/html" not in k.value("torch.ones(2, 2, 2)")[0]
    assert k.value("6 * 7") == [{"text/plain": "42"}]
    assert k.value("x;") == []
    reply, _ = k.run("_:sum()", user_expressions={"n": "x:numel()", "bad": "nothing.there"})
    assert reply["user_expressions"]["n"]["data"] == {"text/plain": "6"}
    assert reply["user_expressions"]["bad"]["status"] == "error"


@test
def what_is_written_comes_while_the_cell_runs_and_in_order(k):
    sent = k.begin("print('first') io.stderr:write('wrong\\n') io.read() print('ä' .. ('é'):rep(30000))", allow_stdin=True)
    k.until_printed("first")
    assert k.receive("stdin")["parent"] == sent
    k.send("input_reply", "stdin", value="go on")
    said = k.outputs(sent)
    assert all(m["type"] == "stream" for m in said), said
    assert "".join(m["text"] for m in said if m["name"] == "stderr") == "wrong\n"
    assert "".join(m["text"] for m in said if m["name"] == "stdout") == "ä" + "é" * 30000 + "\n"
    assert k.receive()["status"] == "ok"
    _, outputs = k.run("print('before') plot(torch.arange(4)) print('after') return 1")
    assert [m["type"] for m in outputs] == ["stream", "display_data", "stream", "execute_result"]
    assert k.text("os.execute('echo of a program')") == "of a program\n"
    assert k.text("io.write('\\255')") == "\ufffd"


@test
def pictures_are_pictures(k):
    svg = k.value("plot(torch.arange(5))")[0]
    assert svg["image/svg+xml"].startswith("<svg") and "⠀" in svg["text/plain"] or "4" in svg["text/plain"]
    assert k.value("torch.ones(3, 8, 8):show()")[0]["image/png"].startswith("iVBORw0KGgo")
    assert "image/svg+xml" in k.value("hist(torch.arange(9))")[0]


@test
def an_error_has_its_picture_and_stops_the_cells_behind_it(k):
    first, second, third = k.begin("x + torch.ones(2)"), k.begin("1"), k.begin("2")
    failed = k.outputs(first)
    assert [m["type"] for m in failed] == ["error"]
    assert failed[0]["ename"] == "SHAPE-2" and "do not broadcast" in failed[0]["evalue"]
    assert any("would fit" in line for line in failed[0]["traceback"])
    states = [k.receive()["status"] for _ in range(3)]
    assert states == ["error", "aborted", "aborted"], states
    k.outputs(second), k.outputs(third)
    reply, outputs = k.run("x = = 2")
    assert reply["status"] == "error" and "^" in "".join(outputs[0]["traceback"])
    assert k.run("undefined_name()", stop_on_error=False)[0]["status"] == "error"
    assert k.run("1")[0]["status"] == "ok"


@test
def questions_about_code_are_answered(k):
    reply = k.request("complete_request", code="ö = torch.arang", cursor_pos=15)
    assert reply["matches"] == ["arange"] and (reply["cursor_start"], reply["cursor_end"]) == (10, 15)
    reply = k.request("inspect_request", code="torch.topk(x, ", cursor_pos=14, detail_level=0)
    assert reply["found"] and "largest" in reply["data"]["text/plain"]
    assert not k.request("inspect_request", code="no_such_thing_at_all", cursor_pos=4, detail_level=0)["found"]
    for code, status in [("1", "complete"), ("for i = 1, 2 do", "incomplete"), ("x = = 1", "invalid"), ("%who", "complete"),
                         ("for i in range(3):", "invalid")]:
        assert k.request("is_complete_request", code=code)["status"] == status, code
    history = k.request("history_request", hist_access_type="search", pattern="6 ?*7", output=True, raw=True)["history"]
    assert history[-1][2] == ["6 * 7", "42"]
    assert k.request("comm_info_request")["comms"] == {}
    assert k.request("kernel_info_request")["protocol_version"] == "5.4"


@test
def commands_and_help_are_the_prompts_own(k):
    assert "x" in k.text("%who") and "largest" in k.text("?topk")
    assert [line for line in k.text("%echo on\ny = 5\n%echo off\nprint(y + 1)").split("\n") if len(line) < 9] == ["y: 5", "6", ""]
    number = k.run("1")[0]["execution_count"]
    assert k.run("a = 1", silent=True)[0]["status"] == "ok"
    assert k.run("a")[0]["execution_count"] == number + 1


@test
def a_question_reaches_the_person_and_its_answer_the_code(k):
    sent = k.begin("io.write('name? ') name = io.read() number = io.read('n')  return name, number", allow_stdin=True)
    for answer in ["Zoë \"Z\"", "12"]:
        asked = k.receive("stdin")
        assert asked["type"] == "input_request" and asked["parent"] == sent
        k.send("input_reply", "stdin", value=answer)
    assert k.receive()["status"] == "ok"
    assert k.outputs(sent)[-1]["data"]["text/plain"].split() == ['"Zoë', '\\"Z\\""', "12"]
    reply, outputs = k.run("return io.read()")
    assert reply["status"] == "ok" and "nobody to ask" in outputs[0]["text"]
    sent = k.begin("io.read() print 'not here'", allow_stdin=True)
    assert k.receive("stdin")["parent"] == sent
    k.request("interrupt_request", "control")
    assert k.receive()["ename"] == "interrupted"
    k.outputs(sent)


@test
def an_interrupt_stops_loops_and_operations_and_keeps_the_variables(k):
    loops = ["while true do end", "local x = torch.randn(400, 400) while true do x = x:matmul(x):tanh() end",
             "os.execute('echo asleep; exec sleep 1000') while true do end"]
    for i, loop in enumerate(loops):
        sent = k.begin("kept = %d print('begun') %s" % (i, loop))
        k.until_printed("asleep" if i == 2 else "begun")  # a shell that just begins a program may miss a Ctrl-C
        assert k.request("kernel_info_request", "control")["status"] == "ok"  # while it computes
        k.sockets["hb"].send(b"alive")
        assert k.sockets["hb"].poll(HANG * 1000) and k.sockets["hb"].recv() == b"alive"
        if i == 1:
            os.kill(k.process.pid, signal.SIGINT)
        else:
            assert k.request("interrupt_request", "control")["type"] == "interrupt_reply"
        reply = k.receive()
        assert reply["status"] == "error" and reply["ename"] == "interrupted", reply
        k.outputs(sent)
        assert k.value("kept")[0] == {"text/plain": str(i)}
    for _ in range(4):  # when nothing runs, nothing happens
        k.request("interrupt_request", "control")
    assert k.value("kept")[0] == {"text/plain": "2"}


@test
def messages_that_are_wrong_are_left_out(k):
    k.send("execute_request", key=b"0" * 64, code="evil = 1", silent=False)
    k.send("execute_request", key=b"", code="evil = 1", silent=False)
    for frames in ([b"<IDS|MSG>"], [b"nothing"], [b"<IDS|MSG>", k.sign([b"a", b"b", b"c", b"d"]), b"a", b"b", b"c", b"d"]):
        k.sockets["shell"].send_multipart(frames)
    k.send("no_such_request")
    k.send("comm_open", comm_id="7", target_name="nobody", data={})
    k.sockets["stdin"].send_multipart([b"x"])
    parts = [json.dumps({"msg_id": "1", "msg_type": "execute_request"}).encode(), b"{}", b"{}", b"[1, {"]
    k.sockets["shell"].send_multipart([b"<IDS|MSG>", k.sign(parts)] + parts)
    assert k.receive()["type"] == "execute_reply"  # of the damaged content: nothing to run
    assert k.value("rawget(_G, 'evil') == nil")[0] == {"text/plain": "true"}
    k.log.seek(0)
    assert "wrong signature" in k.log.read()


@test
def a_client_that_is_gone_is_followed_by_the_next(k):
    k.begin("print('begun') for i = 1, 3000 do print(('x'):rep(1000)) end last = 'there'")
    k.until_printed("begun")
    k.disconnect()
    k.connect()
    assert k.value("last")[0] == {"text/plain": '"there"'}


@test
def a_shutdown_ends_what_runs(k):
    k.begin("print('begun') while true do end")
    k.until_printed("begun")
    k.end(restart=True)


def an_exit_ends_the_kernel_and_loses_nothing():
    with Kernel() as k:
        sent = k.begin("io.write('the last ') io.stderr:write('words') os.exit(3)")
        k.until_printed("the last ")
        k.until_printed("words")
        assert sent and k.process.wait(HANG) == 3


def quit_ends_the_kernel():
    with Kernel(key="") as k:
        assert k.run("%quit")[0]["payload"] == [{"source": "ask_exit", "keepkernel": False}]
        assert k.process.wait(HANG) == 0


def connection_files_that_are_wrong_are_named():
    def said(path):
        done = subprocess.run([program, "kernel", "-f", path], capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 1 and not done.stdout, done
        return done.stderr

    with tempfile.TemporaryDirectory() as directory:
        assert "cannot be read" in said(directory + "/none.json")
        for text, words in [("", "damaged"), ("{\"ip\": ", "damaged"), ("[1]", 'no "shell_port"'), ("7", "holds no object")]:
            path = directory + "/damaged.json"
            with open(path, "w") as file:
                file.write(text)
            said_of = said(path)
            assert words in said_of or "damaged" in said_of or "_port" in said_of, said_of
        for change, words in [({"shell_port": None}, 'no "shell_port"'), ({"hb_port": 70000}, "70000"), ({"iopub_port": "x"}, "port"),
                              ({"transport": "pigeon"}, "pigeon"), ({"signature_scheme": "hmac-none"}, "hmac-none"), ({"key": 5}, "key"),
                              ({"ip": "300.1.2.3"}, "300.1.2.3")]:
            assert words in said(write_connection(directory, **change)[0]), (change, words)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            text = said(write_connection(directory, stdin_port=port)[0])
            assert "is taken (stdin_port" in text and str(port) in text, text


def a_kernel_does_not_outlive_who_started_it():
    with tempfile.TemporaryDirectory() as directory:
        path, _ = write_connection(directory)
        # A shell starts it, says its number, and is gone.
        starter = subprocess.run(["bash", "-c", "JPY_PARENT_PID=$$ \"$0\" kernel -f \"$1\" </dev/null >/dev/null 2>&1 & echo $!; sleep 0.3",
                                  program, path], capture_output=True, text=True, timeout=HANG)
        pid = int(starter.stdout)
        until = time.monotonic() + HANG
        while os.path.exists("/proc/%d" % pid) and open("/proc/%d/stat" % pid).read().split()[2] != "Z":
            assert time.monotonic() < until, "it still runs"
            time.sleep(0.05)


def the_kernel_is_registered_where_it_is_asked_for():
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run([program, "kernel", "--install", "--prefix", directory, "--name", "mine"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        with open(directory + "/share/jupyter/kernels/mine/kernel.json") as file:
            spec = json.load(file)
        assert spec["argv"][1:] == ["kernel", "-f", "{connection_file}"] and os.access(spec["argv"][0], os.X_OK)
        assert spec["interrupt_mode"] == "message"
        done = subprocess.run([program, "kernel", "--install", "--name", "a/b"], capture_output=True, text=True)
        assert done.returncode == 1 and "no name" in done.stderr


def check(function, *arguments):
    try:
        function(*arguments)
        print("ok " + function.__name__.replace("_", " "))
        return True
    except Exception as error:  # every kind of failure counts
        place = error.__traceback__
        while place.tb_next:
            place = place.tb_next
        print("FAIL %s (line %d): %s: %s" % (function.__name__.replace("_", " "), place.tb_lineno, type(error).__name__, error))
        return False


results = []
with Kernel() as kernel:
    for function in tests:
        results.append(check(function, kernel))
        if not results[-1]:
            kernel.log.seek(0)
            print(kernel.log.read())
            break
for function in (quit_ends_the_kernel, an_exit_ends_the_kernel_and_loses_nothing, connection_files_that_are_wrong_are_named, a_kernel_does_not_outlive_who_started_it,
                 the_kernel_is_registered_where_it_is_asked_for):
    results.append(check(function))
print("%d passed, %d failed" % (sum(results), len(results) - sum(results)))
sys.exit(not all(results))
