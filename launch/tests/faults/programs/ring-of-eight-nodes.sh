#!/bin/bash
# A ring on 8 nodes: each rank speaks with two others. Logged, the end of the job once connected every rank with every other one, to say
# FINALIZE (28 connections between ranks, of which 11 were needed). A logged job has those of an unlogged one, and one for each node whose
# events are copied to another one. A connection that both sides make, or that is tried again, may count more than once.
T=$(command -v "${TAFFRAIL:-taffrail}"); P=$(command -v "${PERF:-taffrail-perf}"); bad=0; tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
if [ -z "$ALONE" ]; then
    unshare -n true 2>/dev/null || { echo "SKIP: unshare -n is not allowed"; exit 0; }
    ALONE=1 exec unshare -n bash "$0" "$@"
fi
ip link set lo up && ip addr add 10.77.0.1/24 dev lo || { echo "SKIP: no loopback of its own"; exit 0; }
accepted() { awk '/^Tcp:/ { if (++line == 2) print $7 }' /proc/net/snmp; }
connections() { # connections OPTION...: of a job
    local before; before=$(accepted)
    timeout -k 3 60 "$T" run --hosts a,b,c,d,e,f,g,h --rsh-agent 'env X={host}' -n 8 "$@" \
        "$P" app ring --iterations 20 --size 64 >"$tmp/out" 2>&1 </dev/null || { echo "WRONG: $*: $(tail -3 "$tmp/out")" >&2; echo 999; return; }
    echo $(($(accepted) - before))
}
plain=$(connections)
for options in "--logging pessimistic" "--logging pessimistic --sets rank" "--logging causal"; do
    logged=$(connections $options)
    if [ "$logged" -gt $((plain + 8 + 4)) ]; then
        echo "WRONG: $options: $logged connections, $plain without logging"; bad=$((bad + 1))
    else echo "OK $options: $logged connections, $plain without logging"; fi
done
echo "$bad wrong"; exit $((bad > 0))
