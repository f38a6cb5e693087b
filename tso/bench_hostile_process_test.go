//go:build linux

package tso

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hostileEnv makes the test binary be a server that is attacked, see TestAttackedProcess.
const hostileEnv = "PERCOLATOR_TSO_TEST_ATTACKED"

// attackedOrder is what such a process is told at its start.
type attackedOrder struct {
	Listen string
	TLS    TLSFiles // no Cert: plaintext
}

// TestAttackedProcess is a server in a process of its own, with one core, until SIGTERM.
func TestAttackedProcess(t *testing.T) {
	encoded := os.Getenv(hostileEnv)
	if encoded == "" {
		t.SkipNow() // benchmarks start it
	}
	var order attackedOrder
	if err := json.Unmarshal([]byte(encoded), &order); err != nil {
		t.Fatal(err)
	}
	cfg := ServerConfig{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if order.TLS.Cert != "" {
		creds, err := order.TLS.ServerCredentials()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Credentials = creds
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server, err := NewServer(NewMemoryStore(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", order.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(ctx, l); err != nil {
		t.Fatal(err)
	}
}

// attacked is such a process, as the benchmark sees it.
type attacked struct {
	testing.TB
	address string
	cmd     *exec.Cmd
	ended   chan struct{}
}

func startAttacked(b testing.TB, files TLSFiles) *attacked {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	p := &attacked{TB: b, address: l.Addr().String(), ended: make(chan struct{})}
	_ = l.Close()
	files.Logger = nil
	encoded, err := json.Marshal(attackedOrder{Listen: p.address, TLS: files})
	if err != nil {
		b.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p.cmd = exec.Command(binary, "-test.run=^TestAttackedProcess$", "-test.count=1")
	p.cmd.Env = append(os.Environ(), hostileEnv+"="+string(encoded), "GOMAXPROCS=1")
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	b.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// terminate ends the process as an operator would, and returns how long that took.
func (p *attacked) terminate() time.Duration {
	p.Helper()
	started := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(processLimit):
		p.Logf("the process has not ended in %v", processLimit)
	}
	return time.Since(started)
}

// peakMB returns the most memory that was resident at once.
func (p *attacked) peakMB() (mb float64) {
	p.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &mb); err == nil {
			return mb / 1024
		}
	}
	p.Fatal("the process has no VmHWM")
	return 0
}
