#!/bin/sh
# slurm.conf, TaskProlog=: as the user, before each task. Slurm adds what it prints to the task's environment: jobs are
# observed without a change to their scripts, unless the job says PACELINE_SHIM=0.
[ "$PACELINE_SHIM" = 0 ] && exit 0
bin=${PACELINE_BIN:-/opt/paceline/bin}
"$bin/paceline" run --json -- "${SLURM_JOB_NAME:-job}" 2>/dev/null | "$bin/python" -c '
import json, sys
for name, value in json.load(sys.stdin)["environment"].items():
    if "\n" not in value:
        print(f"export {name}={value}")
' 2>/dev/null
exit 0
