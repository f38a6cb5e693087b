package terraform_test

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// secretManager is a curl that answers as Google's metadata server and Secret Manager do. It asks
// for the token before it shows a secret.
const secretManager = `#!/bin/bash
url=${@: -1}
case $url in
http://metadata.google.internal/*/token)
	echo '{"access_token":"ya29.token","expires_in":3599,"token_type":"Bearer"}' ;;
https://secretmanager.googleapis.com/v1/projects/p/secrets/there/versions/latest:access)
	grep -q '^Authorization: Bearer ya29.token$' || exit 22
	printf '{\n  "name": "projects/1/secrets/there/versions/3",\n  "payload": {\n    "data": "%s",\n    "dataCrc32c": "42"\n  }\n}\n' "$SECRET" ;;
*)
	echo "curl: (22) The requested URL returned error: 404" >&2
	exit 22 ;;
esac
`

// What a machine of the oracle does to get its certificates, with a Secret Manager of our own: the
// file appears with the secret in it, stays untouched while the secret is the same, and is replaced
// by another; without a secret it fails, and leaves what is there.
func TestFetchSecret(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		if runtime.GOOS == "linux" {
			t.Fatal(err)
		}
		t.Logf("the script runs on Linux only: %v", err)
		return
	}
	bin, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"curl": secretManager, "chown": "#!/bin/bash\n[ \"$1\" = 65532 ]\n"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "server-key")
	fetch := func(secret, value string) error {
		cmd := exec.CommandContext(t.Context(), bash, "oracle/fetch-secret.sh", "p", secret, file)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SECRET="+base64.StdEncoding.EncodeToString([]byte(value)))
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "token") || value != "" && strings.Contains(string(out), value) {
			t.Errorf("a secret in the log: %s", out)
		}
		return err
	}
	expect := func(value string) os.FileInfo {
		t.Helper()
		if got := read(t, file); got != value {
			t.Fatalf("the file has %q, want %q", got, value)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("others can read it: %v", info.Mode())
		}
		return info
	}

	if err := fetch("absent", ""); err == nil {
		t.Error("without a secret it succeeds")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("without a secret there is a file")
	}
	const first = "-----BEGIN PRIVATE KEY-----\nfirst\n"
	if err := fetch("there", first); err != nil {
		t.Fatal(err)
	}
	before := expect(first)
	if err := fetch("there", first); err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, expect(first)) {
		t.Error("the same secret replaces the file")
	}
	if err := fetch("there", "second"); err != nil {
		t.Fatal(err)
	}
	expect("second")
	for secret, value := range map[string]string{"there": "", "absent": ""} {
		if err := fetch(secret, value); err == nil {
			t.Errorf("secret %q, %d bytes: it succeeds", secret, len(value))
		}
		expect("second")
	}
}
