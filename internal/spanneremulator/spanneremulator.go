// Package spanneremulator starts Spanner's emulator for tests. There is none to be built from a
// module, so a machine has to have gcloud's.
package spanneremulator

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gopercolator/percolator/internal/gcloudemulator"
)

// Start returns the address of a Spanner emulator: the one in SPANNER_EMULATOR_HOST, otherwise one
// that is started from gcloud's SDK and ends with the test. The test is skipped on a machine that
// has neither. It says which it is.
func Start(t testing.TB) (address string) {
	t.Helper()
	if address := os.Getenv("SPANNER_EMULATOR_HOST"); address != "" {
		t.Logf("Spanner: the emulator at SPANNER_EMULATOR_HOST=%s", address)
		return address
	}
	binary := find()
	if binary == "" {
		t.Skip("Spanner: neither SPANNER_EMULATOR_HOST nor gcloud's cloud_spanner_emulator on this machine")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--host_port", address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Logf("Spanner: %s at %s", binary, address)
	return address
}

// find looks below the root of gcloud's SDK for the emulator proper. gateway_main, beside it,
// starts it too, to add REST, and leaves it running when it is ended itself.
func find() string {
	for _, root := range gcloudemulator.SDKRoots(os.Getenv) {
		dir := filepath.Join(root, "bin", "cloud_spanner_emulator")
		if _, err := exec.LookPath(filepath.Join(dir, "gateway_main")); err != nil {
			continue
		}
		if binary, err := exec.LookPath(filepath.Join(dir, "emulator_main")); err == nil {
			return binary
		}
	}
	return ""
}
