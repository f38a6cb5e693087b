//go:build unix

package tso

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// processEnv makes the test binary be a server of an oracle, see TestOracleProcess.
const processEnv = "PERCOLATOR_TSO_TEST_PROCESS"

// processOrder is what such a process is told at its start.
type processOrder struct {
	Store   string // address of the Bigtable emulator
	Profile string // application profile, by which the emulator knows the process
	Listen  string
	Lease   time.Duration
	Window  time.Duration
}

// processReport is a line that it writes to its fourth file.
type processReport struct {
	Serving bool
	Clock   *time.Duration // the clock is off by this from now on
	Ended   *string        // what Serve returned
}

// TestOracleProcess is a server in a process of its own. On its standard input it is
// told by how many nanoseconds its wall clock is off. SIGTERM ends it.
func TestOracleProcess(t *testing.T) {
	var order processOrder
	encoded := os.Getenv(processEnv)
	if encoded == "" {
		t.SkipNow() // the other tests start it
	}
	if err := json.Unmarshal([]byte(encoded), &order); err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	reports := json.NewEncoder(os.NewFile(3, "reports"))
	report := func(r processReport) {
		if err := reports.Encode(r); err != nil {
			os.Exit(3) // nobody is there any more
		}
	}
	var clock warpedClock
	server, err := NewServer(NewBigtableStore(openTable(t, order.Store, order.Profile), "default"), ServerConfig{
		Lease: order.Lease, Window: order.Window, Now: clock.now, RequireRecord: true,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", order.Listen)
	if err != nil {
		t.Fatal(err)
	}
	report(processReport{Serving: true})
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			by, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				os.Exit(3)
			}
			clock.by.Store(by)
			report(processReport{Clock: (*time.Duration)(&by)})
		}
		os.Exit(3) // the test has ended
	}()
	message := ""
	if err := server.Serve(ctx, l); err != nil {
		message = err.Error()
	}
	report(processReport{Ended: &message})
}

// openTable opens the oracle's table in an emulator.
func openTable(t *testing.T, address, profile string) *bigtable.Table {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := bigtable.NewClientWithConfig(ctx, "p", "i",
		bigtable.ClientConfig{AppProfile: profile, MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true},
		option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client.Open(BigtableTable)
}

// oracleProcess is a server in a process of its own, as the test sees it. It may be
// killed and started again, at the same address.
type oracleProcess struct {
	*testing.T
	order processOrder

	cmd     *exec.Cmd
	in      *os.File
	reports *json.Decoder
	out     *os.File
	ended   chan struct{} // closed when the process has ended
	output  *lockedLog
}

// processLimit is how long a process may take for anything, on a busy machine.
const processLimit = 60 * time.Second

// start runs this binary again and waits until it listens.
func (p *oracleProcess) start() {
	p.Helper()
	encoded, err := json.Marshal(p.order)
	if err != nil {
		p.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		p.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		p.Fatal(err)
	}
	p.cmd = exec.Command(binary, "-test.run=^TestOracleProcess$", "-test.count=1")
	p.cmd.Env = append(os.Environ(), processEnv+"="+string(encoded))
	p.output = &lockedLog{}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = childIn, p.output, p.output, []*os.File{childOut}
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	_, _ = childIn.Close(), childOut.Close()
	p.in, p.out, p.reports = in, out, json.NewDecoder(out)
	cmd, ended, output := p.cmd, make(chan struct{}), p.output
	p.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	p.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		_, _ = in.Close(), out.Close()
		if p.Failed() {
			p.Logf("the process of %s printed:\n%s", p.order.Profile, output.String())
		}
	})
	if !p.report().Serving {
		p.Fatal("the process does not say that it serves")
	}
}

// report waits for the next report of the process.
func (p *oracleProcess) report() (r processReport) {
	p.Helper()
	if err := p.out.SetReadDeadline(time.Now().Add(processLimit)); err != nil {
		p.Fatal(err)
	}
	if err := p.reports.Decode(&r); err != nil {
		p.Fatalf("%s reports nothing: %v", p.order.Profile, err)
	}
	return r
}

func (p *oracleProcess) signal(s os.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatalf("signal %v to %s: %v", s, p.order.Profile, err)
	}
}

// stop stops the process and waits until all of it has stopped.
func (p *oracleProcess) stop() {
	p.Helper()
	p.signal(syscall.SIGSTOP)
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil || !status.Stopped():
			p.Fatalf("%s was to be stopped: status %v, %v", p.order.Profile, status, err)
		default:
			return
		}
	}
}

// kill ends the process at once.
func (p *oracleProcess) kill() {
	p.Helper()
	p.signal(syscall.SIGKILL)
	p.awaitEnd()
}

// terminate ends the process as an operator would.
func (p *oracleProcess) terminate() {
	p.Helper()
	p.signal(syscall.SIGTERM)
	if r := p.report(); r.Ended == nil || *r.Ended != "" {
		p.Errorf("%s ended with %+v", p.order.Profile, r)
	}
	p.awaitEnd()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.Errorf("%s ended with status %d", p.order.Profile, code)
	}
}

func (p *oracleProcess) awaitEnd() {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(processLimit):
		p.Fatalf("%s does not end", p.order.Profile)
	}
}

// setClock makes the wall clock of the process wrong by that much.
func (p *oracleProcess) setClock(by time.Duration) {
	p.Helper()
	if _, err := fmt.Fprintf(p.in, "%d\n", int64(by)); err != nil {
		p.Fatal(err)
	}
	if r := p.report(); r.Clock == nil || *r.Clock != by {
		p.Fatalf("the clock was set by %v, and %+v reported", by, r)
	}
}

// steadyAddress returns a loopback address that stays free while nobody listens there:
// its port is below those that the system gives to connections.
func steadyAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}
