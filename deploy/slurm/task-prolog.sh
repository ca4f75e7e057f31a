#!/bin/sh
# slurm.conf, TaskProlog=: as the user, before each task. Slurm adds what it prints to the task's environment: jobs are
# observed without a change to their scripts, unless the job says PACELINE_SHIM=0. What its QOS counts is yours to say here;
# whatever a job asks for, hostd holds it to its [weights].
[ "$PACELINE_SHIM" = 0 ] && exit 0
case "$SLURM_JOB_QOS" in
    best-effort | scavenger | preemptible) weight=best-effort ;;
    high) weight=4 ;;
    *) weight= ;;
esac
bin=${PACELINE_BIN:-/opt/paceline/bin}
"$bin/paceline" run --json ${weight:+--weight "$weight"} -- "${SLURM_JOB_NAME:-job}" 2>/dev/null | "$bin/python" -c '
import json, sys
for name, value in json.load(sys.stdin)["environment"].items():
    if "\n" not in value:
        print(f"export {name}={value}")
' 2>/dev/null
exit 0
