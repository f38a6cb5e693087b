package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// asProgram makes the test binary behave as the program, for tests that need
// processes.
const asProgram = "PERCOLATOR_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run())
	}
	_, _ = net.LookupHost("localhost") // the resolver's channels would belong to the bubble that asks first
	os.Exit(fixture.RunWaiting(m))
}

// execute runs one command in this process and returns its exit status.
func execute(ctx context.Context, args []string, in io.Reader, out, log io.Writer) int {
	return cli.Run(ctx, newRoot(), args, in, out, log)
}

// startEmulator starts Google's emulator of Bigtable, empty, and returns its address.
func startEmulator(t *testing.T) (address string, stop func()) {
	t.Helper()
	server, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { _ = server.Close() })
	t.Cleanup(stop)
	return server.Addr(), stop
}

// startBigtable starts an emulator in which an oracle was initialized.
func startBigtable(t *testing.T) string {
	t.Helper()
	address, _ := startEmulator(t)
	p := start(t, onBigtable(address), "init", "--project", "p", "--instance", "i")
	if code := p.wait(t); code != cli.ExitOK {
		t.Fatalf("init: exit status %d, %q", code, p.stderr.String())
	}
	return address
}

// onBigtable is the environment of a program that uses the emulator.
func onBigtable(address string) []string { return []string{"BIGTABLE_EMULATOR_HOST=" + address} }

// output collects what a process writes, for several goroutines.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// program is the program as a process of its own.
type program struct {
	cmd            *exec.Cmd
	stdout, stderr output
	ended          chan struct{}
	err            error
}

func start(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.cmd.Env = append(append(cleanEnv(), asProgram+"=1"), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("%v wrote:\n%s", args, p.stderr.String())
		}
	})
	return p
}

// cleanEnv is the environment without what configures the program.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "PERCOLATOR_") || strings.Contains(variable, "_EMULATOR_HOST=")
	})
}

func (p *program) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// programLimit is how long a test waits for a program, which may share two slow processors with
// many others.
const programLimit = 4 * time.Minute

// wait returns the exit status.
func (p *program) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(programLimit):
		t.Fatal("the program does not end")
		return -1
	}
}

// awaitLog waits until the program has logged what pattern matches and returns the
// first group.
func (p *program) awaitLog(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(programLimit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if match := re.FindStringSubmatch(p.stderr.String()); match != nil {
			return match[len(match)-1]
		}
		select {
		case <-p.ended:
			t.Fatalf("the program ended before it logged %q", pattern)
		default:
		}
	}
	t.Fatalf("the program did not log %q", pattern)
	return ""
}

const lead = "leading the oracle"

// startServer starts a server of an oracle in the emulator and returns it with its
// address.
func startServer(t *testing.T, emulator string, args ...string) (*program, string) {
	t.Helper()
	p := start(t, onBigtable(emulator),
		append([]string{"tso", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--project", "p", "--instance", "i"}, args...)...)
	return p, p.awaitLog(t, `serving the oracle.* address=(\S+)`)
}

func take(t *testing.T, client *tso.Client) tso.Timestamp {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ts, err := client.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return ts
}

// A life of an oracle: planned and unplanned changes of leader, and a leader that was
// stopped.
func TestServeChangesOfLeader(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	emulator := startBigtable(t)
	lease := []string{"--lease", "1500ms", "--window", "1s"}
	a, addressA := startServer(t, emulator, lease...)
	a.awaitLog(t, lead)
	b, addressB := startServer(t, emulator, lease...)
	client, err := tso.Dial(t.Context(), addressA+","+addressB)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	last := take(t, client)
	greater := func(what string) {
		t.Helper()
		ts := take(t, client)
		if ts <= last {
			t.Fatalf("%s: %d after %d", what, ts, last)
		}
		last = ts
	}

	a.signal(t, syscall.SIGTERM)
	greater("after SIGTERM")
	if code := a.wait(t); code != 0 {
		t.Errorf("after SIGTERM the exit status is %d", code)
	}
	a.awaitLogged(t, "handed the oracle's lease over")
	b.awaitLog(t, lead)

	c, addressC := startServer(t, emulator, lease...)
	b.signal(t, syscall.SIGSTOP)
	c.awaitLog(t, lead)
	successor, err := tso.Dial(t.Context(), addressC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = successor.Close() })
	if ts := take(t, successor); ts <= last {
		t.Fatalf("after SIGSTOP: %d after %d", ts, last)
	}
	b.signal(t, syscall.SIGCONT) // the client still talks to b, which refuses and names c
	for range 20 {
		greater("after SIGCONT")
		if ts := take(t, successor); ts <= last {
			t.Fatalf("the successor gave %d after the former leader's %d", ts, last)
		} else {
			last = ts
		}
	}

	c.signal(t, syscall.SIGKILL)
	greater("after SIGKILL")
}

// awaitLogged is awaitLog for a program that has ended.
func (p *program) awaitLogged(t *testing.T, text string) {
	t.Helper()
	if !strings.Contains(p.stderr.String(), text) {
		t.Errorf("the program did not log %q", text)
	}
}
