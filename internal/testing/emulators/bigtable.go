// Package emulators finds and runs the emulators of gcloud's SDK, each in a process of its own.
// Tests and benchmarks use them where a machine has them.
package emulators

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

const (
	startLimit = 20 * time.Second
	stopLimit  = 5 * time.Second
)

// Emulator is a running emulator.
type Emulator struct {
	Addr string // host:port
	Path string // of the program
	cmd  *exec.Cmd
}

// SDKRoots lists where gcloud's SDK may be: in CLOUDSDK_ROOT_DIR, and above the command gcloud.
func SDKRoots(getenv func(string) string) (roots []string) {
	if root := getenv("CLOUDSDK_ROOT_DIR"); root != "" {
		roots = append(roots, root)
	}
	if gcloud, err := exec.LookPath("gcloud"); err == nil {
		if real, err := filepath.EvalSymlinks(gcloud); err == nil {
			roots = append(roots, filepath.Dir(filepath.Dir(real))) // …/google-cloud-sdk/bin/gcloud
		}
	}
	return roots
}

// Find returns the path of gcloud's cbtemulator: in PATH, or in the SDK, which CLOUDSDK_ROOT_DIR
// names or the command gcloud belongs to.
func Find(getenv func(string) string) (string, error) {
	if path, err := exec.LookPath("cbtemulator"); err == nil {
		return path, nil
	}
	roots := SDKRoots(getenv)
	for _, root := range roots {
		path := filepath.Join(root, "platform", "bigtable-emulator", "cbtemulator")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("no cbtemulator in PATH nor in a gcloud SDK (%q)", roots)
}

var running = regexp.MustCompile(`running on (\S+:\d+)`)

// Start runs the emulator at path on a free loopback port, which it prints. It serves when Start
// returns, and until Stop.
func Start(path string) (*Emulator, error) {
	cmd := exec.Command(path, "-host", "127.0.0.1", "-port", "0")
	cmd.WaitDelay = stopLimit
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	found := make(chan string, 1)
	go func() {
		defer close(found)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := running.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
				break
			}
		}
		_, _ = io.Copy(io.Discard, out) // it must not stop at a full pipe
	}()
	e := &Emulator{Path: path, cmd: cmd}
	select {
	case addr, ok := <-found:
		if ok {
			e.Addr = addr
			return e, nil
		}
		err = errors.New("it ended without saying where it listens")
	case <-time.After(startLimit):
		err = fmt.Errorf("it did not say within %v where it listens", startLimit)
	}
	e.Stop()
	return nil, fmt.Errorf("%s: %w", path, err)
}

// Stop ends the emulator; what was stored is gone. It waits at most some seconds, and is called
// once.
func (e *Emulator) Stop() {
	_ = e.cmd.Process.Signal(os.Interrupt)
	kill := time.AfterFunc(stopLimit, func() { _ = e.cmd.Process.Kill() })
	defer kill.Stop()
	_ = e.cmd.Wait()
}
