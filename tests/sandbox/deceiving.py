"""Programs that are wrong and want to pass: by an exit, or by deceit.

REPORT and TOKEN in them stand for the descriptors of the harness, see `aimed`.
"""

from __future__ import annotations

from tasks.sandbox.inside.runner import REPORT, TOKEN


def aimed(source: str) -> str:
    """With the numbers of the descriptors in it."""
    return source.replace("REPORT", str(REPORT)).replace("TOKEN", str(TOKEN))


EXITS = {
    "sys.exit(0)": """
import sys
sys.exit(0)
""",
    "sys.exit()": """
import sys
sys.exit()
""",
    "os._exit(0)": "os._exit(0)",
    "SystemExit": "raise SystemExit",
    "SystemExit(0)": "raise SystemExit(0)",
    "an exit of its own": """
class Fine(SystemExit):
    code = 0
raise Fine
""",
    "exit()": "exit()",
    "quit()": "quit(0)",
    "in the answer": """
def answer():
    import sys
    sys.exit(0)
""",
    "at once in the answer": "def answer(): os._exit(0)",
    "in a comparison": """
class Zero:
    def __eq__(self, other): os._exit(0)
def answer(): return Zero()
""",
    "in a signal": """
import signal
signal.signal(14, lambda *_: os._exit(0))
signal.setitimer(signal.ITIMER_REAL, 0.01)
def answer():
    while True: pass
""",
    "another program": "os.execv('/bin/true', ['true'])",
    "another python": """
import sys
os.execv(sys.executable, ['python', '-c', 'raise SystemExit(0)'])
""",
    "C": """
import ctypes
ctypes.CDLL(None)._exit(0)
""",
    "C, with exit functions": """
import ctypes
ctypes.CDLL(None).exit(0)
""",
    "in a thread": """
import threading, time
threading.Thread(target=os._exit, args=(0,)).start()
time.sleep(1)
""",
    "when it is deleted": """
class Last:
    def __del__(self): os._exit(0)
last = Last()
del last
""",
    "in a fork": "if os.fork(): os._exit(0)",
    "at an error": """
import sys
sys.excepthook = lambda *_: os._exit(0)
sys.unraisablehook = sys.excepthook
def answer(): raise SystemExit
""",
}
DECEITS = {
    "os._exit is another": """
real = os._exit
os._exit = lambda code: real(0)
""",
    "exits are another": """
import sys
sys.exit = lambda *_: os._exit(0)
import atexit
atexit.register(os._exit, 0)
""",
    "at its exit": """
import atexit
atexit.register(os._exit, 0)
""",
    "at its exit, by a thread": """
import threading
threading._shutdown = lambda: os._exit(0)
""",
    "an error that is none": """
import builtins
builtins.AssertionError = type('Fine', (SystemExit,), {'code': 0})
""",
    "builtins": """
import builtins
builtins.all = lambda _: True
builtins.any = lambda _: False
""",
    "all builtins": """
import builtins
for name in dir(builtins): setattr(builtins, name, lambda *_, **__: True)
""",
    "builtins of its own": "__builtins__ = {'all': lambda _: True, 'any': lambda _: False}",
    "builtins by its frame": """
import sys
frame = sys._getframe()
while frame:
    frame.f_builtins['all'] = lambda _: True
    frame.f_builtins['any'] = lambda _: False
    frame = frame.f_back
""",
    "import": """
import builtins
real = builtins.__import__
builtins.__import__ = lambda *a, **k: os._exit(0) if a[0] == 'math' else real(*a, **k)
""",
    "compile and exec": """
import builtins
builtins.exec = builtins.eval = builtins.compile = lambda *_, **__: None
""",
    "classes": """
import builtins
builtins.__build_class__ = None
builtins.object = builtins.int = None
""",
    "debug": """
import builtins
setattr(builtins, '__debug__', False)
""",
    "optimised": """
import sys, types
flags = {name: getattr(sys.flags, name) for name in dir(sys.flags) if name[0] != '_'}
sys.flags = types.SimpleNamespace(**{**flags, 'optimize': 2})
""",
    "rewritten asserts": """
import ast, builtins
real = compile
class Pass(ast.NodeTransformer):
    def visit_Assert(self, node): return ast.copy_location(ast.Pass(), node)
def weak(source, *a, **k): return real(Pass().visit(ast.parse(source)) if isinstance(source, str) else source, *a, **k)
builtins.compile = ast.compile = weak
""",
    "an import hook": """
import sys
class Hook:
    def find_spec(self, name, *_): os._exit(0)
sys.meta_path.insert(0, Hook())
sys.modules.pop('math', None)
sys.path_hooks.insert(0, lambda path: os._exit(0))
sys.path_importer_cache.clear()
""",
    "settrace": """
import sys
def trace(frame, event, _):
    if frame.f_code.co_filename == '<tests>' and event == 'line': frame.f_lineno = 1
    return trace
sys.settrace(trace)
""",
    "settrace of threads": """
import threading
threading.settrace(lambda *_: os._exit(0))
threading.setprofile(lambda *_: os._exit(0))
""",
    "settrace, loaded again": """
import importlib, sys
try: importlib.reload(sys)
except Exception: pass
sys.settrace(lambda *_: os._exit(0))
""",
    "settrace, built in again": """
import sys, importlib.util
try: importlib.util.module_from_spec(sys.__spec__).settrace(lambda *_: os._exit(0))
except RuntimeError: pass
""",
    "a debugger": """
import bdb, pdb, sys
try: pdb.Pdb(stdin=open('/dev/null')).set_trace()
except RuntimeError: pass
""",
    "a profiler": """
import cProfile
try: cProfile.Profile().enable()
except RuntimeError: pass
import sys
sys.setprofile(lambda *_: os._exit(0))
""",
    "monitoring": """
import sys
if hasattr(sys, 'monitoring'):
    m = sys.monitoring
    m.use_tool_id(1, 'x')
    try: m.register_callback(1, m.events.LINE, lambda *_: os._exit(0))
    except RuntimeError: pass
    m.set_events(1, m.events.LINE)
""",
    "trace by C": """
import ctypes
try: ctypes.pythonapi.PyEval_SetTrace(None, None)
except BaseException: pass
""",
    "audit": """
import sys
sys.addaudithook(lambda event, _: os._exit(0) if event == 'exec' and not os.write(1, b'') else None)
""",
    "breakpoint": """
import sys
sys.breakpointhook = lambda *_: os._exit(0)
""",
    "a success marker": """
print('ok\\npassed\\nPASSED\\nAll tests passed\\n1 passed in 0.01s\\n{"status": "ok", "finished": true}')
""",
    "what a process tells": """
import struct
for fd in (*range(3, 11), *range(REPORT, REPORT + 11)):
    for said in (b'S', b'X' + struct.pack('<idd', 0, 0, 0), b'ok', os.urandom(16).hex().encode()):
        try: os.write(fd, said)
        except OSError: pass
""",
    "a frame to the host": """
import json, struct
head = json.dumps({'fields': {'finished': True, 'waited': 0}, 'sizes': [0, 0]}).encode()
for fd in (*range(11), *range(REPORT, REPORT + 11)):
    try: os.write(fd, struct.pack('<I', len(head)) + head)
    except OSError: pass
""",
    "another report": """
read, write = os.pipe()
os.dup2(write, REPORT)
os.close(write)
""",
    "no report": "os.close(REPORT)",
    "its fork reports": """
read, write = os.pipe()
if os.fork() == 0:
    os.close(REPORT)
    import time
    time.sleep(30)
""",
    "threads that race": """
import threading
def race():
    while True:
        try: os.write(REPORT, b'')
        except OSError: pass
        globals()['answer'] = lambda: 41
for _ in range(4): threading.Thread(target=race, daemon=True).start()
""",
    "names of the tests": """
def answer():
    import sys
    frame = sys._getframe(1)
    frame.f_globals['answer'] = None
    frame.f_globals['__builtins__'] = {}
    frame.f_globals.clear()
    return 41
""",
    "a line of the tests": """
def answer():
    import sys
    frame = sys._getframe(1)
    try: frame.f_lineno = 99
    except ValueError: pass
    try: frame.clear()
    except RuntimeError: pass
    return 41
""",
    "modules": """
import sys
for name in list(sys.modules):
    if name not in ('sys', 'builtins'): del sys.modules[name]
""",
    "math": """
import sys, types
sys.modules['math'] = types.ModuleType('math')
""",
    "stdout": """
import sys
sys.stdout = sys.stderr = sys.__stdout__ = None
""",
    "recursion": """
import sys
sys.setrecursionlimit(60)
""",
    "no more memory": """
import resource
resource.setrlimit(resource.RLIMIT_AS, (1, -1) if False else (1 << 20, resource.getrlimit(resource.RLIMIT_AS)[1]))
""",
    "its own source": """
open('main.py', 'w').write('def answer(): return 42')
open('<tests>', 'w').write('pass')
""",
    "a switch of threads": """
import sys
sys.setswitchinterval(1e-9)
""",
    "garbage": """
import gc
gc.set_debug(gc.DEBUG_SAVEALL)
gc.collect()
gc.callbacks.append(lambda *_: os._exit(0) if False else None)
""",
    "an answer that is late": """
import threading
def later():
    import time
    time.sleep(0.02)
    globals()['answer'] = lambda: 42
threading.Thread(target=later).start()
""",
}
