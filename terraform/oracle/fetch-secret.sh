#!/bin/bash
# fetch-secret.sh PROJECT SECRET FILE: puts the newest version of a secret into a file, by renaming,
# if it is another than the one there. Container-Optimized OS has neither gcloud nor jq; values are
# base64, which sed finds.
set -euo pipefail
umask 077
project=$1 secret=$2 file=$3

field() { sed -n 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p'; }

token=$(curl -sSf --max-time 10 -H 'Metadata-Flavor: Google' \
	http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token | field access_token)
curl -sSf --max-time 20 -H @- "https://secretmanager.googleapis.com/v1/projects/$project/secrets/$secret/versions/latest:access" \
	<<<"Authorization: Bearer $token" | field data | base64 -d >"$file.new"
test -s "$file.new"
chown 65532 "$file.new"
if cmp -s "$file.new" "$file"; then
	rm "$file.new"
else
	mv "$file.new" "$file"
fi
