package emulators

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// StartSpanner returns the address of a Spanner emulator: the one in SPANNER_EMULATOR_HOST,
// otherwise one that is started from gcloud's SDK and ends with the test. The test is skipped on a
// machine that has neither. It says which it is.
func StartSpanner(t testing.TB) (address string) {
	t.Helper()
	if address := os.Getenv("SPANNER_EMULATOR_HOST"); address != "" {
		t.Logf("Spanner: the emulator at SPANNER_EMULATOR_HOST=%s", address)
		return address
	}
	binary := FindSpanner()
	if binary == "" {
		t.Skip("Spanner: neither SPANNER_EMULATOR_HOST nor gcloud's cloud_spanner_emulator on this machine")
	}
	address, stop, err := LaunchSpanner(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	t.Logf("Spanner: %s at %s", binary, address)
	return address
}

// LaunchSpanner runs the emulator at path on a free loopback port until stop is called.
func LaunchSpanner(path string) (address string, stop func(), err error) {
	for range 5 { // another process may take the port first
		address = fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(ports))
		if listens(address) {
			continue
		}
		cmd := exec.Command(path, "--host_port", address)
		if err := cmd.Start(); err != nil {
			return "", nil, err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait()
		}()
		stop = func() {
			_ = cmd.Process.Kill()
			<-ended
		}
		if awaitSpanner(address, ended) {
			return address, stop, nil
		}
		stop()
	}
	return "", nil, fmt.Errorf("%s does not start", path)
}

// Ports of emulators: no outgoing connection takes one meanwhile, as systems draw theirs from
// above.
const (
	firstPort = 20_000
	ports     = 10_000
)

// awaitSpanner waits until the emulator listens, and says whether it does.
func awaitSpanner(address string, ended <-chan struct{}) bool {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	late := time.After(time.Minute)
	for {
		select {
		case <-ended:
			return false
		case <-late:
			return false
		case <-look.C:
		}
		if listens(address) {
			return true
		}
	}
}

func listens(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

// FindSpanner looks below the root of gcloud's SDK for the emulator proper, and returns "" if there
// is none. gateway_main, beside it, starts it too, to add REST, and leaves it running when it is
// ended itself.
func FindSpanner() string {
	for _, root := range SDKRoots(os.Getenv) {
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
