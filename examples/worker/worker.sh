#!/bin/bash
# A Skald worker in bash, with curl and jq: it converts the argument "line" of each run to
# capitals. SKALD_URL is the server; SKALD_KEY is an API key with the role worker, if the server
# requires one (skald key create --name worker.sh --role worker); MAX_RUNS is the number of runs
# after which it stops. docs/workers.md explains each call.
set -u
url=${SKALD_URL:-http://127.0.0.1:8080}/api/v1
call() { # path, body: prints the response; fails unless it is 2xx; retries if the outcome is unknown
  curl -sS --fail-with-body --retry 5 --retry-connrefused --max-time 45 -H 'Content-Type: application/json' \
    ${SKALD_KEY:+-H "Authorization: Bearer $SKALD_KEY"} "$url/$1" -d "$2"
}
worker=$(call workers "{\"name\":\"worker.sh\",\"sdk\":\"bash\",\"pid\":$$,\"max_runs\":1,\"commands\":[\"shout\"]}" | jq -re .worker_id) || exit 1
held=$(mktemp)          # the current run, for the heartbeats
hold() { echo "$1" > "$held.new" && mv "$held.new" "$held"; }  # atomically, because the heartbeats read it
hold '[]'
( seq=0; while sleep 2; do                                # heartbeats, in parallel with the work
    seq=$((seq + 1))
    pid=$(cat "$held.pid")                                # before the call: this answer must not stop the next run
    call "workers/$worker/heartbeat" "{\"seq\":$seq,\"running\":$(cat "$held")}" | jq -e '.leases | all(.ok and (.cancel_requested | not))' > /dev/null ||
      [ -z "$pid" ] || kill "$pid"                        # gone, lost or to be canceled: stop the work
  done ) 2> /dev/null & beats=$!
trap 'kill $beats; call "workers/$worker/drain" "{}" > /dev/null; rm -f "$held"*' EXIT
outcomes='[]' done=0 calls=1 most=${MAX_RUNS:-1000000000}
settle() {              # counts the reported run; a result that cannot be stored is reported as a failure
  case $(jq -r '.results[0].status // 0' <<< "$1") in
    0) ;;
    200) done=$((done + 1)) outcomes='[]' ;;
    400 | 413 | 422) outcomes=$(jq -c '[.[0] | {run_id, attempt, lease_token, leader_epoch} +
      {error: {code: "RESULT_REFUSED", message: "no result that can be stored", retryable: false}}]' <<< "$outcomes") ;;
    *) outcomes='[]' ;;                                   # another worker has the run
  esac
}
while [ $done -lt "$most" ]; do                           # each call reports the last run and claims the next
  got=$(call "workers/$worker/exchange" "{\"outcomes\":$outcomes,\"slots\":1,\"wait_ms\":20000,\"claim_id\":\"$calls\"}") || { sleep 1; continue; }
  calls=$((calls + 1))                                    # only after the answer: a claim repeated under its id is the same one
  settle "$got"
  run=$(jq -ce '.runs[0] // empty' <<< "$got") || { [ "$outcomes" != '[]' ] || hold '[]'; continue; }
  id=$(jq -r .run_id <<< "$run")
  fence=$(jq -c '{run_id, attempt, lease_token, leader_epoch}' <<< "$run")
  hold "[$fence]"
  jq -r .args.line <<< "$run" | tr a-z A-Z > "$held.out" & echo $! > "$held.pid"
  if wait $!; then
    base64 -w0 "$held.out" > "$held.b64"                  # the output may be anything
    call "job-runs/$id/logs" "$(jq -c --rawfile out "$held.b64" "del(.run_id) + {worker_id: \"$worker\", seq: 0, chunk_base64: \$out}" <<< "$fence")" > /dev/null
    outcomes=$(jq -c --rawfile out "$held.out" '[. + {result: {shouted: ($out | rtrimstr("\n"))}, exit_code: 0}]' <<< "$fence")
  else
    outcomes=$(jq -c '[. + {error: {code: "FAILED", message: "tr failed", retryable: true}}]' <<< "$fence")
  fi
  rm -f "$held.pid" "$held.out"
  while [ "$outcomes" != '[]' ] && [ $((done + 1)) -ge "$most" ] && [ $done -lt "$most" ]; do  # the last one: claim no other
    got=$(call "workers/$worker/complete" "{\"runs\":$outcomes}") && settle "$got" || sleep 1
  done
done
