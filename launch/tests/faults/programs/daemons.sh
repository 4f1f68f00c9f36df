#!/bin/bash
# What a rank leaves behind ends with the job, and a line says so. A daemon goes on: it has left the session, and has let go of the
# job's output. So do children that the launcher had before it became the launcher.
T=${TAFFRAIL:-taffrail}; bad=0; tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
good() { echo "OK $*"; }; wrong() { echo "WRONG: $*"; bad=$((bad + 1)); }
daemon='import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
null = os.open("/dev/null", os.O_RDWR)
[os.dup2(null, fd) for fd in (0, 1, 2)]
open(sys.argv[1], "w").write(str(os.getpid()))
time.sleep(30)'
check() { # check NAME lives|ends LINE: the process whose number is in the file
    local pid; pid=$(cat "$tmp/pid"); local is=ends
    kill -0 "$pid" 2>/dev/null && is=lives
    if [ $is = "$2" ]; then good "$1 $is"; else wrong "$1 $is"; fi
    if grep -q "process $pid .*$3" "$tmp/err"; then good "$1: a line"; else wrong "$1: no line: $(cat "$tmp/err")"; fi
    [ $is = lives ] && kill "$pid"
    rm -f "$tmp/pid"
}
for how in "" "--logging pessimistic --sets rank"; do
    for out in /dev/null "$tmp/out"; do
        $T run $how -n 1 bash -c "python3 -c '$daemon' $tmp/pid; until [ -s $tmp/pid ]; do sleep 0.05; done" </dev/null >$out 2>"$tmp/err"
        check "a daemon (run $how >$out)" lives "is a daemon and goes on"
        $T run $how -n 1 bash -c "setsid sleep 30 & echo \$! >$tmp/pid; sleep 0.3" </dev/null >$out 2>"$tmp/err"
        check "a process in a session of its own (run $how >$out)" ends "was ended"
    done
done
echo "$bad wrong"; exit $((bad > 0))
